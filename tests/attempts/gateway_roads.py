"""The roads of the gateway: bytes that go through, another wire without a session, and a session with stored state.

What is spent is a key's, in the gateway's database; a client of the gateway has no labels.
"""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, select

from dragoman import AsyncClient
from dragoman.errors import LimitsUnavailableError
from dragoman.events import EventBus
from dragoman.limits import Limits
from dragoman.testing.faults.server import FaultyServer
from dragoman_gateway import GatewaySettings, create_app
from dragoman_gateway.database import Database, DatabaseUnavailableError
from dragoman_gateway.database.tables import reservations, responses, spend
from dragoman_gateway.keys.amounts import parse_budget, parse_limit
from dragoman_gateway.keys.key_store import KeyStore
from dragoman_gateway.keys.records import Allowance
from tests.attempts.endings import Ending
from tests.attempts.governed import PRICES, PROMPT, RETRY, USER, as_json, closed_address, dollars, wire_line
from tests.attempts.governed import count_repeated as counted
from tests.attempts.provider import MODEL, PATIENCE, TEXT, Provider
from tests.gateway.serving import serving


@dataclass(frozen=True)
class GatewayRoad:
    """``body`` is the request of a client at ``path``. ``has_bus``: the gateway's client has an event bus, which only
    a session tells anything."""

    name: str
    path: str
    body: Mapping[str, Any]
    has_bus: bool = False
    left_out: Mapping[str, str] = field(
        default_factory=lambda: {"label forbids the model": "no client of the gateway labels what it sends"}
    )

    def walk(self, ending: Ending, way: str, folder: Path) -> dict[str, Any]:
        """Return the record of one cell. The gateway is async only, so there is one ``way``."""
        with _Gateway(self, ending, folder).running() as gateway:
            times = 2 if ending.budget == "for one" else 1
            kept = [gateway.ask() for _ in range(times)]
        return as_json({"kept": kept[0] if times == 1 else kept, **gateway.seen()})  # type: ignore[no-any-return]


