"""What is renewed on a schedule, and the reports for its reviewers: prices and recordings."""
