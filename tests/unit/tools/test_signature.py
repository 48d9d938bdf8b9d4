"""The schema of a tool from the signature of its function, and the signatures that are refused."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from dragoman.adapter.errors import ConfigurationError, ToolSchemaError
from dragoman.canonical.tools import SideEffects, ToolDefinition, schema_problems
from dragoman.session import Tool, tool
from dragoman.tools.signature import read
from tests.tables import each_row


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    """A place on the map."""

    x: float
    y: float = 0.0
    label: str | None = Field(default=None, description="What is there.")


@dataclass
class Span:
    start: int
    stop: int = 9


class Options(TypedDict):
    depth: int


class Tree(BaseModel):
    children: list["Tree"] = []


POINT = {
    "type": "object", "description": "A place on the map.", "required": ["x"],
    "properties": {
        "x": {"type": "number"}, "y": {"type": "number", "default": 0.0},
        "label": {"type": ["string", "null"], "default": None, "description": "What is there."},
    },
}  # fmt: skip
SPAN = {
    "type": "object", "required": ["start"],
    "properties": {"start": {"type": "integer"}, "stop": {"type": "integer", "default": 9}},
}  # fmt: skip


def function_with(hint: Any, default: Any = inspect.Parameter.empty) -> Callable[..., Any]:
    """A function with one parameter ``x`` of that type."""

    def take(**arguments: Any) -> Any:
        return arguments["x"]

    parameter = inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)
    take.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    take.__annotations__ = {"x": hint}
    return take


@each_row(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (dict, {"type": "object", "additionalProperties": True}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (list[list[int]], {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a"], {"type": "string", "const": "a"}),
        (Literal[1, "a"], {"enum": [1, "a"]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Optional[int], {"type": ["integer", "null"]}),  # noqa: UP045 - as older code has it
        (int | str | None, {"type": ["integer", "string", "null"]}),
        (Union[int, float], {"type": ["integer", "number"]}),  # noqa: UP007
        (Literal["a", "b"] | None, {"type": ["string", "null"], "enum": ["a", "b", None]}),
        (Literal["a"] | None, {"type": ["string", "null"], "enum": ["a", None]}),
        (Colour | None, {"type": ["string", "null"], "enum": ["red", "blue", None]}),
        (list[str] | None, {"type": ["array", "null"], "items": {"type": "string"}}),
        (Point, POINT),
        (list[Point], {"type": "array", "items": POINT}),
        (Point | None, {**POINT, "type": ["object", "null"]}),
        (Span, SPAN),
        (Span | list[int], {**SPAN, "type": ["object", "array"], "items": {"type": "integer"}}),
        (Options, {"type": "object", "properties": {"depth": {"type": "integer"}}, "required": ["depth"]}),
        (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (Annotated[str, Field(min_length=2, pattern="^a")], {"type": "string", "minLength": 2, "pattern": "^a"}),
        (Annotated[int, Field(description="How many.")], {"type": "integer", "description": "How many."}),
        (Annotated[int, Field(ge=1)] | None, {"type": ["integer", "null"], "minimum": 1}),
        (Annotated[int | None, Field(description="D", ge=1)],
         {"type": ["integer", "null"], "minimum": 1, "description": "D"}),
        (Annotated[Point, Field(description="Where.")], {**POINT, "description": "Where."}),
    ],
)  # fmt: skip
def test_types_become_schemas_of_the_subset(hint: Any, schema: dict[str, Any]) -> None:
    """References are inlined, unions are lists of types, and the check of the subset passes."""
    found = read(function_with(hint))
    assert found.problems == ()
    assert found.schema["properties"]["x"] == schema
    assert schema_problems(found.schema) == []


@pytest.mark.parametrize(
    ("hint", "problem"),
    [
        (dict[str, int], "$.properties.x.additionalProperties: only true or false"),
        (tuple[int, str], "$.properties.x: the keyword 'prefixItems'"),
        (set[str], "$.properties.x: the keyword 'uniqueItems'"),
        (int | Literal["a"], "$.properties.x: the keyword 'anyOf'"),
        (list[int] | list[str], "$.properties.x: the keyword 'anyOf'"),
        (Annotated[int, Field(ge=1)] | float, "$.properties.x: the keyword 'anyOf'"),
        (Point | Span, "$.properties.x: the keyword 'anyOf'"),
        (Tree, "$.properties.x.properties.children.items: the keyword '$ref'"),
        (list[dict[str, int]], "$.properties.x.items.additionalProperties"),
        (Callable[[], int], "$.properties.x: Cannot generate a JsonSchema"),
        (object(), "$.properties.x:"),
        (type("Lock", (), {}), "$.properties.x: Unable to generate pydantic-core schema"),
        (Annotated[str, Field(ge=1)], "$.properties.x:"),
        ("Nowhere", "annotations: NameError"),
    ],
)
def test_unsupported_types_are_refused_with_a_path(hint: Any, problem: str) -> None:
    with pytest.raises(ToolSchemaError) as caught:
        tool(function_with(hint))
    assert any(problem in found for found in caught.value.problems)


def test_all_problems_are_reported_at_once() -> None:
    """Name, parameters and types: one error, each with its path."""

    def Bad(untyped, typed: tuple[int, int], plain: int, *rest: int, **more: str) -> None:  # type: ignore[no-untyped-def]  # noqa: N802
        """Bad in every way."""

    with pytest.raises(ToolSchemaError) as caught:
        tool(Bad)
    paths = [problem.partition(":")[0] for problem in caught.value.problems]
    assert paths == ["$.properties.untyped", "$.properties.rest", "$.properties.more", "name", "$.properties.typed"]


def test_positional_only_parameters_are_refused() -> None:
    """A model passes arguments by name only."""

    def place(x: int, /) -> None:
        """Place."""

    with pytest.raises(
        ToolSchemaError, match=r"\$.properties.x: a model can pass arguments only by name: use named parameters"
    ):
        tool(place)


@pytest.mark.parametrize(
    ("default", "shown"),
    [
        (3, {"default": 3}), (None, {}), (Colour.RED, {"default": "red"}), ([1], {"default": [1]}),
        (Point(x=1), {"default": {"x": 1.0, "y": 0.0, "label": None}}), (object(), {}), (float("nan"), {}),
        (Decimal("1.5"), {"default": "1.5"}),
    ],
)  # fmt: skip
def test_defaults_are_shown_if_they_are_json(default: Any, shown: dict[str, Any]) -> None:
    """A parameter with a default is not required."""
    found = read(function_with(Any, default))
    assert found.schema["properties"]["x"] == shown
    assert "required" not in found.schema


def test_a_function_without_parameters_takes_none() -> None:
    """Its schema is an empty, closed object."""

    def now() -> str:
        """What time it is."""
        return "12:00"

    assert tool(now).definition.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    "name", ["schema", "copy", "json", "model_config", "model_dump", "_hidden", "validate", "self"]
)
def test_a_parameter_may_have_any_name(name: str) -> None:
    """Names inside the validation do not clash with it."""
    scope: dict[str, Any] = {}
    exec(f"def act({name}: int, other: str = 'x') -> int:\n    return {name}", scope)
    made = tool(scope["act"])
    assert list(made.definition.input_schema["properties"]) == [name, "other"]


def test_descriptions_come_from_the_docstring() -> None:
    """The summary describes the tool, Args the parameters. An annotation's description takes precedence."""

    @tool(side_effects="read")
    def search(query: str, limit: int = 10, where: Annotated[str, Field(description="A folder.")] = ".") -> list[str]:
        """Search the files.

        Every word has to occur.

        Args:
            query: The words,
                one after the other.
            limit (int): How many hits.
            where: Never seen.

        Returns:
            The paths.
        """
        return [query] * limit

    properties = search.definition.input_schema["properties"]
    assert search.definition.description == "Search the files.\n\nEvery word has to occur."
    assert [properties[name]["description"] for name in properties] == [
        "The words, one after the other.", "How many hits.", "A folder.",
    ]  # fmt: skip
    assert search.definition.side_effects is SideEffects.READ
    assert search("x", limit=2) == ["x", "x"]


