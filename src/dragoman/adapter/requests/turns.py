"""Turn: one message as it will be sent, linked to the message that it came from."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role

SYNTHETIC = -1
"""The origin of a block that is in no message."""
_FIRST_ORIGIN, _TWO_ORIGINS = (0,), (0, 1)
CONVERSATION_ROLES = (Role.USER, Role.ASSISTANT)
INSTRUCTION_ROLES = (Role.SYSTEM, Role.DEVELOPER)


@dataclass(slots=True)
class Turn:
    """A message as one target gets it: its ``role`` and ``blocks`` there. ``message`` is the one of the history.

    ``origins[i]`` is the index in ``message.content`` that ``blocks[i]`` came from, or SYNTHETIC. Turns
    are immutable.

    ``text`` is that of a turn which is nothing else: one text that is not blank, without citations, markers of a cache
    and a channel, so most kinds of loss cannot occur in it. It is None for all other turns.
    """

    message: Message
    role: Role
    blocks: tuple[ContentBlock, ...]
    origins: tuple[int, ...]
    """Where each block comes from in the history's message."""
    text: str | None = None
    notes: Mapping[str, Any] | None = None
    """The notes of an adapter on the message, which `raw` returns for their provider."""
    _survey: tuple[bool, bool] | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, message: Message) -> "Turn":
        """Return a message as it is."""
        fields = message.__dict__  # a model looks for each attribute in all its classes first
        role, content, metadata = fields["role"], fields["content"], fields["metadata"].__dict__
        notes = metadata["provider_raw"]
        count, is_special = len(content), bool(metadata["cache_breakpoints"]) or fields["channel"] is not None
        if count == 1 and not is_special and type(block := content[0]) is TextBlock and not block.citations:
            text = block.text
            if text and not text.isspace():
                return cls(message, role, content, _FIRST_ORIGIN, text, notes)
        origins = _FIRST_ORIGIN if count == 1 else _TWO_ORIGINS if count == 2 else tuple(range(count))
        turn = cls(message, role, content, origins, None, notes)
        turn._survey = (False, False) if is_special else _survey(content)
        return turn

    @classmethod
    def synthetic(cls, message: Message, role: Role, blocks: tuple[ContentBlock, ...]) -> "Turn":
        """Create a turn that does not come from a message; ``message`` is its cause."""
        return cls(message, role, blocks, (SYNTHETIC,) * len(blocks), None, message.metadata.provider_raw)

    def loss(self, index: int, kind: LossKind, reason: str, severity: Severity = Severity.WARNING) -> Loss:
        """Return a loss of the block at ``index`` of the message, or of the message if that is SYNTHETIC."""
        content = self.message.content
        block_type = content[index].type if 0 <= index < len(content) else ""
        return Loss(kind, self.message.id, index, reason, severity, block_type)

    def plain_text(self, provider: str, layout: frozenset[str] | None = None) -> str | None:
        """Return the text if the turn is only a text for that provider: it has no notes of its own. ``layout`` names
        the notes that decide how its own message is written; without it, any note may."""
        if self.text is None or ((notes := self.notes) is not None and _decide_layout(notes, provider, layout)):
            return None
        return self.text

    @property
    def ordinary(self) -> bool:
        """Whether the turn is nothing but texts, calls and results of texts, all with words.

        Such a turn has no thinking, media or native blocks, nothing empty, no markers of a cache and no channel.
        """
        return (self._survey or self._look())[0]

    @property
    def portable(self) -> bool:
        """Whether every wire supports all that the blocks hold, as for most turns: texts without citations, then calls
        with arguments that are objects, or results of one text each that are not errors. It has no markers of a cache
        and no channel."""
        return (self._survey or self._look())[1]

    def is_simple(self, provider: str, layout: frozenset[str] | None = None) -> bool:
        """Whether there is nothing to ask about the turn: it is ordinary and portable, and the provider has no notes of
        its own on it. Encoders write such turns, which are most of them, at once.

        ``layout`` is that of `plain_text`.
        """
        if (notes := self.notes) is not None and _decide_layout(notes, provider, layout):
            return False
        return (self._survey or self._look()) == _SIMPLE

    def _look(self) -> tuple[bool, bool]:
        """Return what `_survey` does, of a turn that may have markers of a cache or a channel, and keep it."""
        is_special = self.message.metadata.cache_breakpoints or self.message.channel is not None
        self._survey = survey = (False, False) if is_special else _survey(self.blocks)
        return survey

    @property
    def has_calls(self) -> bool:
        """Whether the turn is the model's and calls tools."""
        if self.role is Role.ASSISTANT:
            for block in self.blocks:
                if isinstance(block, ToolUseBlock):
                    return True
        return False

    def iter_blocks(self) -> Iterator[tuple[ContentBlock, int]]:
        """Yield each block with its origin."""
        return zip(self.blocks, self.origins, strict=True)

    def map_blocks(self, change: Callable[[ContentBlock, int], tuple[ContentBlock, ...]]) -> "Turn":
        """Replace each block by the result of ``change(block, origin)``; a changed block loses its origin."""
        changed = [change(block, origin) for block, origin in self.iter_blocks()]
        for new, block in zip(changed, self.blocks, strict=True):
            if len(new) != 1 or new[0] is not block:
                break
        else:
            return self
        pairs = [
            (each, origin if each is block else SYNTHETIC)
            for new, (block, origin) in zip(changed, self.iter_blocks(), strict=True)
            for each in new
        ]
        blocks, origins = tuple(block for block, _ in pairs), tuple(origin for _, origin in pairs)
        return replace(self, blocks=blocks, origins=origins, text=None)

    def texts_after_calls(self) -> Iterator[int]:
        """Yield the indexes of texts and thinking after a call: on some wires all text of a message comes before its
        calls."""
        seen_call = False
        for index, block in enumerate(self.blocks):
            seen_call = seen_call or isinstance(block, ToolUseBlock)
            if seen_call and _has_content(block):
                yield index

    def late_thinking(self) -> Iterator[int]:
        """Yield the indexes of thinking that is not at the start: on some wires it has a separate field, which comes
        first."""
        for index, block in enumerate(self.blocks):
            if index and isinstance(block, ThinkingBlock) and _has_content(block):
                yield index

    def raw(self, provider: str) -> Mapping[str, Any]:
        """Return the notes of that provider's adapter on the message; empty if another adapter wrote them."""
        notes = self.notes
        return notes if notes is not None and notes.get("by") == provider else {}

    def raw_in_role(self, provider: str) -> Mapping[str, Any]:
        """Return what `raw` does, but nothing for a turn of another role than its message, such as media that were
        moved: how the message was written does not fit it."""
        return self.raw(provider) if self.role is self.message.role else {}

    def restore_block(self, index: int, encoded: Mapping[str, Any], provider: str) -> dict[str, Any]:
        """Restore what the provider's own block held beyond our encoding."""
        origin = self.origins[index]
        blocks = self.raw(provider).get("blocks")
        return apply_diff(encoded, blocks.get(str(origin)) if blocks and origin != SYNTHETIC else None)


