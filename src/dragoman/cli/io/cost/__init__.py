"""What `dragoman cost` reads and draws."""
