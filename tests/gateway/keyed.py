"""A gateway with keys: its clients, and the scripted server behind it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai

from dragoman.testing.faults.server import FaultyServer
from dragoman_gateway.database import Database
from dragoman_gateway.keys.key_store import KeyStore
from tests.gateway.upstream import PROVIDERS, gateway_before


class Keyed:
    """``secrets`` are two keys. Several of them may share a database, as replicas do."""

    def __init__(self, url: str, server: FaultyServer, keys: KeyStore, secrets: list[str], stack: ExitStack) -> None:
        self.url = url
        self.server = server
        self.keys = keys
        self.secrets = secrets
        self._stack = stack

    def sdk(self, key: int | str = 0, **settings: Any) -> openai.OpenAI:
        secret = self.secrets[key] if isinstance(key, int) else key
        client = openai.OpenAI(base_url=f"{self.url}/v1", api_key=secret, **{"max_retries": 0, **settings})
        return self._stack.enter_context(client)

    def anthropic(self, key: int | str = 0, **settings: Any) -> anthropic.Anthropic:
        secret = self.secrets[key] if isinstance(key, int) else key
        return self._stack.enter_context(
            anthropic.Anthropic(base_url=self.url, api_key=secret, **{"max_retries": 0, **settings})
        )

    def http(self, key: int | str = 0) -> httpx.Client:
        secret = self.secrets[key] if isinstance(key, int) else key
        client = httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {secret}"})
        return self._stack.enter_context(client)

    def sent(self, number: int = -1) -> str:
        """Return the body of a request to the model."""
        return self.server.requests[number].body.decode()


Start = Callable[..., Keyed]
"""Starts a gateway: the script of the server behind it, its wire, and settings of the gateway."""


@contextmanager
def keyed(folder: Path) -> Iterator[Start]:
    """Yield what starts gateways, all with the same database."""
    url = f"sqlite:///{folder / 'gateway.db'}"
    database = Database(url, timeout=10)
    keys = KeyStore(database)
    secrets = [keys.create(name=name)[1] for name in ("one", "two")]
    with ExitStack() as stack:
        stack.callback(database.close)

        def start(script: Any, behind: str = "chat", **settings: Any) -> Keyed:
            models = {"house": f"{PROVIDERS[behind]}:gpt-5", **settings.pop("models", {})}
            address, server = stack.enter_context(gateway_before(script, models=models, database=url, **settings))
            return Keyed(address, server, keys, secrets, stack)

        yield start
