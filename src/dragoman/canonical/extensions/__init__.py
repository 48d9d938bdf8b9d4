"""The extensions of a message: what travels with it beside its content."""
