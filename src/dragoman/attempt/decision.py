"""The one decision where a request leaves, after all plugins: may this content, with these tools, go to this model?"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from dragoman.effects import Work
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.plugin import Hook
from dragoman.policy.step import OutgoingRequest

if TYPE_CHECKING:  # many programs have no router
    from dragoman.routing import Router


class DecidingPolicy(Protocol):
    """The policy of one conversation."""

    @property
    def can_decide(self) -> bool:
        """Whether it can keep any request, or any tool of one, back."""
        ...

    def decide(self, request: OutgoingRequest, /) -> Work[OutgoingRequest]:
        """Return the request with all labels of the conversation, and without the tools that the provider may not run.

        Raises PolicyDeniedError."""
        ...


def decide(
    request: OutgoingRequest,
    policy: DecidingPolicy | None,
    router: "Router | None",
    report: Callable[[PolicyDeniedError], object] | None = None,
) -> Work[OutgoingRequest]:
    """Return the request as it may be sent. Raises PolicyDeniedError.

    Whoever chose the model: the policy's data policies, object profiles and plugins of the hook ``request`` decide, and
    then the router's rules for labels. ``report`` receives a denial by these rules; a policy reports its own.
    """
    if policy is not None:
        request = yield from policy.decide(request)
    if router is not None and request.labels:
        try:
            _check_rules(request, router)
        except PolicyDeniedError as denial:
            if report is not None:
                report(denial)
            raise
    return request


def _check_rules(request: OutgoingRequest, router: "Router") -> None:
    from dragoman.routing import RouteRequest  # what is not configured is not imported

    model, labels = str(request.adapter.model_id), request.labels
    facts = RouteRequest.of(request.messages[:-1], request.messages[-1:], request.tools, request.options, labels=labels)
    if not router.labels_allow(model, facts):
        reason = f"content with the labels {', '.join(sorted(labels))} may not go to {model}"
        raise PolicyDeniedError(Hook.REQUEST, "the router", "label_forbidden", f"{reason:.300}")
