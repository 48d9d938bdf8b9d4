"""Errors between plugins and extensions.

PolicyError
├── PolicyDeniedError       a plugin denied a step: nothing was sent, run or shown
├── TierViolation           a plugin changed a slot that it may not change
└── DeclassificationError   labels were not removed: no capability, or no reason

No message holds a value of a slot, because its reader may not be allowed to read the slot.
"""

from dragoman.adapter.errors import DragomanError


class PolicyError(DragomanError):
    """The base class of all policy errors."""


class TierViolation(PolicyError):  # noqa: N818 - the specification's word
    """A plugin changed a slot that its tier or a capability protects. Nothing that the plugin returned was applied."""

    def __init__(self, plugin: str, slot: str, tier: str, detail: str) -> None:
        super().__init__(f"plugin {plugin!r}: slot {slot} is {tier}: {detail}")
        self.plugin = plugin
        self.slot = slot
        self.tier = tier
        self.detail = detail


class PolicyDeniedError(PolicyError):
    """A step was denied. ``hook`` names the step, ``plugin`` the plugin; ``code`` is for programs, ``reason`` for
    people.

    ``description`` holds further details from the plugin. If the plugin failed and a failure denies, the cause is the
    failure.
    """

    def __init__(self, hook: str, plugin: str, code: str, reason: str, description: str = "") -> None:
        super().__init__(f"{hook} is denied by {plugin}: {reason} ({code})")
        self.hook = hook
        self.plugin = plugin
        self.code = code
        self.reason = reason
        self.description = description


class DeclassificationError(PolicyError):
    """Labels were not removed."""
