"""The transport of the adapter `local`: sends requests to a model in this process.

A generation runs in its own thread and passes on its lines as they are written; leaving a stream stops it.
"""

import asyncio
import contextlib
import math
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Self

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.wire import AttemptRecord, Headers, WireRequest, WireResponse
from dragoman.local.files import notify_terminal
from dragoman.local.model import get_model
from dragoman.local.reply import Json, LocalRequestError, merge_lines
from dragoman.transport.call import validate_timeout
from dragoman.transport.contract import AsyncStreamedReply, StreamedReply

Notify = Callable[[str], None]

_OK = (AttemptRecord(1, 200, None),)
_NDJSON = Headers({"content-type": "application/x-ndjson"})
_JSON = {"content-type": "application/json"}


class _LocalCall:
    """One request while a thread serves it. ``put`` receives each line, then the exception or None that ends it."""

    def __init__(self, adapter: Adapter, request: WireRequest, timeout: float | None, notify: Notify) -> None:
        self.adapter = adapter
        self.is_active = True
        self._body: Json = wirejson.loads_object(request.body, what="the request")
        seconds = math.inf if timeout is None else validate_timeout(timeout)
        self._deadline = time.monotonic() + seconds
        self._notify = notify

    def serve(self, put: Callable[[Json], None]) -> None:
        """Run the request in this thread. Raises LocalRequestError, and what `get_model` raises."""
        model = get_model(self._body["model"], self._notify)
        model.run(self._body, put, lambda: self.is_active, self._deadline)

    def start(self, put: Callable[[Json | Exception | None], None]) -> threading.Thread:
        """Run the request in its own thread."""

        def work() -> None:
            try:
                self.serve(put)
            except Exception as error:
                put(error)
            else:
                put(None)

        thread = threading.Thread(target=work, name="dragoman-local")
        thread.start()
        return thread

    def to_error(self, error: Exception) -> Exception:
        """Return the error that a failure before the first line means."""
        if isinstance(error, LocalRequestError):
            error = self.adapter.error(error.status, wirejson.dumps(error.line), _JSON)
        if isinstance(error, ProviderError):
            error.provider = error.provider or self.adapter.provider
            error.attempts = (AttemptRecord(1, error.status, error.error_class),)
        return error

    def response(self) -> WireResponse:
        """Return the whole reply."""
        lines: list[Json] = []
        try:
            self.serve(lines.append)
        except Exception as error:
            raise self.to_error(error) from None
        return WireResponse(200, wirejson.dumps(merge_lines(lines)), _JSON, _OK)


def _to_chunk(item: Json | Exception) -> bytes:
    """Return the bytes of a line. An error after the reply has begun is a line of the reply; anything else is a bug and
    is raised.
    """
    if isinstance(item, LocalRequestError):
        item = item.line
    elif isinstance(item, Exception):
        raise item
    return wirejson.dumps(item) + b"\n"


class LocalTransport:
    """Runs requests in this process. The model is loaded at the first one and stays loaded, shared by all.

    ``notify`` is called with a line of text before a step that takes seconds; by default it is logged, and printed to
    standard error if that is a terminal.
    """

    def __init__(self, *, notify: Notify = notify_terminal) -> None:
        self._notify = notify

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        """Return the whole reply. Raises ProviderError, and ConfigurationError if the model is missing or damaged.

        ``timeout`` is in seconds; loading the model and reading the prompt count, but are not interrupted.
        """
        return _LocalCall(adapter, request, timeout, self._notify).response()

    @contextlib.contextmanager
    def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> Iterator[StreamedReply]:
        """A reply whose first line has arrived. Raises as `send` does. Leaving it stops the model."""
        call = _LocalCall(adapter, request, timeout, self._notify)
        lines: queue.SimpleQueue[Json | Exception | None] = queue.SimpleQueue()
        thread = call.start(lines.put)
        try:
            first = lines.get()
            if isinstance(first, Exception):
                raise call.to_error(first) from None
            yield StreamedReply(200, _NDJSON, _chunks(first, lines), _OK)
        finally:
            call.is_active = False
            thread.join()

    def close(self) -> None:
        """Do nothing: the model belongs to the process."""


def _chunks(first: Json | None, lines: "queue.SimpleQueue[Json | Exception | None]") -> Iterator[bytes]:
    item: Json | Exception | None = first
    while item is not None:
        yield _to_chunk(item)
        item = None if isinstance(item, Exception) else lines.get()


class AsyncLocalTransport:
    """The async `LocalTransport`. The event loop stays free while the model writes."""

    def __init__(self, *, notify: Notify = notify_terminal) -> None:
        self._notify = notify

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        """Return the whole reply; raises as `LocalTransport.send` does. Cancelling it stops the model."""
        call = _LocalCall(adapter, request, timeout, self._notify)
        try:
            return await asyncio.to_thread(call.response)
        finally:
            call.is_active = False

    @contextlib.asynccontextmanager
    async def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> AsyncIterator[AsyncStreamedReply]:
        """The async `LocalTransport.stream`."""
        call = _LocalCall(adapter, request, timeout, self._notify)
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[Json | Exception | None] = asyncio.Queue()

        def put(item: Json | Exception | None) -> None:
            # The loop may be closed already, if the program ends in the middle of a stream.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(lines.put_nowait, item)

        call.start(put)
        try:
            first = await lines.get()
            if isinstance(first, Exception):
                raise call.to_error(first) from None
            yield AsyncStreamedReply(200, _NDJSON, _async_chunks(first, lines), _OK)
        finally:
            call.is_active = False

    async def close(self) -> None:
        """Do nothing: the model belongs to the process."""


async def _async_chunks(first: Json | None, lines: "asyncio.Queue[Json | Exception | None]") -> AsyncIterator[bytes]:
    item: Json | Exception | None = first
    while item is not None:
        yield _to_chunk(item)
        item = None if isinstance(item, Exception) else await lines.get()
