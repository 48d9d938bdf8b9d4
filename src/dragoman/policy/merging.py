"""Merge the extensions that a plugin returned, and enforce what it may change. Source:
docs/reference/cmf.md#merging.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import ValidationError

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.security import SecurityExtension, SubjectExtension
from dragoman.canonical.extensions.slots import DelegationExtension, DelegationHop, HttpExtension
from dragoman.policy.errors import TierViolation
from dragoman.policy.filtering import filter_extensions
from dragoman.policy.slots import SLOTS, Capability, Slot, Tier, expand_capabilities

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
    comparison = _Merge(original or Extensions(), returned, granted, plugin, may_write)
    try:
        return comparison.merge(original)
    except TierViolation:
        raise
    except Exception as error:  # a class defined by the plugin may run any code while it is read
        detail = f"the returned value cannot be read: {type(error).__name__}"
        raise TierViolation(plugin, "extensions", Tier.IMMUTABLE, detail) from None


class _Merge:
    def __init__(
        self,
        original: Extensions,
        returned: Extensions,
        granted: frozenset[Capability],
        plugin: str,
        may_write: bool,
    ) -> None:
        self._original = original
        self._returned = returned
        self._shown = filter_extensions(original, granted) or Extensions()
        self._granted = granted
        self._plugin = plugin
        self._may_write = may_write

    def merge(self, original: Extensions | None) -> Extensions | None:
        changes: dict[str, Any] = {}
        for name in {
            **Extensions.model_fields,
            **type(self._returned).model_fields,
            **(self._returned.model_extra or {}),
        }:
            before, after = getattr(self._shown, name, None), getattr(self._returned, name, None)
            if name == "security":
                self._security(before, after, changes)
            elif name == "custom":
                self._custom(before, after, changes)
            elif after is not None and after != before:
                changes[name] = self._merge_slot(name, after)
        if not changes:
            return original
        return self._original.model_copy(update=changes)

    def _merge_slot(self, name: str, after: Any) -> Any:
        """Return the merged value of a slot that differs from what the plugin was given."""
        slot = SLOTS.get(name, Slot(Tier.IMMUTABLE))
        if slot.write is None:
            raise self._violation(name, _NOT_CHANGEABLE)
        self._require_write(name, slot)
        if name == "http":
            return self._rebuild(name, HttpExtension, after)
        return self._delegation(self._rebuild(name, DelegationExtension, after))

    def _require_write(self, name: str, slot: Slot) -> None:
        if not self._may_write:
            raise self._violation(name, "a plugin of this mode may only read")
        if slot.write is not None and slot.write not in self._granted:
            raise self._violation(name, f"changing it requires {slot.write}")

    def _delegation(self, after: DelegationExtension) -> DelegationExtension:
        """Append the new hops here: fields derived from the chain are not taken from the plugin."""
        extended = self._original.delegation or DelegationExtension()
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
                raise self._violation(_changed_path(name, original, value), _NOT_CHANGEABLE)
        labels = self._rebuild("security.labels", SecurityExtension, {"labels": getattr(after, "labels", ())}).labels
        if not before.labels <= labels:
            raise self._violation("security.labels", "only an explicit declassification removes labels")
        security = self._original.security or SecurityExtension()
        if labels <= security.labels:
            return
        if not self._may_write and Capability.APPEND_LABELS not in self._granted:
            raise self._violation("security.labels", f"a plugin that only reads needs {Capability.APPEND_LABELS}")
        changes["security"] = security.model_copy(update={"labels": security.labels | labels})

    def _custom(self, before: Any, after: Any, changes: dict[str, Any]) -> None:
        if after == before:
            return
        self._require_write("custom", SLOTS["custom"])
        changes["custom"] = self._rebuild("custom", Extensions, {"custom": after}).custom

    def _rebuild(self, slot: str, kind: type[Model], value: Any) -> Model:
        """Rebuild and validate the value, so that the plugin keeps no reference to it."""
        try:
            fields = {name: getattr(value, name) for name in kind.model_fields} if isinstance(value, kind) else value
            return kind.model_validate(_to_plain(fields))
        except (ValidationError, AttributeError):
            raise self._violation(slot, "the new value is not valid") from None

    def _violation(self, slot: str, detail: str) -> TierViolation:
        return TierViolation(self._plugin, slot, SLOTS.get(slot, Slot(Tier.IMMUTABLE)).tier, detail)


def _changed_path(name: str, original: Any, value: Any) -> str:
    """Return the path of the changed slot in the table."""
    if isinstance(original, SubjectExtension) and isinstance(value, SubjectExtension):
        for field in SubjectExtension.model_fields:
            if getattr(original, field) != getattr(value, field, None):
                return f"security.subject.{field}"
    return f"security.{name}"


def _to_plain(value: Any) -> Any:
    """Convert models to dicts, so that validation builds new ones instead of sharing them."""
    if isinstance(value, DelegationHop):
        return {name: getattr(value, name) for name in DelegationHop.model_fields}
    if isinstance(value, dict):
        return {key: _to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item) for item in value]
    return value
