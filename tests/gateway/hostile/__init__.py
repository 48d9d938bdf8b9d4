"""One hostile key, and what another key notices of it."""
