"""Describes mistakes in the table ``[gateway]``, with the names and the lines of its file."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

Place = tuple[str | int, ...]


def find_mistakes(model: type[BaseModel], table: Mapping[str, Any], error: ValidationError) -> list[tuple[Place, str]]:
    """Return the place of each mistake and a description without the value, which may be secret."""
    found: list[tuple[Place, str]] = []
    for each in error.errors(include_input=False, include_url=False):
        place = _place_in(table, each["loc"])
        if place is None:
            continue
        problem = each["msg"].removeprefix("Value error, ")
        if each["type"] == "extra_forbidden":
            problem = f"an unknown setting{_hint(str(place[-1]), _names_at(model, place[:-1]))}"
        found.append((("gateway", *place), problem))
    return found


def _place_in(table: Any, location: Place) -> Place | None:
    """Return the keys of the file in a location of pydantic, which also names the alternatives of a type. None if the
    mistake is one of an alternative that the value does not look like."""
    place: list[str | int] = []
    for index, step in enumerate(location):
        if isinstance(table, Mapping) and (step in table or index == len(location) - 1):
            place.append(step)
            table = table.get(step)
        elif isinstance(table, (list, tuple)) and isinstance(step, int):
            place.append(step)
            table = table[step]
        elif str(step).startswith("tuple[") is not isinstance(table, (list, tuple)):
            return None
    return tuple(place)


def _names_at(model: type[BaseModel], place: Place) -> list[str]:
    """Return the names of the settings that the table at a place may have."""
    for step in place:
        if isinstance(step, str) and step in model.model_fields:
            model = next(_models_of(model.model_fields[step].annotation), model)
    return list(model.model_fields)


def _models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models_of(each)


def _hint(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
