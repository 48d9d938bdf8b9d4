"""A tool's definition from a Python function: schema from its signature, descriptions from its docstring."""

import inspect
import re
from collections.abc import Callable
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError

from dragoman.adapter.errors import ToolSchemaError

_ARGUMENT = re.compile(r"^\s*\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


def arguments_model(function: Callable[..., Any], name: str) -> type[BaseModel]:
    """A pydantic model of the function's parameters. Raises ToolSchemaError where one cannot be named or typed."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ToolSchemaError(name, [f"annotations: {error}"]) from None
    described = parameter_descriptions(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {}
    problems: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            problems.append(f"$.properties.{parameter.name}: a model can only pass arguments by name")
        elif parameter.name not in hints:
            problems.append(f"$.properties.{parameter.name}: needs a type annotation")
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (
                hints[parameter.name],
                Field(default, description=described.get(parameter.name)),
            )
    if problems:
        raise ToolSchemaError(name, problems)
    try:
        return create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields)
    except PydanticUserError as error:
        raise ToolSchemaError(name, [f"$: {error.message}"]) from None


def input_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The model's JSON Schema, brought into the subset: references inlined, ``X | None`` as a list of types."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    simplified: dict[str, Any] = _simplify(schema, definitions)
    simplified.pop("title", None)
    simplified.setdefault("properties", {})
    return simplified


def _simplify(node: Any, definitions: dict[str, Any], inside: tuple[str, ...] = ()) -> Any:
    if isinstance(node, list):
        return [_simplify(item, definitions, inside) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref", "").removeprefix("#/$defs/")
    if reference and reference not in inside:
        merged = {**definitions[reference], **{key: value for key, value in node.items() if key != "$ref"}}
        return _simplify(merged, definitions, (*inside, reference))
    simplified = {
        key: {name: _simplify(inner, definitions, inside) for name, inner in value.items()}
        if key == "properties"
        else _simplify(value, definitions, inside)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
    }
    return _without_union(simplified)


def _without_union(schema: dict[str, Any]) -> dict[str, Any]:
    """``anyOf`` of plain types becomes a list of types; any other union is left for the subset check to name."""
    branches = schema.get("anyOf")
    if not branches or not all(isinstance(branch.get("type"), str) for branch in branches):
        return schema
    described = [branch for branch in branches if len(branch) > 1]
    if len(described) > 1:
        return schema
    merged = {key: value for key, value in schema.items() if key != "anyOf"}
    for branch in described:
        merged |= branch
    return {**merged, "type": [branch["type"] for branch in branches]}


def summary(function: Callable[..., Any]) -> str:
    """The docstring up to its first section."""
    lines: list[str] = []
    for line in (inspect.getdoc(function) or "").splitlines():
        if line.strip().rstrip(":") in ("Args", "Arguments", "Parameters", "Returns", "Raises", "Example", "Examples"):
            break
        lines.append(line)
    return "\n".join(lines).strip()


def parameter_descriptions(docstring: str) -> dict[str, str]:
    """The entries of a Google-style ``Args:`` section."""
    described: dict[str, str] = {}
    current: str | None = None
    inside = False
    for line in docstring.splitlines():
        if line.strip() in ("Args:", "Arguments:", "Parameters:"):
            inside = True
        elif inside and line and not line[0].isspace():
            break
        elif inside and (match := _ARGUMENT.match(line)) and _indent(line) <= _indent_of_entries(docstring):
            current = match[1]
            described[current] = match[2].strip()
        elif inside and current and line.strip():
            described[current] += " " + line.strip()
    return described


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _indent_of_entries(docstring: str) -> int:
    lines = docstring.splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip() in ("Args:", "Arguments:", "Parameters:"))
    return next((_indent(line) for line in lines[start + 1 :] if line.strip()), 0)
