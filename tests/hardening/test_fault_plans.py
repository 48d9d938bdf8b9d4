"""Fault plans, a sample of them; `python -m tests.hardening` runs all."""

import logging
from collections.abc import Iterator

import pytest

from dragoman import Message
from dragoman.errors import StreamTruncatedError
from tests.hardening import fault_plans


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL, "dragoman"):
        yield


@pytest.mark.exhaustive
def test_a_turn_ends_with_the_whole_reply_or_a_typed_error() -> None:
    """A turn ends with the whole reply or a typed error: every kind of plan, over a stream of each wire."""
    rows = list(fault_plans.rows(seed=1, stride=9))
    assert {"Cut", "Stall", "Rechunk", "Mutate", "InjectEvent", "Corrupt"} <= {row.kind for row in rows}
    assert sum(row.tried for row in rows) > 300
    assert [row for row in rows if not row.enough] == []


def test_a_broken_promise_is_counted() -> None:
    """A part that counts as complete, a harmless plan that fails, and an untyped error."""
    whole, part = Message.assistant("ab"), Message.assistant("a")
    for kind, ended in (
        ("Cut", part), ("Rechunk", part), ("Rechunk", StreamTruncatedError("x")), ("Mutate", ValueError("x")),
    ):  # fmt: skip
        row = fault_plans.Plans(kind)
        fault_plans._judge(row, "", ended, whole)
        assert not row.enough
    for kind, ended in (("Cut", whole), ("Cut", StreamTruncatedError("x")), ("Mutate", part)):
        row = fault_plans.Plans(kind)
        fault_plans._judge(row, "", ended, whole)
        assert row.enough
