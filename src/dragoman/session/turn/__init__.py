"""One turn: its loop, and what both drivers share."""
