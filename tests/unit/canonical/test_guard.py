"""Unsafe values are refused on entry, with their path."""

from collections import OrderedDict
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.canonical import guard
from dragoman.canonical.blocks import (
    AudioBlock,
    Citation,
    DocumentBlock,
    FrozenModel,
    ImageBlock,
    MediaSource,
    PromptRequestBlock,
    PromptResultBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    VideoBlock,
)
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.canonical.message_fields import RoutingDecisionRecord
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import TokenUsage, Usage
from tests.tables import each_row
from tests.unit.canonical.samples import BLOCKS, CITATION, MESSAGE, METADATA, ROUTING, SOURCE, TOOL, USAGE

SAMPLES: list[tuple[type[FrozenModel], dict[str, Any]]] = [
    (TextBlock, BLOCKS["text"]), (ToolUseBlock, BLOCKS["tool_use"]), (ToolResultBlock, BLOCKS["tool_result"]),
    (ImageBlock, BLOCKS["image"]), (AudioBlock, BLOCKS["audio"]), (VideoBlock, BLOCKS["video"]),
    (DocumentBlock, BLOCKS["document"]), (ThinkingBlock, BLOCKS["thinking"]), (ResourceBlock, BLOCKS["resource"]),
    (RedactedThinkingBlock, BLOCKS["redacted_thinking"]), (ResourceRefBlock, BLOCKS["resource_ref"]),
    (PromptRequestBlock, BLOCKS["prompt_request"]), (PromptResultBlock, BLOCKS["prompt_result"]),
    (ProviderBlock, BLOCKS["provider"]), (Citation, CITATION), (MediaSource, SOURCE), (Message, MESSAGE),
    (MessageMetadata, METADATA), (RoutingDecisionRecord, ROUTING), (TokenUsage, USAGE), (Usage, USAGE),
    (ToolDefinition, TOOL),
]  # fmt: skip
FIELDS = [(model, sample, field) for model, sample in SAMPLES for field in model.model_fields]


