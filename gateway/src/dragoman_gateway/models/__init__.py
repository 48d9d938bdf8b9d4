"""Model names: which model answers for a name, and through which deployment."""
