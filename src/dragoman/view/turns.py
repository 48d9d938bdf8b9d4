"""A history as the page shows it: a turn for each message, tool results with their calls, swaps in their place."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import DragomanError, MalformedReplyError
from dragoman.adapter.losses import Loss, Severity
from dragoman.adapter.notes import raw_notes
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.requests.encode_cache import EncodeCache
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.session.history import apply_summaries
from dragoman.view import figures
from dragoman.view.figures import ChartReply
from dragoman.view.pieces import Piece, build_pieces


@dataclass(frozen=True, slots=True)
class Swap:
    """``refused`` is the reason if the model cannot take the history at all. ``is_upcoming``: the new model has not
    replied yet.
    """

    before: str
    after: str
    losses: tuple[Loss, ...] = ()
    refused: str | None = None
    is_upcoming: bool = False

    @property
    def lost(self) -> list[Loss]:
        """Content that is removed or reduced."""
        return [loss for loss in self.losses if loss.severity is Severity.WARNING]

    @property
    def changed(self) -> list[Loss]:
        """Content that only changes its form."""
        return [loss for loss in self.losses if loss.severity is not Severity.WARNING]

    @property
    def rows(self) -> list[tuple[Loss, tuple[str, ...]]]:
        """Equal losses as one row, each with its messages; removed content comes first."""
        found: dict[tuple[str, str], list[Loss]] = {}
        for loss in (*self.lost, *self.changed):
            found.setdefault((loss.kind, loss.reason), []).append(loss)
        return [(same[0], tuple(dict.fromkeys(loss.message_id for loss in same))) for same in found.values()]


@dataclass(slots=True)
class Projections:
    """Requests as they would be built today. ``tool_ids`` should be a copy: ids may be added to it.

    Each request offers ``tools``; a history contains neither their definitions nor the options of its turns.
    """

    tool_ids: ToolIdMap
    tools: Sequence[ToolDefinition] = ()
    encode_cache: EncodeCache = field(default_factory=EncodeCache)

    def request(self, history: Sequence[Message], model: str) -> WireRequest | str:
        """Return the request of this history for the model, or the reason why there is none."""
        try:
            adapter = get_adapter(model)
            context = RequestContext(
                model=str(adapter.model_id), session_id="", tool_ids=self.tool_ids, encode_cache=self.encode_cache
            )
            return adapter.to_wire(apply_summaries(history), self.tools, AdapterOptions(context=context))
        except DragomanError as error:
            return str(error)


def describe_swap(request: WireRequest | str, before: str, after: str, *, is_upcoming: bool = False) -> Swap:
    """Return the swap of a request, or the reason why there is none."""
    losses, refused = ((), request) if isinstance(request, str) else (request.losses, None)
    return Swap(before, after, losses, refused, is_upcoming)


_MAX_WORD = 400
"""Characters without a space; a longer word is encoded media or a signature, and is shortened."""
_SHORTENED_LENGTH = 60
_MIN_SHARED_LINES = 12
MAX_BYTES = 48 * 1024 * 1024
"""The total of request bodies on one page; later requests are left out."""
_SPACE = re.compile(r"\s")
HUES = 6
"""The number of model colours before they repeat."""
_LONGEST_NAME = 72
_STOP_REMARKS = {
    StopReason.MAX_TOKENS: "cut at the token limit",
    StopReason.REFUSAL: "refused",
    StopReason.CONTEXT_OVERFLOW: "the context window was full",
    StopReason.PAUSE: "paused",
}
"""Remarks on how a reply ended, if that is unusual."""


@dataclass(frozen=True, slots=True)
class Raw:
    """``lines`` is the number of first lines that equal those of the request ``same_as``; ``text`` is the rest."""

    address: str
    text: str
    same_as: int | None = None
    lines: int = 0


class RawRequests:
    """The raw requests of one page, line by line. Their numbers are those of their turns.

    A request contains the whole history before it, so that in full the page would grow quadratically: the first lines
    that equal those of the one before are left out.
    """

    def __init__(self) -> None:
        self._latest: dict[str, tuple[int, list[str]]] = {}
        self._bytes = 0

    def add(self, number: int, model: str, request: WireRequest) -> Raw | None:
        """Return the request as the page shows it, or None if the page would become too large."""
        self._bytes += len(request.body)
        if self._bytes > MAX_BYTES:
            return None
        try:
            body = pretty(wirejson.loads(request.body))
        except MalformedReplyError:
            body = request.body.decode(errors="replace")
        lines = body.split("\n")
        address = f"{request.method} {request.path}"
        before = self._latest.get(model)
        self._latest[model] = (number, lines)
        if before is not None:
            # zip ends with the shorter one, and takewhile at the first line that differs.
            shared = len([*takewhile(lambda pair: pair[0] == pair[1], zip(before[1], lines, strict=False))])
            if shared >= _MIN_SHARED_LINES:
                return Raw(address, "\n".join(lines[shared:]), before[0], shared)
        return Raw(address, "\n".join(lines))


def pretty(value: Any) -> str:
    """JSON for people: indented, with long encoded strings shortened."""
    return json.dumps(shorten(value), ensure_ascii=False, indent=2)


def shorten(value: Any) -> Any:
    """Return the value, with encoded media and the like cut to a few characters and their number."""
    if isinstance(value, dict):
        return {name: shorten(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shorten(inner) for inner in value]
    if isinstance(value, str) and len(value) > _MAX_WORD and not _SPACE.search(value):
        return f"{value[:_SHORTENED_LENGTH]}… ({len(value):,} characters)"
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnView:
    """One message. ``number`` counts messages from 1. ``swap`` is shown before it. ``hue`` is that of its model.

    ``source`` is the text as it was written, if it is shown rendered. ``request`` and ``reply`` are raw;
    ``why_no_request`` is set if a reply has no request.
    """

    number: int
    message: Message
    provider: str = ""
    hue: int | None = None
    pieces: tuple[Piece, ...] = ()
    swap: Swap | None = None
    source: str = ""
    request: Raw | None = None
    why_no_request: str | None = None
    reply: str | None = None

    @property
    def speaker(self) -> str:
        model = self.message.metadata.model
        if self.message.role is Role.ASSISTANT and model:
            return model.partition(":")[2] or model
        return self.role.capitalize()

    @property
    def figures(self) -> list[str]:
        """The tokens, the cost and the time of a reply."""
        usage = self.message.usage
        if not is_reply(self.message):
            return []
        if usage is None:
            return ["the provider reported no tokens"]
        latency = figures.seconds(usage.latency_ms)
        return [*figures.tokens(usage), figures.cost(usage), *([] if latency is None else [latency])]

    @property
    def remarks(self) -> Iterator[str]:
        """What is unusual about the message."""
        metadata = self.message.metadata
        if self.message.channel is not None:
            yield str(self.message.channel)
        if metadata.labels:
            yield f"labels: {', '.join(sorted(metadata.labels))}"
        if metadata.summary_of:
            yield f"summary of {figures.plural(len(metadata.summary_of), 'message')}"
        if metadata.status is not MessageStatus.COMPLETE:
            yield str(metadata.status)
        if metadata.stop_reason in _STOP_REMARKS:
            yield _STOP_REMARKS[metadata.stop_reason]
        if metadata.routing is not None and metadata.routing.mode != "manual":
            yield f"routed: {metadata.routing.reason}"
        for changed in metadata.input_transformations or ():
            parts = filter(None, (changed.kind, changed.reason, changed.where))
            yield f"the provider changed the request: {' · '.join(parts)}"

    @property
    def role(self) -> str:
        return str(self.message.role)

    @property
    def kinds(self) -> str:
        """The keywords for the page's filters."""
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


