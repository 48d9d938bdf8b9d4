"""Laws of swaps: any history of any model, and no unreported loss."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Channel, Message, Role
from dragoman.testing.conformance.generate import History
from dragoman.testing.conformance.subject import NotTriedError, Subject, collect_texts, over_histories, parse_body

_INSTRUCTION_ROLES = (Role.SYSTEM, Role.DEVELOPER)
_CONTINUE_TEXT = "Continue."
"""The user text that adapters add if an assistant message cannot be last; a real user message replaces it."""


@over_histories
def changes_are_losses(subject: Subject, history: History) -> Iterator[str]:
    """A history without losses comes back unchanged, and each message that comes back changed has a loss."""
    round_trip = RoundTrip.of(subject.adapter, history)
    yield from (f"changed without a loss: {block}" for block in round_trip.unreported)
    if not round_trip.losses and not round_trip.unchanged:
        yield f"no losses, and {round_trip.before} came back as {round_trip.after}"


@over_histories
def warnings_mean_changes(subject: Subject, history: History) -> Iterator[str]:
    """A warning is never wrong: if a loss says that content is gone, the history comes back changed."""
    round_trip = RoundTrip.of(subject.adapter, history)
    warnings = [loss for loss in round_trip.losses if loss.message_id and loss.severity is Severity.WARNING]
    if round_trip.unchanged and warnings:
        yield f"it came back as it was, with {warnings[0]}"


@over_histories
def losses_name_their_message(subject: Subject, history: History) -> Iterator[str]:
    """Each loss names a message of the history and its block, or none if it concerns the whole request."""
    lengths = {message.id: len(message.content) for message in history}
    for loss in subject.write(history).losses:
        known = loss.message_id in lengths and loss.block_index < lengths[loss.message_id]
        if not (known or (loss.message_id, loss.block_index) == ("", -1)):
            yield f"nobody's loss: {loss}"
        if not loss.reason:
            yield f"a loss without a reason: {loss}"


@over_histories
def requests_only_grow(subject: Subject, history: History) -> Iterator[str]:
    """The prefix law: a request begins with the one before it, in its instructions, its tools and its messages."""
    bodies = [parse_body(subject.write(shorter, subject.tools).body) for shorter in _prefixes(history)]
    if not all(isinstance(body, dict) for body in bodies):
        raise NotTriedError("the body is not a JSON object")
    for shorter, longer in pairwise(bodies):
        for name in {**shorter, **longer}:
            if not _grows(shorter.get(name), longer.get(name)):
                yield f"{name} was {_shorten(shorter.get(name))}, and became {_shorten(longer.get(name))}"


@over_histories
def cached_state_is_invisible(subject: Subject, history: History) -> Iterator[str]:
    """A session that grew turn by turn sends the same bytes as a new one, and names the same losses."""
    context = subject.context()
    for shorter in _prefixes(history):
        continued, fresh = subject.write(shorter, context=context), subject.write(shorter)
        if continued.body != fresh.body:
            yield f"{continued.body!r:.400} was sent instead of {fresh.body!r:.400}"
        if set(continued.losses) != set(fresh.losses):
            yield f"other losses after {len(shorter)} messages"


def _prefixes(history: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """The prefixes of a history that hold content and leave no tool call unanswered."""
    for end in range(1, len(history) + 1):
        asks = any(message.role not in _INSTRUCTION_ROLES for message in history[:end])
        follows = history[end].role if end < len(history) else None
        goes_on = follows is Role.TOOL or follows is history[end - 1].role is Role.ASSISTANT
        if asks and not goes_on:
            yield history[:end]


def _grows(old: Any, new: Any) -> bool:
    """Whether a part of a request only got longer: at the end of a list, or at the end of its last item."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(_grows(old.get(name), new.get(name)) for name in {**old, **new})
    if not (isinstance(old, list) and isinstance(new, list)):
        return bool(old == new)
    # zip ends with the shorter one, and takewhile at the first item that differs.
    same = len([*takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))])
    removed = old[same:]
    if removed and same < len(new) and _extends(removed[0], new[same]):
        removed = removed[1:]
    return all(_CONTINUE_TEXT in collect_texts(item) for item in removed)


