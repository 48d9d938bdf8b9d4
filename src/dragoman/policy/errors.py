"""Errors of a policy: of its plugins, and of the labels that it protects.

PolicyError
├── PolicyDeniedError       a plugin denied a step: nothing was sent, run or shown
├── TierViolation           a plugin changed a slot that it may not change
└── DeclassificationError   labels were not removed: the grant, the actor or the reason is missing

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
        """The name of the plugin."""
        self.slot = slot
        """The path of the slot, such as ``security.labels``."""
        self.tier = tier
        """The tier of the slot. Source: docs/reference/cmf.md#tiers."""
        self.detail = detail
        """What the plugin may not do, without values."""


_SENT = {"llm_input": False, "request": False, "llm_output": True}
"""Whether the request had been sent when a hook denied it."""


class PolicyDeniedError(PolicyError):
    """A step was denied. ``hook`` names the step, ``plugin`` the plugin; ``code`` is for programs, ``reason`` for
    people.

    ``description`` holds further details from the plugin. If a failure of the plugin led to the denial, it is the
    ``__cause__``.
    """

    def __init__(self, hook: str, plugin: str, code: str, reason: str, description: str = "") -> None:
        super().__init__(f"{hook} is denied by {plugin}: {reason} ({code})")
        self.hook = hook
        self.sent = _SENT.get(hook.rpartition(".")[2])
        self.plugin = plugin
        self.code = code
        self.reason = reason
        self.description = description


class DeclassificationError(PolicyError):
    """Labels were not removed: the policy does not grant it, or the actor or the reason is missing."""
