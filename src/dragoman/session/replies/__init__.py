"""What a turn gives back: replies and streams of them."""
