"""The adapter under test, with its wires and the effort of the kit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.errors import DragomanError, MalformedReplyError
from dragoman.adapter.losses import Loss
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.ids import format_ulid
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.testing.conformance.generate import generate_replies
from dragoman.testing.conformance.wire import Wire
from dragoman.testing.sample_reply import CACHED, CUT, PLAIN, SHORT, SampleReply
from dragoman.testing.stream_laws import Effort as StreamEffort

NOW = datetime(2026, 11, 21, tzinfo=UTC)


class NotTriedError(DragomanError):
    """A law does not apply to an adapter, or the kit was not given what it needs; the message says which."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much the kit tries.

    ``histories`` is the number of histories of each kind, ``replies`` the number of generated replies in addition to
    the fixed ones, and ``processes`` the number of other processes that must write the same bytes. ``streams`` is the
    effort of the laws of streams, which cut and mutate the reply ``mutated`` at every byte: a shorter one is faster.
    """

    histories: int = 25
    replies: int = 25
    streams: StreamEffort = field(default_factory=lambda: StreamEffort(replays=300, mutations=200))
    mutated: SampleReply = SHORT
    processes: int = 1


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request as the adapter decodes it."""

    messages: list[Message]
    tools: list[ToolDefinition]
    options: AdapterOptions
    ids: ToolIdMap


@dataclass(frozen=True, slots=True)
class Subject:
    """An adapter under test. ``wires`` describe how the provider answers. Without one, the laws of replies cannot be
    tried."""

    adapter: Adapter
    """The adapter, bound to one model."""
    wires: tuple[Wire, ...] = ()
    effort: Effort = field(default_factory=Effort)
    """How many replays each stream gets."""

    @property
    def provider(self) -> str:
        """The name of the adapter's provider."""
        return self.adapter.provider

    @property
    def model(self) -> str:
        """The model, as ``provider:name``."""
        return str(self.adapter.model_id)

    def require_wires(self) -> tuple[Wire, ...]:
        """Return the wires. Raises NotTriedError if there is none."""
        if not self.wires:
            raise NotTriedError("no Wire was given, which describes the provider's answers")
        return self.wires

    def sample_replies(self, wire: Wire) -> list[SampleReply]:
        """Return sample replies that fit a wire."""
        fixed = (SHORT, PLAIN, CACHED, CUT)
        return [fit_to_wire(each, wire) for each in (*fixed, *generate_replies(self.effort.replies))]

    def context(self, **fields: Any) -> RequestContext:
        """Return a context with counted ids and a fixed time, so that the same input gives equal output."""
        defaults: dict[str, Any] = {
            "model": self.model,
            "session_id": "sess_kit",
            "request_id": "request",
            "tool_ids": ToolIdMap(mint=_counter("tu_")),
            "new_id": _counter(""),
            "clock": lambda: NOW,
        }
        return RequestContext(**{**defaults, **fields})

    def write(self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = (), **options: Any) -> WireRequest:
        """Return the request, with a fresh context unless the options have one."""
        options.setdefault("context", self.context())
        return self.adapter.to_wire(messages, tools, AdapterOptions(**options))

    def read(self, request: WireRequest) -> ParsedRequest:
        """Read a request back as a server would, with a fresh map of tool ids."""
        context = self.context()
        return ParsedRequest(*self.adapter.from_wire_request(request.body, context), context.tool_ids)

    def reply(self, wire: Wire, sample: SampleReply, context: RequestContext | None = None) -> Message:
        """Return the message of a whole reply."""
        response = WireResponse(200, wire.whole(sample), {"content-type": "application/json"})
        return self.adapter.from_wire_response(response, context or self.context())

    def stream_events(
        self, wire: Wire, sample: SampleReply, context: RequestContext | None = None
    ) -> list[StreamEvent]:
        """Return the events of a streamed reply."""
        return list(self.adapter.iter_stream([wire.stream(sample)], context or self.context()))


def fit_to_wire(sample: SampleReply, wire: Wire) -> SampleReply:
    """Drop the parts of a reply that a wire does not distinguish: thinking and cached tokens."""
    text = sample.text or (() if sample.calls else ("So",))
    return SampleReply(
        sample.thinking if wire.thinking else (),
        text,
        sample.calls,
        sample.truncated,
        sample.input_tokens,
        sample.cached_tokens if wire.cached else 0,
        sample.output_tokens,
    )


def parse_body(body: bytes) -> Any:
    """Return a body's JSON, or the body itself if it is not JSON."""
    try:
        return wirejson.loads(body)
    except MalformedReplyError:
        return body


def collect_texts(value: Any) -> str:
    """Return all texts and names of a body, one per line, without escapes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return "\n".join(collect_texts(each) for pair in value.items() for each in pair)
    if isinstance(value, list):
        return "\n".join(map(collect_texts, value))
    return value if isinstance(value, str) else wirejson.dumps_text(value)


def losses_of_message(losses: Sequence[Loss], message: Message) -> list[Loss]:
    return [loss for loss in losses if loss.message_id == message.id]


def _counter(prefix: str) -> Callable[[], str]:
    numbers = count(1)
    return lambda: prefix + format_ulid(next(numbers))