def _extends(old: Any, new: Any) -> bool:
    """Whether an item is the same one with more content at its end: neighbours of one role may share an item."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return bool(old == new)
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name) and name != "prefix"]
    return all(_is_beginning(old.get(name), new.get(name)) for name in changed)


def _is_beginning(old: Any, new: Any) -> bool:
    """Whether content got longer: a text that was alone may be the first of a list now."""
    before, after = (
        value if isinstance(value, list) else [] if value in (None, "") else [value] for value in (old, new)
    )
    if isinstance(old, str) and isinstance(new, str):
        return new.startswith(old)
    return len(before) <= len(after) and all(
        one == two or (isinstance(one, str) and one in collect_texts(two))
        for one, two in zip(before, after, strict=False)
    )


def _shorten(value: Any) -> str:
    return wirejson.dumps_text(value)[:400]


PlacedBlock = tuple[Role, Channel | None, ContentBlock]
"""A block with the role and the channel of its message."""

_SUBSTITUTE_SIGNATURE = "its own word for none"


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """A history before and after, and its losses. Each block of ``before`` has its message's id and its index in it."""

    before: list[tuple[tuple[str, int], PlacedBlock]]
    after: list[PlacedBlock]
    losses: tuple[Loss, ...]

    @classmethod
    def of(cls, adapter: Adapter, history: Sequence[Message]) -> "RoundTrip":
        """Encode the history and decode it again. Raises what the adapter raises."""
        wire = adapter.to_wire(history, [], AdapterOptions())
        back, _, _ = adapter.from_wire_request(wire.body, RequestContext(model=str(adapter.model_id)))
        losses = tuple(loss for loss in wire.losses if _SUBSTITUTE_SIGNATURE not in loss.reason)
        return cls(list(iterate_blocks(history)), [block for _, block in iterate_blocks(back)], losses)

    @property
    def unchanged(self) -> bool:
        return [block for _, block in self.before] == self.after

    @property
    def unreported(self) -> list[PlacedBlock]:
        """The blocks that changed although no loss names them. All others come back in the same order.

        A loss of form concerns its whole message: two texts that became one have one loss. The loss of a call concerns
        its result as well, and the loss of one that moved concerns what follows it in its message.
        """
        moved: dict[str, int] = {}
        for loss in self.losses:
            if loss.kind is LossKind.TOOLS:
                moved[loss.message_id] = min(loss.block_index, moved.get(loss.message_id, loss.block_index))
        named = {(loss.message_id, -1 if loss.kind is LossKind.FLATTENED else loss.block_index) for loss in self.losses}
        found: list[PlacedBlock] = []
        named_calls: set[str] = set()
        rest = iter(self.after)
        for (message, index), placed in self.before:
            block = placed[2]
            if named & {(message, index), (message, -1)} or index > moved.get(message, index):
                named_calls |= {block.id} if isinstance(block, ToolUseBlock) else set()
            elif isinstance(block, ToolResultBlock) and block.tool_use_id in named_calls:
                continue
            elif placed not in rest:
                found.append(placed)
        return found


def iterate_blocks(messages: Sequence[Message]) -> Iterator[tuple[tuple[str, int], PlacedBlock]]:
    count = 0
    waiting: list[tuple[str, int]] = []
    before: Role | None = None
    for message in messages:
        if message.role is not Role.TOOL and not (message.role is before is Role.ASSISTANT):
            waiting.clear()  # a call that was not answered by now never is
        before = message.role
        for index, block in enumerate(message.content):
            if isinstance(block, ToolUseBlock) and message.role is not Role.ASSISTANT:
                block = block.model_copy(update={"id": "nobody's"})  # no wire has it, and it takes no number
            elif isinstance(block, ToolUseBlock):
                waiting.append((block.id, count))
                block = block.model_copy(update={"id": f"call {count}"})
                count += 1
            elif isinstance(block, ToolResultBlock):
                call = next((each for each in waiting if each[0] == block.tool_use_id), None)
                if call is not None:
                    waiting.remove(call)
                block = block.model_copy(update={"tool_use_id": f"call {call[1]}" if call else "nobody's"})
            if not _is_empty(block):
                yield (message.id, index), (message.role, message.channel, _normalize_block(block))


def _is_empty(block: ContentBlock) -> bool:
    if isinstance(block, ThinkingBlock):
        return not (block.text or block.signature)
    return isinstance(block, TextBlock) and not (block.text or block.citations)


def _normalize_block(block: ContentBlock) -> ContentBlock:
    if isinstance(block, ToolResultBlock):
        parts = tuple(_normalize_block(part) for part in block.content if not _is_empty(part))
        return block.model_copy(update={"content": parts})
    if isinstance(block, TextBlock):
        cited = tuple(Citation(kind="", data=each.data) if each.data else each for each in block.citations)
        return block.model_copy(update={"citations": cited})
    if isinstance(block, ImageBlock) and block.detail == "auto":
        return block.model_copy(update={"detail": None})
    return block
