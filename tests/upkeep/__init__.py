"""What is renewed on a schedule, and what a reviewer reads about it: prices and recordings."""
