"""Constructs values of an SDK's types from its type hints: the smallest, the fullest, and each alternative inside."""

import datetime
import enum
import types
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, ForwardRef, Literal, NotRequired, Required, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

_MAX_DEPTH = 7
TEXT = "aGVs"
"""A text that is also a legal name, a legal id and base64."""
_SPECIAL = {"arguments": "{}", "mimeType": "image/png", "mime_type": "image/png"}
"""Fields of texts in which not every text is legal, by name."""
_PLAIN: dict[Any, Any] = {
    str: TEXT,
    int: 1,
    float: 0.5,
    bool: True,
    bytes: TEXT,
    object: TEXT,
    Any: TEXT,
    datetime.datetime: "2026-01-01T00:00:00Z",
}
_LISTS = (list, Iterable, tuple)


def members(union: Any) -> Iterator[Any]:
    """The models and TypedDicts of a union, however it is nested."""
    union = _plain(union)
    if get_origin(union) in (Union, types.UnionType):
        for each in get_args(union):
            yield from members(each)
    elif _is_object(union):
        yield union


def variants(hint: Any, depth: int = 0) -> list[Any]:
    """Values of a type, as JSON. The first one is the smallest; all alternatives of inner types occur."""
    hint = _plain(hint)
    origin = get_origin(hint)
    if depth > _MAX_DEPTH or hint is type(None):
        return []
    if origin is Literal:
        return list(get_args(hint))
    if origin in (Union, types.UnionType):
        return [value for each in get_args(hint) for value in variants(each, depth)]
    if origin in _LISTS or (origin is not None and issubclass(origin, Iterable) and not issubclass(origin, Mapping)):
        return [[value] for value in variants(get_args(hint)[0], depth)] if get_args(hint) else [[]]
    if (origin is not None and issubclass(origin, Mapping)) or hint is dict:
        return [{"key": value} for value in variants(get_args(hint)[1], depth)[:1]] if get_args(hint) else [{}]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return [next((each.value for each in hint if "UNSPECIFIED" not in str(each.value)), None)]
    if _is_object(hint):
        return objects(hint, depth + 1)
    return [_PLAIN[hint]] if hint in _PLAIN else []


def objects(kind: Any, depth: int = 0) -> list[dict[str, Any]]:
    """Values of a model or TypedDict: the smallest, the fullest, and one for each other value of each field."""
    fields = {name: (_field_values(name, hint, depth), required) for name, hint, required in _fields(kind)}
    if any(required and not values for values, required in fields.values()):
        return []
    smallest = {name: values[0] for name, (values, required) in fields.items() if required}
    fullest = {name: values[0] for name, (values, _) in fields.items() if values}
    found = [smallest, fullest]
    found += [{**smallest, name: value} for name, (values, _) in fields.items() for value in values[1:]]
    return [value for place, value in enumerate(found) if value not in found[:place]]


def _field_values(name: str, hint: Any, depth: int) -> list[Any]:
    return [_SPECIAL.get(name, value) if value == TEXT else value for value in variants(hint, depth)]


@cache
def _fields(kind: Any) -> list[tuple[str, Any, bool]]:
    """The fields of a type, as they are written, with their hints and whether they must be there."""
    if issubclass(kind, BaseModel):
        return [
            (field.alias or name, field.annotation, field.default is PydanticUndefined and not field.default_factory)
            for name, field in kind.model_fields.items()
        ]
    hints = get_type_hints(kind, include_extras=True)
    # The set of required keys is wrong where annotations are texts.
    return [
        (name, hint, get_origin(hint) is Required or (kind.__total__ and get_origin(hint) is not NotRequired))
        for name, hint in hints.items()
    ]


def _is_object(hint: Any) -> bool:
    return isinstance(hint, type) and (issubclass(hint, BaseModel) or hasattr(hint, "__required_keys__"))


def _plain(hint: Any) -> Any:
    """A hint without its wrappers."""
    while True:
        if hasattr(hint, "__value__"):
            hint = hint.__value__
        elif hasattr(hint, "__metadata__") or get_origin(hint) in (Required, NotRequired):
            hint = get_args(hint)[0]
        elif isinstance(hint, (TypeVar, ForwardRef)):
            return object
        else:
            return hint
