"""A store that queues what it is given and writes it after the replies, many requests in one transaction."""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain
from types import SimpleNamespace
from typing import Any

from dragoman import Message, Role
from dragoman.errors import DragomanError, StoreError
from dragoman.store import Store
from dragoman_gateway.errors import RETRY_SECONDS, UnavailableError
from dragoman_gateway.log import logger
from dragoman_gateway.outage import Outage

SPENDER: ContextVar[Mapping[str, str]] = ContextVar("SPENDER", default={})  # noqa: B039  # it is never changed
"""The caller of the request in whose task a session is stored: ``key`` and ``tag``, which `dragoman cost` groups by."""

_BATCH = 500
"""The most requests that one transaction stores. On SQLite, nobody else can write until it ends."""
_MAX_TAG = 100
"""Characters of a tag that are stored."""
_GATHER_SECONDS = 0.2
"""How long the first request waits for others that share its transaction."""
_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
"""Seconds between two tries to reach a database that does not answer: the first and the longest pause."""
_AGE_THAT_HOLDS = 0.25
"""Seconds for which a request may wait to be stored before new ones are held back."""
_LONGEST_HOLD = 10.0
"""Seconds for which a new request is held back before it is refused."""
_CHECK_SECONDS = 0.02
_STUCK_SECONDS = 2.0
"""Seconds after which a running transaction counts as an outage, because the database may never answer: requests no
longer wait for it. It is not aborted."""
_END_SECONDS = 30.0
"""How long a gateway that ends tries to store what waits."""


@dataclass(slots=True)
class _Note:
    """A request that is to be stored, and when it was answered."""

    arguments: Mapping[str, Any]
    at: float = field(default_factory=time.monotonic)
    tries: int = 0
    """How often the database did not answer when it was to store this request alone."""