def _decide_layout(notes: Mapping[str, Any], provider: str, layout: frozenset[str] | None) -> bool:
    """Whether the notes are that provider's and say how its own message is written; see `Turn.plain_text`."""
    return notes.get("by") == provider and (layout is None or not layout.isdisjoint(notes))


_SIMPLE = (True, True)


def _survey(blocks: tuple[ContentBlock, ...]) -> tuple[bool, bool]:
    """Return whether a turn of these blocks is `Turn.ordinary`, and whether it is `Turn.portable`."""
    ordinary = portable = True
    has_calls = False
    for block in blocks:
        if type(block) is TextBlock:
            text = block.text
            if not text or text.isspace():
                ordinary = False
            if has_calls or block.citations:
                portable = False
        elif type(block) is ToolUseBlock:
            has_calls = True
            if block.raw_input is not None:
                portable = False
        elif type(block) is ToolResultBlock:
            is_ordinary, is_portable = _survey_result(block)
            ordinary, portable = ordinary and is_ordinary, portable and is_portable
        else:
            return False, False
    return ordinary, portable


def _survey_result(result: ToolResultBlock) -> tuple[bool, bool]:
    parts = result.content
    ordinary = bool(parts)
    for part in parts:
        if type(part) is not TextBlock:
            return False, False
        text = part.text
        if not text or text.isspace() or part.citations:
            ordinary = False
    return ordinary, len(parts) == 1 and not result.is_error


def _has_content(block: ContentBlock) -> bool:
    """Whether a block is a text, or thinking, that is not empty."""
    return (isinstance(block, TextBlock) and bool(block.text)) or (
        isinstance(block, ThinkingBlock) and bool(block.text or block.signature)
    )
