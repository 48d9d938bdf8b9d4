"""Which place is asked first, which one pauses, and how often a request may be asked again."""

import pytest

from dragoman import AsyncClient
from dragoman.errors import (
    AuthenticationError,
    ContextOverflowError,
    DragomanError,
    InvalidRequestError,
    LimitReachedError,
    NetworkError,
    OverloadedError,
    RateLimitError,
)
from dragoman_gateway.access import Caller
from dragoman_gateway.errors import ModelDeniedError, UncountedError
from dragoman_gateway.models import Deployment, Deployments, FallbackQuota, Models, may_help_elsewhere


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def places(*weights: int, clock: Clock | None = None, draws: list[float] | None = None) -> Deployments:
    client = AsyncClient()
    made = [Deployment(f"a:{number}", client, weight) for number, weight in enumerate(weights)]
    drawn = iter(draws or [])
    return Deployments(made, clock=clock or Clock(), draw=lambda: next(drawn, 0.0))


def order(found: Deployments) -> list[str]:
    return [place.model for place in found.in_order()]


def test_weights_decide_who_is_asked_first() -> None:
    firsts = [order(places(3, 1, 0, draws=[draw]))[0] for draw in (0.0, 0.74, 0.76, 0.99)]
    assert firsts == ["a:0", "a:0", "a:1", "a:1"]
    assert order(places(0, 1)) == ["a:1", "a:0"]


PAUSES: list[tuple[DragomanError, float]] = [
    (OverloadedError("busy"), 2.0),
    (RateLimitError("slow down", retry_after=17.0), 17.0),
    (RateLimitError("slow down", retry_after=9000.0), 60.0),
    (AuthenticationError("no"), 60.0),
    (NetworkError("no"), 2.0),
]


@pytest.mark.parametrize(("error", "seconds"), PAUSES)
def test_a_place_that_fails_pauses(error: DragomanError, seconds: float) -> None:
    clock = Clock()
    found = places(1, 1, clock=clock)
    found.report(found.all[0], error)
    assert order(found) == ["a:1", "a:0"]
    clock.now = seconds - 0.1
    assert order(found) == ["a:1", "a:0"]
    clock.now = seconds
    assert order(found) == ["a:0", "a:1"]


def test_pauses_grow_and_a_success_ends_them() -> None:
    clock = Clock()
    (place, _) = (found := places(1, 1, clock=clock)).all
    pauses = []
    for _ in range(8):
        found.report(place, OverloadedError("busy"))
        pauses.append(place.paused_until)
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]
    found.report(place, None)
    assert order(found) == ["a:0", "a:1"]


def test_errors_of_the_request_itself_pause_nothing_and_go_nowhere_else() -> None:
    found = places(1, 1)
    for error in (InvalidRequestError("no"), ContextOverflowError("too long")):
        found.report(found.all[0], error)
        assert not may_help_elsewhere(error)
    assert order(found) == ["a:0", "a:1"]


def test_a_refusal_of_the_gateway_to_one_caller_pauses_nothing() -> None:
    """Nothing was sent, so it says nothing about the place, which other callers may ask."""
    found = places(1, 1)
    for error in (LimitReachedError("slow down", retry_after=30.0), ModelDeniedError("a:0"), UncountedError("away")):
        found.report(found.all[0], error)
    assert order(found) == ["a:0", "a:1"]
    assert not may_help_elsewhere(UncountedError("away"))


def test_an_outage_does_not_multiply_the_load() -> None:
    quota = FallbackQuota(share=0.2, most=10)
    asked_again = 0
    for _ in range(1000):
        quota.requests += 1
        asked_again += quota.spend()
    assert 200 <= asked_again <= 211


NAMES = {
    "fast": "groq:llama",
    "claude-*": "openai:gpt-5.2",
    "openai:*": "azure-openai:gpt-5.2",
    "*": "local:smollm2-135m",
}


def test_names_are_found_in_the_order_of_the_settings() -> None:
    models = Models(NAMES, AsyncClient())
    wanted = {
        "fast": "groq:llama",
        "claude-haiku-4-5-20251001": "openai:gpt-5.2",
        "anthropic:claude-opus-5-5": "anthropic:claude-opus-5-5",
        "openai:gpt-5": "azure-openai:gpt-5.2",
        "gpt-5": "local:smollm2-135m",
        "no-provider:x": "local:smollm2-135m",
    }
    assert {name: models.resolve(name, Caller()).model for name in wanted} == wanted


def test_a_caller_of_some_models_gets_no_other_by_a_name() -> None:
    models = Models(NAMES, AsyncClient())
    by_target, by_name = Caller(models=("openai:*",)), Caller(models=("claude-*",))
    rule = models.rule_for("claude-sonnet", by_target)
    assert rule is not None
    assert (rule("openai:gpt-5.2"), rule("anthropic:claude-sonnet-5-5")) == (True, False)
    assert models.rule_for("claude-sonnet", by_name) is None
    assert models.names(by_name) == ()
    assert models.names(Caller(models=("groq:*",))) == ("fast",)
