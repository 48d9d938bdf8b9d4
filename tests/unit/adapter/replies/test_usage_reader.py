"""Counts of a usage object: invalid ones are reported, and never summed."""

import logging
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.adapter.replies.reply_builder import MAX_COUNT, UsageReader
from dragoman.canonical.usage import TokenUsage

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


def test_several_counts_are_read_at_once() -> None:
    """As one by one; the names of the paths that hold none come in order, with the required one that is missing."""
    count = UsageReader({"a": 3, "b": {"c": 4.0, "d": -1}, "e": "text", "f": None})
    paths = {"one": "a", "two": "b.c", "three": "b.d", "four": "e.x", "five": "e", "six": "f", "seven": "g.h"}
    assert count.counts(paths, required="six") == {
        "one": 3, "two": 4, "three": None, "four": None, "five": None, "six": None, "seven": None,
    }  # fmt: skip
    assert count.unread == ("b.d", "e", "f")


@pytest.mark.parametrize(
    ("native", "fields"),
    [
        ({"a": 3, "b": {"c": 0}}, {"input_tokens": 3, "service_tier": "default", "reasoning_tokens": None}),
        ({"a": 3}, {"input_tokens": 3, "server_tools": {"search": 2}, "unread": ("b", "c")}),
        ({"a": ["ü"]}, {"service_tier": "ü", "speed": "x" * 100_000, "reported_cost_usd": Decimal("0.5")}),
    ],
)
def test_a_usage_is_the_one_that_validation_gives(native: dict[str, Any], fields: dict[str, Any]) -> None:
    """A usage is the one that validation gives with the same fields in the same order, and a copy of the object."""
    usage, validated = UsageReader(native).usage(**fields), TokenUsage(**fields, raw=native)
    assert usage == validated
    assert usage.model_dump_json() == validated.model_dump_json()
    assert usage.model_fields_set >= validated.model_fields_set
    assert usage.raw is not native
    assert UsageReader(native).usage().server_tools is not UsageReader(native).usage().server_tools


@pytest.mark.parametrize(
    ("native", "fields", "field"),
    [
        ({"a": float("inf")}, {}, "raw"),
        ({"a": {1: 2}}, {}, "raw"),
        ({}, {"service_tier": "\ud800"}, "service_tier"),
        ({}, {"speed": 5}, "speed"),
        ({}, {"server_tools": {"\ud800": 1}}, "server_tools"),
    ],
)
def test_a_usage_that_no_message_holds_is_refused(native: dict[str, Any], fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        UsageReader(native).usage(**fields)
