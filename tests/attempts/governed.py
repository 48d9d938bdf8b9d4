"""A client that governs everything, and what can be seen of it: budgets, limits, events, store and wire."""

import gc
import json
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from decimal import Decimal
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from dragoman import AdapterOptions, Budget, Message, Store
from dragoman.adapter.errors import ProviderError
from dragoman.errors import ConfigurationError, LimitsUnavailableError, StoreError
from dragoman.events import EventBus
from dragoman.limits import Grant, Limit, Limits
from dragoman.messages import TokenUsage
from dragoman.pricing import price_table
from dragoman.routing import Router, label_rules
from dragoman.transport import RetryPolicy
from tests.attempts.endings import Ending
from tests.attempts.provider import Provider
from tests.gateway.replicas.relay import Relay
from tests.unit.limits.redis_server import own_name

USER = "ada"
LABEL = "secret"
PROMPT = "Where is Bern?"
ALLOWED = "ollama:llama3.2"
"""The model that may see labelled content; nothing answers at its address."""
RETRY = RetryPolicy(max_retries=1, initial_wait=0, jitter=0)
_PRICED: dict[str, tuple[str, list[dict[str, str]]]] = {
    "anthropic": (
        "claude-haiku-4-5",
        [{"input": "1", "output": "5"}, {"processing": "batch", "input": "0.5", "output": "2.5"}],
    ),
    "openai": ("text-embedding-3-small", [{"input": "2"}]),
}
PRICES = price_table().with_overlay(
    {
        "checked": date(2026, 1, 1),
        **{
            provider: {
                "source": "https://example.com/prices",
                "model": [{"id": model, "match": {"equals": [model]}, "prices": rates}],
            }
            for provider, (model, rates) in _PRICED.items()
        },
    }
)
"""US dollars for a million tokens, which never change."""


MOST_REQUESTS = 6
"""No cell needs as many: a road that goes on is stopped here."""


class AskedWithoutEndError(ConfigurationError):
    """A road asks again and again. A run gives up at an error of this kind."""


class Watched:
    """Notes what is reserved, sent, reported and kept in one run of one cell.

    ``bus`` and ``store`` are False for a road that takes another way with them. ``room`` is the tokens of a client's
    budget in which one request fits. ``leaves``: a caller who cancels leaves by itself, without being interrupted.
    ``waits``: one who cancels gets what was sent before.
    ``relay``: the counters of the limits are in the Redis behind it.
    """

    def __init__(
        self, ending: Ending, provider: Provider, url: str, folder: Path, room: int, *, bus: bool = True,
        store: bool = True, policy: bool = False, leaves: bool = False, waits: bool = False,
        relay: Relay | None = None,
    ) -> None:  # fmt: skip
        self.ending, self.provider, self.folder = ending, provider, folder
        self.runs = self.reserved = 0
        self.leaves, self.waits = leaves, waits
        self.relay = relay
        self._address, self._is_refused = url, ending.refused
        self.events: list[str] = []
        self.limits: list[str] = []
        self.held: list[str] = []
        self.is_gone = {"counters": ending.counters == "before", "store": ending.store == "before"}
        self.user_budget = Budget(tokens=10 if ending.budget == "spent" else 1_000_000, usd="100", per="user")
        self.lock = threading.Lock()
        self._store = Store(f"sqlite:///{folder / 'chats.db'}") if store else None
        self._bus = EventBus(strict=True) if bus else None
        if self._bus is not None:
            self._bus.subscribe(lambda event: self.events.append(event.payload.type), name="watch")
        self._budgets = [self.user_budget, *([Budget(tokens=room)] if ending.budget == "for one" else [])]
        self._policy = policy
        provider.notice = self._notice

    def settings(self) -> dict[str, Any]:
        """Return the settings of a client. Several clients share the budgets, the bus and the store."""
        url = closed_address() if self._is_refused else self._address
        at = {"base_url": url, "api_key": "sk-ant-test-0123456789", "retry": RETRY}
        settings: dict[str, Any] = {
            "providers": {
                "anthropic": at,
                "openai": {**at, "base_url": f"{url}/v1"},
                "ollama": {"base_url": closed_address(), "retry": RETRY},
            },
            "prices": PRICES,
            "options": AdapterOptions(max_output_tokens=100),
            "limits": self.new_limits(),
            "budgets": self._budgets,
        }
        if self.ending.label:
            settings["router"] = Router(rules=label_rules({LABEL: [ALLOWED]}))
        if self._bus is not None:
            settings["events"] = self._bus
        if self._store is not None:
            settings["store"] = _WatchedStore(self._store, self)
        if self._policy:
            from tests.unit.session.middleware.policy_plugins import RecordingPlugin

            settings["policy"] = [RecordingPlugin()]
        return settings

    def new_limits(self) -> Limits:
        self.limits_in_use = _WatchedLimits(self)
        return self.limits_in_use

    def heal(self) -> None:
        """Let everything work from now on."""
        self.provider.fault, self.provider.notice = "none", lambda: None
        self.reserved = 0
        if self.relay is not None:
            self.relay.heal()
        self.is_gone, self._is_refused = dict.fromkeys(self.is_gone, False), False

    def close(self) -> dict[str, Any]:
        """Return what was seen, without what the caller received."""
        if self._bus is not None:
            self._bus.close()
        self.is_gone = dict.fromkeys(self.is_gone, False)
        record: dict[str, Any] = {
            "spend": {name: text for name, user in (("user", USER), ("nobody", None))
                      if (text := _amount(self.user_budget.account_for(user).spent))} or "nothing",
            "still held": self._held() or "nothing",
            "held while asked": count_repeated(self.held) or "nothing was asked",
            "limits": "; ".join(self.limits) or "none",
            "events": (" ".join(self.events) or "none") if self._bus is not None else "no bus",
            "wire": [wire_line(each.method, each.path, each.body) for each in self.provider.requests],
        }  # fmt: skip
        if self._store is not None:
            record["store"] = _stored(self._store)
            self._store.close()
        return record

    def _notice(self) -> None:
        with self.lock:
            self.held.append(self._held() or "nothing")
            if self.ending.counters == "after":
                self.is_gone["counters"] = True
            if self.ending.store == "after":
                self.is_gone["store"] = True

    def _held(self) -> str:
        accounts = {name: self.user_budget.account_for(user) for name, user in (("user", USER), ("nobody", None))}
        return ", ".join(f"{name}: {text}" for name, each in accounts.items() if (text := _amount(each.reserved)))


