"""Blocks: each kind, its defaults and its immutability."""

from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticUndefined

from dragoman.canonical import blocks
from dragoman.canonical.blocks import (
    ContentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from dragoman.canonical.rules import ALLOWED_BLOCKS
from dragoman.canonical.words import READING
from tests.unit.canonical.samples import BLOCKS

any_block: TypeAdapter[Any] = TypeAdapter(ContentBlock)
every_kind = pytest.mark.parametrize("kind", BLOCKS)

REQUIRED = {
    "text": {"text"}, "tool_use": {"id", "name"}, "tool_result": {"tool_use_id"}, "image": {"source"},
    "audio": {"source"}, "video": {"source"}, "document": {"source"}, "thinking": set(),
    "redacted_thinking": {"data"}, "resource": {"resource_request_id", "uri", "resource_type"},
    "resource_ref": {"resource_request_id", "uri", "resource_type"}, "prompt_request": {"prompt_request_id", "name"},
    "prompt_result": {"prompt_request_id", "prompt_name"}, "provider": {"provider", "kind", "data"},
}  # fmt: skip


def test_there_are_fourteen_kinds_of_blocks() -> None:
    """The union, the tag and the table of the rules agree."""
    union = {get_args(member)[0].model_fields["type"].default for member in get_args(get_args(ContentBlock)[0])}
    assert union - {PydanticUndefined} == set(BLOCKS)
    assert set(blocks._KINDS) == set(BLOCKS) == set(REQUIRED)
    assert set().union(*ALLOWED_BLOCKS.values()) == set(BLOCKS)


@every_kind
def test_blocks_survive_json(kind: str) -> None:
    """JSON to block and back keeps each field."""
    block = any_block.validate_python({"type": kind, **BLOCKS[kind]})
    written = block.model_dump(mode="json", exclude_none=True)
    assert block.type == kind
    assert any_block.validate_json(block.model_dump_json()) == block
    assert {**written, "type": kind}.items() >= {
        name: value for name, value in BLOCKS[kind].items() if isinstance(value, (str, int))
    }.items()


@every_kind
def test_blocks_are_immutable(kind: str) -> None:
    """Neither assignment nor deletion works."""
    block = any_block.validate_python({"type": kind, **BLOCKS[kind]})
    for field in type(block).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(block, field, None)
        with pytest.raises(ValidationError, match="frozen"):
            delattr(block, field)


@every_kind
def test_required_fields_of_blocks_are_required(kind: str) -> None:
    """No others are; a misspelt field is refused."""
    fields = {"type": kind, **BLOCKS[kind]}
    for field in BLOCKS[kind]:
        without = {name: value for name, value in fields.items() if name != field}
        if field in REQUIRED[kind]:
            with pytest.raises(ValidationError, match="required"):
                any_block.validate_python(without)
        else:
            assert any_block.validate_python(without)
    with pytest.raises(ValidationError, match="Extra inputs"):
        any_block.validate_python({**fields, "txet": 1})


@every_kind
def test_blocks_with_different_values_differ(kind: str) -> None:
    """Each field counts for equality and for the hash."""
    block = any_block.validate_python({"type": kind, **BLOCKS[kind]})
    assert {block, any_block.validate_python({"type": kind, **BLOCKS[kind]})} == {block}
    for field in set(BLOCKS[kind]) - REQUIRED[kind]:
        fewer = any_block.validate_python(
            {"type": kind, **{name: value for name, value in BLOCKS[kind].items() if name != field}}
        )
        if BLOCKS[kind][field] is not None:
            assert fewer != block
            assert hash(fewer) != hash(block)


def test_blocks_of_different_kinds_differ() -> None:
    """A thinking block is not a text block with the same text."""
    assert blocks.ThinkingBlock(text="a") != TextBlock(text="a")
    assert TextBlock(text="a") != "a"


def test_a_misspelt_kind_is_refused_at_construction() -> None:
    """Only the reader of stored messages keeps kinds that this version does not know."""
    with pytest.raises(ValidationError, match="the types are text, tool_use"):
        any_block.validate_python({"type": "txet", "text": "a"})
    with pytest.raises(ValidationError):
        any_block.validate_python({"text": "a"})
    assert any_block.validate_python({"type": "txet"}, context=READING) == UnknownBlock(type="txet")


def test_an_unknown_block_keeps_all_fields() -> None:
    fields = {"type": "hologram", "b": None, "a": [1, {"c": None}]}
    block = UnknownBlock.model_validate(fields)
    assert list(block.model_dump(exclude_none=True).items()) == list(fields.items())
    assert {block, UnknownBlock.model_validate(fields)} == {block}
    assert block != UnknownBlock(type="hologram")


def test_a_string_as_content_is_one_text_block() -> None:
    """Most tools return text."""
    assert ToolResultBlock.model_validate({"tool_use_id": "tu_1", "content": "ok"}).content == (TextBlock(text="ok"),)


def test_media_come_from_one_of_five_sources() -> None:
    """Data, a URL, a text, a file in the workspace, or a file that a provider stores."""
    for kind in ("base64", "url", "text", "file_ref", "file_id"):
        assert ImageBlock.model_validate({"source": {"kind": kind, "data": "x"}}).source.kind == kind
    with pytest.raises(ValidationError, match="'file_id'"):
        MediaSource.model_validate({"kind": "path", "data": "x"})


def test_a_resource_has_one_body() -> None:
    """A resource has text or base64, not both. Source: docs/reference/cmf.md#parts."""
    with pytest.raises(ValidationError, match="content or blob, not both"):
        ResourceBlock(resource_request_id="r", uri="u", resource_type="file", content="a", blob="YQ==")


def test_ranges_run_forwards() -> None:
    """Both ends are included, so equal ends are one line."""
    assert ResourceRefBlock(resource_request_id="r", uri="u", resource_type="file", range_start=2, range_end=2)
    with pytest.raises(ValidationError, match="range_end 1 is less than range_start 2"):
        ResourceRefBlock(resource_request_id="r", uri="u", resource_type="file", range_start=2, range_end=1)


class TestModelCopy:
    block = ToolUseBlock(id="tu_1", name="f", input={"a": 1})

    def test_model_copy_validates_new_values(self) -> None:
        """A copy is as safe as a construction: no typo and no unsafe value gets in."""
        with pytest.raises(ValidationError, match="Extra inputs"):
            self.block.model_copy(update={"nmae": "g"})
        with pytest.raises(ValidationError, match="is nan"):
            self.block.model_copy(update={"input": {"a": float("nan")}})

    def test_model_copy_leaves_the_original_alone(self) -> None:
        """The copy has the new value, the original the old one."""
        assert self.block.model_copy(update={"name": "g"}) == ToolUseBlock(id="tu_1", name="g", input={"a": 1})
        assert self.block.name == "f"
        assert self.block.model_copy() == self.block

    def test_deep_copies_share_nothing(self) -> None:
        for copy in (self.block.model_copy(deep=True), self.block.model_copy(deep=True, update={"name": "g"})):
            assert copy.input == self.block.input
            assert copy.input is not self.block.input

    def test_fields_of_another_version_stay_in_copies(self) -> None:
        """They can be replaced, but not added."""
        read = ProviderBlock.model_validate(
            {"provider": "a", "kind": "b", "data": {}, "later": 1, "too": 2}, extra="allow"
        )
        copy = read.model_copy(update={"kind": "c", "later": 3})
        assert copy.model_extra == {"later": 3, "too": 2}
        assert copy != read
        with pytest.raises(ValidationError):
            read.model_copy(update={"latter": 3})