def test_a_tool_may_be_named_and_described_explicitly() -> None:
    """Explicit values take precedence."""

    @tool(name="find_it", description="Find.", side_effects=SideEffects.NONE)
    def whatever(x: int) -> int:
        """Not shown."""
        return x

    assert (whatever.name, whatever.definition.description) == ("find_it", "Find.")
    assert isinstance(whatever, Tool)
    with pytest.raises(ConfigurationError, match="sometimes"):
        tool(side_effects="sometimes")(whatever.function)


class Counter:
    """Not the tool's description."""

    def __call__(self, n: int) -> int:
        """Count up."""
        return n + 1

    def count(self, n: int) -> int:
        """Count."""
        return n


def scale(by: int, n: float) -> float:
    """Scale a number."""
    return n * by


@functools.wraps(scale)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return scale(*args, **kwargs)


@pytest.mark.parametrize(
    ("function", "name", "description", "properties"),
    [
        (Counter().count, "count", "Count.", ["n"]),
        (functools.partial(scale, by=2), "scale", "Scale a number.", ["by", "n"]),
        (functools.partial(scale, 2), "scale", "Scale a number.", ["n"]),
        (functools.partial(functools.partial(scale), by=2), "scale", "Scale a number.", ["by", "n"]),
        (wrapped, "scale", "Scale a number.", ["by", "n"]),
        (Counter(), "counter", "Count up.", ["n"]),
    ],
    ids=["method", "partial", "partial by place", "partial of partial", "wrapped", "object"],
)
def test_any_callable_can_be_a_tool(
    function: Callable[..., Any], name: str, description: str, properties: list[str]
) -> None:
    """Methods, partials, wrapped functions and objects; an object needs a name."""
    named = {"name": "counter"} if isinstance(function, Counter) else {}
    definition = tool(**named)(function).definition
    assert (definition.name, definition.description) == (name, description)
    assert list(definition.input_schema["properties"]) == properties


def test_string_annotations_are_resolved() -> None:
    """String annotations are resolved, as under ``from __future__ import annotations``, also inside other types."""

    def act(point: "Point", many: "list['Span']") -> None:
        """Act."""

    assert tool(act).definition.input_schema["properties"] == {
        "point": POINT, "many": {"type": "array", "items": SPAN}
    }  # fmt: skip


def test_the_schema_shares_nothing_with_the_type() -> None:
    """Two tools with one type do not affect each other."""
    first, second = (ToolDefinition(name="t", input_schema=read(function_with(Point)).schema) for _ in range(2))
    first.input_schema["properties"]["x"]["properties"].clear()
    assert second.input_schema["properties"]["x"] == POINT
