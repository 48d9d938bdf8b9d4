"""A store that queues what it is given and writes it after the replies, many requests in one transaction."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from types import SimpleNamespace
from typing import Any

from dragoman import Message, Role
from dragoman.errors import ConflictError, DragomanError, StoreBusyError, StoreError
from dragoman.store import Store
from dragoman_gateway.errors import RETRY_SECONDS, UnavailableError
from dragoman_gateway.log import logger
from dragoman_gateway.outage import Outage

SPENDER: ContextVar[Mapping[str, str]] = ContextVar("SPENDER", default={})  # noqa: B039  # it is never changed
"""The caller of the request in whose task a session is stored: ``key`` and ``tag``, which `dragoman cost` groups by."""

_BATCH = 500
"""Requests that one transaction stores. It holds their rows until it ends."""
_MAX_TAG = 100
_GATHER_SECONDS = 0.2
"""How long the first request waits for others that share its transaction."""
_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
"""Seconds between two tries to reach a database that does not answer: the first and the longest pause."""
_HELD_AGE = 0.25
"""Seconds for which a request may wait to be stored before new ones are held back."""
_HOLD_SECONDS = 10.0
_CHECK_SECONDS = 0.02
_STUCK_SECONDS = 2.0
"""How long one transaction may take before it is given up, because the database may never answer."""
_END_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Note:
    """A request that is to be stored, and when it was answered."""

    arguments: Mapping[str, Any]
    at: float = field(default_factory=time.monotonic)


class DeferredStore:
    """Implements the store of sessions for a gateway: each request is a new session, with what it added.

    A client sends its whole conversation with each request. Only the messages after the last reply of a model are
    stored, and the new reply. If the database cannot keep up, new requests wait. If it does not answer, requests go on,
    and up to ``capacity`` of them are kept; older ones are dropped and counted.
    """

    never_waits = True

    def __init__(self, store: Store, *, capacity: int = 10_000) -> None:
        self._store = store
        self.capacity = capacity
        self._notes: deque[_Note] = deque()
        self._writing: Sequence[_Note] = ()
        self._began_at = 0.0
        """What the transaction that runs now stores, and when it began."""
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._ended = False
        self._writer: threading.Thread | None = None
        self._error: DragomanError | None = None
        self.dropped = 0
        """Requests that were not stored."""
        self._outage = Outage("the store", "requests wait to be stored")

    @property
    def is_available(self) -> bool:
        """Whether the database answered the last time that something was written, and answers in time now."""
        return not self._outage.is_away and (not self._writing or time.monotonic() - self._began_at < _STUCK_SECONDS)

    @property
    def backlog(self) -> int:
        """Requests that were answered and are not stored yet."""
        return len(self._notes) + len(self._writing)

    @property
    def age(self) -> float:
        """Seconds since the oldest of them was answered; 0 without one."""
        with self._lock:
            oldest = (*self._writing[:1], *islice(self._notes, 1))
        return max((time.monotonic() - each.at for each in oldest), default=0.0)

    async def wait_for_room(self) -> None:
        """Wait while the database answers and cannot keep up. Raises UnavailableError if that takes too long."""
        if not self.backlog:
            return
        until = time.monotonic() + _HOLD_SECONDS
        while self.is_available and self.age > _HELD_AGE:
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
        # The messages after the last reply of an earlier request, and the reply to this one.
        replies = [place for place, message in enumerate(messages) if message.role is Role.ASSISTANT]
        earlier = replies[:-1] if replies[-1:] == [len(messages) - 1] else replies
        new = tuple(messages[earlier[-1] + 1 :] if earlier else messages)
        names = {message.id for message in new}
        kept = {name: each for name, each in (extensions or {}).items() if name in names}
        spender = SPENDER.get()
        more: dict[str, Any] = {"extensions": kept} if kept else {}
        if spender:
            more["metadata"] = {**(fields.pop("metadata", None) or {}), **spender}
        note = _Note({"model": model, "messages": new, **more, **fields})
        with self._lock:
            self._notes.append(note)
            excess = len(self._notes) - self.capacity
            for _ in range(excess):
                self._notes.popleft()
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_all, name="dragoman-store", daemon=True)
                self._writer.start()
        if excess > 0:
            self._drop(excess)
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
        with self._lock:  # the writer goes to sleep under it
            self._ended = True
            self._wake.set()
        if self._writer is not None:
            self._writer.join(_END_SECONDS)
        self._drop(self.backlog)

    def _write_all(self) -> None:
        pause, deadline = _GATHER_SECONDS, None
        while True:
            self._wake.wait()
            if self._ended and deadline is None:
                deadline = time.monotonic() + _END_SECONDS
            elif not self._ended and pause:
                time.sleep(pause)
            with self._lock:
                self._began_at = time.monotonic()
                self._writing = batch = [self._notes.popleft() for _ in range(min(_BATCH, len(self._notes)))]
                if not batch:
                    if self._ended:
                        return
                    self._wake.clear()
                    pause = _GATHER_SECONDS
                    continue
            answered = self._write(batch)
            self._writing = ()
            if answered:
                self._outage.answer()
            else:
                self._outage.fail(self._error)
            pause = 0.0 if answered else min(pause * 2, _LONGEST_PAUSE) or _PAUSE
            if deadline is not None and time.monotonic() > deadline:
                return

    def _write(self, batch: "list[_Note]") -> bool:
        """Write some requests. Return False if the database did not answer: they are noted again."""
        if not batch:
            return True
        try:
            self._store.create_all([each.arguments for each in batch])
        except DragomanError as error:
            if len(batch) > 1:  # an outage shows at the first; of what is refused, few attempts find one among many
                half = (len(batch) + 1) // 2
                for start, end in ((0, 1), (1, half), (half, len(batch))):
                    if not self._write(batch[start:end]):
                        self._note_again(batch[end:])
                        return False
                return True
            # The store names a cause if the database failed, and not the request.
            has_cause = error.__cause__ is not None and not isinstance(error, ConflictError)
            if has_cause or isinstance(error, StoreBusyError):
                self._error = error
                self._note_again(batch, at_end=True)
                return False
            logger.error("a request could not be stored: %s", error)
            self._drop(1)
        return True

    def _note_again(self, batch: "list[_Note]", *, at_end: bool = False) -> None:
        """Queue requests again: at the beginning or, so that a request that never succeeds does not hold up the others,
        at the end."""
        with self._lock:
            room = max(self.capacity - len(self._notes), 0)
            kept = batch[len(batch) - room :] if room < len(batch) else batch
            if at_end:
                self._notes.extend(kept)
            else:
                self._notes.extendleft(reversed(kept))
        self._drop(len(batch) - len(kept))

    def _drop(self, number: int) -> None:
        self.dropped += number


def spender_of(key_id: str | None, tag: str) -> dict[str, str]:
    """Return what is stored of the key and of the tag that its client chose."""
    named = {"key": key_id, "tag": tag.strip()[:_MAX_TAG]}
    return {name: value for name, value in named.items() if value}
