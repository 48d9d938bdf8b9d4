"""A scripted provider: a model that says what a test tells it to, and remembers what it was asked.

::

    with ScriptedProvider(says(calls={"add": {"a": 17, "b": 25}}), "It is 42.") as provider:
        reply = Session(provider.model, tools=[add]).ask("What is 17 and 25?")
        assert provider.asked[1].tool_results == ["42"]

No request leaves the process, and everything else is as with any provider: the history is projected, bytes are decoded,
streams come in chunks, tools run, errors are typed and fallbacks happen.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Self

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.registry import register_adapter
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman.testing.doubles.scripted_adapter import ALL_CAPABILITIES, TRANSPORT, ScriptedAdapter
from dragoman.testing.doubles.scripted_transport import AsyncScriptedTransport, ScriptedReply, ScriptedTransport
from dragoman.testing.doubles.scripted_wire import MODEL
from dragoman.testing.sample_reply import SampleCall, SampleReply
from dragoman.transport import register_transport

_WORD = re.compile(r"\s*\S+|\s+")


class ScriptError(DragomanError):
    """The conversation did not follow the script: it was asked for something else, for more, or for less."""


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """One request, as the provider read it."""

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]
    options: AdapterOptions

    @property
    def text(self) -> str:
        """What was said last: by the user, or by tools."""
        last = self.messages[-1] if self.messages else None
        if last is None:
            return ""
        return "\n".join(self.tool_results) if last.role is Role.TOOL else last.text

    @property
    def tool_results(self) -> list[str]:
        """The texts of what tools answered since the model spoke last."""
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


ScriptedOutcome = str | ScriptedReply | Exception
"""What the script says next: a text, a reply, or an error that the request fails with."""

ScriptEntry = ScriptedOutcome | Callable[[ProviderRequest], ScriptedOutcome]
"""The same, or what makes it of the request."""


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
    """A reply of the script.

    One text is streamed word by word, several pieces as they are. ``calls`` are names of tools with their inputs, as
    pairs where a tool is called twice. ``to`` is a pattern (`re.search`) that must be in what was said last. ``cut``
    says that the model ran into its limit. ``delay`` are the seconds before the reply begins, ``pace`` those before
    each further chunk of a stream. ``breaks`` is raised instead of the reply's end: of a stream behind all that it
    says, of a whole reply in its place.
    """
    pairs = calls.items() if isinstance(calls, Mapping) else calls
    sample_calls = tuple(_sample_call(number, name, given) for number, (name, given) in enumerate(pairs, 1))
    text = tuple(_WORD.findall(pieces[0])) if len(pieces) == 1 else tuple(filter(None, pieces))
    sample = SampleReply(
        thinking=tuple(_WORD.findall(thinking)),
        text=text,
        calls=sample_calls,
        truncated=truncated,
        input_tokens=input_tokens,
        cached_tokens=cached_tokens,
        output_tokens=output_tokens,
    )
    return ScriptedReply(sample, expects, delay, chunk_delay, error)


def _sample_call(number: int, name: str, given: Mapping[str, Any]) -> SampleCall:
    written = json.dumps(dict(given), ensure_ascii=False)
    half = len(written) // 2
    return SampleCall(f"call_{number}", name, dict(given), (written[:half], written[half:]))


class ScriptedProvider:
    """A provider with one model, `model`, which sessions take as any other.

    The ``script`` is played line by line, one for each request; ``name`` is the provider's, so that several can meet in
    one session, and ``capabilities`` are those of a model that can do everything, unless others are to be tried. Used
    as a context manager it sees at the end that the script was played to its end.
    """

    _providers: ClassVar[dict[str, "ScriptedProvider"]] = {}

    def __init__(
        self, *script: ScriptEntry, name: str = "scripted", capabilities: AdapterCapabilities = ALL_CAPABILITIES
    ) -> None:
        """Raises ConfigurationError where an installed provider has that name, or a line is none."""
        for entry in script:
            if not (isinstance(entry, str | ScriptedReply | Exception) or callable(entry)):
                raise ConfigurationError(
                    f"{entry!r:.80} is no line of a script: a text, says(...), an error or a function"
                )
        self.name = name
        self.requests: list[ProviderRequest] = []
        """All requests so far."""
        self._script = list(script)
        self._lock = threading.Lock()
        kind = type("Scripted", (ScriptedAdapter,), {"provider": name, "abilities": capabilities})
        self.adapter: ScriptedAdapter = kind(MODEL)
        register_adapter(name, kind)
        register_transport(TRANSPORT, _create_transport)
        self._providers[name] = self

    @property
    def model(self) -> str:
        """Its model, as ``provider:name``."""
        return str(self.adapter.model_id)

    @property
    def remaining(self) -> int:
        """How many lines of the script nobody has asked for yet."""
        return len(self._script) - len(self.requests)

    def finish(self) -> None:
        """Raises ScriptError where the script was not played to its end."""
        if self.remaining > 0:
            raise ScriptError(
                f"{self.name}: {self.remaining} of {len(self._script)} lines of the script were never asked for"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()

    def next_reply(self, wire_request: WireRequest) -> ScriptedReply | Exception:
        """What the script says to a request. Raises ScriptError where it does not go on, or not like that."""
        context = RequestContext(model=self.model)
        messages, tools, options = self.adapter.from_wire_request(wire_request.body, context)
        request = ProviderRequest(tuple(messages), tuple(tools), options)
        with self._lock:
            number = len(self.requests)
            if number >= len(self._script):
                raise ScriptError(
                    f"{self.name}: the script has {number} lines, and was asked once more: {_shorten(request)}"
                )
            self.requests.append(request)
            entry = self._script[number]
        outcome = entry(request) if callable(entry) and not isinstance(entry, Exception) else entry
        reply = scripted_reply(outcome) if isinstance(outcome, str) else outcome
        if (
            isinstance(reply, ScriptedReply)
            and reply.expects is not None
            and not re.search(reply.expects, request.text)
        ):
            raise ScriptError(
                f"{self.name}, line {number + 1}: {reply.expects!r} was expected, and what was said is "
                f"{_shorten(request)}"
            )
        if not isinstance(reply, ScriptedReply | Exception):
            raise ScriptError(
                f"{self.name}, line {number + 1} is {reply!r:.80}: neither a text nor a reply nor an error"
            )
        return reply

    @classmethod
    def by_name(cls, name: str) -> "ScriptedProvider":
        """The provider that plays under a name at present: the one that was made last."""
        return cls._providers[name]


def _shorten(request: ProviderRequest) -> str:
    return repr(request.text if len(request.text) <= 200 else request.text[:200] + "…")


def _create_transport(*, asynchronous: bool, **settings: Any) -> ScriptedTransport | AsyncScriptedTransport:
    if settings:
        raise ConfigurationError(f"a scripted provider takes no settings: {', '.join(settings)}")
    return (AsyncScriptedTransport if asynchronous else ScriptedTransport)(lambda name: ScriptedProvider.by_name(name))
