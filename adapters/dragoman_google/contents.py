"""Turns to contents: user and model in turns, a signature on every step's first call, answers beside their calls."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter.details import Detail
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.outgoing import Outgoing
from dragoman.adapter.residue import restore
from dragoman.adapter.turns import MADE, Turn
from dragoman.canonical.blocks import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Role
from dragoman_google import parts
from dragoman_google.parts import Media, Note

CONTINUE = "Continue."
_LACKING_IN_ANSWERS: tuple[Detail, ...] = ("resolution", "title", "note", "order")
_DETAILS = ("low", "medium", "high", "ultra_high")
LACKING: tuple[Detail, ...] = ("citations", "guesses", "seams", "text_documents")
"""What the wire has no place for in what others said."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call as its answer must name it. ``id`` is None where its issuer gave it none."""

    name: str
    id: str | None
    position: int


@dataclass(slots=True)
class _Content:
    role: str
    parts: list[dict[str, Any]] = field(default_factory=list)
    note: Note = field(default_factory=dict)
    behind: list[dict[str, Any]] = field(default_factory=list)
    """Media of tools' answers that the answers themselves cannot hold."""
    answers: list[tuple[int, _Call]] = field(default_factory=list)
    """Which parts answer calls without an id: these are told apart by their order."""

    def settle(self) -> None:
        """All answers are there: what goes behind them follows, and whatever else is said comes after that."""
        self.parts += self.behind
        self.behind.clear()

    def encoded(self) -> dict[str, Any]:
        self.settle()
        if self.answers:
            self._in_order_of_calls()
        order = self.note.get("order", ())
        placed = self.parts
        if len(order) == len(self.parts):
            placed = [{}] * len(order)
            for position, part in zip(order, self.parts, strict=True):
                placed[position] = part
        found = restore({"role": self.role, "parts": placed}, self.note.get("content"))
        if self.note.get("single") and len(self.parts) == 1:
            found["parts"] = self.parts[0]
        return found

    def _in_order_of_calls(self) -> None:
        """Answers to calls of one name, which come in any order, are put into that of their calls."""
        for name in {call.name for _, call in self.answers}:
            same = [(index, call) for index, call in self.answers if call.name == name]
            meant = [self.parts[index] for index, _ in sorted(same, key=lambda each: each[1].position)]
            for (index, _), part in zip(same, meant, strict=True):
                self.parts[index] = part


