"""What several commands share: the console, the client, options, and what they read and show."""
