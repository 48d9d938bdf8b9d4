"""Tool definitions: the schema subset. Source: docs/reference/canonical.md#schema-subset."""

from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.canonical.tools import SideEffects, ToolDefinition, schema_problems
from tests.tables import each_row

EVERYTHING = {
    "type": "object", "title": "Everything", "description": "All that the subset has.",
    "properties": {
        "text": {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "a+", "format": "date", "default": "a"},
        "number": {"type": ["number", "null"], "minimum": 0, "maximum": 1, "examples": [0.5]},
        "list": {"type": "array", "items": {"type": "integer"}, "minItems": 0, "maxItems": 2},
        "choice": {"enum": ["a", 1, None]}, "fixed": {"const": 1}, "flag": {"type": "boolean"},
        "inner": {"type": "object", "properties": {"x": {"type": "null"}}, "additionalProperties": False},
    },
    "required": ["text", "inner"], "additionalProperties": True,
}  # fmt: skip

DISALLOWED = (
    "$ref", "$defs", "oneOf", "anyOf", "allOf", "not", "if", "then", "else", "patternProperties", "dependencies",
    "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "propertyNames", "contains",
    "prefixItems", "multipleOf", "exclusiveMinimum", "uniqueItems", "minProperties", "x-vendor", "Type",
)  # fmt: skip


def test_the_whole_schema_subset_is_allowed() -> None:
    assert ToolDefinition(name="everything", input_schema=EVERYTHING).problems() == []


@each_row("keyword", DISALLOWED)
@each_row(
    ("path", "around"),
    [
        ("$", lambda schema: schema),
        ("$.properties.x", lambda schema: {"properties": {"x": schema}}),
        ("$.properties.x.items", lambda schema: {"properties": {"x": {"items": schema}}}),
    ],
)
def test_other_keywords_are_named_with_their_path(keyword: str, path: str, around: Any) -> None:
    """Also unknown keywords: providers would ignore them, so models would not obey them."""
    schema = {"type": "object", **around({keyword: {}})}
    assert schema_problems(schema) == [f"{path}: the keyword {keyword!r} is outside the subset"]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ([], "$: a schema must be an object, not list"),
        (True, "$: a schema must be an object, not bool"),
        ({"type": "text"}, "$.type: 'text' is not a JSON type"),
        ({"type": ["string", "date"]}, "$.type: 'date' is not a JSON type"),
        ({"type": 1}, "$.type: 1 is not a JSON type"),
        ({"type": [["string"]]}, "$.type: ['string'] is not a JSON type"),
        ({"properties": []}, "$.properties: must be an object"),
        ({"properties": {"x": True}}, "$.properties.x: a schema must be an object, not bool"),
        ({"items": [{}]}, "$.items: a schema must be an object, not list"),
        ({"required": "x"}, "$.required: must be a list of names"),
        ({"required": [1]}, "$.required: must be a list of names"),
        ({"required": ["y"], "properties": {"x": {}}}, "$.required: 'y' is not among the properties"),
        ({"additionalProperties": {"type": "string"}}, "$.additionalProperties: only true or false is in the subset"),
        ({"enum": "a"}, "$.enum: must be a list"),
    ],
)
def test_a_malformed_keyword_is_named(schema: Any, problem: str) -> None:
    """A malformed keyword is named with its place and what it should be."""
    assert schema_problems(schema) == [problem]


def test_all_problems_are_found_at_once() -> None:
    """Not only the first, so one correction is enough."""
    schema = {"type": "array", "oneOf": [], "properties": {"a": {"type": "date"}, "b": {"not": {}}}, "required": ["c"]}
    assert ToolDefinition(name="Bad Name", input_schema=schema).problems() == [
        "name: 'Bad Name' is not snake_case of at most 64 characters",
        "$.type: a tool's input must be an object",
        "$: the keyword 'oneOf' is outside the subset",
        "$.properties.a.type: 'date' is not a JSON type",
        "$.properties.b: the keyword 'not' is outside the subset",
        "$.required: 'c' is not among the properties",
    ]


@pytest.mark.parametrize("name", ["a", "read_file", "x" * 64, "a1"])
def test_names_are_snake_case(name: str) -> None:
    assert ToolDefinition(name=name).problems() == []


@pytest.mark.parametrize("name", ["", "x" * 65, "readFile", "read-file", "1a", "_a", "é", "a\n"])
def test_invalid_names_are_a_problem(name: str) -> None:
    assert len(ToolDefinition(name=name).problems()) == 1


def test_a_definition_has_careful_defaults() -> None:
    """It takes an empty object, may have any side effect, and requires a workspace."""
    tool = ToolDefinition(name="f")
    assert tool.input_schema == {"type": "object", "properties": {}}
    assert (tool.description, tool.side_effects, tool.requires_workspace) == ("", SideEffects.EXECUTE, True)
    assert tool.problems() == []


def test_equality_ignores_provider_raw() -> None:
    tool = ToolDefinition(name="f", provider_raw={"by": "a"})
    assert {tool, ToolDefinition(name="f")} == {tool}
    for other in ({"name": "g"}, {"description": "d"}, {"side_effects": "none"}, {"requires_workspace": False}):
        assert ToolDefinition.model_validate({"name": "f", **other}) != tool


def test_unsafe_schemas_are_refused() -> None:
    """A schema is JSON like any other."""
    with pytest.raises(ValidationError, match=r"\$\.properties\.x\.default is nan"):
        ToolDefinition(name="f", input_schema={"properties": {"x": {"default": float("nan")}}})
