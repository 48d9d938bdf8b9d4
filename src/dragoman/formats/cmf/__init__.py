"""The Common Message Format."""
