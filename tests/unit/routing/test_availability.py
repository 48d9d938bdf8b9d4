"""Which models and providers are down, from the results of calls, on a virtual clock."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import (
    AuthenticationError,
    BillingError,
    ContentFilterError,
    ContextOverflowError,
    DragomanError,
    InvalidRequestError,
    MalformedReplyError,
    MissingKeyError,
    NetworkError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    RequestCancelledError,
    RequestTimeoutError,
    ServerError,
    StreamTruncatedError,
    UnclassifiedError,
)
from dragoman.routing import Availability, OutageThresholds
from tests.tables import each_row
from tests.unit.routing.models import START

Reports = Sequence[tuple[float, str, DragomanError | None]]
BROKEN = ServerError("it broke", status=500)


def availability_after(reports: Reports, thresholds: OutageThresholds | None = None) -> Availability:
    """The availability after these calls ended, at seconds from the start."""
    availability = Availability(thresholds)
    for second, model, error in reports:
        availability.report(model, error, at(second))
    return availability


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def outage_reason(availability: Availability, model: str, second: float) -> str | None:
    """What is down, ``model`` or ``provider``."""
    outage = availability.outage(model, START + timedelta(seconds=second))
    return None if outage is None else outage.scope


def failing(
    model: str, *seconds: float, error: DragomanError = BROKEN
) -> list[tuple[float, str, DragomanError | None]]:
    return [(second, model, error) for second in seconds]


FIVE = (0, 1, 2, 3, 4)
CASES: list[tuple[str, Reports, str, float, str | None]] = [
    ("nothing is known", [], "a:x", 0, None),
    ("four failures", failing("a:x", 0, 1, 2, 3), "a:x", 4, None),
    ("five failures", failing("a:x", *FIVE), "a:x", 5, "model"),
    ("five, just within two minutes", failing("a:x", 0, 30, 60, 90, 120), "a:x", 121, "model"),
    ("five, in more than two minutes", failing("a:x", 0, 30, 60, 90, 120.1), "a:x", 121, None),
    ("the last five of six count", failing("a:x", 0, 100, 110, 120, 130, 140), "a:x", 141, "model"),
    ("not in the order of time", failing("a:x", 4, 2, 0, 3, 1), "a:x", 5, "model"),
    ("a success between", [*failing("a:x", 0, 1, 2, 3), (4, "a:x", None), *failing("a:x", 5)], "a:x", 6, None),
    ("another model's success", [*failing("a:x", 0, 1, 2, 3), (4, "a:y", None), *failing("a:x", 5)], "a:x", 6, "model"),
    ("another model of the provider", failing("a:x", *FIVE), "a:y", 5, None),
    ("another provider", failing("a:x", *FIVE), "b:x", 5, None),
    ("a success clears the model", [*failing("a:x", *FIVE), (5, "a:x", None)], "a:x", 6, None),
    ("up to five idle minutes", failing("a:x", *FIVE), "a:x", 4 + 299.9, "model"),
    ("after five idle minutes", failing("a:x", *FIVE), "a:x", 4 + 300, None),
    ("an attempt keeps it down", failing("a:x", *FIVE, 200), "a:x", 499, "model"),
    ("after that it begins anew", failing("a:x", *FIVE, 400), "a:x", 401, None),
    ("two models down", [*failing("a:x", *FIVE), *failing("a:y", *FIVE)], "a:z", 5, None),
    (
        "three models down",
        [*failing("a:x", *FIVE), *failing("a:y", *FIVE), *failing("a:w", *FIVE)],
        "a:z",
        5,
        "provider",
    ),
    (
        "three models down, overloaded",
        [entry for model in ("a:x", "a:y", "a:w") for entry in failing(model, *FIVE, error=OverloadedError("full"))],
        "a:z",
        5,
        "provider",
    ),
    (
        "three models down over more than two minutes",
        [*failing("a:x", *FIVE), *failing("a:y", *FIVE), *failing("a:w", 120, 121, 122, 123, 124.1)],
        "a:z",
        125,
        None,
    ),
    (
        "three names that nobody knows",
        [
            entry
            for model in ("a:x", "a:y", "a:w")
            for entry in failing(model, *FIVE, error=NotFoundError("no such model"))
        ],
        "a:z",
        5,
        None,
    ),
    ("a name that nobody knows", failing("a:x", *FIVE, error=NotFoundError("no such model")), "a:x", 5, "model"),
    ("a wrong key", failing("a:x", 0, error=AuthenticationError("no")), "a:y", 1, "provider"),
    ("a key that may not", failing("a:x", 0, error=PermissionDeniedError("no")), "a:y", 1, "provider"),
    ("nothing left to pay with", failing("a:x", 0, error=BillingError("no")), "a:y", 1, "provider"),
    ("a wrong key elsewhere", failing("a:x", 0, error=AuthenticationError("no")), "b:y", 1, None),
    ("up to five idle minutes", failing("a:x", 0, error=AuthenticationError("no")), "a:y", 299, "provider"),
    ("after five idle minutes", failing("a:x", 0, error=AuthenticationError("no")), "a:y", 300, None),
    ("a success clears the provider", [(0, "a:x", AuthenticationError("no")), (1, "a:y", None)], "a:x", 2, None),
    ("not reached once", failing("a:x", 0, error=NetworkError("refused")), "a:y", 1, None),
    ("not reached twice", failing("a:x", 0, 30, error=NetworkError("refused")), "a:y", 31, "provider"),
    (
        "not reached by two models",
        [(0, "a:x", NetworkError("refused")), (1, "a:y", RequestTimeoutError("silence"))],
        "a:z",
        2,
        "provider",
    ),
    ("not reached twice, further apart", failing("a:x", 0, 30.1, error=NetworkError("refused")), "a:y", 31, None),
    (
        "reached between",
        [(0, "a:x", NetworkError("refused")), (1, "a:x", None), (2, "a:x", NetworkError("refused"))],
        "a:y",
        3,
        None,
    ),
    ("reached, and cut off", failing("a:x", 0, 1, error=StreamTruncatedError("cut")), "a:y", 2, None),
    ("reached, and too slow", failing("a:x", 0, 1, error=RequestTimeoutError("slow", status=408)), "a:y", 2, None),
]


@each_row(("what", "reports", "model", "second", "expected"), CASES)
def test_thresholds_of_outages(what: str, reports: Reports, model: str, second: float, expected: str | None) -> None:
    assert outage_reason(availability_after(reports), model, second) == expected, what


@pytest.mark.parametrize(
    "error",
    [
        RateLimitError("slow down"),
        OverloadedError("full"),
        BROKEN,
        MalformedReplyError("?"),
        UnclassifiedError("?"),
        StreamTruncatedError("cut"),
    ],
)
def test_errors_that_count(error: ProviderError) -> None:
    """They are the provider's fault."""
    assert outage_reason(availability_after(failing("a:x", *FIVE, error=error)), "a:x", 5) == "model"


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequestError("no such field"),
        ContextOverflowError("too long"),
        ContentFilterError("blocked"),
        RequestCancelledError("left"),
        MissingKeyError("no key"),
    ],
)
def test_errors_that_do_not_count(error: DragomanError) -> None:
    """They are the request's fault, and do not end a series of failures either."""
    availability = availability_after([*failing("a:x", 0, 1, 2, 3), *failing("a:x", 4, 5, 6, 7, 8, error=error)])
    assert outage_reason(availability, "a:x", 9) is None
    availability.report("a:x", BROKEN, START + timedelta(seconds=10))
    assert outage_reason(availability, "a:x", 11) == "model"


