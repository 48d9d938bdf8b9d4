"""Histories that are hard to send to another provider, through other libraries and through Dragoman. See README.md."""
