"""What goes wrong between plugins and extensions.

PolicyError
├── PolicyDeniedError       a plugin refused a step: nothing of it was sent, run or shown
├── TierViolation           a plugin changed what it may not change
└── DeclassificationError   labels were to be removed without the capability, or without a reason

No message holds a value of a slot: who reads it may not be allowed to read the slot.
"""

from dragoman.adapter.errors import DragomanError


class PolicyError(DragomanError):
    """The root of the errors of policies."""


class TierViolation(PolicyError):  # noqa: N818 - the specification's word
    """A plugin changed a slot that its tier or its capabilities protect. Nothing of what it returned was taken over."""

    def __init__(self, plugin: str, slot: str, tier: str, detail: str) -> None:
        super().__init__(f"plugin {plugin!r}: slot {slot} is {tier}: {detail}")
        self.plugin = plugin
        self.slot = slot
        self.tier = tier
        self.detail = detail


class PolicyDeniedError(PolicyError):
    """A step was stopped. ``hook`` says which, ``plugin`` by whom; ``code`` is for programs, ``reason`` for people.

    ``description`` is what else the plugin says. Where a plugin failed, and failing denies, the failure is the cause.
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
