"""Responses that run in the background. Their clients poll them, follow their events, or cancel them."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Message, Receive, Send

from dragoman.errors import LimitReachedError
from dragoman.transport.retry import retry_within
from dragoman_gateway.database import DatabaseUnavailableError
from dragoman_gateway.errors import overloaded
from dragoman_gateway.log import logger
from dragoman_gateway.stored.recorder import ENDS, ResponseEvent, read_event
from dragoman_gateway.stored.records import StoredResponse
from dragoman_gateway.stored.response_store import ResponseStore
from dragoman_gateway.stored.turn import REPEATED, StoredTurn
from dragoman_gateway.turn.replies import WholeFrames, split_events
from dragoman_gateway.wires import RESPONSES

Answer = Callable[[Receive, Send], Awaitable[None]]
"""Answers the request of a turn, as if a client were waiting."""

_TEND_SECONDS = 0.25
"""How often events are stored, for those who follow them on another replica."""
_RENEW_SECONDS = 1.0
"""How often a run checks whether it was cancelled on another replica."""
_POLL_SECONDS = 0.5
_STORE_TRIES = 5
_CREATED = "response.created"
_RETRY_AFTER = 5.0


@dataclass(eq=False)
class Background:
    """The background responses of one replica."""

    store: ResponseStore
    max_runs: int
    """How many may run at the same time."""
    share: float
    """The part of them that one key may run."""
    ping_seconds: float
    """The silence after which a client that follows one gets a keep-alive."""
    _runs: "dict[str, _Run]" = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._runs)

    async def start(
        self,
        turn: StoredTurn,
        answer: Answer,
        judge: Callable[[StoredResponse], Awaitable[StoredResponse]] | None = None,
    ) -> StoredResponse:
        """Store the response of a turn as queued, as ``judge`` leaves it, and run it. Raises OverloadedError if that is
        not possible now, LimitReachedError if the key has no more room, and PolicyDeniedError."""
        if len(self._runs) >= self.max_runs:
            raise overloaded("too many responses run in the background")
        own = sum(run.stored.owner == turn.owner for run in self._runs.values()) if turn.owner else 0
        if own >= max(1, int(self.max_runs * self.share)):
            raise LimitReachedError(
                f"{own} responses of this key run in the background: try again when one has ended",
                status=429,
                retry_after=_RETRY_AFTER,
            )
        stored = turn.to_stored(turn.new_response(int(time.time())))
        if judge is not None:
            stored = await judge(stored)
        try:
            await self.store.begin(stored)
        except DatabaseUnavailableError:
            raise overloaded("background responses cannot be stored at the moment") from None
        run = self._runs[stored.id] = _Run(stored, self.store, answer, judged=judge is not None)
        run.task.add_done_callback(lambda _: self._runs.pop(stored.id, None))
        return stored

    async def follow(self, stored: StoredResponse, after: int = -1) -> AsyncIterator[bytes]:
        """Yield the events of a streamed response after a number, those that are still to come included."""
        run = self._runs.get(stored.id)
        if run is not None:
            async for frame in run.follow(after, self.ping_seconds):
                yield frame
            return
        silent = 0.0
        while True:
            current = await self.store.find(stored.id, stored.owner)
            for number, frame in await self.store.events(stored.id, after):
                after, silent = number, 0.0
                yield frame
            if current is None or not current.is_open:  # it was read before the events: they are complete
                return
            if silent >= self.ping_seconds:
                silent = 0.0
                yield RESPONSES.ping
            await asyncio.sleep(_POLL_SECONDS)
            silent += _POLL_SECONDS

    async def cancel(self, stored: StoredResponse) -> StoredResponse | None:
        """Cancel a response, here or on another replica, and return it as it is now."""
        cancelled = await self.store.cancel(stored)
        run = self._runs.get(stored.id)
        if run is not None:
            run.task.cancel()
        return cancelled

    async def close(self) -> None:
        """End the responses that run as failed."""
        runs = list(self._runs.values())
        for run in runs:
            run.stop()
        await asyncio.gather(*(run.task for run in runs), return_exceptions=True)


class _Run:
    """One response that runs. It receives what a client would."""

    def __init__(self, stored: StoredResponse, store: ResponseStore, answer: Answer, *, judged: bool) -> None:
        """``judged``: what the response repeats of the request is as a policy left it."""
        self.stored = stored
        self._repeated: frozenset[str] = frozenset(REPEATED) if judged else frozenset()
        self._store = store
        self._answer = answer
        self._frames = WholeFrames(RESPONSES.event_ends)
        self._events: list[tuple[int, bytes]] = []
        self._kept = 0
        self._news = asyncio.Event()
        self._done = False
        self._status = 0
        self._body: list[bytes] = []
        self._final: dict[str, Any] | None = None
        self._streams = False
        self._failure = "the response ended before it was complete"
        self._ending: asyncio.Task[None] | None = None
        if stored.streamed:  # the client has its id before the model begins, which may take minutes
            self._add(ResponseEvent({"type": _CREATED, "sequence_number": 0, "response": stored.response}))
        self.task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """End the run as failed, because the gateway stops."""
        self._failure = "the gateway stopped before the response was complete"
        self.task.cancel()

    async def follow(self, after: int, ping_seconds: float) -> AsyncIterator[bytes]:
        index = 0
        while True:
            while index < len(self._events):
                number, frame = self._events[index]
                index += 1
                if number > after:
                    yield frame
            if self._done:
                return
            try:
                await asyncio.wait_for(self._news.wait(), ping_seconds)
            except TimeoutError:
                yield RESPONSES.ping

    async def _run(self) -> None:
        tending = asyncio.create_task(self._tend())
        retry_within(math.inf)  # the client has the head
        try:
            await self._store.update(self.stored.id, {**self.stored.response, "status": "in_progress"})
            await self._answer(asyncio.get_running_loop().create_future, self._send)  # no client could leave
        except asyncio.CancelledError:
            logger.debug("the background response %s is cancelled", self.stored.id)
        except Exception as error:
            logger.error("a background response failed", exc_info=error)
        finally:
            tending.cancel()
            self._ending = asyncio.create_task(self._end())
            await asyncio.shield(self._ending)  # a second cancellation does not interrupt it

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = dict(message["headers"])
            self._streams = headers.get(b"content-type", b"").startswith(b"text/event-stream")
        elif self._streams:
            for frame in split_events(self._frames.feed(message.get("body", b""))):
                event = read_event(frame)
                if event is None or event.type == _CREATED:  # a keep-alive, or an event that was sent already
                    continue
                if event.response is not None:
                    event = event.with_response(self._own_fields())
                    if event.type in ENDS:
                        self._final = event.response
                    frame = b""
                self._add(event, frame)
        else:
            self._body.append(message.get("body", b""))

    def _add(self, event: ResponseEvent, frame: bytes = b"") -> None:
        """Append an event, as the bytes that it came in. A number that an event before it has becomes the next one."""
        least = self._events[-1][0] + 1 if self._events else 0
        if event.number < least:
            event, frame = ResponseEvent({**event.data, "sequence_number": least}), b""
        self._events.append((event.number, frame or event.encode()))
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _own_fields(self) -> dict[str, Any]:
        """Return the fields that the client knows already, and those that the model did not get."""
        response = self.stored.response
        own = ("id", "created_at", "background", "store", "previous_response_id")
        return {name: response[name] for name in (*own, *(self._repeated & response.keys()))}

    def _whole_response(self) -> dict[str, Any]:
        """Return the end of the response, from its last event or from the whole reply."""
        if self._final is not None:
            return self._final
        try:
            body = json.loads(b"".join(self._body) or b"null")
        except ValueError:
            body = None
        if self._status == 200 and isinstance(body, dict) and body.get("object") == "response":
            return {**body, **self._own_fields()}
        error = body.get("error") if isinstance(body, dict) else None
        code = str(error.get("code") or "server_error") if isinstance(error, dict) else "server_error"
        message = str(error.get("message")) if isinstance(error, dict) else self._failure
        return {**self.stored.response, "status": "failed", "error": {"code": code, "message": message}}

    async def _end(self) -> None:
        response = self._whole_response()
        if self._final is None and self.stored.streamed:
            self._add(ResponseEvent({"type": "response.failed", "response": response}))
        for attempt in range(_STORE_TRIES):
            try:
                await self._keep_events()
                await self._store.update(self.stored.id, response)
                break
            except DatabaseUnavailableError as error:
                logger.debug("the end of a background response waits to be stored: %s", error)
                await asyncio.sleep(2**attempt / 4)
        else:
            self._store.late.dropped += 1
        self._done = True
        self._news.set()

    async def _tend(self) -> None:
        """Store new events, and end the run if it was cancelled on another replica."""
        since = 0.0
        while True:
            await asyncio.sleep(_TEND_SECONDS)
            since += _TEND_SECONDS
            try:
                await self._keep_events()
                if since >= _RENEW_SECONDS:
                    since = 0.0
                    if not await self._store.renew(self.stored.id):
                        self.task.cancel()
                        return
            except DatabaseUnavailableError as error:
                logger.debug("events of a background response wait to be stored: %s", error)

    async def _keep_events(self) -> None:
        if not self.stored.streamed:
            return
        new = self._events[self._kept :]
        await self._store.append_events(self.stored.id, new)
        self._kept += len(new)
