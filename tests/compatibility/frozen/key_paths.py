"""The names in JSON, as paths: ``metadata.usage.cost_usd``, ``content[].text``. ``*`` stands for a key that is data."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_MINTED = re.compile(r"(?:[a-z]+_)*[0-9A-HJKMNP-TV-Z]{26}")
"""Our own ids: as keys they are data."""


def of_value(value: Any, path: str = "") -> Iterator[str]:
    """The paths of a JSON value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            below = _below(path, "*" if _MINTED.fullmatch(str(key)) else str(key))
            yield below
            yield from of_value(inner, below)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from of_value(inner, f"{path}[]")


def of_schema(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The paths that a JSON Schema allows, each with the words that it is limited to.

    Alternatives that a word in a field distinguishes are one path each: ``content[]<text>.citations``.
    """
    yield from _of_schema(schema, schema.get("$defs", {}), path, ())


def _of_schema(
    schema: Mapping[str, Any], named: Mapping[str, Any], path: str, within: tuple[str, ...]
) -> Iterator[str]:
    if (reference := schema.get("$ref")) is not None:
        name = reference.rpartition("/")[2]
        if name not in within:
            yield from _of_schema(named[name], named, path, (*within, name))
        return
    for way in ("anyOf", "oneOf", "allOf"):
        for each in schema.get(way, ()):
            word = _word(_resolve(each, named)) if len(schema[way]) > 1 else None
            yield from _of_schema(each, named, path if word is None else f"{path}<{word}>", within)
    for name, inner in schema.get("properties", {}).items():
        yield _below(path, name)
        yield from _of_schema(inner, named, _below(path, name), within)
    items = schema.get("items")
    for inner in [*schema.get("prefixItems", ()), *([items] if isinstance(items, Mapping) else [])]:
        yield from _of_schema(inner, named, f"{path}[]", within)
    if isinstance(others := schema.get("additionalProperties"), Mapping):
        yield from _of_schema(others, named, _below(path, "*"), within)
    for word in [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]:
        yield f"{path} = {word}"


def _resolve(schema: Mapping[str, Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    return schema if reference is None else named[reference.rpartition("/")[2]]


def _word(schema: Mapping[str, Any]) -> str | None:
    """What distinguishes an object from its alternatives: the first field that has a single value."""
    words = (inner["const"] for inner in schema.get("properties", {}).values() if "const" in inner)
    return next(map(str, words), None)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
