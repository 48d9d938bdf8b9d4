"""Apply what a plugin returned, and enforce what it may change: of a message the content only, not ids, role or
metadata; of the extensions what the tiers allow. Source: docs/reference/cmf.md#merging.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeVar

from pydantic import ValidationError

from dragoman.adapter.requests.prefix_ledger import is_signed
from dragoman.canonical.blocks import ContentBlock, FrozenModel, ProviderBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.security import SecurityExtension, SubjectExtension
from dragoman.canonical.extensions.slots import DelegationExtension, DelegationHop, HttpExtension
from dragoman.canonical.message import Alternative, Message
from dragoman.effects import Work
from dragoman.policy.errors import TierViolation
from dragoman.policy.filtering import FilterCache
from dragoman.policy.slots import SLOTS, Capability, Slot, Tier, expand_capabilities

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
    blocks = zip(original.content, edited.content, strict=False)
    return drop_signed_thinking(edited, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], blocks)))


def drop_signed_thinking(message: Message, unchanged: int = 0) -> Message:
    """Drop the signed thinking after so many blocks, because a change before it made the signatures invalid."""
    kept = [block for place, block in enumerate(message.content) if place < unchanged or not is_signed(block)]
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


Model = TypeVar("Model", bound=FrozenModel)

_NOT_CHANGEABLE = "a plugin can neither change nor invent it"


def merge_extensions(
    original: Extensions | None,
    returned: Extensions | None,
    capabilities: Iterable[Capability | str],
    *,
    plugin: str = "plugin",
    may_write: bool = True,
) -> Extensions | None:
    """Return the original with the changes that the tiers and the plugin's capabilities allow.

    ``returned`` is compared with a fresh copy of what the plugin was given, so a change in place is found like any
    other. A slot that is None or empty in ``returned`` stays as it was and counts as unchanged; only custom may be
    deleted. ``may_write`` says whether the plugin may change messages. If so, it may add labels without append_labels;
    if not, adding labels is all that it may do. Without a change the original object is returned.

    Raises TierViolation for the first change that is not allowed; then nothing is merged.
    """
    granted = expand_capabilities(capabilities)
    if returned is None:
        return original
    if not isinstance(returned, Extensions):
        raise TierViolation(
            plugin, "extensions", Tier.IMMUTABLE, f"expected Extensions, not a {type(returned).__name__}"
        )
    merge = _Merge(original or Extensions(), granted, plugin, may_write)
    try:
        changes = merge.find_changes(returned)
    except TierViolation:
        raise
    except Exception as error:  # a class defined by the plugin may run any code while it is read
        detail = f"the returned value cannot be read: {type(error).__name__}"
        raise TierViolation(plugin, "extensions", Tier.IMMUTABLE, detail) from None
    return merge.original.model_copy(update=changes) if changes else original


@dataclass(frozen=True, slots=True)
class _Merge:
    original: Extensions
    granted: frozenset[Capability]
    plugin: str
    may_write: bool

    def find_changes(self, returned: Extensions) -> dict[str, Any]:
        """Return the merged values of the slots that differ from what the plugin was given."""
        shown, changes = FilterCache().get_for_plugin(self.original, self.granted), dict[str, Any]()
        for name in {**Extensions.model_fields, **type(returned).model_fields, **(returned.model_extra or {})}:
            before, after = getattr(shown, name, None), getattr(returned, name, None)
            if name == "security":
                self._security(before, after, changes)
            elif name == "custom":
                if after != before:
                    self._require_write("custom", SLOTS["custom"])
                    changes["custom"] = self._rebuild("custom", Extensions, {"custom": after}).custom
            elif after is not None and after != before:
                slot = SLOTS.get(name, Slot(Tier.IMMUTABLE))
                if slot.write is None:
                    raise self._violation(name, _NOT_CHANGEABLE)
                self._require_write(name, slot)
                if name == "http":
                    changes[name] = self._rebuild(name, HttpExtension, after)
                else:
                    changes[name] = self._delegation(self._rebuild(name, DelegationExtension, after))
        return changes

    def _require_write(self, name: str, slot: Slot) -> None:
        if not self.may_write:
            raise self._violation(name, "a plugin of this mode may only read")
        if slot.write is not None and slot.write not in self.granted:
            raise self._violation(name, f"changing it requires {slot.write}")

    def _delegation(self, after: DelegationExtension) -> DelegationExtension:
        """Append the new hops here: fields derived from the chain are not taken from the plugin."""
        extended = self.original.delegation or DelegationExtension()
        known = len(extended.chain)
        if after.chain[:known] != extended.chain or len(after.chain) == known:
            raise self._violation("delegation", "hops can only be appended to the chain")
        for hop in after.chain[known:]:
            extended = extended.with_new_hop(hop)
        if after.origin_subject_id not in (None, extended.origin_subject_id):
            raise self._violation("delegation", "the origin is fixed by the first hop")
        return extended

    def _security(self, before: SecurityExtension | None, after: Any, changes: dict[str, Any]) -> None:
        if after is None:
            return
        before = before or SecurityExtension()
        if not isinstance(after, SecurityExtension):
            raise self._violation("security.labels", "the new value is not a SecurityExtension")
        for name in ("classification", "subject", "objects", "data"):
            value, original = getattr(after, name, None), getattr(before, name)
            if value is not None and value != {} and value != original:
                is_subject = isinstance(original, SubjectExtension) and isinstance(value, SubjectExtension)
                fields = SubjectExtension.model_fields if is_subject else ()
                changed = (f".{each}" for each in fields if getattr(original, each) != getattr(value, each, None))
                raise self._violation(f"security.{name}{next(changed, '')}", _NOT_CHANGEABLE)
        labels = self._rebuild("security.labels", SecurityExtension, {"labels": getattr(after, "labels", ())}).labels
        if not before.labels <= labels:
            raise self._violation("security.labels", "only an explicit declassification removes labels")
        security = self.original.security or SecurityExtension()
        if labels <= security.labels:
            return
        if not self.may_write and Capability.APPEND_LABELS not in self.granted:
            raise self._violation("security.labels", f"a plugin that only reads needs {Capability.APPEND_LABELS}")
        changes["security"] = security.model_copy(update={"labels": security.labels | labels})

    def _rebuild(self, slot: str, kind: type[Model], value: Any) -> Model:
        """Rebuild and validate the value, so that the plugin keeps no reference to it."""
        try:
            fields = {name: getattr(value, name) for name in kind.model_fields} if isinstance(value, kind) else value
            return kind.model_validate(_to_plain(fields))
        except (ValidationError, AttributeError):
            raise self._violation(slot, "the new value is not valid") from None

    def _violation(self, slot: str, detail: str) -> TierViolation:
        return TierViolation(self.plugin, slot, SLOTS.get(slot, Slot(Tier.IMMUTABLE)).tier, detail)


def _to_plain(value: Any) -> Any:
    """Convert models to dicts, so that validation builds new ones instead of sharing them."""
    if isinstance(value, DelegationHop):
        return {name: getattr(value, name) for name in DelegationHop.model_fields}
    if isinstance(value, dict):
        return {key: _to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item) for item in value]
    return value
