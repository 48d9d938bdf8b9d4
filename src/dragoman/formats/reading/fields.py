"""Objects of a document whose fields are used up: a field that no reader takes becomes a loss.

The losses of a reader: what a document has and the messages do not. Readers report to the collector of the running
`collect_losses`; without one, nothing collects.

What each library or format calls things: its words for roles, ends of replies, providers and counts, and the names of
fields that say nothing about a conversation. The words are data: ``words.toml``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, Self, TypeGuard, TypeVar

from pydantic import ValidationError

from dragoman.adapter.losses import Loss, LossKind, Severity, log_losses
from dragoman.adapter.package_data import read_toml
from dragoman.canonical.message import Role, StopReason
from dragoman.formats.document import iter_entries, kind_of, parse_json_or_lines
from dragoman.formats.errors import FormatError

_MAX_NAME = 80


class SourceLosses:
    """Collects the losses of one document, in order, each once."""

    def __init__(self) -> None:
        self._found: dict[Loss, None] = {}

    def add(
        self, path: str, reason: str, *, kind: LossKind = LossKind.FIELD, severity: Severity = Severity.WARNING
    ) -> None:
        """Add the loss of what is at ``path`` in the document."""
        self._found[Loss(kind, "", -1, reason, severity, path=path)] = None

    def add_info(self, path: str, reason: str, kind: LossKind = LossKind.FIELD) -> None:
        """As `add`, with the severity info."""
        self.add(path, reason, kind=kind, severity=Severity.INFO)

    def add_field(self, path: str, name: str, format_name: str) -> None:
        """Add the loss of a field that the reader of the format does not know."""
        shown = name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "…"
        self.add(f"{path}.{name}", f"the reader of {format_name} does not know the field {shown!r}: left out")

    def found(self) -> tuple[Loss, ...]:
        return tuple(self._found)

    def report(self, format_name: str) -> tuple[Loss, ...]:
        """Return all losses, and log each."""
        found = self.found()
        log_losses(found, session_id="", adapter=format_name)
        return found


_collector: ContextVar[SourceLosses | None] = ContextVar("dragoman_source_losses", default=None)


def source_losses() -> SourceLosses:
    """Return the collector of the running `collect_losses`, or one that nobody reads."""
    return _collector.get() or SourceLosses()


@contextmanager
def collect_losses() -> Iterator[SourceLosses]:
    """Collect what the readers called in this context report."""
    losses = SourceLosses()
    token = _collector.set(losses)
    try:
        yield losses
    finally:
        _collector.reset(token)


@contextmanager
def moved_losses(move: Callable[[str], str]) -> Iterator[None]:
    """Report what readers of a part of a document report in this context, with their paths in the whole document."""
    outer = source_losses()
    with collect_losses() as losses:
        yield
    for loss in losses.found():
        outer.add(move(loss.path), loss.reason, kind=loss.kind, severity=loss.severity)


def is_empty(value: object) -> bool:
    """Whether a value says nothing: null, or an empty text, list or object."""
    return value is None or value == "" or value == [] or value == {}


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one library or format, which are keys or, of counts, paths: a dot leads into an object."""

    roles: Mapping[str, Role]
    stops: Mapping[str, StopReason]
    written_stops: Mapping[str, str]
    providers: Mapping[str, str]
    counts: Mapping[str, Sequence[str]]
    """By the parameters of `build_usage`; the first count that is not 0 is the one."""
    skipped: Mapping[str, Sequence[str]]
    """Fields that say nothing about the conversation, by the object that has them."""


@cache
def words_of(name: str) -> Words:
    """Return the words of a library or format; one without a table has only the common ones."""
    table = read_toml("dragoman.formats.reading", "words.toml")
    row = table.get(name, {})
    stops = row.get("stops", {}) if row.get("own_stops") else {**table["common"]["stops"], **row.get("stops", {})}
    return Words(
        {word: Role(role) for word, role in row.get("roles", {}).items()},
        {word: StopReason(reason) for word, reason in stops.items()},
        row.get("written_stops", {}),
        row.get("providers", {}),
        row.get("counts", {}),
        row.get("skipped", {}),
    )


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

    def role(self, roles: Mapping[str, Role] | None = None, *names: str) -> Role:
        """Take the role of a message, by ``roles`` or the format's own words. Raises FormatError if it is missing or
        another word.
        """
        known = roles or words_of(self.format_name).roles or ROLES
        word = self.required_text(*(names or ("role",)))
        if word not in known:
            raise FormatError(f"unknown role {word[:80]!r}", path=f"{self.path}.role")
        return known[word]

    def stop_reason(self, *names: str) -> StopReason | None:
        """Take the end of a reply, by the format's words; None for a word that is not among them."""
        return words_of(self.format_name).stops.get(self.text(*names) or "")

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
        return self.adopt(value, self._path_of(name))

    def inner(self, name: str) -> Self:
        """Take an object; an empty one stands for null. Raises FormatError if it is something else."""
        return self.object(name) or self.adopt({}, self._path_of(name))

    def objects(self, name: str) -> "list[Fields]":
        """Take a list of objects; null is an empty one. Raises FormatError if it is something else."""
        found: list[Fields] = []
        for item, path in self.items(name):
            if not isinstance(item, dict):
                raise FormatError(f"must be an object, not {kind_of(item)}", path=path)
            found.append(self.adopt(item, path))
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
        child = type(self)(native, path, self.format_name)
        self._children.append(child)
        return child

    def ignore(self, *names: str) -> None:
        """Skip fields that say nothing about the conversation, such as positions and states of a program."""
        for name in names:
            self._left.pop(name, None)

    def skip(self, kind: str) -> None:
        """Skip the fields that the format has in such an object, and that say nothing about the conversation."""
        self.ignore(*words_of(self.format_name).skipped[kind])

    def drop(self, name: str, reason: str) -> None:
        """Report a field that has no place in a message, if it says something."""
        if not is_empty(value := self.take(name)) and value is not False:
            source_losses().add(self._path_of(name), reason)

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


def take_counts(usage: Fields) -> dict[str, Any]:
    """Take the counts of a usage by the names that the format has for them, as parameters of `build_usage`."""
    words = words_of(usage.format_name)
    details: dict[str, Fields] = {}

    def count(path: str) -> int | None:
        inner, *steps = usage, *path.split(".")
        for depth, step in enumerate(steps[:-1], 1):
            at = ".".join(steps[:depth])
            inner = details[at] = details.get(at) or inner.inner(step)
        return inner.count(steps[-1])

    found: dict[str, Any] = {}
    for name, paths in words.counts.items():
        counted = [count(path) for path in paths]
        found[name] = next(filter(None, counted), None)
    usage.ignore(*words.skipped.get("usage", ()))
    for each in details.values():
        each.ignore(*words.skipped.get("details", ()))
    return found


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


def iter_rows(document: Any, format_name: str) -> Iterator[Fields]:
    """Yield the rows of JSON lines, of a list, or a single one."""
    return iter_fields(parse_json_or_lines(document, format_name=format_name), format_name)


class RowNames:
    """A name for each row: its own id, or its number. No two are equal."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._count = 0

    def next(self, own: Any = None) -> str:
        self._count += 1
        name = own if isinstance(own, str) and own and own not in self._taken else str(self._count)
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name


def drop_tools(row: Fields, name: str = "tools") -> None:
    """Report that the definitions of a row's tools are left out: a history has only the calls."""
    if row.take(name) not in (None, [], "", "[]"):
        source_losses().add(f"{row.path}.{name}", "a history holds no definitions of tools: left out",
                            kind=LossKind.TOOLS)  # fmt: skip
