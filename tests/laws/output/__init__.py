"""Typed answers on every wire."""