def test_a_call_counts_once_with_all_its_retries() -> None:
    """Exhausted retries change nothing by themselves."""
    tried = ServerError("it broke", status=500)
    tried.attempts = (1, 2, 3, 4, 5, 6)
    assert outage_reason(availability_after(failing("a:x", 0, error=tried)), "a:x", 1) is None


def test_an_outage_reports_what_why_and_since_when(caplog: pytest.LogCaptureFixture) -> None:
    availability = availability_after(failing("a:x", *FIVE, 5, 6))
    outage = availability.outage("a:x", START + timedelta(seconds=7))
    assert str(outage) == "a:x down: 5 failures in a row, the last one server_error"
    assert outage is not None
    assert outage.since == START + timedelta(seconds=4)
    assert caplog.text.count("a:x down") == 1
    wide = availability_after([(0, "a:x", AuthenticationError("no"))]).outage("a:y", START)
    assert str(wide) == "all models of a down: AuthenticationError on one of its models"


def test_the_thresholds_can_be_set() -> None:
    thresholds = OutageThresholds(failures=1, idle=timedelta(seconds=10))
    availability = availability_after(failing("a:x", 0), thresholds)
    assert (outage_reason(availability, "a:x", 9), outage_reason(availability, "a:x", 10)) == ("model", None)


def test_old_failures_are_forgotten() -> None:
    """Memory stays bounded, however many models are named."""
    availability = Availability()
    for number in range(5_000):
        availability.report(f"a{number}:x", BROKEN, START + timedelta(minutes=number))
    assert len(availability._models) <= 1_000


MODELS = ["a:x", "a:y", "a:z", "a:w", "b:x"]
ERRORS = [
    None,
    BROKEN,
    NetworkError("no way"),
    AuthenticationError("no"),
    InvalidRequestError("no"),
    NotFoundError("?"),
]
reports = st.lists(st.tuples(st.floats(0, 600), st.sampled_from(MODELS), st.sampled_from(ERRORS)), max_size=40)


@given(reports)
def test_a_success_makes_a_model_available(given_reports: Reports) -> None:
    """Whatever came before."""
    availability = availability_after(sorted(given_reports, key=lambda report: report[0]))
    availability.report("a:x", None, START + timedelta(seconds=600))
    assert outage_reason(availability, "a:x", 600) is None


@given(reports)
def test_an_outage_ends_by_itself(given_reports: Reports) -> None:
    """Five minutes after the last attempt, the model may be tried again."""
    availability = availability_after(sorted(given_reports, key=lambda report: report[0]))
    assert [model for model in MODELS if outage_reason(availability, model, 900)] == []


@given(reports)
def test_providers_do_not_affect_each_other(given_reports: Reports) -> None:
    """Failures at one say nothing about another."""
    mixed = sorted(given_reports, key=lambda report: report[0])
    alone = [report for report in mixed if report[1].startswith("b:")]
    assert outage_reason(availability_after(mixed), "b:x", 601) == outage_reason(availability_after(alone), "b:x", 601)
