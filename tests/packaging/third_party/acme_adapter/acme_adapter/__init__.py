"""Acme's dialogue API."""
