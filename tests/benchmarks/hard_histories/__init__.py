"""Histories that are hard to hand over, through other libraries and through Dragoman. See README.md."""
