"""The extensions that a plugin may read. Source: docs/reference/cmf.md#filtering."""

import copy
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import BaseModel

from dragoman.canonical.blocks import replace_fields
from dragoman.canonical.extensions.extensions import AgentExtension, Extensions
from dragoman.canonical.extensions.security import SecurityExtension, SubjectExtension
from dragoman.canonical.frozen import freeze, thaw
from dragoman.canonical.message import Message
from dragoman.policy.slots import SLOTS, Capability, expand_capabilities

_GATED_METADATA: dict[str, Capability | None] = {
    "provider_raw": None,
    "alternatives": None,
    "user_id": Capability.READ_SUBJECT,
    "team_id": Capability.READ_TEAMS,
    "labels": Capability.READ_LABELS,
}
"""The capability that shows a field of the metadata; None: no plugin sees it."""


def filter_extensions(extensions: Extensions | None, capabilities: Iterable[Capability | str]) -> Extensions | None:
    """Return a copy with only what these capabilities allow to read; None stays None.

    It starts empty and copies what the table of slots allows, so a slot that is missing in the table stays hidden. The
    copy shares nothing with the original. Raises ConfigurationError for an unknown capability, and TypeError if the
    extensions are of another type.
    """
    granted = expand_capabilities(capabilities)
    if extensions is None:
        return None
    if not isinstance(extensions, Extensions):
        raise TypeError(f"expected Extensions, not a {type(extensions).__name__}")
    return FilterCache().get_for_plugin(extensions, granted)


def filter_message(message: Message, granted: frozenset[Capability]) -> Message:
    """Return the message with the metadata that these capabilities allow to read.

    ``provider_raw`` and the alternatives are hidden: each alternative is judged as a message of its own.
    The session needs read_agent, the user read_subject, the team read_teams and the labels read_labels.
    """
    metadata = message.metadata
    gated = _GATED_METADATA.items()
    hidden = {name: None for name, gate in gated if getattr(metadata, name) is not None and gate not in granted}
    changes: dict[str, Any] = {"metadata": replace_fields(metadata, hidden)} if hidden else {}
    if message.session_id and Capability.READ_AGENT not in granted:
        changes["session_id"] = ""
    return replace_fields(message, changes)


class FilterCache:
    """Copies each slot once, and uses the copy until the slot changes: most stay the same from message to message.

    Slots are deeply frozen, except ``custom``, which is copied for each step.
    """

    def __init__(self) -> None:
        self._copies: dict[Any, tuple[Any, Any]] = {}
        """The last original and its copy, by slot and, if they matter, capabilities."""
        self._last: tuple[Extensions | None, dict[frozenset[Capability], Extensions]] = (None, {})

    def get(self, extensions: Extensions | None, capabilities: frozenset[Capability]) -> Extensions:
        """Return what these capabilities allow to read."""
        last, known = self._last
        if last is not extensions:
            known = {}
            self._last = (extensions, known)
        if (found := known.get(capabilities)) is None:
            found = known[capabilities] = self._filter(extensions, capabilities)
        return found

    def get_for_plugin(self, extensions: Extensions | None, capabilities: frozenset[Capability]) -> Extensions:
        """As `get`, with a copy of ``custom`` of its own."""
        shared = self.get(extensions, capabilities)
        return shared if shared.custom is None else replace_fields(shared, {"custom": thaw(shared.custom)})

    def _filter(self, extensions: Extensions | None, granted: frozenset[Capability]) -> Extensions:
        visible: dict[str, Any] = {}
        for name in () if extensions is None else Extensions.model_fields:
            if (value := getattr(extensions, name)) is None or not (name == "security" or _is_visible(name, granted)):
                continue
            filter_slot = _FILTERS.get(name)
            key = name if filter_slot is None else (name, granted)
            known = self._copies.get(key)
            if known is None or known[0] is not value:
                shown = _copy_slot(value) if filter_slot is None else filter_slot(value, granted)
                known = self._copies[key] = (value, shown)
            visible[name] = known[1]
        return _NO_EXTENSIONS.model_copy(update=visible)  # a copy even if nothing is visible: nobody shares it


_NO_EXTENSIONS = Extensions()
_FLAT = (str, int, float, type(None))


def _copy_slot(slot: Any) -> Any:
    """Copy a slot. One with texts and numbers only has nothing inside that a copy could share."""
    if isinstance(slot, BaseModel) and all(isinstance(value, _FLAT) for value in slot.__dict__.values()):
        return BaseModel.model_copy(slot)
    return copy.deepcopy(slot)


def _filter_agent(agent: AgentExtension, granted: frozenset[Capability]) -> AgentExtension:
    """Hide in the earlier messages what is hidden in the message of a step."""
    agent = copy.deepcopy(agent)
    if agent.conversation is None or not agent.conversation.history:
        return agent
    history = freeze([filter_message(message, granted) for message in agent.conversation.history])
    return replace_fields(agent, {"conversation": replace_fields(agent.conversation, {"history": history})})


def _filter_security(security: SecurityExtension, granted: frozenset[Capability]) -> SecurityExtension:
    visible = _filter_fields(security, SecurityExtension, "security", granted)
    if visible.get("subject") is not None:
        visible["subject"] = SubjectExtension(
            **_filter_fields(visible["subject"], SubjectExtension, "security.subject", granted)
        )
    return SecurityExtension(**visible)


_FILTERS: dict[str, Callable[[Any, frozenset[Capability]], Any]] = {
    "security": _filter_security,
    "agent": _filter_agent,
}
"""The slots of which a plugin may see a part."""


def _filter_fields(
    model: Any, kind: type[SecurityExtension | SubjectExtension], path: str, granted: frozenset[Capability]
) -> dict[str, Any]:
    return {
        name: copy.deepcopy(getattr(model, name))
        for name in kind.model_fields
        if _is_visible(f"{path}.{name}", granted)
    }


def _is_visible(path: str, granted: frozenset[Capability]) -> bool:
    slot = SLOTS.get(path)
    return slot is not None and (slot.read is None or slot.read in granted)
