"""Virtual keys: the keys that clients of the gateway present, with their permissions and their spend."""