class _WatchedLimits(Limits):
    """Limits whose counters are in this process, and fail as shared ones do; or in Redis behind a relay, which parts
    them from it."""

    def __init__(self, watched: Watched) -> None:
        relay = watched.relay
        url = None if relay is None else f"redis://127.0.0.1:{relay.port}"
        super().__init__(
            [Limit("*", requests=1_000, shared=True), Limit("*", tokens=1_000_000, shared=True)],
            url=url,
            name=own_name(),
        )
        self._watched = watched

    def reserve(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
        with self._noting("reserve"):
            return self._granted(super().reserve(model, input_tokens, output_tokens))

    async def reserve_async(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
        if self.is_local:
            return self.reserve(model, input_tokens, output_tokens)
        with self._noting("reserve"):
            return self._granted(await super().reserve_async(model, input_tokens, output_tokens))

    def settle(self, grant: Grant, usage: TokenUsage | None, *, requests: int = 1) -> bool:
        changes = requests != 1 or grant.tokens != (0 if usage is None else usage.total_tokens)
        try:
            with self._noting("settle", asks_server=changes):
                return self._settled(super().settle(grant, usage, requests=requests), usage, requests)
        except LimitsUnavailableError:  # as `Limits` does: the reply matters more
            return False

    async def settle_async(self, grant: Grant, usage: TokenUsage | None, *, requests: int = 1) -> bool:
        if self.is_local:
            return self.settle(grant, usage, requests=requests)
        with self._noting("settle"):
            return self._settled(await super().settle_async(grant, usage, requests=requests), usage, requests)

    def observe(self, model: str, headers_or_error: Any) -> None:
        with self._noting("observe", asks_server=False):  # headers without figures of limits say nothing to it
            super().observe(model, headers_or_error)
            self._observed(headers_or_error)

    async def observe_async(self, model: str, headers_or_error: Any) -> None:
        if self.is_local:
            self.observe(model, headers_or_error)
            return
        with self._noting("observe"):
            await super().observe_async(model, headers_or_error)
            self._observed(headers_or_error)

    @contextmanager
    def _noting(self, what: str, *, asks_server: bool = True) -> Iterator[None]:
        watched = self._watched
        if what == "reserve":
            watched.reserved += 1
            if watched.reserved > MOST_REQUESTS:
                raise AskedWithoutEndError(f"more than {MOST_REQUESTS} requests")
        try:
            if watched.is_gone["counters"]:
                if watched.relay is None and asks_server:
                    raise LimitsUnavailableError("the server with the counts of the limits does not answer")
                if watched.relay is not None:
                    watched.relay.part(reset=True)
            yield
        except LimitsUnavailableError:
            watched.limits.append(f"{what}: gone")
            raise

    def _granted(self, grant: Grant) -> Grant:
        self._watched.limits.append(f"reserve 1 request, {grant.tokens} tokens")
        return grant

    def _settled(self, counted: bool, usage: TokenUsage | None, requests: int) -> bool:
        tokens = 0 if usage is None else usage.total_tokens
        settled = f"settle {requests} request{'s' * (requests != 1)}, {tokens} tokens"
        self._watched.limits.append(settled if counted else "settle: gone")
        return counted

    def _observed(self, headers_or_error: Any) -> None:
        what = type(headers_or_error).__name__ if isinstance(headers_or_error, ProviderError) else "headers"
        self._watched.limits.append(f"observe {what}")


class _WatchedStore:
    """A store whose database may be gone."""

    def __init__(self, store: Store, watched: Watched) -> None:
        self._store, self._watched = store, watched

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            if self._watched.is_gone["store"]:
                raise StoreError("the database does not answer")
            return found(*arguments, **named)

        return call


def count_repeated(lines: list[str]) -> str:
    """Return lines as one, those that repeat each other with their number."""
    return "; ".join(
        f"{line} (x{number})" if number > 1 else line for line, group in groupby(lines) for number in [len([*group])]
    )


def _amount(spend: Any) -> str:
    return f"{spend.tokens} tokens, {dollars(spend.usd)}" if spend.tokens or spend.usd else ""


def dollars(amount: Decimal | None) -> str:
    return "$?" if amount is None else f"${amount.normalize():f}"


def message_line(message: Message) -> str:
    """Return a message as one line: who, its status, its text and its usage."""
    usage = message.usage
    used = "" if usage is None else f" [{usage.total_tokens} tokens, {dollars(usage.cost_usd)}, {usage.cost_status}]"
    return f"{message.role} {message.metadata.status}: {message.text!r}{used}"


def _stored(store: Store) -> list[Any]:
    found = []
    for record in sorted(store.list().sessions, key=lambda each: each.id):
        session = store.load(record.id)
        entry: dict[str, Any] = {"messages": [message_line(each) for each in session.messages]}
        if session.attempts:
            entry["billed apart"] = [message_line(each) for each in session.attempts]
        if session.turn is not None:
            entry["open turn"] = True
        if record.user_id is not None:
            entry["user"] = record.user_id
        found.append(entry)
    return found


def wire_line(method: str, path: str, body: bytes) -> str:
    """Return a request as one line: short bodies as they are, and others by their digest."""
    text = body.decode()
    if len(text) > 400:
        text = f"{len(text)} bytes, sha256 {sha256(text.encode()).hexdigest()[:16]}"
    return f"{method} {path} {text}".rstrip()


def without_port(text: str) -> str:
    """Return the beginning of a text that may name an address."""
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1", text)[:60]


def error_fields(error: BaseException) -> dict[str, Any]:
    """Return the class of an error and what a caller can decide by, without the words."""
    fields: dict[str, Any] = {"error": type(error).__name__}
    for name in ("status", "retryable", "retry_after", "per"):
        if (value := getattr(error, name, None)) is not None:
            fields[name] = value
    if (partial := getattr(error, "partial", None)) is not None:
        fields["partial"] = message_line(partial)
    if isinstance(error, BaseExceptionGroup):
        fields["errors"] = [error_fields(each) for each in error.exceptions]
    return fields


_closed: list[socket.socket] = []


def closed_address() -> str:
    """Return an address that refuses connections: bound, so that nobody else gets it, and never listened to."""
    if not _closed:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        _closed.append(listener)
    return f"http://127.0.0.1:{_closed[0].getsockname()[1]}"


@contextmanager
def unraisable(*, collect: bool) -> Iterator[list[str]]:
    """Note the errors that Python can only ignore, such as those of a generator that refuses to end. Connections that
    are left to the collector are another subject."""
    found: list[str] = []

    def note(each: Any) -> None:
        if not isinstance(each.exc_value, ResourceWarning):
            found.append(f"{each.exc_value!r}")

    before, sys.unraisablehook = sys.unraisablehook, note
    try:
        yield found
        if collect:
            gc.collect()
    finally:
        sys.unraisablehook = before


@contextmanager
def watched(ending: Ending, folder: Path, *, at: str = "", room: int, **ways: Any) -> Iterator[Watched]:
    """Yield a watched client's parts, with the provider behind it. ``at`` is where the provider's fault happens."""
    with ExitStack() as stack:
        provider = Provider(ending.fault, at)
        server = stack.enter_context(provider.serve())
        stack.callback(provider.go.set)
        yield Watched(ending, provider, server.url, folder, room, **ways)


def as_json(record: Any) -> Any:
    """Return plain values, as a file holds them."""
    return json.loads(json.dumps(record, default=str))
