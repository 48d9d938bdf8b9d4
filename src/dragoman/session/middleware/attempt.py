"""The middlewares that decide on each request, and send it as an `Attempt` under what governs the session."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.attempt.attempt import Attempt
from dragoman.attempt.decision import DecidingPolicy, decide
from dragoman.canonical.extensions.message_labels import labels_of_messages
from dragoman.canonical.message import Message
from dragoman.effects.work import carry_out
from dragoman.limits.bounds import max_usage
from dragoman.limits.reservation import Governor, Observe, Stage
from dragoman.policy.outgoing import OutgoingRequest
from dragoman.session.effects import Effect, Send, SendOutcome, Turn, intercept

if TYPE_CHECKING:
    from dragoman.policy.errors import PolicyDeniedError
    from dragoman.routing import Router


def govern(governors: Callable[[Send], Iterable[Governor]], turn: Turn) -> Turn:
    """Wrap a turn. ``governors`` returns what governs one attempt, in the order in which they reserve."""
    return intercept(turn, partial(_send, governors))


def _send(governors: Callable[[Send], Iterable[Governor]], effect: Effect) -> Generator[Effect, Any, Any]:
    if not isinstance(effect, Send):
        return (yield effect)
    send = effect

    def exchange(observers: tuple[Observe, ...], stages: tuple[Stage, ...]) -> Generator[Effect, Any, SendOutcome]:
        outcome: SendOutcome = yield replace(
            send, observers=(*send.observers, *observers), stages=(*send.stages, *stages)
        )
        return outcome

    measure = partial(max_usage, send.adapter, send.messages, send.tools, send.options)
    return (yield from Attempt(governors(send), measure).run(exchange))


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
