"""What most sessions do without, and need not wait for: made where it was asked for, and loaded only then."""

from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import ConfigurationError

if TYPE_CHECKING:
    from dragoman.canonical.extensions.extensions import Extensions
    from dragoman.events.bus import EventBus
    from dragoman.policy import Pipeline
    from dragoman.session.conversation import Conversation
    from dragoman.session.middleware.policy_hooks import PolicyHooks
    from dragoman.session.middleware.telemetry import TurnTelemetry


def new_telemetry(session: "Conversation[Any]", bus: "EventBus | None") -> "TurnTelemetry | None":
    if bus is None:
        return None
    from dragoman.session.middleware.telemetry import TurnTelemetry

    tools = session.toolbox
    return TurnTelemetry(bus, session.session_id, session._clock, tools.side_effects, lambda: tools.definitions)


def new_policy_hooks(
    session: "Conversation[Any]", policy: "Pipeline | None", extensions: "Extensions | None"
) -> "PolicyHooks | None":
    """Raises ConfigurationError on extensions that nobody would heed."""
    if policy is None:
        if extensions is not None:
            raise ConfigurationError("extensions are for the plugins of a policy: give policy=Pipeline([...]) too")
        return None
    from dragoman.session.middleware.policy_hooks import PolicyHooks

    return PolicyHooks(
        policy, extensions, session.session_id, session.toolbox, session._message_extensions, session._telemetry
    )
