"""Requests of real clients, recorded next to the checkout, for every provider that may answer them."""
