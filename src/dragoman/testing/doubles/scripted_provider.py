"""A scripted provider: a model that replies from a script and records its requests.

::

    with ScriptedProvider(scripted_reply(calls={"add": {"a": 17, "b": 25}}), "It is 42.") as provider:
        reply = Session(provider.model, tools=[add]).ask("What is 17 and 25?")
        assert provider.requests[1].tool_results == ["42"]

No request leaves the process. Everything else works as with any provider: histories are projected, bytes are decoded,
streams arrive in chunks, tools run, errors are typed and fallbacks apply.
"""

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Self

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.errors import ConfigurationError, DragomanError, ProviderError, RequestTimeoutError
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.registry import register_adapter
from dragoman.adapter.wire import AttemptRecord, Headers, WireRequest, WireResponse
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman.testing.doubles import scripted_wire
from dragoman.testing.doubles.scripted_adapter import (
    ALL_CAPABILITIES,
    EMBEDDINGS_PATH,
    TRANSPORT,
    ScriptedAdapter,
    answer_embeddings,
)
from dragoman.testing.sample_reply import SampleCall, SampleReply
from dragoman.transport import register_transport
from dragoman.transport.contract import AsyncStreamedReply, StreamedReply

_WORD = re.compile(r"\s*\S+|\s+")
_OK = (AttemptRecord(1, 200, None),)
_JSON = {"content-type": "application/json"}
_LINES = Headers({"content-type": "application/x-ndjson"})


