"""Real clients against a gateway whose models are scripted."""
