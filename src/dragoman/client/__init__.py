"""Client and AsyncClient: providers, policy, limits, budgets, store, events and prices, set once for a program."""

from dragoman.client.async_client import AsyncClient
from dragoman.client.client import Client
from dragoman.client.shared import set_default_client

__all__ = ["AsyncClient", "Client", "set_default_client"]
