"""Providers that answer from a script."""
