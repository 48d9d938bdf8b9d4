"""API keys: hidden in every text, found in the environment or on disk, and bound to one service."""
