"""The decision where a request leaves: the policy first, then the router's rules for labels."""

from collections.abc import Generator
from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.registry import get_adapter
from dragoman.attempt.decision import decide
from dragoman.canonical.blocks import ImageBlock, MediaSource, TextBlock
from dragoman.canonical.message import Message, Role
from dragoman.effects import drive
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.plugin import Hook
from dragoman.policy.step import OutgoingRequest
from dragoman.routing import RouteRequest

PICTURE = ImageBlock(source=MediaSource(kind="url", data="https://a.example/b.png"))
LOOK = Message(role=Role.USER, content=(TextBlock(text="Look."), PICTURE))
MESSAGES = [Message.user("Hi"), LOOK, Message.user("Which kind?")]


class FakeRouter:
    """A router that allows what it is told, and notes what it was asked."""

    def __init__(self, *, allows: bool) -> None:
        self.allows = allows
        self.asked: list[tuple[str, RouteRequest]] = []

    def labels_allow(self, model: str, request: RouteRequest) -> bool:
        self.asked.append((model, request))
        return self.allows


class AddingPolicy:
    """A policy that adds a label."""

    can_decide = True

    def decide(self, request: OutgoingRequest) -> Generator[Any, Any, OutgoingRequest]:
        yield from ()
        return labelled(*request.labels, "added")


def labelled(*labels: str) -> OutgoingRequest:
    adapter = get_adapter("anthropic:claude-haiku-4-5")
    return OutgoingRequest(
        adapter=adapter, messages=MESSAGES, tools=(), options=AdapterOptions(), labels=frozenset(labels)
    )


def ask(request: OutgoingRequest, router: FakeRouter, **more: Any) -> OutgoingRequest:
    given: Any = router
    return drive(decide(request, more.pop("policy", None), given, **more))


def test_the_rules_see_the_model_the_labels_and_all_messages() -> None:
    router, request = FakeRouter(allows=True), labelled("PII")
    assert ask(request, router) is request
    ((model, facts),) = router.asked
    assert model == "anthropic:claude-haiku-4-5"
    assert (facts.labels, facts.text, facts.images) == ({"PII"}, "Which kind?", True)


def test_a_denial_is_reported_and_raised() -> None:
    reported: list[PolicyDeniedError] = []
    with pytest.raises(
        PolicyDeniedError, match="labels PII, SECRET may not go to anthropic:claude-haiku-4-5"
    ) as raised:
        ask(labelled("SECRET", "PII"), FakeRouter(allows=False), report=reported.append)
    assert reported == [raised.value]
    assert (raised.value.hook, raised.value.code, raised.value.sent) == (Hook.REQUEST, "label_forbidden", False)


def test_a_denial_that_nobody_wants_reported_is_raised() -> None:
    with pytest.raises(PolicyDeniedError):
        ask(labelled("PII"), FakeRouter(allows=False))


def test_the_rules_see_what_the_policy_adds() -> None:
    router = FakeRouter(allows=True)
    assert ask(labelled("PII"), router, policy=AddingPolicy()).labels == {"PII", "added"}
    assert router.asked[0][1].labels == {"PII", "added"}


def test_without_a_router_everything_may_leave() -> None:
    request = labelled("PII")
    assert drive(decide(request, None, None)) is request
