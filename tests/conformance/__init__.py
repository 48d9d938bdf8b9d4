"""Recorded traffic against the adapters, judged by readers that share no code with them."""
