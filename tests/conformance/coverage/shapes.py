"""Samples of what an SDK's types declare: for each type, values that together name every field of it.

A union gives a value for each member; an object gives values that hold all its fields at once, so that one request
shows many of them.
"""

import base64
import datetime
import enum
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any, ForwardRef, Literal, TypeVar, Union, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

MAX_DEPTH = 5
"""Levels of objects below a parameter: what is deeper repeats what is above."""

_PLAIN: dict[type, Any] = {str: "sample", bool: True, int: 3, float: 0.5, dict: {"key": "sample"}, object: "sample"}
_LISTS = ("list", "Iterable", "Sequence", "Collection", "SequenceNotStr", "tuple")


def samples(hint: Any, depth: int = MAX_DEPTH, seen: tuple[Any, ...] = ()) -> list[Any]:
    """Return values of a type. Objects are dicts, with the names of the type's own fields."""
    hint = _bare(hint)
    origin = get_origin(hint)
    if origin is Literal:
        return [next(iter(get_args(hint)))]
    if origin in (Union, types.UnionType):
        return _distinct(value for each in get_args(hint) for value in samples(each, depth, seen))
    if origin is not None and getattr(origin, "__name__", "") in _LISTS:
        inner = [arg for arg in get_args(hint) if arg is not ...]
        return [[value] for value in samples(inner[0], depth, seen)] if inner else [["sample"]]
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return [{"key": value} for value in samples(get_args(hint)[1], depth, seen)[:1]]
    fields = fields_of(hint)
    if fields is not None:
        return [] if depth == 0 or hint in seen else _objects(fields, depth - 1, (*seen, hint))
    if hint is Any:
        return ["sample"]
    if isinstance(hint, type):
        if issubclass(hint, enum.Enum):
            return [next(each.value for each in hint if "UNSPECIFIED" not in str(each.value))]
        if issubclass(hint, bytes):
            return [b"sample"]
        if issubclass(hint, datetime.datetime):
            return [datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)]
        return next(([value] for kind, value in _PLAIN.items() if issubclass(hint, kind) and kind is not object), [])
    return []


def fields_of(hint: Any) -> dict[str, Any] | None:
    """Return the fields of an object's type, by the names that a caller writes; None if the type has none."""
    if is_typeddict(hint):
        return get_type_hints(hint, include_extras=True)
    if isinstance(hint, type) and hasattr(hint, "model_fields"):
        return {name: each.rebuild_annotation() for name, each in hint.model_fields.items()}
    return None


def literals(hint: Any) -> tuple[str, ...]:
    """Return every word that a type allows."""
    hint = _bare(hint)
    if get_origin(hint) is Literal:
        return tuple(map(str, get_args(hint)))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return tuple(str(each.value) for each in hint)
    return tuple(dict.fromkeys(word for each in get_args(hint) for word in literals(each)))


def members(hint: Any) -> Iterator[Any]:
    """Yield the objects of a union, however it is nested."""
    hint = _bare(hint)
    if get_origin(hint) in (Union, types.UnionType):
        for each in get_args(hint):
            yield from members(each)
    elif isinstance(hint, type):
        yield hint


def leaves(value: Any, name: str = "", place: tuple[Any, ...] = ()) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    """Yield the name, the place and the value of everything in a JSON value that holds nothing more.

    In a name, ``[]`` is any item of a list, and an item of a kind is named by it: ``tools[web_search_20250305].name``.
    """
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{name}.{key}" if name else key, (*place, key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            kind = inner.get("type", "") if isinstance(inner, Mapping) else ""
            yield from leaves(inner, f"{name}[{kind if isinstance(kind, str) else ''}]", (*place, index))
    else:
        yield name, place, value


def at(value: Any, place: tuple[Any, ...]) -> Any:
    """Return what is at a place; `MISSING` if nothing is."""
    for key in place:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return value


MISSING = object()


def botocore_samples(shape: Any, depth: int = MAX_DEPTH, seen: tuple[str, ...] = ()) -> list[Any]:
    """As `samples`, for a shape of a service model. A union gives one object for each member."""
    match shape.type_name:
        case "structure":
            if depth == 0 or shape.name in seen:
                return []
            fields = {
                name: botocore_samples(each, depth - 1, (*seen, shape.name)) for name, each in shape.members.items()
            }
            if shape.metadata.get("union"):
                return [{name: value} for name, values in fields.items() for value in values]
            return _zip(fields)
        case "list":
            return [[value] for value in botocore_samples(shape.member, depth, seen)]
        case "map":
            return [{"key": value} for value in botocore_samples(shape.value, depth, seen)[:1]]
        case "string":
            return [shape.enum[0] if shape.enum else "sample-sample-sample"]
        case "blob":
            return [b"sample"]
        case "boolean":
            return [True]
        case "integer" | "long":
            return [3]
        case "float" | "double":
            return [0.5]
        case "timestamp":
            return [1893456000]
    return []


def _objects(fields: Mapping[str, Any], depth: int, seen: tuple[Any, ...]) -> list[Any]:
    return _zip({name: samples(each, depth, seen) for name, each in fields.items()})


def _zip(fields: Mapping[str, list[Any]]) -> list[Any]:
    filled = {name: values for name, values in fields.items() if values}
    count = max(map(len, filled.values()), default=1)
    return [{name: values[index % len(values)] for name, values in filled.items()} for index in range(count)]


def _bare(hint: Any) -> Any:
    while True:
        if isinstance(hint, TypeVar | ForwardRef):
            return None
        if hasattr(hint, "__value__"):
            hint = hint.__value__
        elif (
            hasattr(hint, "__metadata__")
            or getattr(get_origin(hint), "__name__", "") in ("Required", "NotRequired")
            or str(get_origin(hint))
            in (
                "typing.Required",
                "typing.NotRequired",
                "typing_extensions.Required",
            )
        ):
            hint = get_args(hint)[0]
        else:
            return hint


def _distinct(values: Iterator[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def to_json(value: Any) -> Any:
    """Return a value as the wire has it: bytes are base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: to_json(inner) for key, inner in value.items()}
    return [to_json(inner) for inner in value] if isinstance(value, list) else value


def parameters_of(function: Any) -> dict[str, Any]:
    """Return the keyword parameters of a method with their types."""
    hints = get_type_hints(inspect.unwrap(function), include_extras=True)
    return {name: hints.get(name, Any) for name in inspect.signature(function).parameters if name != "self"}
