"""The middleware that decides whether a request may leave. It is imported with a policy or a router alone."""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dragoman.attempt.decision import DecidingPolicy, decide
from dragoman.canonical.extensions.message_labels import labels_of_messages
from dragoman.canonical.message import Message
from dragoman.effects import carry_out
from dragoman.policy.step import OutgoingRequest
from dragoman.session.effects import Effect, Send, Turn, intercept

if TYPE_CHECKING:
    from dragoman.policy.errors import PolicyDeniedError
    from dragoman.routing import Router


def decide_requests(
    labels: Callable[[], frozenset[str]],
    history: list[Message],
    policy: DecidingPolicy | None,
    router: "Router | None",
    report: "Callable[[PolicyDeniedError], object] | None",
    turn: Turn,
) -> Turn:
    """Wrap a turn. ``labels`` returns those of the conversation; the rest is as for `decide`."""

    def handle(effect: Effect) -> Generator[Effect, Any, Any] | None:
        return decided(effect) if isinstance(effect, Send) else None

    def decided(send: Send) -> Generator[Effect, Any, Any]:
        request = OutgoingRequest(
            adapter=send.adapter,
            messages=send.messages,
            tools=send.tools,
            options=send.options,
            labels=labels() | _added_labels(send, history),
        )
        allowed = yield from carry_out(decide(request, policy, router, report))
        return (yield replace(send, tools=allowed.tools, options=allowed.options))

    can_decide = router is not None or (policy is not None and policy.can_decide)
    return intercept(turn, handle) if can_decide else turn


def _added_labels(send: Send, history: list[Message]) -> frozenset[str]:
    """Return the labels of messages that a middleware of the program has added: the policy has read all others."""
    labelled = [message for message in send.messages if message.metadata.labels]
    if not labelled:
        return frozenset()
    known = {message.id for message in (*history, *(send.new_messages or ()))}
    return labels_of_messages(message for message in labelled if message.id not in known)
