"""Projects any history onto what one model supports, with every loss recorded (docs/reference/tool-ids.md#projection).

The history is never rewritten: projection returns `Turn`s, views of messages whose blocks may differ from the
message's. The steps run in the order of `project`. Each is deterministic and looks only backwards (except at the end
of the history), so a longer history only appends turns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

from dragoman.adapter.errors import ProjectionError
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.requests import pairing
from dragoman.adapter.requests.block_fields import field_losses, find_lost_hints
from dragoman.adapter.requests.encode_cache import CallKeys
from dragoman.adapter.requests.request_builder import Target, refuse_critical
from dragoman.adapter.requests.turns import CONVERSATION_ROLES, INSTRUCTION_ROLES, SYNTHETIC, Turn
from dragoman.adapter.requests.unsupported_blocks import MediaFilter, call_as_text, flatten_block, result_as_text
from dragoman.adapter.server_tools.native_calls import close_open_calls, flatten_turns, is_paused
from dragoman.canonical.blocks import (
    ContentBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from dragoman.canonical.message import Message, Role

_CONTINUE = "Continue."


@dataclass(slots=True)
class Projection:
    turns: tuple[Turn, ...]
    losses: tuple[Loss, ...]


def project(
    messages: Sequence[Message], target: Target, *, keys: CallKeys | None = None, server_state: bool = False
) -> Projection:
    """Return the turns to send and their losses.

    ``keys`` are the keys of calls before these messages. ``server_state``: the provider stores earlier turns, so
    results may belong to calls that are not in the messages.

    Raises CriticalLossError if a critical block would be lost, and ProjectionError if the model refuses the thinking
    of others.
    """
    losses: list[Loss] = []
    turns: list[Turn] = []
    for message in messages:
        if message.role.is_known:
            turns.append(Turn.of(message))
        else:  # no wire has a place for a role that only a newer version knows
            why = f"the role {message.role!s:.100} is unknown to this version: left out"
            losses.append(Loss(LossKind.ROLE, message.id, SYNTHETIC, why))
    losses += find_lost_hints(messages, marks_cache=target.marks_cache, cites_documents=target.cites_documents)
    turns = flatten_turns(turns, {target.provider, *target.capabilities.native_from}, losses)
    turns = pairing.pair_calls(turns, losses, keep_orphans=server_state, keys=keys)
    if target.capabilities.supports_tools and not target.capabilities.supports_parallel_tool_calls:
        turns = pairing.separate_calls(turns, losses, target.model)
    if not server_state and (rules := target.server_tools.pairs) is not None:
        turns = close_open_calls(turns, rules, target.provider, losses)
    projector = _Projector(target, losses)
    # A turn of plain text has no tools, thinking, media or native blocks: in most histories, that is most of them.
    turns = [
        projector.filter_thinking(projector.flatten_tools(projector.rename_calls(turn))) if turn.text is None else turn
        for turn in turns
    ]
    media = MediaFilter(target.provider, target.model, target.capabilities, losses, projector.to_result_part)
    turns = list(media.filter(turns))
    # Native blocks are for their issuer only; resources and prompts become text.
    turns = [turn if turn.ordinary else turn.map_blocks(partial(projector.to_known_block, turn)) for turn in turns]
    turns = list(projector.map_roles(turns))
    turns = projector.add_opening_turn(list(projector.drop_empty(turns)), messages)
    turns = projector.join_neighbours(turns)
    if projector.has_content(turns, messages):
        turns = projector.add_closing_turn(turns)
    else:
        turns = projector.add_placeholder_turn(turns, messages)
    refuse_critical(messages, losses)
    return Projection(tuple(turns), tuple(losses))


class _Projector:
    def __init__(self, target: Target, losses: list[Loss]) -> None:
        self._target = target
        self._capabilities = target.capabilities
        self._losses = losses

    def rename_calls(self, turn: Turn) -> Turn:
        """Rename calls of tools whose names the provider refuses, as the tools themselves are renamed."""
        rule = self._capabilities.tool_name_rule
        if turn.role is not Role.ASSISTANT:
            return turn

        def change(block: ContentBlock, index: int) -> tuple[ContentBlock, ...]:
            if not isinstance(block, ToolUseBlock) or rule.accepts(block.name):
                return (block,)
            legal_name = rule.make_legal(block.name)
            self._record_loss(turn, index, LossKind.TOOLS, f"the name of a tool is sent as {legal_name}", Severity.INFO)
            return (block.model_copy(update={"name": legal_name}),)

        return turn.map_blocks(change)

    def flatten_tools(self, turn: Turn) -> Turn:
        """Replace calls and results with text if the model does not support tools."""
        if self._capabilities.supports_tools:
            return turn
        why = f"{self._target.model} knows no tools: sent as text"

        def change(block: ContentBlock, index: int) -> tuple[ContentBlock, ...]:
            if isinstance(block, ToolUseBlock) and turn.role is Role.ASSISTANT:
                self._record_loss(turn, index, LossKind.TOOLS, why, Severity.INFO)
                return (call_as_text(block),)
            if isinstance(block, ToolResultBlock) and turn.role is Role.TOOL:
                self._record_loss(turn, index, LossKind.TOOLS, why, Severity.INFO)
                return result_as_text(block)
            return (block,)

        return replace(turn.map_blocks(change), role=Role.USER if turn.role is Role.TOOL else turn.role)

    def filter_thinking(self, turn: Turn) -> Turn:
        """Keep thinking that the model can read; the model's policy decides about the rest."""
        if turn.role is not Role.ASSISTANT or turn.ordinary:
            return turn
        policy = self._capabilities.thinking_policy
        issuer = turn.message.metadata.model
        is_own = policy.can_read(issuer)
        # Thinking that the wire never sends back to its own model is not a loss.
        is_same_model = not is_own and issuer == f"{self._target.provider}:{self._target.model}"

        def is_readable(block: ContentBlock) -> bool:
            if isinstance(block, RedactedThinkingBlock):
                return is_own and policy.sealed
            if isinstance(block, ThinkingBlock):
                return (is_own and (block.signature is not None or policy.own_unsigned)) or (
                    policy.accepts_unsigned and block.signature is None
                )
            return True

        def change(block: ContentBlock, index: int) -> tuple[ContentBlock, ...]:
            if is_readable(block):
                return (block,)
            whose = "earlier thinking" if is_same_model else f"thinking of {issuer or 'unknown origin'}"
            why = f"{self._target.model} cannot read {whose}"
            if policy.foreign == "refuse":
                raise ProjectionError(f"message {turn.message.id}: {why}, and refuses requests that hold any")
            if isinstance(block, ThinkingBlock) and policy.foreign == "text" and block.text.strip():
                self._record_loss(turn, index, LossKind.THINKING, f"{why}: sent as plain text")
                return (TextBlock(text=block.text),)
            is_empty = isinstance(block, ThinkingBlock) and not (block.text or block.signature)
            severity = Severity.INFO if is_empty or is_same_model else Severity.WARNING
            self._record_loss(turn, index, LossKind.THINKING, f"{why}: left out", severity)
            return ()

        return turn.map_blocks(change)

    def to_result_part(self, turn: Turn, part: ContentBlock, index: int) -> tuple[ContentBlock, ...]:
        """Project a block without media of a tool's result, which is at ``index`` of its message."""
        if isinstance(part, TextBlock) and part.citations and not turn.raw(self._target.provider):
            self._record_loss(turn, index, LossKind.CITATIONS, "the sources of a text in a tool's answer are not sent")
            return (part.model_copy(update={"citations": ()}),)
        known = self.to_known_block(turn, part, index)
        if known and known[0].type not in _ALLOWED_IN_RESULTS:
            self._record_loss(turn, index, LossKind.MISPLACED_BLOCK, f"a tool's answer holds no {part.type}")
            return ()
        return known

    def to_known_block(self, turn: Turn, block: ContentBlock, index: int) -> tuple[ContentBlock, ...]:
        """Return the block as a type that the wire supports, if possible."""
        if isinstance(block, ProviderBlock):
            if block.provider == self._target.provider or block.provider in self._capabilities.native_from:
                return (block,)
            why = f"the {block.kind} of {block.provider} means nothing elsewhere"
            self._record_loss(turn, index, LossKind.NATIVE_BLOCK, why)
            return ()
        if isinstance(block, UnknownBlock):
            reason = f"the kind {block.type!r} is unknown to this version"
            self._record_loss(turn, index, LossKind.UNKNOWN_BLOCK, reason)
            return ()
        if flat := flatten_block(block):
            self._record_loss(turn, index, LossKind.FLATTENED, f"{block.type} sent as text", Severity.INFO)
            return (flat,)
        return (block,)

    def map_roles(self, turns: Iterable[Turn]) -> Iterable[Turn]:
        """Replace unsupported roles: developer becomes system, a late system message becomes the user's."""
        leading = True
        for turn in turns:
            if turn.text is not None and turn.role in CONVERSATION_ROLES:
                leading = False
                yield turn
                continue
            if turn.role is Role.DEVELOPER and not self._capabilities.supports_developer_role:
                turn = self._with_role(turn, Role.SYSTEM, "the wire has no developer: sent as the system's")
            if turn.role in INSTRUCTION_ROLES and not self._capabilities.supports_system_prompt:
                turn = self._with_role(turn, Role.USER, "the model takes no system prompt: sent as the user's")
            leading = leading and turn.role in INSTRUCTION_ROLES
            late = turn.role in INSTRUCTION_ROLES and not leading
            if late and not self._capabilities.supports_mid_conversation_system:
                turn = self._with_role(turn, Role.USER, "no system message in mid-conversation: sent as the user's")
            channel = turn.message.channel
            has_channel = turn.role is Role.ASSISTANT and str(channel) in self._capabilities.channels
            if channel is not None and not has_channel and SYNTHETIC not in turn.origins[:1]:
                reason = f"the wire has no {channel} channel"
                self._record_loss(turn, SYNTHETIC, LossKind.CHANNEL, reason, Severity.INFO)
            yield self._drop_misplaced(turn)

    def _with_role(self, turn: Turn, role: Role, reason: str) -> Turn:
        self._record_loss(turn, SYNTHETIC, LossKind.ROLE, reason, Severity.INFO)
        return replace(turn, role=role)

    def _drop_misplaced(self, turn: Turn) -> Turn:
        """Leave out blocks that a role may not hold on any wire; see `_ALLOWED_BY_ROLE`."""
        allowed = _ALLOWED_BY_ROLE[turn.role]

        def change(block: ContentBlock, index: int) -> tuple[ContentBlock, ...]:
            if block.type in allowed:
                return (block,)
            self._record_loss(turn, index, LossKind.MISPLACED_BLOCK, f"a {turn.role} message holds no {block.type}")
            return ()

        return turn.map_blocks(change)

    def drop_empty(self, turns: Iterable[Turn]) -> Iterable[Turn]:
        """Drop empty texts if the wire refuses them, and messages without content."""
        accepts_empty = bool(self._capabilities.supports_empty_text)
        for turn in turns:
            if not (accepts_empty or turn.ordinary):
                turn = turn.map_blocks(partial(self._drop_if_empty, turn))
            if turn.blocks or (accepts_empty and not turn.message.content and turn.role is not Role.TOOL):
                yield turn
            elif turn.message.content or turn.role not in INSTRUCTION_ROLES:
                self._record_loss(
                    turn, SYNTHETIC, LossKind.EMPTY_MESSAGE, f"a {turn.role} message without content", Severity.INFO
                )

    def _drop_if_empty(self, turn: Turn, block: ContentBlock, index: int) -> tuple[ContentBlock, ...]:
        # The provider's own messages go back unchanged: a change would void signed thinking after them.
        own = bool(turn.raw(self._target.provider))

        def has_words(part: ContentBlock) -> bool:
            return not isinstance(part, TextBlock) or bool(part.text.strip()) or (own and bool(part.text))

        kept: tuple[ContentBlock, ...] = (block,) if has_words(block) else ()
        # A result with nothing but one empty text is an empty result, which every wire supports.
        if isinstance(block, ToolResultBlock) and len(block.content) > 1 and not all(map(has_words, block.content)):
            kept = (block.model_copy(update={"content": tuple(filter(has_words, block.content))}),)
        if not (kept and kept[0] is block):
            why = f"{self._target.model} takes no text without words"
            self._record_loss(turn, index, LossKind.EMPTY_TEXT, why, Severity.INFO)
        return kept

    def add_opening_turn(self, turns: list[Turn], messages: Sequence[Message]) -> list[Turn]:
        """Add a user's turn before mid-conversation instructions that would otherwise become the first turn.

        Leading instructions have another place on many wires and must not change.
        """
        leading = {id(message) for message in takewhile(lambda message: message.role in INSTRUCTION_ROLES, messages)}
        position = next((index for index, turn in enumerate(turns) if id(turn.message) not in leading), len(turns))
        if position == len(turns) or turns[position].role not in INSTRUCTION_ROLES:
            return turns
        why = "nothing is left of what was said before it: a user's turn is added"
        self._record_loss(turns[position], SYNTHETIC, LossKind.EMPTY_MESSAGE, why, Severity.INFO)
        opening = Turn.synthetic(turns[position].message, Role.USER, (TextBlock(text=_CONTINUE),))
        return [*turns[:position], opening, *turns[position:]]

    def join_neighbours(self, turns: list[Turn]) -> list[Turn]:
        """Join neighbouring messages of the assistant if results must directly follow the message with the calls."""
        if self._capabilities.supports_neighbours:
            return turns
        joined: list[Turn] = []
        for turn in turns:
            before = joined[-1] if joined else None
            if turn.role is Role.ASSISTANT and before is not None and before.has_calls:
                reason = "neighbouring messages of the assistant are sent as one"
                self._record_loss(turn, SYNTHETIC, LossKind.FLATTENED, reason, Severity.INFO)
                if turn.raw(self._target.provider):
                    self._losses += field_losses(turn.message, "a message of its own")
                origins = (SYNTHETIC,) * len(turn.blocks)
                joined[-1] = replace(before, blocks=before.blocks + turn.blocks, origins=before.origins + origins)
            else:
                joined.append(turn)
        return joined

    def add_closing_turn(self, turns: list[Turn]) -> list[Turn]:
        """Add a user's turn if the last turn may not be the assistant's."""
        last, target = turns[-1] if turns else None, self._target
        if last is None or self._capabilities.supports_prefill or is_paused(last, target.server_tools, target.provider):
            return turns
        if last.role is Role.ASSISTANT:
            reason = "the model does not continue its own message: a user's turn is added"
            self._record_loss(last, SYNTHETIC, LossKind.PREFILL, reason, Severity.INFO)
            return [*turns, Turn.synthetic(last.message, Role.USER, (TextBlock(text=_CONTINUE),))]
        return turns

    def has_content(self, turns: Sequence[Turn], messages: Sequence[Message]) -> bool:
        """Whether any turn is left besides instructions.

        A history of instructions alone is kept if the wire accepts them anywhere and the history came from it.
        """
        if all(message.role in INSTRUCTION_ROLES for message in messages):
            anywhere = (
                self._capabilities.supports_system_messages_in_list
                and self._capabilities.supports_mid_conversation_system
            )
            return bool(anywhere and turns) and all(turn.raw(self._target.provider) for turn in turns)
        return any(turn.role not in INSTRUCTION_ROLES for turn in turns)

    def add_placeholder_turn(self, turns: list[Turn], messages: Sequence[Message]) -> list[Turn]:
        """Add a user's turn if nothing is left of the history: no provider accepts an empty request."""
        if not messages:
            return []
        placeholder = Turn.synthetic(messages[-1], Role.USER, (TextBlock(text=_CONTINUE),))
        reason = "nothing is left to send: a user's turn is added"
        self._record_loss(placeholder, SYNTHETIC, LossKind.EMPTY_MESSAGE, reason, Severity.INFO)
        return [*turns, placeholder]

    def _record_loss(
        self, turn: Turn, index: int, kind: LossKind, reason: str, severity: Severity = Severity.WARNING
    ) -> None:
        self._losses.append(turn.loss(index, kind, reason, severity))


_MEDIA_TYPES = {"image", "audio", "video", "document"}
_ALLOWED_IN_RESULTS = {"text", "provider", *_MEDIA_TYPES}
_ALLOWED_BY_ROLE: dict[Role, set[str]] = {
    Role.USER: {"text", "provider", *_MEDIA_TYPES},
    Role.ASSISTANT: {"text", "tool_use", "thinking", "redacted_thinking", "provider", *_MEDIA_TYPES},
    Role.SYSTEM: {"text", "provider"},
    Role.DEVELOPER: {"text", "provider", *_MEDIA_TYPES},
    Role.TOOL: {"tool_result", "provider"},
}
