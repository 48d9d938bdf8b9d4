"""Apply the message that a plugin returned. Plugins may change the content only, not ids, role or metadata."""

import copy
from collections.abc import Callable, Sequence

from dragoman.adapter.requests.encode_cache import is_signed
from dragoman.canonical.blocks import ContentBlock, ProviderBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Alternative, Message
from dragoman.effects.work import Work
from dragoman.policy.errors import TierViolation
from dragoman.policy.slots import Tier

_UNCHANGEABLE = ("id", "session_id", "role", "channel", "created_at", "schema_version", "metadata")


def apply_edit(original: Message, returned: Message, plugin: str, shown: Message | None = None) -> Message:
    """Return the original with the plugin's content, or the original object itself if nothing changed.

    ``shown`` is what the plugin was given; the default is the original.

    Raises TierViolation if the plugin changed anything else, or added a call, a result or a native block. Of calls and
    results it may change the arguments and the content, and it may drop all three. The result shares nothing with
    ``returned``.
    """
    if not isinstance(returned, Message):
        raise TierViolation(plugin, "message", Tier.IMMUTABLE, f"expected a Message, not a {type(returned).__name__}")
    for name in _UNCHANGEABLE:
        if getattr(returned, name) != getattr(shown or original, name):
            raise TierViolation(plugin, f"message.{name}", Tier.IMMUTABLE, "a plugin may change only the content")
    if returned.content == original.content:
        return original
    _check_calls(original.content, returned.content, plugin)
    return replace_content(original, copy.deepcopy(returned.content))


def replace_content(message: Message, content: Sequence[ContentBlock]) -> Message:
    """Return the message with other blocks.

    If their number changes, a ``critical`` mark on single blocks becomes a mark on the whole message: its indexes may
    now mean other blocks.
    """
    metadata = message.metadata
    critical = metadata.critical
    if isinstance(critical, tuple) and len(content) != len(message.content):
        metadata = metadata.model_copy(update={"critical": bool(critical)})
    return message.model_copy(update={"content": tuple(content), "metadata": metadata})


def drop_void_thinking(original: Message, edited: Message) -> Message:
    """Drop the signed thinking that an edit makes invalid: from the first changed block to the end of the message."""
    if edited is original:
        return edited
    unchanged = 0
    for before, after in zip(original.content, edited.content, strict=False):
        if before != after:
            break
        unchanged += 1
    kept = [block for place, block in enumerate(edited.content) if place < unchanged or not is_signed(block)]
    return edited if len(kept) == len(edited.content) else replace_content(edited, kept)


def drop_signed_thinking(message: Message) -> Message:
    """Drop all signed thinking, because a change in an earlier message made the signatures invalid."""
    kept = [block for block in message.content if not is_signed(block)]
    return message if len(kept) == len(message.content) else replace_content(message, kept)


def _check_calls(before: Sequence[ContentBlock], after: Sequence[ContentBlock], plugin: str) -> None:
    known = {block.id: block.name for block in before if isinstance(block, ToolUseBlock)}
    result_ids = {block.tool_use_id for block in before if isinstance(block, ToolResultBlock)}
    natives = [block for block in before if isinstance(block, ProviderBlock)]
    seen: set[str] = set()
    for block in after:
        if isinstance(block, ToolUseBlock):
            if known.get(block.id) != block.name or block.id in seen:
                raise TierViolation(plugin, "message.content", Tier.IMMUTABLE, "the plugin invented a tool call")
            seen.add(block.id)
        elif isinstance(block, ProviderBlock):
            if block not in natives:
                raise TierViolation(plugin, "message.content", Tier.IMMUTABLE, "the plugin invented a native block")
            natives.remove(block)
        elif isinstance(block, ToolResultBlock) and block.tool_use_id not in result_ids:
            raise TierViolation(plugin, "message.content", Tier.IMMUTABLE, "the plugin invented a tool result")


def judge_alternatives(
    reply: Message, alternatives: Sequence[Alternative], judge: Callable[[Message], Work[Message]]
) -> Work[Message]:
    """Return the judged reply with its other answers as ``judge`` leaves each of them. If it denies one, the reply is
    denied. If they change, the provider's raw copy of them is dropped."""
    metadata, judged = reply.metadata, []
    alone = metadata.model_copy(update={"alternatives": None})
    for alternative in alternatives:
        kept = yield from judge(reply.model_copy(update={"content": alternative.content, "metadata": alone}))
        judged.append(alternative.model_copy(update={"content": kept.content}))
    if tuple(judged) == reply.alternatives:
        return reply
    changed = metadata.model_copy(update={"alternatives": tuple(judged), "provider_raw": None})
    return reply.model_copy(update={"metadata": changed})
