"""What an agent sends again: it is read as if it came for the first time."""
