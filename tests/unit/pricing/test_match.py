"""Which model a name refers to."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.pricing import price_table
from dragoman.pricing.rows import matches, read_rule, with_dashed_date
from tests.unit.pricing.tables import write_table


@pytest.mark.parametrize(
    ("rule", "yes", "no"),
    [
        ({"equals": ["A", "b"]}, ["a", "b"], ["ab", ""]),
        ({"starts_with": ["gpt-6"]}, ["gpt-6", "gpt-6-sol"], ["my-gpt-6"]),
        ({"ends_with": [":free"]}, ["m:free"], ["m:free2"]),
        ({"contains": ["opus"]}, ["claude-opus-5"], ["claude-sonnet-5"]),
        ({"dated": ["m"]}, ["m-20260101", "m@20260101", "m-2026-01-01"], ["m", "m-2", "m-20260101-x", "n-20260101"]),
        ({"regex": [r"^m-\d$"]}, ["m-1"], ["m-12"]),
        ({"regex": [r"^m-\D$"]}, ["m-x"], ["m-1"]),
        ({"starts_with": ["a"], "ends_with": ["z"]}, ["ab", "yz"], ["b"]),
        ({"all": [{"starts_with": ["a"]}, {"ends_with": ["z"]}]}, ["a-z"], ["a", "z"]),
        ({"equals": ["q"], "all": [{"starts_with": ["a"]}, {"ends_with": ["z"]}]}, ["q", "a-z"], ["a"]),
    ],
)
def test_a_rule_matches_any_of_its_texts(rule: dict[str, list[str]], yes: list[str], no: list[str]) -> None:
    """Each kind of rule, with names that it matches and names that it does not."""
    read = read_rule(rule)
    assert {name: matches(read, name) for name in yes + no} == {**dict.fromkeys(yes, True), **dict.fromkeys(no, False)}


@pytest.mark.parametrize(
    "rule", [{}, {"equals": []}, {"begins": ["a"]}, {"all": [{"ends": ["a"]}]}, {"equals": ["a"], "begins": ["a"]}]
)
def test_an_impossible_rule_is_refused(rule: dict[str, list[str]]) -> None:
    """A misspelt kind must not silently match nothing."""
    with pytest.raises(ValueError, match="match"):
        read_rule(rule)


@pytest.mark.parametrize(
    ("name", "dashed"),
    [
        ("gpt-5.2-20251211", "gpt-5.2-2025-12-11"),
        ("gpt-5.2-20251211:free", "gpt-5.2-2025-12-11:free"),
        ("gpt-5.2-20251311", "gpt-5.2-20251311"),
        ("gpt-5.2", "gpt-5.2"),
        ("m-202512110", "m-202512110"),
    ],
)
def test_compact_dates_are_expanded(name: str, dashed: str) -> None:
    """Only if they are dates."""
    assert with_dashed_date(name) == dashed


def test_the_first_matching_rule_counts_without_case(tmp_path: Path) -> None:
    """Names are compared in lower case; a dated name matches the model that accepts dates."""
    table = write_table(tmp_path)
    at = datetime(2026, 11, 20, tzinfo=UTC)
    for name, model in {"PLAIN": "plain", "Full-x": "full", "whole-20260101": "full"}.items():
        row = table.find(f"acme:{name}", at)
        assert row is not None
        assert row.model == model


def test_routers_shorten_dates() -> None:
    """gpt-5.2-20251211 is what others call gpt-5.2-2025-12-11."""
    table = price_table()
    row = table.find("openai:gpt-5.2-20251211")
    assert row == table.find("openai:gpt-5.2-2025-12-11")
    assert row is not None