class DeferredStore:
    """Implements the store of sessions for a gateway: each request is a new session, with what it added.

    A client sends its whole conversation with each request. Only the messages after the last reply of a model are
    stored, and the new reply. If the database cannot keep up, new requests wait. If it does not answer, requests go on,
    and up to ``capacity`` of them are kept; older ones are dropped and counted.
    """

    never_waits = True
    """Tells an AsyncSession to call this store in the event loop, and not in a thread."""

    def __init__(self, store: Store, *, capacity: int = 10_000) -> None:
        self._store = store
        self.capacity = capacity
        self._notes: deque[_Note] = deque()
        """What waits to be written, the oldest first."""
        self._writing: Sequence[_Note] = ()
        """What is being written now, the oldest first."""
        self._began_at = 0.0
        """When that began."""
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._ends_at = math.inf
        """When the writer ends, whatever still waits; infinite until `close`."""
        self._writer: threading.Thread | None = None
        self._error: Exception | None = None
        self.dropped = 0
        """Requests that were not stored."""
        self._outage = Outage("the store", "requests wait to be stored")

    @property
    def is_available(self) -> bool:
        """Whether the database answered the last time that something was written, and answers in time now."""
        is_stuck = bool(self._writing) and time.monotonic() - self._began_at >= _STUCK_SECONDS
        return not (self._outage.is_away or is_stuck)

    @property
    def backlog(self) -> int:
        """Requests that were answered and are not stored yet."""
        return len(self._notes) + len(self._writing)

    @property
    def age(self) -> float:
        """Seconds since the oldest of them was answered; 0 without one."""
        with self._lock:
            oldest = next(chain(self._writing, self._notes), None)
        return 0.0 if oldest is None else time.monotonic() - oldest.at

    async def wait_for_room(self) -> None:
        """Wait while the database answers and cannot keep up. Raises UnavailableError if that takes too long."""
        if not self.backlog:
            return
        until = time.monotonic() + _LONGEST_HOLD
        while self.is_available and self.age > _AGE_THAT_HOLDS:
            if time.monotonic() > until:
                raise UnavailableError("the store of this gateway cannot keep up: try again", retry_after=RETRY_SECONDS)
            await asyncio.sleep(_CHECK_SECONDS)

    def create(
        self,
        model: str | None = None,
        messages: Sequence[Message] = (),
        *,
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
        tool_ids: object = None,
        **fields: Any,
    ) -> SimpleNamespace:
        """Queue a request. The ids of its calls are not stored: the client has them."""
        # New is what follows the last reply that the client sent along: its messages, and the reply to them.
        sent = messages[:-1] if messages and messages[-1].role is Role.ASSISTANT else messages
        ends = [number for number, message in enumerate(sent, 1) if message.role is Role.ASSISTANT]
        new = tuple(messages[ends[-1] :] if ends else messages)
        names = {message.id for message in new}
        kept = {name: each for name, each in (extensions or {}).items() if name in names}
        spender = SPENDER.get()
        more: dict[str, Any] = {"extensions": kept} if kept else {}
        if spender:
            more["metadata"] = {**(fields.pop("metadata", None) or {}), **spender}
        note = _Note({"model": model, "messages": new, **more, **fields})
        with self._lock:
            self._notes.append(note)
            while len(self._notes) > self.capacity:
                self._notes.popleft()
                self.dropped += 1
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_all, name="dragoman-store", daemon=True)
                self._writer.start()
        self._wake.set()
        return SimpleNamespace(version=1)  # what a session needs of its record

    def append(self, session_id: str, messages: Sequence[Message] = (), **_: Any) -> int:
        """Refuse: a session of the gateway has one turn."""
        raise StoreError(f"the session {session_id} of a request is complete")

    def load(self, session_id: str) -> Any:
        """Return a stored session."""
        return self._store.load(session_id)

    def close(self) -> None:
        """Write the queue, for some seconds at most."""
        # The writer looks at `_ends_at` and clears the event under this lock: without it, it could miss the end.
        with self._lock:
            self._ends_at = time.monotonic() + _END_SECONDS
            self._wake.set()
        if self._writer is not None:
            self._writer.join(_END_SECONDS)
        with self._lock:
            self.dropped += self.backlog

    def _write_all(self) -> None:
        while self._ends_at == math.inf or self._notes:
            self._wake.wait()
            if self._ends_at == math.inf:
                time.sleep(_GATHER_SECONDS)
            pause = 0.0
            while batch := self._take():
                # The fewest tries come first, so that a request which never succeeds holds up no other.
                left = self._write(sorted(batch, key=lambda note: note.tries))
                self._put_back(left)
                if left:
                    self._outage.fail(self._error)
                    pause = min(2 * pause, _LONGEST_PAUSE) if pause else _PAUSE
                else:
                    self._outage.answer()
                    pause = 0.0
                if time.monotonic() + pause > self._ends_at:
                    return
                if pause:
                    time.sleep(pause)

    def _take(self) -> Sequence[_Note]:
        """Begin a transaction: return what it is to store, the oldest first. If that is nothing, the writer sleeps
        until something comes, unless the gateway ends."""
        with self._lock:
            self._began_at = time.monotonic()
            self._writing = [self._notes.popleft() for _ in range(min(_BATCH, len(self._notes)))]
            if not self._writing and self._ends_at == math.inf:
                self._wake.clear()
            return self._writing

    def _write(self, batch: Sequence[_Note]) -> Sequence[_Note]:
        """Write some requests. Return those that wait again, because the database did not answer."""
        try:
            self._store.create_all([each.arguments for each in batch])
        except Exception as error:  # one that nobody foresaw must not end the writer
            if len(batch) > 1:
                # The first is tried alone, so that an outage costs one more attempt; the rest is halved, so that few
                # attempts find a refused request among many.
                half = (len(batch) + 1) // 2
                for start, end in ((0, 1), (1, half), (half, len(batch))):
                    if start < end and (left := self._write(batch[start:end])):
                        return [*left, *batch[end:]]
                return ()
            # An error of the store has a cause only if the database failed; that of a refused request has none.
            is_foreseen = isinstance(error, DragomanError)
            if is_foreseen and error.__cause__ is not None:
                batch[0].tries += 1
                self._error = error
                return batch
            logger.error("a request could not be stored: %s", error, exc_info=not is_foreseen)
            with self._lock:
                self.dropped += 1
        return ()

    def _put_back(self, left: Sequence[_Note]) -> None:
        """End a transaction. What is left of it waits again in its old place: all others are newer."""
        with self._lock:
            self._writing = ()
            self._notes.extendleft(sorted(left, key=lambda note: note.at, reverse=True))
            while len(self._notes) > self.capacity:
                self._notes.popleft()
                self.dropped += 1


def spender_of(key_id: str | None, tag: str) -> dict[str, str]:
    """Return what is stored of the key and of the tag that its client chose."""
    named = {"key": key_id, "tag": tag.strip()[:_MAX_TAG]}
    return {name: value for name, value in named.items() if value}
