"""Reads a tool's schema and the types of its arguments from the signature of a Python function."""

import functools
import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter
from pydantic.errors import PydanticErrorMixin
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from dragoman.canonical.guard import copy_json
from dragoman.tools.context import NO_CONTEXT, Context

_SCHEMA_KEYWORDS = {"items", "additionalProperties", "not"}
"""Keywords whose value is a schema."""
_SCHEMA_LIST_KEYWORDS = {"anyOf", "oneOf", "allOf", "prefixItems"}
"""Keywords whose value is a list of schemas."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's description for a model. A function with ``problems`` cannot become a tool."""

    name: str
    description: str
    schema: dict[str, Any]
    arguments: Mapping[str, TypeAdapter[Any]]
    problems: tuple[str, ...]
    context_type: Any = NO_CONTEXT
    """The type of the session's context that the function takes first."""
    fields: Mapping[str, FieldInfo] = field(default_factory=dict)
    """The parameters whose default is a pydantic ``Field``, which the function must not receive."""


def read(function: Callable[..., Any]) -> Signature:
    """Read a signature and its docstring. Faults are returned as ``problems``, never raised."""
    unwrapped = _unwrap(function)
    doc = inspect.getdoc(unwrapped) or ""
    parameters = inspect.signature(function).parameters
    hints, problems = _resolve_hints(unwrapped)
    descriptions = docstring_parameters(doc, parameters)
    arguments: dict[str, TypeAdapter[Any]] = {}
    properties: dict[str, Any] = {}
    context_type: Any = NO_CONTEXT
    for name, parameter in parameters.items():
        if _is_context(hints.get(name)):
            if name != next(iter(parameters)):
                problems.append(f"$.properties.{name}: the context must be the first parameter")
            context_type = next(iter(get_args(hints[name])), Any)
            continue
        try:
            arguments[name], properties[name] = _argument(parameter, hints)
        except _UnsupportedParameterError as problem:
            problems.append(f"$.properties.{name}: {problem}")
            continue
        if name in descriptions:
            properties[name].setdefault("description", descriptions[name])
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    fields = {name: each.default for name, each in parameters.items() if isinstance(each.default, FieldInfo)}
    without_default = {name for name, each in parameters.items() if each.default is each.empty}
    without_default |= {name for name, each in fields.items() if each.is_required()}
    if required := [name for name in properties if name in without_default]:
        schema["required"] = required
    name = str(getattr(function, "__name__", unwrapped.__name__))
    return Signature(name, docstring_summary(doc), schema, arguments, tuple(problems), context_type, fields)


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether the first parameter of the function is a Context."""
    hints, _ = _resolve_hints(_unwrap(function))
    return _is_context(hints.get(next(iter(inspect.signature(function).parameters), "")))


def _is_context(hint: Any) -> bool:
    return hint is Context or get_origin(hint) is Context


class _UnsupportedParameterError(Exception):
    """Why a parameter cannot be an argument of a tool."""


def _unwrap(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the name, the docstring and the annotations, behind a partial or a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _resolve_hints(function: Callable[..., Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the annotations, with strings resolved, or the problems that prevent this."""
    try:
        return get_type_hints(function, include_extras=True), []
    except Exception as error:  # evaluating an annotation may raise anything
        return {}, [f"annotations: {type(error).__name__}: {error}"]


