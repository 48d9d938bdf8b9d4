"""What a session leaves behind: its dump, and its rows in a store."""
