"""The state that all requests share while the gateway runs."""
