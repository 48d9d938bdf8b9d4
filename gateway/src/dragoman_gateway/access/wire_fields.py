"""The objects of a request whose fields its wire names, and not a client, a tool or a model.

Each field has one spelling there, so that a reader that takes `Model` for `model`, as Go's does, finds what this
gateway found.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from dragoman_gateway.errors import ClientError
from dragoman_gateway.toml import load_table

_GOOGLE = "google"
_CAPITAL = re.compile(r"(?<!^)[A-Z]")

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
"""Blocks whose input is of a tool, and names what it likes."""
FIELDS = load_table("access/fields.toml")
_FREE = frozenset(FIELDS["free"])


def wire_objects(fields: Any) -> Iterator[dict[str, Any]]:
    """Yield each object of a request or a reply whose fields the wire names."""
    left = [fields]
    while left:
        value = left.pop()
        if type(value) is list:
            left += [each for each in value if type(each) is dict or type(each) is list]
        elif type(value) is dict:
            yield value
            is_call = value is not fields and value.get("type") in _CALLS
            for name, each in value.items():
                if (type(each) is dict or type(each) is list) and name not in _FREE:
                    if name == "variables" and type(each) is dict:  # named by the client, with files as values
                        left.append(list(each.values()))
                        continue
                    # These belong to the client only if they are objects: Ollama's format, the annotations of MCP.
                    is_schema = name == "annotations" or (name == "format" and "schema" not in each)
                    if not ((is_schema and type(each) is dict) or (is_call and name == "input")):
                        left.append(each)


@dataclass(frozen=True, slots=True)
class _Names:
    """``usual`` are the names of fields of which no two are spellings of one field, ``all`` those and the others that
    clients write. ``fold`` returns the same text for all spellings of a field."""

    usual: frozenset[str]
    all: frozenset[str]
    fold: Callable[[str], str]
    by_fold: Mapping[str, str]


def check_spelling(fields: dict[str, Any], wire: str) -> None:
    """Raise ClientError for two spellings of one field in an object, and for a field that differs by case alone from
    one of the wire. ``wire`` is the name of the client's. Letters outside of ASCII count as those that they fold to:
    the sign for kelvin is a k.
    """
    names = _names(wire == _GOOGLE)
    for each in wire_objects(fields):
        if each.keys() <= names.usual:
            continue
        seen: dict[str, str] = {}
        for name in each:
            folded = names.fold(name)
            if (other := seen.setdefault(folded, name)) != name:
                raise ClientError(
                    f"the fields {other!r:.80} and {name!r:.80} are the same to some servers: send only one of them"
                )
            if name not in names.all and (field := names.by_fold.get(folded)) is not None:
                raise ClientError(f"the field {name!r:.80} is {field!r} to some servers: write it that way")


@cache
def _names(of_google: bool) -> _Names:
    """Return the names of Google's wire, or of all others: each has some that servers of another one know too."""
    table = load_table("wires/field_names.toml")
    found = {name for wire, names in table.items() if (wire == _GOOGLE) is of_google for name in names.split()}
    # Google reads a name in camelCase and in snake_case.
    fold = (lambda name: name.replace("_", "").casefold()) if of_google else str.casefold
    both = {snake_case(name) for name in found} if of_google else found
    return _Names(frozenset(found), frozenset(found | both), fold, {fold(name): name for name in sorted(found)})


def snake_case(name: str) -> str:
    """Return a name in camelCase as Google reads it too."""
    return _CAPITAL.sub(lambda letter: f"_{letter[0].lower()}", name)
