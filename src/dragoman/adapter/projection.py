"""Projection: any history onto what one model can be sent, with every loss named (DESIGN section 5).

The history itself is never rewritten: projection yields `Turn`s, views of messages whose blocks may be fewer, or
others, than the message holds. The steps apply in the order of their names in `project`; each is deterministic and
looks only backwards (except at the very end of the history), so a longer history only appends turns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dragoman.adapter import pairing
from dragoman.adapter.capabilities import EMULATED, AdapterCapabilities
from dragoman.adapter.errors import CriticalLossError
from dragoman.adapter.flatten import flatten_block
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.turns import Turn
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    UnknownBlock,
    VideoBlock,
)
from dragoman.canonical.message import Message, Role

_MEDIA_FLAGS = {
    ImageBlock: "supports_images",
    AudioBlock: "supports_audio",
    VideoBlock: "supports_video",
    DocumentBlock: "supports_documents",
}
Media = ImageBlock | AudioBlock | VideoBlock | DocumentBlock

_CONTINUE = "Continue."


@dataclass(frozen=True, slots=True)
class Target:
    """Who the history is for. ``server_state``: earlier turns live at the provider, so calls may be out of sight."""

    provider: str
    model: str
    capabilities: AdapterCapabilities
    server_state: bool = False


@dataclass(frozen=True, slots=True)
class Projection:
    turns: tuple[Turn, ...]
    losses: tuple[Loss, ...]


def project(messages: Sequence[Message], target: Target) -> Projection:
    """The turns to send and what they lost. Raises CriticalLossError where a critical block would be lost."""
    losses: list[Loss] = []
    turns = [Turn.of(message) for message in messages]
    turns = pairing.pair(turns, losses, keep_orphans=target.server_state)
    projector = _Projector(target, losses)
    turns = [projector.thinking(turn) for turn in turns]
    turns = list(projector.media(turns))
    turns = [projector.native(turn) for turn in turns]
    turns = list(projector.roles(turns))
    turns = list(projector.empty(turns))
    turns = projector.prefill(turns)
    _refuse_critical(messages, losses)
    return Projection(tuple(turns), tuple(losses))


def _refuse_critical(messages: Sequence[Message], losses: Iterable[Loss]) -> None:
    critical = {message.id: message.metadata.critical for message in messages if message.metadata.critical}
    for loss in losses:
        marked = critical.get(loss.message_id, False)
        if loss.severity is Severity.WARNING and (marked is True or (marked and loss.block_index in marked)):
            raise CriticalLossError(
                f"block {loss.block_index} of message {loss.message_id} is marked critical and would be lost:"
                f" {loss.reason}"
            )


class _Projector:
    def __init__(self, target: Target, losses: list[Loss]) -> None:
        self._target = target
        self._abilities = target.capabilities
        self._losses = losses

    def thinking(self, turn: Turn) -> Turn:
        """Thinking goes back to whoever can read it; what foreign thinking becomes is the model's policy."""
        if turn.role is not Role.ASSISTANT:
            return turn
        policy = self._abilities.thinking_policy
        issuer = turn.message.metadata.model
        own = policy.reads(issuer)

        def readable(block: ContentBlock) -> bool:
            if isinstance(block, RedactedThinkingBlock):
                return own
            if isinstance(block, ThinkingBlock):
                return (own and (block.signature is not None or policy.accepts_unsigned)) or (
                    policy.accepts_unsigned and block.signature is None
                )
            return True

        def change(block: ContentBlock, index: int) -> tuple[ContentBlock, ...]:
            if readable(block):
                return (block,)
            why = f"{self._target.model} cannot read thinking of {issuer or 'unknown origin'}"
            if isinstance(block, ThinkingBlock) and policy.foreign == "text" and block.text.strip():
                self._lose(turn, index, LossKind.THINKING, f"{why}: sent as plain text")
                return (TextBlock(text=block.text),)
            self._lose(turn, index, LossKind.THINKING, f"{why}: left out")
            return ()

        return turn.mapped(change)

    def media(self, turns: Iterable[Turn]) -> Iterable[Turn]:
        """Media that the model does not take becomes a short note; media in tool answers may move behind them."""
        moved: list[ContentBlock] = []
        behind: Turn | None = None
        for turn in turns:
            if turn.role is not Role.TOOL and behind is not None:
                yield Turn.made(behind.message, Role.USER, tuple(moved))
                moved, behind = [], None
            fitted, follows = self._media_of(turn)
            if follows:
                moved += follows
                behind = turn
            yield fitted
        if behind is not None:
            yield Turn.made(behind.message, Role.USER, tuple(moved))

    def _media_of(self, turn: Turn) -> tuple[Turn, list[ContentBlock]]:
        """The turn with media that the model takes, and the media that must follow it in a user's turn."""
        follows: list[ContentBlock] = []

        def change(block: ContentBlock, index: int) -> tuple[ContentBlock, ...]:
            if isinstance(block, ToolResultBlock):
                return (self._result(turn, block, index, follows),)
            if isinstance(block, Media) and (why := self._unsupported(block)):
                return (self._left_out(turn, block, index, why),)
            return (block,)

        return turn.mapped(change), follows

    def _result(self, turn: Turn, block: ToolResultBlock, index: int, follows: list[ContentBlock]) -> ToolResultBlock:
        support = self._abilities.supports_tool_result_media
        parts: list[ContentBlock] = []
        for part in block.content:
            if not isinstance(part, Media):
                parts.append(flatten_block(part) or part)
            elif why := self._unsupported(part):
                parts.append(self._left_out(turn, part, index, why))
            elif support is EMULATED:
                self._lose(turn, index, LossKind.FLATTENED, f"the tool's {part.type} follows its answer", Severity.INFO)
                parts.append(TextBlock(text=f"[{part.type} follows]"))
                follows.append(part)
            elif not support:
                why = f"{self._target.model} takes no {part.type} in a tool's answer"
                parts.append(self._left_out(turn, part, index, why))
            else:
                parts.append(part)
        content = tuple(parts)
        return block if content == block.content else block.model_copy(update={"content": content})

    def _left_out(self, turn: Turn, block: Media, index: int, why: str) -> TextBlock:
        self._lose(turn, index, LossKind.MEDIA, why)
        return TextBlock(text=f"[{block.type} left out: {why}]")

    def _unsupported(self, block: Media) -> str | None:
        model = self._target.model
        if not getattr(self._abilities, _MEDIA_FLAGS[type(block)]):
            return f"{model} takes no {block.type}"
        source = block.source
        if source.kind == "url" and not self._abilities.supports_media_urls:
            return f"{model} takes no media by URL"
        if source.kind == "file_id" and source.provider not in (self._target.provider, None):
            return f"the file is kept by {source.provider}"
        if source.kind == "file_ref":
            return "the file was not read before the request was made"
        accepted = self._abilities.accepted_image_media_types
        if isinstance(block, ImageBlock) and block.media_type and accepted and block.media_type not in accepted:
            return f"{model} takes no {block.media_type}"
        return None

    def native(self, turn: Turn) -> Turn:
        """Native blocks go to their issuer alone; resources and prompts become text."""

        def change(block: ContentBlock, index: int) -> tuple[ContentBlock, ...]:
            if isinstance(block, ProviderBlock):
                if block.provider == self._target.provider or block.provider in self._abilities.native_from:
                    return (block,)
                self._lose(
                    turn,
                    index,
                    LossKind.NATIVE_BLOCK,
                    f"the {block.kind} of {block.provider} means nothing elsewhere",
                )
                return ()
            if isinstance(block, UnknownBlock):
                self._lose(turn, index, LossKind.UNKNOWN_BLOCK, f"the kind {block.type!r} is unknown to this version")
                return ()
            if flat := flatten_block(block):
                self._lose(turn, index, LossKind.FLATTENED, f"{block.type} sent as text", Severity.INFO)
                return (flat,)
            return (block,)

        return turn.mapped(change)

    def roles(self, turns: Iterable[Turn]) -> Iterable[Turn]:
        """Roles that the wire lacks: developer becomes system, a late system message a user's."""
        leading = True
        for turn in turns:
            if turn.role is Role.DEVELOPER and not self._abilities.supports_developer_role:
                turn = replace(turn, role=Role.SYSTEM)
            if turn.role is Role.SYSTEM and not self._abilities.supports_system_prompt:
                self._lose(
                    turn,
                    -1,
                    LossKind.ROLE,
                    "the model takes no system prompt: sent as the user's",
                    Severity.INFO,
                )
                turn = replace(turn, role=Role.USER)
            leading = leading and turn.role in (Role.SYSTEM, Role.DEVELOPER)
            if (
                not leading
                and turn.role in (Role.SYSTEM, Role.DEVELOPER)
                and not self._abilities.supports_mid_conversation_system
            ):
                self._lose(
                    turn,
                    -1,
                    LossKind.ROLE,
                    "no system message in mid-conversation: sent as the user's",
                    Severity.INFO,
                )
                turn = replace(turn, role=Role.USER)
            yield self._fitting(turn)

    def _fitting(self, turn: Turn) -> Turn:
        """Blocks that a role may not hold on any wire are left out (see the table in `rules`)."""
        allowed = _ALLOWED[turn.role]

        def change(block: ContentBlock, index: int) -> tuple[ContentBlock, ...]:
            if block.type in allowed:
                return (block,)
            self._lose(turn, index, LossKind.MISPLACED_BLOCK, f"a {turn.role} message holds no {block.type}")
            return ()

        return turn.mapped(change)

    def empty(self, turns: Iterable[Turn]) -> Iterable[Turn]:
        """Empty texts go where the wire refuses them; a message that holds nothing is not sent."""
        for turn in turns:
            if not self._abilities.supports_empty_text:
                turn = turn.mapped(
                    lambda block, _: () if isinstance(block, TextBlock) and not block.text.strip() else (block,)
                )
            if turn.blocks or (turn.message.content == () and self._abilities.supports_empty_text):
                yield turn
            elif turn.role is not Role.SYSTEM:
                self._lose(turn, -1, LossKind.EMPTY_MESSAGE, f"a {turn.role} message without content", Severity.INFO)

    def prefill(self, turns: list[Turn]) -> list[Turn]:
        """Where the last word may not be the assistant's, the user asks it to go on."""
        if turns and turns[-1].role is Role.ASSISTANT and not self._abilities.supports_prefill:
            last = turns[-1]
            self._lose(
                last, -1, LossKind.PREFILL, "the model does not continue its own message: a user's turn is added",
                Severity.INFO,
            )  # fmt: skip
            return [*turns, Turn.made(last.message, Role.USER, (TextBlock(text=_CONTINUE),))]
        return turns

    def _lose(self, turn: Turn, index: int, kind: LossKind, reason: str, severity: Severity = Severity.WARNING) -> None:
        content = turn.message.content
        block_type = content[index].type if 0 <= index < len(content) else ""
        self._losses.append(Loss(kind, turn.message.id, index, reason, severity, block_type))


_MEDIA = {"image", "audio", "video", "document"}
_ALLOWED: dict[Role, set[str]] = {
    Role.USER: {"text", "provider", *_MEDIA},
    Role.ASSISTANT: {"text", "tool_use", "thinking", "redacted_thinking", "provider", *_MEDIA},
    Role.SYSTEM: {"text", "provider"},
    Role.DEVELOPER: {"text", "provider", *_MEDIA},
    Role.TOOL: {"tool_result", "provider"},
}
