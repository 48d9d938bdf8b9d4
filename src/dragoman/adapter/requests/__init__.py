"""Canonical to wire: projection, tool ids and names, and the building of requests."""
