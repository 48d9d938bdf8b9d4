"""The adapter under test, with its wires and the effort of the kit."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import islice
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.errors import DragomanError, MalformedReplyError, ProjectionError
from dragoman.adapter.losses import Loss, LossKind
from dragoman.adapter.replies.stream_decoder import decode_stream
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.blocks import ContentBlock, ToolResultBlock
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.testing.conformance.generate import History, generate_histories, generate_replies
from dragoman.testing.conformance.wire import Wire
from dragoman.testing.sample_reply import CACHED, CUT, PLAIN, SHORT, SampleReply
from dragoman.testing.stream_laws import Effort as StreamEffort
from dragoman.testing.stream_laws import Trial, fixed_fields

SCHEMA = {
    "type": "object",
    "properties": {"answer_in_metres": {"type": "integer"}},
    "required": ["answer_in_metres"],
    "additionalProperties": False,
}
TOOL = ToolDefinition(name="look_up", description="Looks up how far it is.", input_schema=SCHEMA)
_SHRINK_LIMIT = 400
"""The maximum number of smaller histories to try."""
_MAX_BLOCK_LENGTH = 160


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

    @property
    def tools(self) -> list[ToolDefinition]:
        """A tool to offer, if the model calls tools; else none."""
        return [TOOL] if self.adapter.capabilities.supports_tools else []

    def require_tools(self) -> None:
        """Raise NotTriedError if the model calls no tools."""
        if not self.tools:
            raise NotTriedError("the model calls no tools")

    def sample_replies(self, wire: Wire) -> list[SampleReply]:
        """Return sample replies that fit a wire."""
        fixed = (SHORT, PLAIN, CACHED, CUT)
        return [fit_to_wire(each, wire) for each in (*fixed, *generate_replies(self.effort.replies))]

    def context(self, **fields: Any) -> RequestContext:
        """Return a context with counted ids and a fixed time, so that the same input gives equal output."""
        return RequestContext(**{"model": self.model, **fixed_fields("sess_kit"), **fields})

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


def last_event(subject: Subject, chunks: Iterable[bytes], **fields: Any) -> StreamEvent:
    """Return the last event of a stream. The fields are those of its context."""
    *_, last = decode_stream(chunks, subject.adapter.decoder(subject.context(**fields)))
    return last


def fit_to_wire(sample: SampleReply, wire: Wire) -> SampleReply:
    """Drop the parts of a reply that a wire does not distinguish: thinking and cached tokens."""
    return replace(
        sample,
        thinking=sample.thinking if wire.thinking else (),
        text=sample.text or (() if sample.calls else ("So",)),
        cached_tokens=sample.cached_tokens if wire.cached else 0,
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


def is_option_lost(losses: Iterable[Loss], *names: str) -> bool:
    """Return whether one of the losses is that of an option with one of these names."""
    starts = tuple(f"{name}:" for name in names)
    return any(loss.kind is LossKind.OPTION and loss.reason.startswith(starts) for loss in losses)


def losses_of_message(losses: Sequence[Loss], message: Message) -> list[Loss]:
    return [loss for loss in losses if loss.message_id == message.id]


CheckHistory = Callable[[Subject, History], Iterator[str]]
"""Yields the faults of an adapter's output for a history."""


def over_histories(check: CheckHistory) -> Callable[[Subject], Iterator[Trial]]:
    """Make a law of what must be true of each history: of the adapter's own model, foreign ones, and malformed ones.

    A history that the model's thinking policy refuses proves nothing and is skipped.
    """

    @wraps(check)
    def law(subject: Subject) -> Iterator[Trial]:
        for kind in ("own", "foreign", "any"):
            model = subject.model if kind == "own" else ""
            for number, history in enumerate(generate_histories(kind, model, subject.effort.histories)):
                if not _faults(subject, check, history):
                    yield Trial(f"{kind} history {number}", (), kind)
                    continue
                # Remove everything that is not needed to break the law, within a limit.
                smallest, candidates = history, _shrink_candidates(history)
                for _ in range(_SHRINK_LIMIT):
                    if (candidate := next(candidates, None)) is None:
                        break
                    if _faults(subject, check, candidate):
                        smallest, candidates = candidate, _shrink_candidates(candidate)
                what = f"{kind} history {describe_history(smallest)}"
                yield Trial(what, tuple(_faults(subject, check, smallest)), kind)
                break  # one counterexample per kind is enough, and shrinking is slow

    return law


def describe_history(history: History) -> str:
    """Return a short description of a history."""
    messages = []
    for message in history:
        blocks = [f"{each.type} {each.model_dump(exclude={'type'}, exclude_defaults=True)}" for each in message.content]
        shown = ", ".join(text if len(text) <= _MAX_BLOCK_LENGTH else text[:_MAX_BLOCK_LENGTH] + "…" for text in blocks)
        messages.append(f"{message.role}: {shown or 'nothing'}")
    return f"[{' | '.join(messages)}]"


def _faults(subject: Subject, check: CheckHistory, history: History) -> list[str]:
    try:
        return list(islice(check(subject, history), 3))
    except ProjectionError as refused:
        if subject.adapter.capabilities.thinking_policy.foreign == "refuse":
            return []
        return [f"refused: {refused}"]
    except NotTriedError:
        raise
    except Exception as error:
        return [f"{type(error).__name__} was raised: {error}"]


def _shrink_candidates(history: History) -> Iterator[History]:
    """Yield smaller histories: without half of the messages, a message, a block, or a block of a tool result."""
    half = len(history) // 2
    if half > 1:
        yield history[half:]
        yield history[:half]
    for index in range(len(history)) if len(history) > 1 else ():
        yield (*history[:index], *history[index + 1 :])
    for index, message in enumerate(history):
        for content in _drop_one_block(message.content):
            changed = message.model_copy(update={"content": content})
            yield (*history[:index], changed, *history[index + 1 :])


def _drop_one_block(content: Sequence[ContentBlock]) -> Iterator[tuple[ContentBlock, ...]]:
    for index, block in enumerate(content):
        yield (*content[:index], *content[index + 1 :])
        if isinstance(block, ToolResultBlock):
            for inner in _drop_one_block(block.content):
                yield (*content[:index], block.model_copy(update={"content": inner}), *content[index + 1 :])
