"""The way back: what a client gets for each recorded reply, on every wire that clients speak."""
