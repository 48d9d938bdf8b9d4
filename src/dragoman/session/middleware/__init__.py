"""The optional middlewares of a session, imported on first use."""

from typing import TYPE_CHECKING

from dragoman.adapter.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dragoman.canonical.extensions.extensions import Extensions
    from dragoman.events.bus import EventBus
    from dragoman.limits import Limits
    from dragoman.policy import Pipeline
    from dragoman.session.middleware.labels import MessageExtensions
    from dragoman.session.middleware.limiter import Limiter
    from dragoman.session.middleware.policy_hooks import PolicyHooks, PolicyObserver
    from dragoman.session.middleware.telemetry import TurnTelemetry
    from dragoman.tools import Toolbox


def new_telemetry(
    bus: "EventBus | None", session_id: str, clock: "Callable[[], datetime]", toolbox: "Toolbox"
) -> "TurnTelemetry | None":
    if bus is None:
        return None
    from dragoman.session.middleware.telemetry import TurnTelemetry

    return TurnTelemetry(bus, session_id, clock, toolbox.side_effects, lambda: toolbox.definitions)


def new_policy_hooks(
    policy: "Pipeline | None",
    extensions: "Extensions | None",
    session_id: str,
    toolbox: "Toolbox",
    message_extensions: "MessageExtensions",
    telemetry: "PolicyObserver | None",
) -> "PolicyHooks | None":
    """Raises ConfigurationError if extensions are given without a policy."""
    if policy is None:
        if extensions is not None:
            raise ConfigurationError("extensions are for the plugins of a policy: give policy=Pipeline([...]) too")
        return None
    from dragoman.session.middleware.policy_hooks import PolicyHooks

    return PolicyHooks(policy, extensions, session_id, toolbox, message_extensions, telemetry)


def new_limiter(limits: "Limits | None") -> "Limiter | None":
    if limits is None:
        return None
    from dragoman.session.middleware.limiter import Limiter

    return Limiter(limits)
