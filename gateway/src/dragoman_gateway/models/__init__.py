"""Which model answers for a name, and where it is asked."""