def _argument(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    """Return the type of an argument and its schema. Raises _UnsupportedParameterError."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise _UnsupportedParameterError("a model can pass arguments only by name: use named parameters")
    if parameter.name not in hints:
        raise _UnsupportedParameterError("needs a type annotation")
    default, hint = parameter.default, hints[parameter.name]
    if isinstance(default, FieldInfo):
        if default.validation_alias is not None:
            raise _UnsupportedParameterError("an argument has the name of its parameter: remove the alias")
        if default.default_factory_takes_validated_data:
            raise _UnsupportedParameterError("the default_factory of an argument takes no other arguments")
        hint = Annotated[hint, default]
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        schema = adapter.json_schema()
    except Exception as error:  # pydantic raises several classes for an unknown type
        reason = error.message if isinstance(error, PydanticErrorMixin) else str(error)
        raise _UnsupportedParameterError(reason.partition("\n")[0]) from None
    definitions = schema.pop("$defs", {})
    simplified = _simplify(schema, definitions)
    if isinstance(default, FieldInfo):
        if default.default is None:
            simplified.pop("default", None)
    elif default is not parameter.empty and default is not None:
        with suppress(ValueError):  # a default that cannot be JSON
            simplified["default"] = copy_json(to_jsonable_python(default))
    return adapter, simplified


def _simplify(
    schema: dict[str, Any], definitions: Mapping[str, Any], open_references: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return an equivalent schema that is closer to the subset: references inlined, titles dropped, ``X | None`` as a
    list of types. A recursive reference stays, and the check of the subset reports it."""
    reference = schema.get("$ref", "").removeprefix("#/$defs/")
    if reference and reference not in open_references:
        merged = {**definitions[reference], **{key: value for key, value in schema.items() if key != "$ref"}}
        return _simplify(merged, definitions, (*open_references, reference))
    simplified: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            simplified[key] = {name: _simplify(inner, definitions, open_references) for name, inner in value.items()}
        elif key in _SCHEMA_KEYWORDS and isinstance(value, dict):
            simplified[key] = _simplify(value, definitions, open_references)
        elif key in _SCHEMA_LIST_KEYWORDS:
            simplified[key] = [_simplify(inner, definitions, open_references) for inner in value]
        elif key != "title":
            simplified[key] = value
    return _merge_union(simplified)


_ANNOTATION_KEYWORDS = {"description", "default", "examples"}
"""Keywords that do not restrict values."""


def _merge_union(schema: dict[str, Any]) -> dict[str, Any]:
    """Turn ``anyOf`` into a list of types if that means the same; leave any other union as it is.

    Most keywords apply to values of one type, so keywords of different types can be merged. An enum applies to all
    values: it can only be combined with null.
    """
    branches: list[dict[str, Any]] = schema.get("anyOf", [])
    types = [branch.get("type") for branch in branches]
    if not branches or not all(isinstance(kind, str) for kind in types):
        return schema
    merged = {key: value for key, value in schema.items() if key != "anyOf"}
    kinds = Counter("number" if kind == "integer" else kind for kind in types)
    for branch, kind in zip(branches, types, strict=True):
        for key in branch:
            if key == "type":
                continue
            if key in _ANNOTATION_KEYWORDS:
                merged.setdefault(key, branch[key])
            elif key in merged or kinds["number" if kind == "integer" else kind] > 1:
                return schema
            else:
                merged[key] = branch[key]
    if merged.keys() & {"enum", "const"}:
        if len(types) != 2 or "null" not in types:
            return schema
        merged["enum"] = [*merged.get("enum", [merged.pop("const", None)]), None]
    return {**merged, "type": types}


_PARAMETERS = frozenset({"args", "arguments", "parameters", "params", "keyword args", "keyword arguments"})
_OTHER_SECTIONS = frozenset(
    {"return", "returns", "yields", "raises", "example", "examples", "other parameters", "see also"}
)
_SECTIONS = _PARAMETERS | _OTHER_SECTIONS

_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:\s*(.*)")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?()")
_UNDERLINE = re.compile(r"-{3,}\s*")
_FIELD_PARAMETER = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s[^:]*?(\w+)\s*:\s*(.*)")
_FIELD = re.compile(r":(?:param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises?|yields?)\b[^:]*:")


def docstring_summary(docstring: str) -> str:
    """Return the text before the first section."""
    return "\n".join(next(_sections(docstring))[1]).strip()


def docstring_parameters(docstring: str, names: Collection[str]) -> dict[str, str]:
    """Return the descriptions of the named parameters, each as one line."""
    found: dict[str, list[str]] = {}
    for header, lines in _sections(docstring):
        if field := _FIELD_PARAMETER.match(header):
            paragraph = takewhile(str.strip, lines)
            found[field[1]] = [field[2], *map(str.strip, paragraph)]
        elif header in _PARAMETERS:
            found |= _entries(lines, _GOOGLE_ENTRY)
        elif header.rstrip("-") in _PARAMETERS:
            found |= _entries(lines, _NUMPY_ENTRY)
    joined = {name: " ".join(filter(None, texts)) for name, texts in found.items() if name in names}
    return {name: text for name, text in joined.items() if text}


def _sections(docstring: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (header, lines) of each section; the header is empty for the text before the first one.

    ``args`` is a header in Google style, ``parameters-`` an underlined one in NumPy style, ``:param x: text`` a field.
    """
    header, body = "", list[str]()
    lines = inspect.cleandoc(docstring).split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        title = line.rstrip().lower()
        if title in _SECTIONS and _UNDERLINE.fullmatch(following):
            new = f"{title}-"
        elif title.endswith(":") and title[:-1] in _SECTIONS:
            new = title[:-1]
        elif _FIELD.match(line):
            new = line
        else:
            if not (header.endswith("-") and _UNDERLINE.fullmatch(line)):
                body.append(line)
            continue
        yield header, body
        header, body = new, []
    yield header, body


def _entries(lines: Iterable[str], entry: re.Pattern[str]) -> dict[str, list[str]]:
    """Return the texts by name. Entries have the indentation of the first one; other lines continue the last entry."""
    texts: dict[str, list[str]] = {}
    open_entry: list[list[str]] = []
    depth: int | None = None
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        depth = indent if depth is None else depth
        if indent < depth:
            break
        match = entry.fullmatch(line.strip()) if indent == depth else None
        if match is None:
            for lines_of_entry in open_entry:
                lines_of_entry.append(line.strip())
            continue
        new_entries = {name.strip(" *"): [match[2]] for name in match[1].split(",")}
        texts |= new_entries
        open_entry = list(new_entries.values())
    return texts
