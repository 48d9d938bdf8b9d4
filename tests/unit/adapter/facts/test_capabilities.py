"""Capabilities are data: declared for each model, honest by default."""

from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.adapter.facts.capabilities import (
    ABSENT,
    EMULATED,
    MAX_KNOWN_MODELS,
    NATIVE,
    AdapterCapabilities,
    ModelTable,
    ThinkingPolicy,
    ToolIdRule,
    _changes,
    set_limit_updates,
)
from dragoman.adapter.registry import adapter_class

TABLE = ModelTable(
    {
        "default": {"supports_images": "native", "max_context_tokens": 1000, "wire": {"a": 1, "b": {"c": 2}}},
        "model": [
            {"match": "big-*", "listed": ["big-1"], "max_context_tokens": 9000, "wire": {"b": {"d": 3}}},
            {"match": ["*-text", "old"], "listed": ["old"], "supports_images": "absent"},
            {"match": "big-text", "tool_id_rule": {"prefix": "t_"}},
        ],
    }
)


def test_absent_is_falsy() -> None:
    """Emulated is truthy, because the adapter reaches the same result."""
    assert [bool(support) for support in (NATIVE, EMULATED, ABSENT)] == [True, True, False]


@pytest.mark.parametrize(
    ("model", "tokens", "images", "wire", "prefix"),
    [
        ("small", 1000, True, {"a": 1, "b": {"c": 2}}, ""),
        ("big-1", 9000, True, {"a": 1, "b": {"c": 2, "d": 3}}, ""),
        ("old", 1000, False, {"a": 1, "b": {"c": 2}}, ""),
        ("big-text", 9000, False, {"a": 1, "b": {"c": 2, "d": 3}}, "t_"),
        ("BIG-1", 1000, True, {"a": 1, "b": {"c": 2}}, ""),
    ],
)
def test_rows_apply_in_order(model: str, tokens: int, images: bool, wire: dict[str, Any], prefix: str) -> None:
    """Every matching row applies, tables are merged key by key, later rows override; names are case-sensitive."""
    found = TABLE.capabilities(model)
    assert (found.max_context_tokens, bool(found.supports_images), found.wire) == (tokens, images, wire)
    assert found.tool_id_rule.prefix == prefix
    assert TABLE.capabilities(model) is found


def test_facts_of_models_that_clients_make_up_are_not_kept() -> None:
    table = ModelTable({})
    first = table.capabilities("first")
    for number in range(MAX_KNOWN_MODELS):
        table.capabilities(f"made-up-{number}")
    assert table.capabilities("first") is not first


def test_updates_of_models_that_clients_make_up_are_not_kept() -> None:
    """An update that names a family applies to any number of models, and few of them are remembered."""
    kind = adapter_class("anthropic")
    set_limit_updates({"anthropic": [{"match": ["made-up-*"], "max_output_tokens": 5}]})
    try:
        for number in range(MAX_KNOWN_MODELS + 1):
            assert kind(f"made-up-{number}").capabilities.max_output_tokens == 5
        assert _changes.cache_info().currsize == MAX_KNOWN_MODELS
    finally:
        set_limit_updates({})
    assert kind("made-up-0").capabilities.max_output_tokens != 5


def test_a_table_lists_the_models_that_it_names() -> None:
    assert TABLE.listed == ("big-1", "old")


def test_a_typo_in_a_table_is_refused() -> None:
    """A capability that does not exist cannot be declared."""
    with pytest.raises(ValidationError, match="supports_telepathy"):
        ModelTable({"default": {"supports_telepathy": "native"}}).capabilities("m")


def test_an_empty_table_declares_little() -> None:
    """A capability that is not declared is absent, except those that every model has."""
    found = ModelTable({}).capabilities("m")
    assert found == AdapterCapabilities()
    assert [name for name in AdapterCapabilities.model_fields if getattr(found, name) == NATIVE] == [
        "supports_tools", "supports_system_prompt", "supports_streaming", "supports_streaming_tool_calls",
        "supports_parallel_tool_calls", "supports_system_messages_in_list", "supports_mid_conversation_system",
        "supports_empty_text", "supports_media_urls", "structured_output_by", "structured_output_with_tools",
        "thinking_off",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("reads_from", "model", "reads"),
    [
        ((), "a:b", False), (("*",), None, False), (("*",), "a:b", True), (("a:*",), "a:b", True),
        (("a:*",), "aa:b", False), (("x", "a:b-?"), "a:b-1", True),
    ],
)  # fmt: skip
def test_reads_thinking_from_matches_model_ids(reads_from: tuple[str, ...], model: str | None, reads: bool) -> None:
    """Globs over whole model ids; thinking of unknown origin matches none."""
    assert ThinkingPolicy(reads_from=reads_from).can_read(model) is reads


@pytest.mark.parametrize(
    ("tool_id", "accepted"),
    [("abc", True), ("ab", False), ("abcdef", False), ("ab-d", False), ("", False), ("abcde", True)],
)
def test_a_rule_accepts_ids_by_length_and_alphabet(tool_id: str, accepted: bool) -> None:
    """By length and alphabet, both limits included; the prefix is for ids that we generate."""
    rule = ToolIdRule.model_construct(alphabet="abcdef", min_length=3, max_length=5, prefix="a")
    assert rule.accepts(tool_id) is accepted