class _Gateway:
    def __init__(self, road: GatewayRoad, ending: Ending, folder: Path) -> None:
        self.road, self.ending = road, ending
        self.provider = Provider(ending.fault, notice=self._notice)
        self.server: FaultyServer
        self.limits: list[str] = []
        self.events: list[str] = []
        self.held: list[str] = []
        self.gone: set[str] = set()
        self._settled = Event()
        self._database = Database(f"sqlite:///{folder / 'gateway.db'}")
        budget = {"spent": "10 tokens", "for one": "130 tokens", "": "1000000 tokens"}[ending.budget]
        limits = (parse_limit("1000/minute"), parse_limit("1000000 tokens/minute"))
        key, self.secret = KeyStore(self._database).create(
            user=USER, allowance=Allowance((parse_budget(budget),), limits)
        )
        self._scope = f"key:{key.id}"
        self._url = f"sqlite:///{folder / 'gateway.db'}"

    @contextmanager
    def running(self) -> Iterator["_Gateway"]:
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            self._watch_limits(patch)
            self._watch_database(patch)
            self.server = stack.enter_context(self.provider.serve())
            stack.callback(self.provider.go.set)
            address = closed_address() if self.ending.refused else self.server.url
            at = {"base_url": address, "api_key": "sk-ant-test-0123456789", "retry": RETRY}
            client: dict[str, Any] = {"providers": {"anthropic": at}, "prices": PRICES}
            if self.road.has_bus:
                client["events"] = bus = EventBus(strict=True)
                bus.subscribe(lambda event: self.events.append(event.payload.type), name="watch")
                stack.callback(bus.close)
            settings = GatewaySettings(database=self._url, models={"house": MODEL}, own_retries=True)
            url = stack.enter_context(serving(create_app(settings, client=AsyncClient(**client))))
            self.http = stack.enter_context(httpx.Client(base_url=url, headers={"x-api-key": self.secret}))
            self.http.get("/v1/models").raise_for_status()  # the key is known from here on
            self.gone |= {name for name in ("counters", "store") if getattr(self.ending, name) == "before"}
            yield self
            self.gone.clear()

    def ask(self) -> Any:
        """Return what a client of the gateway gets."""
        if self.ending.fault == "waits":
            return self._leave()
        try:
            reply = self.http.post(self.road.path, json=dict(self.road.body))
        except httpx.HTTPError as error:
            return {"error": type(error).__name__}
        kept: dict[str, Any] = {"status": reply.status_code}
        if "retry-after" in reply.headers:
            kept["retry-after"] = reply.headers["retry-after"]
        if self.road.body.get("stream"):
            return {**kept, "stream": _stream_lines(reply.text)}
        try:
            body = reply.json()
        except ValueError:
            return {**kept, "body": reply.text}
        if isinstance(body.get("error"), dict):
            return {**kept, **{name: body["error"][name] for name in ("type", "code") if body["error"].get(name)}}
        return {**kept, "answered": TEXT in reply.text, "usage": body.get("usage")}

    def _leave(self) -> Any:
        """Ask, and close the connection in the middle of the reply."""
        text = json.dumps(self.road.body, separators=(",", ":"))
        head = f"POST {self.road.path} HTTP/1.1\r\nhost: gateway\r\nx-api-key: {self.secret}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
        url = self.http.base_url
        with socket.create_connection((url.host, url.port)) as connection:
            connection.sendall((head + text).encode())
            self.provider.arrived.wait(PATIENCE)
            received = b""
            while self.road.body.get("stream") and b"In " not in received:
                received += connection.recv(65536)
        self._settled.wait(PATIENCE)  # the gateway has noticed it
        self.provider.go.set()
        return "the client left"

    def seen(self) -> dict[str, Any]:
        """Return what was seen, when the gateway has ended: all that it books is stored then."""
        record = {
            "spend": self._database.run(self._read_spend, writes=False) or "nothing",
            "still held": self._database.run(self._read_held, writes=False) or "nothing",
            "held while asked": counted(self.held) or "nothing was asked",
            "limits": "; ".join(self.limits) or "none",
            "events": (" ".join(self.events) or "none") if self.road.has_bus else "no bus",
            "wire": [wire_line(each.method, each.path, each.body) for each in self.provider.requests],
            "store": self._database.run(_read_responses, writes=False),
        }
        self._database.close()
        return record

    def _notice(self) -> None:
        self.held.append(self._database.run(self._read_held, writes=False) or "nothing")
        self.gone |= {name for name in ("counters", "store") if getattr(self.ending, name) == "after"}

    def _read_spend(self, connection: Connection) -> dict[str, str]:
        rows = connection.execute(select(spend).where(spend.c.scope == f"user:{USER}", spend.c.day > 0)).all()
        shown = [f"{each.tokens} tokens, {dollars(each.usd)}, {each.requests} of requests" for each in rows]
        return {"user": "; ".join(shown)} if shown else {}

    def _read_held(self, connection: Connection) -> str:
        rows = connection.execute(select(reservations).where(reservations.c.scope == self._scope)).all()
        usd = sum((row.usd for row in rows), Decimal(0))
        return f"key: {sum(row.tokens for row in rows)} tokens, {dollars(usd)}" if rows else ""

    def _watch_limits(self, patch: pytest.MonkeyPatch) -> None:
        reserve, settle = Limits.reserve_async, Limits.settle_async

        def check(what: str) -> None:
            if "counters" in self.gone:
                self.limits.append(f"{what}: gone")
                raise LimitsUnavailableError("the counters do not answer")

        async def watch_reserve(limits: Limits, *arguments: Any) -> Any:
            check("reserve")
            grant = await reserve(limits, *arguments)
            self.limits.append(f"reserve 1 request, {grant.tokens} tokens")
            return grant

        async def watch_settle(limits: Limits, grant: Any, usage: Any, *, requests: int = 1) -> bool:
            self._settled.set()
            try:
                check("settle")
            except LimitsUnavailableError:  # as `Limits` does: the reply matters more
                return False
            counted = await settle(limits, grant, usage, requests=requests)
            tokens = 0 if usage is None else usage.total_tokens
            self.limits.append(f"settle {requests} request{'s' * (requests != 1)}, {tokens} tokens")
            return counted

        patch.setattr(Limits, "reserve_async", watch_reserve)
        patch.setattr(Limits, "settle_async", watch_settle)

    def _watch_database(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("read", "write"):
            patch.setattr(Database, name, self._unless_gone(getattr(Database, name)))

    def _unless_gone(self, work: Callable[..., Any]) -> Callable[..., Any]:
        async def run(*arguments: Any) -> Any:
            if "store" in self.gone:
                raise DatabaseUnavailableError("the database does not answer")
            return await work(*arguments)

        return run


def _stream_lines(text: str) -> list[str]:
    """Return the types of the events of a stream, and what its errors say of themselves."""
    found: list[str] = []
    for line in text.splitlines():
        if not line.startswith("data:"):
            continue
        try:
            event = json.loads(line[5:])
        except ValueError:
            found.append(line[5:].strip())
            continue
        error = event.get("error") or {}
        found.append(" ".join(filter(None, (event.get("type", "chunk"), error.get("type"), error.get("code")))))
    return found


def _read_responses(connection: Connection) -> list[str]:
    rows = connection.execute(select(responses)).all()
    return [f"response {row.status}, {'with' if TEXT in row.response_json else 'without'} the answer" for row in rows]


_ASKED = [{"role": "user", "content": PROMPT}]
_MESSAGES = {"model": "house", "max_tokens": 100, "messages": _ASKED}
_CHAT = {"model": "house", "max_tokens": 100, "messages": _ASKED}
_RESPONSES = {"model": "house", "max_output_tokens": 100, "input": PROMPT}

GATEWAY_ROADS = {
    each.name: each
    for each in (
        GatewayRoad("gateway through", "/v1/messages", _MESSAGES),
        GatewayRoad("gateway through, stream", "/v1/messages", {**_MESSAGES, "stream": True}),
        GatewayRoad("gateway direct", "/v1/chat/completions", _CHAT),
        GatewayRoad("gateway direct, stream", "/v1/chat/completions", {**_CHAT, "stream": True}),
        GatewayRoad("gateway in a session", "/v1/responses", _RESPONSES, has_bus=True),
    )
}