def build_turns(messages: Sequence[Message], projections: Projections, *, raw: bool) -> Iterator[TurnView]:
    """Yield the history in order; messages with only results of earlier calls are shown with the calls."""
    answers, call_numbers = _match_answers(messages)
    hues, requests = model_hues(messages), RawRequests()
    current_model: str | None = None
    for index, message in enumerate(messages):
        if index in call_numbers:
            continue
        model = message.metadata.model if message.role is Role.ASSISTANT else None
        swap, request, reason = None, None, None
        if model is not None:
            changed = current_model is not None and model != current_model
            wire_request = projections.request(messages[:index], model) if raw or changed else ""
            if changed and current_model is not None:
                swap = describe_swap(wire_request, current_model, model)
            if raw and not isinstance(wire_request, str):
                request = requests.add(index + 1, model, wire_request)
                reason = None if request else "It is left out: the page would become too large."
            elif raw:
                reason = str(wire_request)
            current_model = model
        is_answer = message.role is Role.ASSISTANT
        pieces = build_pieces(message.content, answers, rendered=is_answer)
        yield TurnView(
            number=index + 1,
            message=message,
            provider=message.metadata.provider or (model or "").partition(":")[0],
            hue=None if model is None else hues[model],
            pieces=pieces,
            swap=swap,
            source=message.text if any(piece.html for piece in pieces) and is_answer else "",
            request=request,
            why_no_request=reason,
            reply=_raw_reply(message) if raw else None,
        )


def replies(messages: Sequence[Message]) -> list[ChartReply]:
    """Return the replies for the chart: messages that a provider sent."""
    hues = model_hues(messages)
    return [
        ChartReply(
            number,
            message.metadata.model or message.metadata.provider or "unnamed",
            hues.get(message.metadata.model or "", 0),
            message.usage,
        )
        for number, message in enumerate(messages, 1)
        if is_reply(message)
    ]


def model_hues(messages: Iterable[Message]) -> dict[str, int]:
    """Return a number for each model, in order of first use."""
    models = dict.fromkeys(message.metadata.model for message in messages if message.metadata.model)
    return {model: index % HUES for index, model in enumerate(models)}


def message_numbers(messages: Sequence[Message]) -> dict[str, int]:
    """Return the number that each message is shown under, by id; results have the number of their call."""
    _, call_numbers = _match_answers(messages)
    return {message.id: call_numbers.get(index, index + 1) for index, message in enumerate(messages)}


def _match_answers(messages: Sequence[Message]) -> tuple[dict[str, ToolResultBlock], dict[int, int]]:
    """Return the results whose call comes before them, by call id; and the messages with nothing else, by index, with
    the number of the message that called.
    """
    call_numbers_by_id: dict[str, int] = {}
    found: dict[str, ToolResultBlock] = {}
    call_numbers: dict[int, int] = {}
    for index, message in enumerate(messages):
        call_numbers_by_id.update((call.id, index + 1) for call in message.tool_uses)
        results = message.tool_results
        if not results or len(results) < len(message.content) or is_reply(message):
            continue
        ids = [result.tool_use_id for result in results]
        if len(set(ids)) == len(ids) and all(each in call_numbers_by_id and each not in found for each in ids):
            found.update(zip(ids, results, strict=True))
            call_numbers[index] = call_numbers_by_id[ids[0]]
    return found, call_numbers


def _raw_reply(message: Message) -> str | None:
    """Return what the adapter kept of the reply, and the provider's own usage object."""
    raw = {"provider_raw": raw_notes(message), "usage": message.usage.raw if message.usage else None}
    present = {name: value for name, value in raw.items() if value is not None}
    return pretty(present) if present else None
