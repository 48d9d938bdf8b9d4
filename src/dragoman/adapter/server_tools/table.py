"""server_tools.toml: what a wire calls each server tool, and where each setting goes.

Each tool has a list of rows; the first one whose ``match`` globs fit the model counts. The fields of a row are those of
`ToolRow`. A path that begins with a slash is a path in the body; any other path is in the tool's own object.
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from pydantic import Field

from dragoman.adapter.package_data import read_toml
from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import JsonObject


class ToolRow(FrozenModel):
    """One tool on one wire."""

    match: tuple[str, ...] = ("*",)
    """Globs of the models that have the tool."""
    entry: JsonObject | None = None
    """The tool's object in the list of tools; None if the tool is not in the list."""
    body: JsonObject = Field(default_factory=dict)
    """Fields of the body that come with the tool. Lists are added to each other."""
    headers: Mapping[str, str] = Field(default_factory=dict)
    """Headers whose values are lists, to which these are added."""
    fields: Mapping[str, str] = Field(default_factory=dict)
    """The path of each setting."""
    along: Mapping[str, JsonObject] = Field(default_factory=dict)
    """Values at further paths that come with a setting."""
    words: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    """The wire's values for ours. A value that is missing cannot be sent."""
    choices: Mapping[str, Mapping[str, JsonObject]] = Field(default_factory=dict)
    """Values by path, for each value of a setting."""
    shapes: Mapping[str, str] = Field(default_factory=dict)
    """The shape of a setting that is not sent as it is; see `dragoman.adapter.server_tools.encode`."""
    given: Mapping[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Values that hold on this wire without being sent."""
    limits: Mapping[str, int] = Field(default_factory=dict)
    """How many items a setting may have."""
    needed: tuple[str, ...] = ()
    """Settings without which the wire has no such tool."""
    together: tuple[str, ...] = ()
    """Settings that the wire takes only together."""
    approximate: Mapping[str, str] = Field(default_factory=dict)
    """What a setting means here, if it is not quite the same: a loss of the severity info."""
    part_of: str = ""
    """The tool that does this as well. Its object is not repeated."""
    call: str = ""
    """The type of the items that call the tool, if the wire has items of their own for it."""
    types: tuple[str, ...] = ()
    """Other values of ``type`` that name the same tool in requests."""


class PairRules(FrozenModel):
    """How a wire pairs native calls and results: the table ``pairs`` of a server_tools.toml."""

    calls: tuple[str, ...]
    """The kinds of the blocks that are calls."""
    id: str
    result_id: str
    """The fields of a call's id, in the call and in its result."""
    caller: str = ""
    """The field of a block that was called from inside another call, whose ``tool_id`` names that call."""
    answers: Mapping[str, JsonObject] = Field(default_factory=dict)
    """The result to send for an open call, by the kind of the call. A call without one is left out."""
    resumed_by: str = ""
    """The field of a paused reply that is sent in its place; empty if the reply itself is sent back."""


class ServerToolTable:
    """The server tools of an adapter, by model."""

    def __init__(self, load: Callable[[], Mapping[str, Any]]) -> None:
        self._load = load

    @classmethod
    def of(cls, package: str, name: str = "server_tools.toml", keys: tuple[str, ...] = ()) -> "ServerToolTable":
        """Return the table of an adapter's package, or the one under ``keys`` in its file. It is read when needed.

        ``same_as`` in the file names a package whose table holds instead.
        """

        def load() -> Mapping[str, Any]:
            data: Mapping[str, Any] = read_toml(package, name)
            for key in keys:
                data = data.get(key, {})
            return cls.of(data["same_as"])._data if "same_as" in data else data

        return cls(load)

    @cached_property
    def _data(self) -> Mapping[str, Any]:
        return self._load()

    @cached_property
    def rows(self) -> Mapping[str, tuple[ToolRow, ...]]:
        """The rows of each tool."""
        return {
            word: tuple(map(ToolRow.model_validate, rows))
            for word, rows in self._data.items()
            if isinstance(rows, list)
        }

    @cached_property
    def function_fields(self) -> Mapping[str, str]:
        """The paths of ``strict`` and ``defer_loading`` in the object of a function."""
        found: Mapping[str, str] = self._data.get("function", {})
        return found

    @cached_property
    def pairs(self) -> PairRules | None:
        """The rules for native calls and results; None if the wire has no such calls that may be open."""
        rules = self._data.get("pairs")
        return None if rules is None else PairRules.model_validate(rules)

    @cached_property
    def containers(self) -> tuple[str, ...]:
        """Globs of the types of tools that run in a container whose id is carried on."""
        return tuple(self._data.get("containers", {}).get("types", ()))

    @cached_property
    def absent(self) -> str:
        """Why the wire has no tools, or not those that it lacks."""
        return str(self._data.get("absent", ""))

    def find(self, word: str, model: str) -> ToolRow | None:
        """Return the row of a tool for a model; None if the model has no such tool."""
        rows = self.rows.get(word, ())
        return next((row for row in rows if any(fnmatchcase(model, glob) for glob in row.match)), None)


EMPTY_TABLE = ServerToolTable(dict)


_lookups: list[Callable[[str], tuple[str, ...]]] = []


def register_lookup(lookup: Callable[[str], tuple[str, ...]]) -> None:
    """Register the function that returns the providers with a tool, by the tool's name in the tables."""
    _lookups[:] = [lookup]


def providers_with(word: str) -> tuple[str, ...]:
    """Return the providers that have the tool for some model; none if no registry is loaded."""
    return _lookups[0](word) if _lookups else ()
