"""The addresses of the gateway."""
