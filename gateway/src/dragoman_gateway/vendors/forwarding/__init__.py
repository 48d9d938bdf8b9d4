"""Addresses of a client's own vendor that are forwarded as they are, if the operator has opened them."""
