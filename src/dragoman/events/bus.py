"""The event bus. `emit` queues an event for every matching handler and returns at once."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Self

from pydantic import ValidationError

from dragoman.adapter.errors import EventError, EventOverflowError
from dragoman.canonical.forks import reset_after_fork
from dragoman.canonical.ids import new_ulid
from dragoman.canonical.log import get_logger
from dragoman.events.catalogue import CATALOGUE
from dragoman.events.event import Actor, Event, Payload, Sensitivity, parse_word
from dragoman.events.subscription import Filter, Handler, Subscription, running_loop

logger = get_logger("dragoman.events")

CAPACITY = 10_000
_CLOSE_TIMEOUT = 5.0
"""Seconds that the handlers get to finish when the bus closes."""


class EventBus:
    """Delivers events to handlers. Threads and sessions may share one bus. Use it as a context manager, or call
    `close`, so that handlers get the last events.

    ``strict`` raises EventError for an event that does not fit the catalogue, as tests should; otherwise the event is
    logged and dropped. ``payload_types`` are additional classes of `Payload`, in the program's own domains.
    ``capacity`` is the maximum number of events that wait for one handler.

    Raises EventError if one of ``payload_types`` uses a type of the catalogue, or a name in one of its domains.
    """

    def __init__(
        self,
        *,
        strict: bool = False,
        capacity: int = CAPACITY,
        payload_types: Iterable[type[Payload]] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_id: Callable[[], str] = new_ulid,
    ) -> None:
        domains = {kind.partition(".")[0] for kind in CATALOGUE}
        found: dict[str, type[Payload]] = {}
        for payload in payload_types:
            if payload.type.partition(".")[0] in domains:
                raise EventError(f"{payload.type} is in a domain of the catalogue: use your own domain")
            if payload.type in found:
                raise EventError(f"{payload.type} is declared twice")
            found[payload.type] = payload
        self.types = CATALOGUE | found
        """The payload classes that the bus accepts, by the type of their events."""
        self._strict = strict
        self._capacity = capacity
        self._clock = clock
        self._new_id = new_id
        self._lock = threading.Lock()
        self._subscriptions: tuple[Subscription, ...] = ()
        reset_after_fork(self)

    def subscribe(
        self,
        handler: Handler,
        *,
        types: Iterable[str] | str | None = None,
        session_ids: Iterable[str] | None = None,
        actors: Iterable[Actor | str] | None = None,
        max_sensitivity: Sensitivity | str = Sensitivity.PRIVATE,
        name: str | None = None,
    ) -> Subscription:
        """Call the handler with each matching event, in order, one at a time.

        ``types`` are globs such as ``llm.*``. Events that are more private than ``max_sensitivity`` are left out. An
        exception in a handler is logged at WARNING; the handler still gets the next event, and nothing else is
        affected.

        Raises EventError if the handler is not callable, and for an unknown actor or sensitivity.
        """
        if not callable(handler):
            raise EventError(f"a handler must be callable, not a {type(handler).__name__}")
        filter_ = Filter(
            types=(types,) if isinstance(types, str) else None if types is None else tuple(types),
            session_ids=None if session_ids is None else frozenset(session_ids),
            actors=None if actors is None else frozenset(parse_word(Actor, actor, "actor") for actor in actors),
            max_sensitivity=parse_word(Sensitivity, max_sensitivity, "sensitivity"),
        )
        handler_name: str = name or getattr(handler, "__qualname__", None) or type(handler).__name__
        subscription = Subscription(handler, filter_, handler_name, self._capacity)
        with self._lock:
            self._subscriptions += (subscription,)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a handler. Idempotent."""
        subscription.close()
        with self._lock:
            self._subscriptions = tuple(one for one in self._subscriptions if one is not subscription)

    def emit(
        self,
        payload: Payload | Callable[[], Payload],
        *,
        session_id: str,
        turn_id: str | None = None,
        parent: Event | str | None = None,
        actor: Actor | str | None = None,
        sensitivity: Sensitivity | str | None = None,
        attachment: object = None,
    ) -> Event | None:
        """Queue an event for every matching handler and return without waiting for any of them.

        ``payload`` may be a function that builds it. Then an invalid payload is dropped like any other invalid event if
        the bus is not strict. ``sensitivity`` may be less private than the type's floor, never more. ``attachment`` is
        the object that the event describes, such as a message. It is not part of the event and is passed only to
        ``on_emit`` (see `Subscription.put`). The result is None if the event is dropped.

        Raises EventOverflowError if a handler is ``capacity`` events behind, after all other handlers got the event.
        Raises EventError if the bus is strict.
        """
        try:
            payload_object = payload if isinstance(payload, Payload) else self._build_payload(payload)
            resolved = self._resolve_sensitivity(payload_object, sensitivity)
            resolved_actor = payload_object.actor if actor is None else parse_word(Actor, actor, "actor")
        except EventError as error:
            if self._strict:
                raise
            logger.warning("an event is dropped: %s", error)
            return None
        with self._lock:
            event = Event(
                id=self._new_id(),
                timestamp=self._clock(),
                session_id=session_id,
                payload=payload_object,
                actor=resolved_actor,
                sensitivity=resolved,
                turn_id=turn_id,
                parent_event_id=parent.id if isinstance(parent, Event) else parent,
            )
            overflowed = [
                one.name
                for one in self._subscriptions
                if one.event_filter.matches(payload_object.type, session_id, resolved_actor, resolved)
                and not one.put(event, attachment)
            ]
        if overflowed:
            names = ", ".join(overflowed)
            logger.error("%d events wait for handler %s: it missed %s %s", self._capacity, names, event.type, event.id)
            raise EventOverflowError(
                f"handler {names} is {self._capacity:,} events behind and missed {event.type}: make it faster, or the"
                " capacity larger"
            )
        return event

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until every handler has processed all events, at most ``timeout`` seconds. Return True if they have.

        Raises EventError in an event loop that runs handlers, because they could not run: see `flush_async`.
        """
        loop = running_loop()
        if any(one.runs_in(loop) for one in self._subscriptions):
            raise EventError("handlers run in this event loop, which a sync method would block: await the async method")
        return self._wait(timeout)

    async def flush_async(self, timeout: float | None = None) -> bool:
        """Do what `flush` does, without blocking the event loop."""
        return await asyncio.to_thread(self._wait, timeout)

    def _wait(self, timeout: float | None) -> bool:
        deadline = time.monotonic() + (threading.TIMEOUT_MAX if timeout is None else timeout)
        return all(one.wait(deadline) for one in self._subscriptions)

    def close(self, timeout: float = _CLOSE_TIMEOUT) -> None:
        """Give the handlers ``timeout`` seconds for their queued events, then remove them.

        Raises EventError as `flush` does.
        """
        self.flush(timeout)
        self._unsubscribe_all()

    async def close_async(self, timeout: float = _CLOSE_TIMEOUT) -> None:
        """Do what `close` does, without blocking the event loop."""
        await self.flush_async(timeout)
        self._unsubscribe_all()

    def _unsubscribe_all(self) -> None:
        for subscription in self._subscriptions:
            self.unsubscribe(subscription)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close_async()

    def _build_payload(self, make: object) -> Payload:
        try:
            payload_object = make() if callable(make) else make
        except ValidationError as error:
            faults = ", ".join(".".join(map(str, fault["loc"])) or "the whole" for fault in error.errors())
            raise EventError(f"the payload {error.title} does not fit: {faults}") from None
        if not isinstance(payload_object, Payload):
            raise EventError(
                f"a {type(payload_object).__name__} is not a payload of the catalogue; events of streams never are"
            )
        return payload_object

    def _resolve_sensitivity(self, payload: Payload, requested: Sensitivity | str | None) -> Sensitivity:
        if self.types.get(payload.type) is not type(payload):
            raise EventError(
                f"{payload.type} is not in the catalogue: pass its class to the bus, EventBus(payload_types=[...])"
            )
        resolved = payload.floor if requested is None else parse_word(Sensitivity, requested, "sensitivity")
        if not payload.floor.covers(resolved):
            raise EventError(f"{payload.type} is {payload.floor} at most, not {resolved}")
        return resolved

    def after_fork(self) -> None:
        """Reset the bus in a child process, before it emits anything."""
        self._lock = threading.Lock()
        for subscription in self._subscriptions:
            subscription.after_fork()
