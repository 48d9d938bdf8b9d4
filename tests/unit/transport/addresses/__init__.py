"""Mistakes in addresses, at servers that nobody here wrote."""
