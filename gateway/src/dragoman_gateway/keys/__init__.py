"""Virtual keys: what a client of the gateway presents, what it may do, and what it has spent."""
