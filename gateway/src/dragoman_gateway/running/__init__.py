"""What all requests share while the gateway runs."""