def contents(request: Outgoing, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Turns as contents."""
    written = _Contents(request)
    for turn in turns:
        written.add(turn)
    return written.finish()


class _Contents:
    """Contents while they are written."""

    def __init__(self, request: Outgoing) -> None:
        self._request = request
        self._facts = request.adapter.capabilities.wire
        self._contents: list[_Content] = []
        self._calls: dict[str, _Call] = {}

    def add(self, turn: Turn) -> None:
        """One turn, in a content of its own or behind what the same side has just said."""
        role = "model" if turn.role is Role.ASSISTANT else "user"
        if text := turn.bare(self._request.provider):
            content = self._content(role, {})
            content.settle()
            content.parts.append({"text": text})
            return
        own = notes_of(turn, self._request.provider)
        content = self._content(role, own)
        if turn.role is Role.TOOL:
            self._answer(turn, content)
            return
        content.settle()
        if turn.role is Role.ASSISTANT:
            content.parts += self._said(turn, own)
        else:
            content.parts += parts_of(self._request, turn)

    def finish(self) -> list[dict[str, Any]]:
        """The contents; a request without any is refused, so the user's word stands in then."""
        self._fill()
        # A content that was read without parts goes back so; a reply that said nothing is not repeated.
        sent = [content for content in self._contents if content.parts or "joined" in content.note]
        if self._request.opens and (not sent or sent[0].role == "model"):
            reason = "a conversation begins with the user: a user's turn is added in front"
            self._request.lose(LossKind.ROLE, reason, Severity.INFO)
            sent.insert(0, _Content("user", [{"text": CONTINUE}]))
        return [content.encoded() for content in sent]

    def _content(self, role: str, own: Note) -> _Content:
        last = self._contents[-1] if self._contents else None
        joins = own.get("joined", True) if own else True
        if last is not None and last.role == role and joins:
            return last
        self._fill()
        self._contents.append(_Content(role, note=own))
        return self._contents[-1]

    def _fill(self) -> None:
        """A user's content of others without parts, which would be refused, gets a word of its own."""
        last = self._contents[-1] if self._contents else None
        if last is not None and last.role == "user" and not last.parts and "joined" not in last.note:
            reason = "the user's message is empty: a word is put in its place"
            self._request.lose(LossKind.EMPTY_MESSAGE, reason, Severity.INFO)
            last.parts.append({"text": CONTINUE})

    def _said(self, turn: Turn, own: Note) -> list[dict[str, Any]]:
        """What the model said. Its calls are remembered for their answers."""
        found: list[dict[str, Any]] = []
        unsigned = bool(self._facts["signature"]) and not self._signs(turn, own)
        for index, block in enumerate(turn.blocks):
            if isinstance(block, ToolUseBlock):
                call = _Call(block.name, self._wire_id(turn, index, own), len(self._calls))
                self._calls[block.id] = call
                self._request.lose_details(turn, index, "arguments")
                encoded = parts.restored(parts.part(block, call.id), _note(own, turn, index))
                if unsigned and "thoughtSignature" not in encoded and "thought_signature" not in encoded:
                    encoded["thoughtSignature"] = self._facts["signature"]
                    reason = (
                        f"{self._request.adapter.model} wants a signature on the call: its own word for none is sent"
                    )
                    self._request.lose_block(turn, index, LossKind.THINKING, reason, Severity.INFO)
                unsigned = False  # the first call of a step stands for all
                found.append(encoded)
            else:
                found += _parts(self._request, turn, index, own)
        return found

    def _signs(self, turn: Turn, own: Note) -> bool:
        """Whether the turn comes from a model of this provider that signs its calls, and so has signed what it must."""
        issuer = turn.message.metadata.model or ""
        provider, _, model = issuer.partition(":")
        if not own or provider != self._request.provider:
            return False
        return bool(type(self._request.adapter)(model).capabilities.wire["signature"])

    def _wire_id(self, turn: Turn, index: int, own: Note) -> str | None:
        """The id of a call on the wire: none where this provider issued the call without one."""
        block, origin = turn.blocks[index], turn.origins[index]
        assert isinstance(block, ToolUseBlock)
        if own:
            canonical = turn.message.content[origin] if origin != MADE else block
            if isinstance(canonical, ToolUseBlock) and canonical.id not in own.get("tool_ids", {}):
                return None
        return self._request.tool_id(block.id)

    def _answer(self, turn: Turn, content: _Content) -> None:
        own = notes_of(turn, self._request.provider)
        for index, block in enumerate(turn.blocks):
            if not isinstance(block, ToolResultBlock):
                content.parts += _parts(self._request, turn, index, own)
                continue
            note = _note(own, turn, index)
            call = self._calls.get(block.tool_use_id) or _Call(note.get("name", "unknown"), None, len(self._calls))
            if not note:
                self._request.lose_details(turn, index, *LACKING, *_LACKING_IN_ANSWERS)
                block = self._without_misfits(turn, index, block, content)
            if call.id is None:
                if any(other.name == call.name and other.position > call.position for _, other in content.answers):
                    self._lose(turn, index, "answers to calls of one name go in the order of the calls")
                content.answers.append((len(content.parts), call))
            encoded = parts.result_part(block, call.name, call.id)
            content.parts.append(parts.restored(encoded, note))

    def _without_misfits(self, turn: Turn, index: int, block: ToolResultBlock, content: _Content) -> ToolResultBlock:
        """The answer with documents of plain text as text, and without media that answers do not hold.

        Such media follows all answers of its step.
        """
        kept: list[ContentBlock] = []
        for each in block.content:
            if isinstance(each, DocumentBlock) and each.source.kind == "text":
                kept.append(TextBlock(text=each.source.data))
            elif isinstance(each, Media) and _type_of(each) not in self._facts["result_media"]:
                content.behind.append(parts.media_part(each))
                self._lose(turn, index, f"the tool's {each.type} follows its answer")
            else:
                kept.append(each)
        return block if tuple(kept) == block.content else block.model_copy(update={"content": tuple(kept)})

    def _lose(self, turn: Turn, index: int, reason: str) -> None:
        self._request.lose_block(turn, index, LossKind.FLATTENED, reason, Severity.INFO)


def notes_of(turn: Turn, provider: str) -> Note:
    """What the provider's adapter noted about the turn's message.

    Nothing for a turn that the projection made up, or that has another role by now: it is not the one that was noted.
    """
    made = bool(turn.blocks) and all(origin == MADE for origin in turn.origins)
    return {} if made or turn.role is not turn.message.role else turn.raw(provider)


def parts_of(request: Outgoing, turn: Turn) -> Iterator[dict[str, Any]]:
    """The parts of a turn without calls and answers."""
    own = notes_of(turn, request.provider)
    for index in range(len(turn.blocks)):
        yield from _parts(request, turn, index, own)


def _parts(request: Outgoing, turn: Turn, index: int, own: Note) -> Iterator[dict[str, Any]]:
    """The part of a block; two for a document with a title, none for an empty text of others."""
    block = turn.blocks[index]
    if own:
        request.lose_details(turn, index, "citations")
        yield parts.restored(parts.part(block), _note(own, turn, index))
        return
    scaled = _resolution(request, block)
    request.lose_details(turn, index, *LACKING, *(() if scaled else ("resolution",)))
    if isinstance(block, TextBlock) and not block.text:
        request.lose_block(turn, index, LossKind.EMPTY_TEXT, "an empty text is not sent", Severity.INFO)
        return
    if isinstance(block, DocumentBlock):
        if said := "\n".join(filter(None, (block.title, block.context))):
            request.lose_block(turn, index, LossKind.FLATTENED, "title and note go in front as text", Severity.INFO)
            yield {"text": said}
        if block.source.kind == "text":
            yield {"text": block.source.data}
            return
    encoded = parts.part(block)
    if scaled:
        encoded["mediaResolution"] = {"level": f"MEDIA_RESOLUTION_{scaled.upper()}"}
    yield encoded


def _resolution(request: Outgoing, block: ContentBlock) -> str | None:
    """The resolution of an image, where the model takes one."""
    detail = block.detail if isinstance(block, ImageBlock) else None
    return detail if detail in _DETAILS and request.adapter.capabilities.wire["media_resolution"] else None


def _note(own: Note, turn: Turn, index: int) -> Note:
    origin = turn.origins[index]
    noted: Mapping[str, Any] = own.get("blocks", {}).get(str(origin), {}) if origin != MADE else {}
    return noted


def _type_of(block: Media) -> str | None:
    encoded = parts.media_part(block)
    data: dict[str, Any] = encoded.get("inlineData") or encoded["fileData"]
    return data.get("mimeType")
