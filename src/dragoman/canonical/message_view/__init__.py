"""Read-only views of a message for policy plugins."""
