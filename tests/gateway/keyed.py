"""A gateway with keys: its clients, and the scripted server behind it."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
from sqlalchemy import Connection, insert, select

from dragoman.messages import CostStatus, TokenUsage, Usage
from dragoman.testing.faults.server import FaultyServer
from dragoman_gateway.database import Database
from dragoman_gateway.database.tables import reservations, spend
from dragoman_gateway.keys.amounts import parse_budget, parse_limit
from dragoman_gateway.keys.balances import read_balances
from dragoman_gateway.keys.key_store import KeyStore
from dragoman_gateway.keys.ledger import Ledger
from dragoman_gateway.keys.ledger_entries import Amount
from dragoman_gateway.keys.records import Allowance
from tests.gateway.upstream import PATIENCE, PROVIDERS, gateway_before


class Cents:
    """Prices: each token costs a cent. The model ``free`` has none."""

    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage:
        known = not model_id.endswith(":free")
        fields = {name: value for name in _COUNTS if (value := getattr(usage, name))}
        return Usage(
            **fields,
            cost_usd=usage.total_tokens * Decimal("0.01") if known else None,
            cost_status=CostStatus.PRICED if known else CostStatus.UNPRICED,
        )


async def total_spend(ledger: Ledger, scope: str) -> Amount:
    """Return what is stored of what a scope has spent in all."""
    now = datetime.now(UTC)
    balances = await ledger._database.read(lambda connection: read_balances(connection, {scope: 1}, now))
    return balances[scope].spend_since()


_COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens", "reported_total")


class Keyed:
    """``secrets`` are two keys. Several of them may share a database, as replicas do."""

    def __init__(
        self, url: str, server: FaultyServer, database: Database, secrets: list[str], stack: ExitStack
    ) -> None:
        self.url = url
        self.server = server
        self.keys = KeyStore(database)
        self._database = database
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

    @cached_property
    def bare(self) -> httpx.Client:
        """A client without a key. Making one takes longer than most requests."""
        return self._stack.enter_context(httpx.Client(base_url=self.url))

    def create_key(self, *budgets: str, limits: tuple[str, ...] = (), **fields: Any) -> tuple[str, str]:
        """Return the id and the secret of a new key."""
        allowance = Allowance(tuple(map(parse_budget, budgets)), tuple(map(parse_limit, limits)))
        key, secret = self.keys.create(allowance=allowance, **fields)
        return key.id, secret

    def spent(self, scope: str) -> Amount:
        """Return what is stored as spent, when all replies so far are booked."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found, open_ = self._database.run(partial(_read_spend, scope=scope), writes=False)
            if not open_ or time.monotonic() > deadline:
                return found
            time.sleep(0.02)

    def spend(self, scope: str, tokens: int) -> None:
        """Store spend that no request has made."""
        row = {"scope": scope, "day": 1, "usd": Decimal(0), "tokens": tokens, "requests": 1}
        self._database.run(lambda connection: connection.execute(insert(spend).values(**row)))

    def sent(self, number: int = -1) -> str:
        """Return the body of a request to the model."""
        return self.server.requests[number].body.decode()


def _read_spend(connection: Connection, scope: str) -> tuple[Amount, bool]:
    # In this order: PostgreSQL shows each statement what was committed before it.
    open_ = connection.execute(select(reservations.c.id).where(reservations.c.scope == scope)).first()
    rows = connection.execute(select(spend).where(spend.c.scope == scope)).all()
    amount = Amount(sum((row.usd for row in rows), Decimal(0)), sum(row.tokens for row in rows))
    return amount, open_ is not None or not rows


Start = Callable[..., Keyed]
"""Starts a gateway: the script of the server behind it, its wire, and settings of the gateway."""


@contextmanager
def keyed(folder: Path) -> Iterator[Start]:
    """Yield what starts gateways, all with the same database."""
    url = f"sqlite:///{folder / 'gateway.db'}"
    database = Database(url)
    keys = KeyStore(database)
    secrets = [keys.create(name=name)[1] for name in ("one", "two")]
    with ExitStack() as stack:
        stack.callback(database.close)

        def start(script: Any, behind: str = "chat", **settings: Any) -> Keyed:
            provider = PROVIDERS[behind]
            models = {"house": f"{provider}:m", "free": f"{provider}:free", **settings.pop("models", {})}
            client = {"prices": Cents(), **settings.pop("client", {})}
            running = gateway_before(script, client=client, models=models, database=url, **settings)
            address, server = stack.enter_context(running)
            return Keyed(address, server, database, secrets, stack)

        yield start