def refusal(model: type[FrozenModel], fields: dict[str, Any]) -> tuple[str, str, str]:
    """The kind of the single error, its field and its message."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(fields)
    (error,) = caught.value.errors(include_url=False)
    return error["type"], str(error["loc"][0]), error["msg"]


CLOSED = {"type", "kind", "role", "channel", "created_at", "stop_reason", "mode", "resource_type"}
TEXTS = [row for row in FIELDS if isinstance(row[1].get(row[2]), str) and row[2] not in CLOSED]


@each_row(("model", "sample", "field"), TEXTS)
def test_a_lone_surrogate_is_refused_in_every_text(
    model: type[FrozenModel], sample: dict[str, Any], field: str
) -> None:
    """The error names the field and the position of the surrogate."""
    kind, where, reason = refusal(model, {**sample, field: "ab\ud800"})
    assert (kind, where) == ("surrogate", field)
    assert "character 2" in reason


@each_row(("model", "sample", "field"), FIELDS)
def test_no_field_accepts_a_lone_surrogate(model: type[FrozenModel], sample: dict[str, Any], field: str) -> None:
    """No field accepts a lone surrogate in a field of any kind: as a text, an item or a key."""
    for hostile in ("\udc00", ["\udc00"], {"\udc00": 1}, {"key": "\udc00"}, [{"key": ["\udc00"]}]):
        with pytest.raises(ValidationError):
            model.model_validate({**sample, field: hostile})


def test_the_samples_are_valid_and_complete() -> None:
    """So the tables above are refused for the reason that they name."""
    assert len(FIELDS) > 100
    assert len(TEXTS) > 40
    for model, sample in SAMPLES:
        assert model.model_validate(sample)


deepest: Any = {}
for _ in range(guard.MAX_DEPTH - 1):
    deepest = {"a": deepest}

UNSAFE: list[tuple[Any, str, str]] = [
    (float("nan"), "not_finite", "$.x is nan"),
    (float("inf"), "not_finite", "$.x is inf"),
    (float("-inf"), "not_finite", "$.x is -inf"),
    (1e999, "not_finite", "$.x is inf"),
    ([1, {"b": [float("nan")]}], "not_finite", "$.x[1].b[0] is nan"),
    ("a\ud800", "surrogate", "$.x has a lone surrogate at character 1"),
    ({"\ud800": 1}, "surrogate", "$.x has a lone surrogate at character 0"),
    ({1: 2}, "json_key", "$.x has a key that is a int, not a string"),
    ({None: 2}, "json_key", "$.x has a key that is a NoneType, not a string"),
    (b"bytes", "not_json", "$.x is a bytes, not a JSON value"),
    ({1, 2}, "not_json", "$.x is a set, not a JSON value"),
    ([object()], "not_json", "$.x[0] is a object, not a JSON value"),
    (1j, "not_json", "$.x is a complex, not a JSON value"),
    (deepest, "too_deep", ".a is nested more than 128 levels deep"),
    (10**4300, "integer_too_long", "$.x is an integer of more than 14000 bits"),
]
JSON_FIELDS: list[tuple[type[FrozenModel], dict[str, Any], str]] = [
    (ToolUseBlock, BLOCKS["tool_use"], "input"), (ProviderBlock, BLOCKS["provider"], "data"),
    (ResourceBlock, BLOCKS["resource"], "annotations"), (PromptRequestBlock, BLOCKS["prompt_request"], "arguments"),
    (Citation, CITATION, "data"), (MessageMetadata, METADATA, "provider_raw"), (TokenUsage, USAGE, "raw"),
    (ToolDefinition, TOOL, "input_schema"), (ToolDefinition, TOOL, "provider_raw"),
]  # fmt: skip


@each_row(("value", "kind", "message"), UNSAFE)
@each_row(("model", "sample", "field"), JSON_FIELDS)
def test_unsafe_json_is_refused_with_its_path(
    model: type[FrozenModel], sample: dict[str, Any], field: str, value: Any, kind: str, message: str
) -> None:
    """In each field that holds free JSON."""
    found = refusal(model, {**sample, field: {"x": value}})
    assert found[:2] == (kind, field)
    assert message in found[2]


def test_the_path_starts_at_the_message() -> None:
    """The error of a whole message names the block, and the key inside it."""
    block = {"type": "tool_use", "id": "tu_1", "name": "f", "input": {"a": [{"b": float("inf")}]}}
    with pytest.raises(ValidationError) as caught:
        Message.model_validate({"role": "assistant", "content": [{"type": "text", "text": ""}, block]})
    (error,) = caught.value.errors()
    assert error["loc"] == ("content", 1, "tool_use", "input")
    assert error["msg"] == "$.a[0].b is inf, which JSON cannot represent"


def test_errors_show_no_value() -> None:
    """A refused value may be a secret or a prompt: the error shows its place only."""
    with pytest.raises(ValidationError) as caught:
        Message.model_validate({"role": "user", "content": [{"type": "text", "text": "my secret\ud800"}]})
    assert "my secret" not in str(caught.value)


def test_128_levels_pass_and_129_do_not() -> None:
    """The limit counts the object itself."""
    block = ToolUseBlock(id="tu_1", name="f", input=deepest)
    assert ToolUseBlock.model_validate_json(block.model_dump_json()) == block
    assert refusal(ToolUseBlock, {**BLOCKS["tool_use"], "input": {"a": deepest}})[0] == "too_deep"


@pytest.mark.parametrize("levels", [200, 5_000, 100_000])
def test_endless_depth_is_no_recursion_error(levels: int) -> None:
    """Nested lists, objects and tool results are refused like anything else, however deep."""
    lists: Any = []
    objects: dict[str, Any] = {}
    results: dict[str, Any] = {"type": "tool_result", "tool_use_id": "tu_1"}
    for _ in range(levels):
        lists, objects, results = [lists], {"a": objects}, {**results, "content": [results]}
    for fields in ({"input": {"a": lists}}, {"input": objects}):
        assert refusal(ToolUseBlock, {**BLOCKS["tool_use"], **fields})[0] == "too_deep"
    with pytest.raises(ValidationError, match=r"too_deep|recursion"):
        Message.model_validate({"role": "tool", "content": [results]})
    del lists, objects, results


def test_a_cyclic_value_is_refused() -> None:
    """A cycle is endless depth."""
    cycle: dict[str, Any] = {}
    cycle["again"] = cycle
    assert refusal(ToolUseBlock, {**BLOCKS["tool_use"], "input": cycle})[0] == "too_deep"


def test_nested_results_have_a_limit_of_their_own() -> None:
    """Blocks that are built around each other are counted too, not only JSON."""
    block = ToolResultBlock(tool_use_id="tu_1")
    for _ in range(15):
        block = ToolResultBlock(tool_use_id="tu_1", content=(block,))
    with pytest.raises(ValidationError, match="nested more than 16 levels"):
        ToolResultBlock(tool_use_id="tu_1", content=(block,))


class TestSize:
    @pytest.fixture(autouse=True)
    def _small_cap(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guard, "MAX_BODY_BYTES", 1000)

    def test_a_text_over_the_cap_is_refused(self) -> None:
        """The cap counts characters; a text of exactly that length passes."""
        assert TextBlock(text="x" * 1000)
        assert refusal(TextBlock, {"text": "x" * 1001})[0] == "too_large"

    def test_a_json_object_over_the_cap_is_refused(self) -> None:
        """Keys, values and structure count together."""
        assert refusal(ToolUseBlock, {**BLOCKS["tool_use"], "input": {"x" * 600: "x" * 600}})[0] == "too_large"
        assert refusal(ToolUseBlock, {**BLOCKS["tool_use"], "input": {"x": [0] * 200}})[0] == "too_large"

    @pytest.mark.parametrize("kind", ["text", "tool_use", "tool_result", "image", "provider", "resource"])
    def test_a_message_over_the_cap_is_refused(self, kind: str) -> None:
        """Small blocks can be too large together; the error names the block that exceeds the cap."""
        filling = "x" * 450
        large: dict[str, dict[str, Any]] = {
            "text": {"text": filling},
            "tool_use": {"input": {"x": filling}},
            "tool_result": {"content": filling},
            "image": {"source": {"kind": "base64", "data": filling}},
            "provider": {"data": {"x": filling}},
            "resource": {"content": filling},
        }
        block = {"type": kind, **BLOCKS[kind], **large[kind]}
        assert Message.model_validate({"role": "user", "content": [block]})
        with pytest.raises(ValidationError, match=r"content\[[12]\] makes the message larger than 1000 bytes"):
            Message.model_validate({"role": "user", "content": [block, block, block]})


class Colour(StrEnum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    ("given", "owned"),
    [
        ((1, (2,)), [1, [2]]),
        (OrderedDict(a=1), {"a": 1}),
        (Colour.RED, "red"),
        (Number.ONE, 1),
        (True, True),
        (None, None),
        ("\u2028", "\u2028"),
        (2**64, 2**64),
    ],
    ids=str,
)
def test_values_become_plain_json(given: Any, owned: Any) -> None:
    """Tuples become lists, and subclasses their plain types, so a copy read from JSON is equal."""
    copied = guard.copy_json(given)
    assert copied == owned
    assert type(copied) is type(owned)


def test_a_block_owns_its_json() -> None:
    """Later changes of the argument do not change the block."""
    given: dict[str, Any] = {"lines": [1, 2]}
    block = ToolUseBlock(id="tu_1", name="f", input=given)
    given["lines"].append(3)
    assert block.input == {"lines": [1, 2]}


def test_unknown_blocks_are_guarded_too() -> None:
    """A kind that this version does not know may hold any safe JSON."""
    assert UnknownBlock.model_validate({"type": "hologram", "shape": [1]}).model_extra == {"shape": [1]}
    with pytest.raises(ValidationError, match="is nan"):
        UnknownBlock.model_validate({"type": "hologram", "shape": [float("nan")]})


def test_a_long_path_is_shortened() -> None:
    """Long keys do not make long errors."""
    value = {"k" * 5000: {"last": float("nan")}}
    with pytest.raises(ValueError, match="last is nan") as caught:
        guard.copy_json(value)
    assert len(str(caught.value)) < 300
