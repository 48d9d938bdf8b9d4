"""Objects of a document whose fields are used up: a field that no reader takes becomes a loss."""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, Self, TypeGuard, TypeVar

from pydantic import ValidationError

from dragoman.canonical.message import Role
from dragoman.formats.document import iter_entries, kind_of
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.losses import is_empty, source_losses

Json = Any
Result = TypeVar("Result")
ROLES: Mapping[str, Role] = {str(role): role for role in Role}
"""Our own words of roles, which most formats share."""
_MAX_COUNT = 2**63
"""The counts of a message are less."""


class Fields:
    """One object at ``path``. Each field is taken once, with the type that the format gives it.

    `close` reports the fields that nobody took, in this object and those taken from it.
    """

    __slots__ = ("_children", "_left", "_native", "format_name", "path")

    def __init__(self, native: Mapping[str, Json], path: str, format_name: str) -> None:
        self._native = native
        self._left = dict.fromkeys(native)
        self._children: list[Fields] = []
        self.path = path
        self.format_name = format_name
        """The format's name, for errors and losses."""

    def __contains__(self, name: str) -> bool:
        return not is_empty(self._native.get(name))

    def names(self) -> list[str]:
        """Return the names of all fields."""
        return list(self._native)

    def look(self, name: str) -> Json:
        """Return a field without taking it."""
        return self._native.get(name)

    def take(self, *names: str) -> Json:
        """Take these fields; return the first that is not null."""
        found = None
        for name in names:
            self._left.pop(name, None)
            if found is None:
                found = self._native.get(name)
        return found

    def text(self, *names: str) -> str | None:
        """Take a text. Raises FormatError if it is something else."""
        value = self.take(*names)
        if value is not None and not isinstance(value, str):
            raise self.fault(names[0], f"must be a text, not {kind_of(value)}")
        return value

    def required_text(self, *names: str) -> str:
        """Take a text. Raises FormatError if it is missing or something else."""
        value = self.text(*names)
        if value is None:
            raise FormatError(f"{names[0]} is missing", path=self.path)
        return value

    def role(self, roles: Mapping[str, Role], *names: str) -> Role:
        """Take the role of a message, by the format's words. Raises FormatError if it is missing or another word."""
        word = self.required_text(*(names or ("role",)))
        if word not in roles:
            raise FormatError(f"unknown role {word[:80]!r}", path=f"{self.path}.role")
        return roles[word]

    def count(self, *names: str) -> int | None:
        """Take a number of things; a number that is negative or no integer counts as unknown."""
        value = self.take(*names)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None or is_count(value):
            return value
        source_losses().add(self._path_of(names[0]), f"{names[0]} is not a count: left out")
        return None

    def flag(self, name: str) -> bool:
        """Take a boolean; null is False. Raises FormatError if it is something else."""
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise self.fault(name, f"must be true or false, not {kind_of(value)}")
        return bool(value)

    def object(self, *names: str) -> Self | None:
        """Take an object; None for null. Raises FormatError if it is something else."""
        value = self.take(*names)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.fault(names[0], f"must be an object, not {kind_of(value)}")
        name = next(each for each in names if self._native.get(each) is not None)
        return self._child(value, self._path_of(name))

    def objects(self, name: str) -> "list[Fields]":
        """Take a list of objects; null is an empty one. Raises FormatError if it is something else."""
        found: list[Fields] = []
        for item, path in self.items(name):
            if not isinstance(item, dict):
                raise FormatError(f"must be an object, not {kind_of(item)}", path=path)
            found.append(self._child(item, path))
        return found

    def items(self, name: str) -> list[tuple[Json, str]]:
        """Take a list: its items with their paths. Raises FormatError if it is something else."""
        value = self.take(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.fault(name, f"must be a list, not {kind_of(value)}")
        return [(item, f"{self._path_of(name)}[{index}]") for index, item in enumerate(value)]

    def adopt(self, native: Mapping[str, Json], path: str) -> Self:
        """Return the fields of an object inside a value that was taken."""
        return self._child(native, path)

    def ignore(self, *names: str) -> None:
        """Skip fields that say nothing about the conversation, such as positions and states of a program."""
        for name in names:
            self._left.pop(name, None)

    def rest(self) -> dict[str, Json]:
        """Take all fields that are left and not empty."""
        found = {name: self._native[name] for name in self._left if not is_empty(self._native[name])}
        self._left.clear()
        return found

    def whole(self) -> dict[str, Json]:
        """Take all fields, and return the object as it is."""
        self._left.clear()
        return dict(self._native)

    def close(self) -> None:
        """Report the fields that nobody took."""
        losses = source_losses()
        for name in self.rest():
            losses.add_field(self.path, self._path_of(name).removeprefix(f"{self.path}."), self.format_name)
        for child in self._children:
            child.close()

    def _path_of(self, name: str) -> str:
        return f"{self.path}.{name}"

    def fault(self, name: str, reason: str) -> FormatError:
        """Return the error that refuses a field, with its path. The caller raises it."""
        return FormatError(f"{name} {reason}", path=self._path_of(name))

    def _child(self, native: Mapping[str, Json], path: str) -> Self:
        child = type(self)(native, path, self.format_name)
        self._children.append(child)
        return child


def is_count(value: Any) -> TypeGuard[int]:
    """Whether a value is a number of things that a message can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_COUNT


def typed_errors(read: Callable[[Any], Result]) -> Callable[[Any], Result]:
    """Turn what a message cannot hold, such as a text of over 64 MiB, into a FormatError."""

    @wraps(read)
    def checked(document: Any) -> Result:
        try:
            return read(document)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise FormatError(f"no message can hold this: {first['msg']}") from None

    return checked


def list_inside(document: Json, name: str, format_name: str) -> tuple[Json, str]:
    """Return the list that an object has under ``name``, with its path; other fields of the object are losses.

    Anything without that field is returned as it is.
    """
    if not isinstance(document, Mapping) or name not in document:
        return document, "$"
    for other, value in document.items():
        if other != name and not is_empty(value):
            source_losses().add_field("$", str(other), format_name)
    return document[name], f"$.{name}"


def iter_fields(document: Json, format_name: str, at: str = "$") -> Iterator[Fields]:
    """Yield the objects of a list, or a single one; each is closed before the next."""
    for path, native in iter_entries(document, format_name=format_name):
        fields = Fields(native, at + path.removeprefix("$"), format_name)
        yield fields
        fields.close()