class ScriptError(DragomanError):
    """The conversation did not follow the script: a request was different, additional or missing."""


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """One request, as the provider decoded it."""

    messages: tuple[Message, ...]
    """The conversation, the system prompt included."""
    tools: tuple[ToolDefinition, ...]
    """The tools that were offered."""
    options: AdapterOptions
    """The options that reached the provider."""

    @property
    def text(self) -> str:
        """The text of the latest message of the user or of tools."""
        if not self.messages:
            return ""
        last = self.messages[-1]
        return "\n".join(self.tool_results) if last.role is Role.TOOL else last.text

    @property
    def tool_results(self) -> list[str]:
        """The texts of the tool results since the model's last message."""
        found: list[str] = []
        for message in reversed(self.messages):
            if message.role is Role.ASSISTANT:
                break
            texts = [
                "".join(getattr(part, "text", f"[{part.type}]") for part in result.content)
                for result in message.tool_results
            ]
            found = texts + found
        return found


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One reply of the script; see `scripted_reply`."""

    sample: SampleReply
    expects: str | None = None
    delay: float = 0.0
    chunk_delay: float = 0.0
    error: Exception | None = None


ScriptedOutcome = str | ScriptedReply | Exception
"""The outcome of a request: a text, a reply, or an error to raise."""

ScriptEntry = ScriptedOutcome | Callable[[ProviderRequest], ScriptedOutcome]
"""An outcome, or a function of the request that returns one."""


def scripted_reply(
    *pieces: str,
    thinking: str = "",
    calls: Mapping[str, Mapping[str, Any]] | Iterable[tuple[str, Mapping[str, Any]]] = (),
    expects: str | None = None,
    truncated: bool = False,
    input_tokens: int = 10,
    cached_tokens: int = 0,
    output_tokens: int = 5,
    delay: float = 0.0,
    chunk_delay: float = 0.0,
    error: Exception | None = None,
) -> ScriptedReply:
    """Return a reply for the script.

    One text is streamed word by word, several pieces as they are. ``calls`` maps names of tools to their inputs; use
    pairs to call a tool twice. ``expects`` is a pattern (`re.search`) that the latest input must contain.
    ``truncated`` means that the model reached its output limit. ``delay`` is the number of seconds before the reply,
    ``chunk_delay`` before each further chunk of a stream. ``error`` is raised instead of the reply's end: after the
    content of a stream, or in place of a whole reply.
    """
    pairs = calls.items() if isinstance(calls, Mapping) else calls
    sample_calls = []
    for number, (name, arguments) in enumerate(pairs, 1):
        written = json.dumps(dict(arguments), ensure_ascii=False)
        half = len(written) // 2  # a stream has the arguments in two pieces, as those of providers have many
        sample_calls.append(SampleCall(f"call_{number}", name, dict(arguments), (written[:half], written[half:])))
    text = tuple(_WORD.findall(pieces[0])) if len(pieces) == 1 else tuple(filter(None, pieces))
    sample = SampleReply(
        thinking=tuple(_WORD.findall(thinking)),
        text=text,
        calls=tuple(sample_calls),
        truncated=truncated,
        input_tokens=input_tokens,
        cached_tokens=cached_tokens,
        output_tokens=output_tokens,
    )
    return ScriptedReply(sample, expects, delay, chunk_delay, error)


class ScriptedProvider:
    """A provider with one model, `model`, which sessions accept like any other.

    Each request takes the next entry of the ``script``. ``name`` is the provider's name, so that one session can use
    several. By default, ``capabilities`` support everything. As a context manager, it raises ScriptError on exit if
    part of the script was not used.
    """

    _providers: ClassVar[dict[str, "ScriptedProvider"]] = {}

    def __init__(
        self, *script: ScriptEntry, name: str = "scripted", capabilities: AdapterCapabilities = ALL_CAPABILITIES
    ) -> None:
        """Raises ConfigurationError if an installed provider has that name, or an entry is invalid."""
        for entry in script:
            if not (isinstance(entry, str | ScriptedReply | Exception) or callable(entry)):
                raise ConfigurationError(
                    f"{entry!r:.80} is not a line of a script: use a text, scripted_reply(...), an error or a function"
                )
        self.name = name
        self.requests: list[ProviderRequest] = []
        """The requests so far."""
        self.embedded: list[str] = []
        """The texts that were embedded. They take no line of the script."""
        self._script = list(script)
        self._lock = threading.Lock()
        kind = type("Scripted", (ScriptedAdapter,), {"provider": name, "abilities": capabilities})
        self.adapter: ScriptedAdapter = kind(scripted_wire.MODEL)
        """The adapter of its one model."""
        register_adapter(name, kind)
        register_transport(TRANSPORT, _create_transport, settings=())
        self._providers[name] = self

    @property
    def model(self) -> str:
        """The model, as ``provider:name``."""
        return str(self.adapter.model_id)

    @property
    def remaining(self) -> int:
        """The number of unused entries of the script."""
        return len(self._script) - len(self.requests)

    def finish(self) -> None:
        """Raise ScriptError if part of the script was not used."""
        if self.remaining > 0:
            raise ScriptError(
                f"{self.name}: {self.remaining} of {len(self._script)} lines of the script were never used"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()

    def next_reply(self, wire_request: WireRequest) -> ScriptedReply | Exception:
        """Return the outcome of a request. Raises ScriptError if the script has ended or expects another request."""
        context = RequestContext(model=self.model)
        messages, tools, options = self.adapter.from_wire_request(wire_request.body, context)
        request = ProviderRequest(tuple(messages), tuple(tools), options)
        with self._lock:
            number = len(self.requests)
            if number >= len(self._script):
                raise ScriptError(
                    f"{self.name}: the script has {number} lines, but one more request came: {_shorten(request)}"
                )
            self.requests.append(request)
            entry = self._script[number]
        outcome = entry(request) if callable(entry) and not isinstance(entry, Exception) else entry
        reply = scripted_reply(outcome) if isinstance(outcome, str) else outcome
        if isinstance(reply, ScriptedReply) and not re.search(reply.expects or "", request.text):
            raise ScriptError(
                f"{self.name}, line {number + 1}: {reply.expects!r} was expected, but the request is "
                f"{_shorten(request)}"
            )
        if not isinstance(reply, ScriptedReply | Exception):
            raise ScriptError(f"{self.name}, line {number + 1} is {reply!r:.80}: return a text, a reply or an error")
        return reply

    def record_embedding(self, wire_request: WireRequest) -> None:
        """Record the texts of a request for embeddings."""
        with self._lock:
            self.embedded += wirejson.loads_object(wire_request.body)["texts"]

    @classmethod
    def by_name(cls, name: str) -> "ScriptedProvider":
        """Return the provider with this name: the one that was created last."""
        return cls._providers[name]


def _shorten(request: ProviderRequest) -> str:
    return repr(request.text if len(request.text) <= 200 else request.text[:200] + "…")


def _next_reply(adapter: Adapter, request: WireRequest, timeout: float | None) -> ScriptedReply:
    """Return the next reply. Raises the error if the script has one instead. Delays are in seconds."""
    reply = ScriptedProvider.by_name(adapter.provider).next_reply(request)
    if isinstance(reply, Exception):
        raise _complete_error(reply, adapter)
    if timeout is not None and reply.delay > timeout:
        late = RequestTimeoutError(f"no reply in {timeout:g} s: the script waits for {reply.delay:g} s")
        raise _complete_error(late, adapter)
    if not request.stream and reply.error is not None:
        raise _complete_error(reply.error, adapter)
    return reply


def _answer(adapter: Adapter, request: WireRequest, timeout: float | None) -> tuple[float, WireResponse]:
    """Return a whole reply, and its delay."""
    if request.path == EMBEDDINGS_PATH:
        ScriptedProvider.by_name(adapter.provider).record_embedding(request)
        return 0.0, WireResponse(200, answer_embeddings(request), _JSON, _OK)
    reply = _next_reply(adapter, request, timeout)
    return reply.delay, WireResponse(200, scripted_wire.whole(reply.sample), _JSON, _OK)


def _complete_error(error: Exception, adapter: Adapter) -> Exception:
    if isinstance(error, ProviderError):
        error.provider = error.provider or adapter.provider
        error.attempts = (AttemptRecord(1, error.status, error.error_class),)
    return error


def _delayed_chunks(reply: ScriptedReply, adapter: Adapter, request: WireRequest) -> Iterator[tuple[float, bytes]]:
    """Yield each chunk with its delay. If the reply breaks, its error takes the place of the last one, which ends it.
    A body that asks for a whole reply gets one."""
    if wirejson.loads_object(request.body).get("stream"):
        chunks = list(scripted_wire.chunks(reply.sample))
    else:
        chunks = [scripted_wire.whole(reply.sample)]
    for number, chunk in enumerate(chunks if reply.error is None else chunks[:-1]):
        yield reply.chunk_delay if number else 0.0, chunk
    if reply.error is not None:
        raise _complete_error(reply.error, adapter)


class ScriptedTransport:
    """Plays the script of the provider with the adapter's name. It never retries."""

    def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        delay, response = _answer(adapter, request, timeout)
        time.sleep(delay)
        return response

    @contextmanager
    def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> Iterator[StreamedReply]:
        reply = _next_reply(adapter, request, timeout)

        def chunks() -> Iterator[bytes]:
            for delay, chunk in _delayed_chunks(reply, adapter, request):
                time.sleep(delay)
                yield chunk

        time.sleep(reply.delay)
        yield StreamedReply(200, _LINES, chunks(), _OK)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class AsyncScriptedTransport:
    """The async twin of `ScriptedTransport`."""

    async def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        delay, response = _answer(adapter, request, timeout)
        await asyncio.sleep(delay)
        return response

    @asynccontextmanager
    async def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> AsyncIterator[AsyncStreamedReply]:
        reply = _next_reply(adapter, request, timeout)

        async def chunks() -> AsyncIterator[bytes]:
            for delay, chunk in _delayed_chunks(reply, adapter, request):
                await asyncio.sleep(delay)
                yield chunk

        await asyncio.sleep(reply.delay)
        yield AsyncStreamedReply(200, _LINES, chunks(), _OK)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _create_transport(*, asynchronous: bool, **settings: Any) -> ScriptedTransport | AsyncScriptedTransport:
    if settings:
        raise ConfigurationError(f"a scripted provider takes no settings: {', '.join(settings)}")
    return AsyncScriptedTransport() if asynchronous else ScriptedTransport()
