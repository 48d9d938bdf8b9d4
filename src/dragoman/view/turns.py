"""A history as the page tells it: a turn for each message, tools' answers with their calls, swaps where they were."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.usage import Usage
from dragoman.view import figures
from dragoman.view.chart import Reply
from dragoman.view.pieces import Piece, pieces
from dragoman.view.swaps import Projections, Swap, swap
from dragoman.view.wire import Raw, RawRequests, pretty

HUES = 6
"""How many models have a colour of their own; then they come round again."""
_LONGEST_NAME = 72

_SPEAKERS = {
    Role.USER: "User",
    Role.SYSTEM: "System",
    Role.DEVELOPER: "Developer",
    Role.TOOL: "Tool",
    Role.ASSISTANT: "Assistant",
}
_ENDS = {
    StopReason.MAX_TOKENS: "cut at the most tokens allowed",
    StopReason.REFUSAL: "refused",
    StopReason.CONTEXT_OVERFLOW: "the context window was full",
    StopReason.PAUSE: "paused",
}
"""What is worth saying of how a reply ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message. ``number`` counts messages from 1. ``swap`` stands before it. ``hue`` is that of its model.

    ``request`` and ``reply`` are raw; ``why_no_request`` is set where a reply has none.
    """

    number: int
    message: Message
    speaker: str
    provider: str = ""
    hue: int | None = None
    pieces: tuple[Piece, ...] = ()
    remarks: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    swap: Swap | None = None
    request: Raw | None = None
    why_no_request: str | None = None
    reply: str | None = None

    @property
    def role(self) -> str:
        return str(self.message.role)

    @property
    def kinds(self) -> str:
        """What the filters look for."""
        found = {self.role, *(piece.kind for piece in self.pieces)}
        return " ".join(sorted(found | ({"swap"} if self.swap else set())))

    @property
    def name(self) -> str:
        """Its first words, or what it does."""
        for piece in self.pieces:
            words = " ".join(piece.text.split())
            if piece.kind in ("text", "code") and words:
                return words if len(words) <= _LONGEST_NAME else words[:_LONGEST_NAME] + "…"
        calls = [piece.title for piece in self.pieces if piece.kind == "call"]
        return " · ".join(calls) or ", ".join(dict.fromkeys(piece.title for piece in self.pieces)) or "nothing"


def is_reply(message: Message) -> bool:
    """Whether a provider sent it."""
    return message.usage is not None or message.metadata.provider is not None


def turns(messages: Sequence[Message], projections: Projections, *, raw: bool) -> Iterator[Turn]:
    """The history in order; messages that hold nothing but answers to earlier calls stand with those."""
    answers, told = _answers(messages)
    hues, requests = hues_of(messages), RawRequests()
    speaking: str | None = None
    for index, message in enumerate(messages):
        if index in told:
            continue
        model = message.metadata.model if message.role is Role.ASSISTANT else None
        swapped, request, why = None, None, None
        if model is not None:
            changed = speaking is not None and model != speaking
            made = projections.request(messages[:index], model) if raw or changed else ""
            if changed and speaking is not None:
                swapped = swap(made, speaking, model)
            if raw and not isinstance(made, str):
                request = requests.add(index + 1, model, made)
                why = None if request else "It is left out: the page would become too large."
            elif raw:
                why = str(made)
            speaking = model
        yield Turn(
            number=index + 1,
            message=message,
            speaker=_speaker(message),
            provider=message.metadata.provider or (model or "").partition(":")[0],
            hue=None if model is None else hues[model],
            pieces=pieces(message.content, answers),
            remarks=tuple(_remarks(message)),
            figures=tuple(_figures(message.usage)) if is_reply(message) else (),
            swap=swapped,
            request=request,
            why_no_request=why,
            reply=_raw_reply(message) if raw else None,
        )


def replies(messages: Sequence[Message]) -> list[Reply]:
    """Those that a provider sent, for the chart."""
    hues = hues_of(messages)
    return [
        Reply(number, _model(message), hues.get(message.metadata.model or "", 0), message.usage)
        for number, message in enumerate(messages, 1)
        if is_reply(message)
    ]


def hues_of(messages: Iterable[Message]) -> dict[str, int]:
    """A number for each model, in the order in which they first spoke."""
    models = dict.fromkeys(message.metadata.model for message in messages if message.metadata.model)
    return {model: place % HUES for place, model in enumerate(models)}


def places(messages: Sequence[Message]) -> dict[str, int]:
    """The number under which each message is found, by its id; that of answers is that of their call."""
    _, told = _answers(messages)
    return {message.id: told.get(index, index + 1) for index, message in enumerate(messages)}


def _answers(messages: Sequence[Message]) -> tuple[dict[str, ToolResultBlock], dict[int, int]]:
    """The answers that have a call before them, by its id; and the messages that hold nothing else, by their index,
    with the number of the message that called."""
    called: dict[str, int] = {}
    found: dict[str, ToolResultBlock] = {}
    told: dict[int, int] = {}
    for index, message in enumerate(messages):
        called.update((call.id, index + 1) for call in message.tool_uses)
        results = message.tool_results
        if not results or len(results) < len(message.content) or is_reply(message):
            continue
        ids = [result.tool_use_id for result in results]
        if len(set(ids)) == len(ids) and all(each in called and each not in found for each in ids):
            found.update(zip(ids, results, strict=True))
            told[index] = called[ids[0]]
    return found, told


def _speaker(message: Message) -> str:
    model = message.metadata.model
    if message.role is Role.ASSISTANT and model:
        return model.partition(":")[2] or model
    return _SPEAKERS[message.role]


def _model(message: Message) -> str:
    return message.metadata.model or message.metadata.provider or "unnamed"


def _remarks(message: Message) -> Iterator[str]:
    metadata = message.metadata
    if message.channel is not None:
        yield str(message.channel)
    if metadata.summary_of:
        yield f"summary of {figures.plural(len(metadata.summary_of), 'message')}"
    if metadata.status is not MessageStatus.COMPLETE:
        yield str(metadata.status)
    if metadata.stop_reason in _ENDS:
        yield _ENDS[metadata.stop_reason]
    if metadata.routing is not None and metadata.routing.mode != "manual":
        yield f"routed: {metadata.routing.reason}"
    for changed in metadata.input_transformations or ():
        told = filter(None, (changed.kind, changed.reason, changed.where))
        yield f"the provider changed the request: {' · '.join(told)}"


def _figures(usage: Usage | None) -> Iterator[str]:
    if usage is None:
        yield "no token counts told"
        return
    yield from figures.tokens(usage)
    yield figures.cost(usage)
    if (took := figures.seconds(usage.latency_ms)) is not None:
        yield took


def _raw_reply(message: Message) -> str | None:
    """What the adapter kept of the reply, and its usage as the provider told it."""
    usage = message.usage
    kept = {"provider_raw": message.metadata.provider_raw, "usage": None if usage is None else usage.raw}
    told = {name: value for name, value in kept.items() if value is not None}
    return pretty(told) if told else None
