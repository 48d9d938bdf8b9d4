"""Message bodies and their schemas."""
