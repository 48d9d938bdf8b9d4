"""Counts of a usage object: invalid ones are reported, and never summed."""

import logging
from decimal import Decimal
from typing import Any

import pytest

from dragoman.adapter.replies.usage_reader import MAX_COUNT, UsageReader

NO_COUNTS: list[Any] = [
    -1, 1.5, -0.5, "12", "", True, False, [], {}, [3], {"a": 1}, MAX_COUNT + 1, 10**400, float("nan"), float("inf"),
]  # fmt: skip


@pytest.mark.parametrize("value", NO_COUNTS, ids=lambda value: repr(value)[:20])
def test_an_invalid_count_is_left_out_and_named(value: Any) -> None:
    """Negative, broken, written as a text, a truth value, too large: none of them is added to anything."""
    count = UsageReader({"a": value, "b": 7})
    assert (count("a"), count.optional("a"), count.required("a"), count.count_at("a", value)) == (0, None, 0, 0)
    assert count("b") == 7
    assert count.unread == ("a",)


@pytest.mark.parametrize(("value", "read"), [(0, 0), (12, 12), (12.0, 12), (MAX_COUNT, MAX_COUNT), (None, None)])
def test_valid_counts_are_read(value: Any, read: int | None) -> None:
    """A whole number, also if it is written with a point; null counts as missing."""
    count = UsageReader({"a": value})
    assert count.optional("a") == read
    assert count.unread == ()


def test_a_required_count_that_is_missing_is_named() -> None:
    """A count that the format requires is not 0 if it is missing."""
    count = UsageReader({"b": None})
    assert (count.required("a"), count.required("b")) == (0, 0)
    assert count.unread == ("a", "b")


def test_paths_lead_into_objects_only() -> None:
    """The first path that holds anything counts; a text on the way holds nothing."""
    count = UsageReader({"a": {"b": 3}, "c": "text", "d": None})
    assert count.optional("d.x", "c.x", "a.b") == 3
    assert count.optional("a.b.c") is None
    assert count.unread == ()


@pytest.mark.parametrize(
    ("value", "named"),
    [({"search": 2, "fetch": 0, "odd": -1}, {"search": 2}), (None, {}), ([], {}), ("text", {}), ({}, {})],
)
def test_counts_are_read_by_name(value: Any, named: dict[str, int]) -> None:
    """Zeros are left out."""
    assert UsageReader({"tools": value}).counts_by_name("tools") == named


@pytest.mark.parametrize(
    ("value", "dollars"),
    [
        (0.0015, "0.0015"), (3, "3"), ("0.25", "0.25"), (0, "0"), (None, None), (-1, None), ("much", None),
        (True, None),
        (float("nan"), None), (float("inf"), None), ([], None), (10**30, None), ("1e999999", None),
    ],
)  # fmt: skip
def test_a_providers_own_cost_is_read_exactly(value: Any, dollars: str | None) -> None:
    """Read as it was written, never by way of binary fractions."""
    count = UsageReader({"cost": value})
    assert count.dollars("cost") == (None if dollars is None else Decimal(dollars))
    assert (count.unread == ()) == (dollars is not None or value is None)


def test_lists_and_words_are_read() -> None:
    """A list of objects, a word; any other value is reported."""
    count = UsageReader({"list": [{"a": 1}], "bad": [1], "text": {}, "word": "flex", "odd": 5})
    assert count.objects("list") == [{"a": 1}]
    assert (count.objects("bad"), count.objects("text"), count.objects("none")) == ([], [], [])
    assert (count.text("word"), count.text("odd"), count.text("none")) == ("flex", None, None)
    assert count.unread == ("bad", "text", "odd")


def test_more_cached_tokens_than_the_prompt_are_reported() -> None:
    """The contradiction is reported, and no count becomes negative."""
    count = UsageReader({})
    assert count.uncached(10, 4, 3) == 3
    assert not count.unread
    assert count.uncached(10, 8, 3) == 0
    assert count.unread == ("more cached tokens than the prompt has",)


@pytest.mark.parametrize("value", [None, {}, [], "", 0, "text", [1], 7])
def test_a_missing_usage_is_none(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A missing usage causes no warning; an invalid one does."""
    with caplog.at_level(logging.WARNING, "dragoman.adapter"):
        assert UsageReader.of(value) is None
    assert bool(caplog.records) == bool(value)
