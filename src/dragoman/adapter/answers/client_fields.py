"""Losses of a client's request: the fields that only the client's wire has, if another provider answers.

The fields stay in `AdapterOptions.extra` under the name of the client's wire, and no other provider gets them.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dragoman.adapter.losses import Loss, LossKind, Severity

_EMPTY: tuple[Any, ...] = (None, "", [], {}, ...)
"""Values that ask for nothing. ``...`` stands for a field that our encoder would add."""


@dataclass(frozen=True, slots=True)
class _Rules:
    silent: frozenset[str]
    hints: frozenset[str]
    neutral: Mapping[str, list[Any]]


@cache
def _rules() -> Mapping[str, _Rules]:
    text = files("dragoman.adapter.answers").joinpath("client_fields.toml").read_text(encoding="utf-8")
    return {
        wire: _Rules(
            frozenset((*table["read"], *table.get("served", ()))),
            frozenset(table.get("hints", ())),
            table.get("neutral", {}),
        )
        for wire, table in tomllib.loads(text).items()
    }


def lost_fields(extra: Mapping[str, Any], wire: str) -> Iterator[Loss]:
    """Yield the losses of fields that only the client's wire has. ``wire`` is its name in client_fields.toml."""
    rules = _rules()[wire]
    for path in _paths(extra, "", rules):
        severity = Severity.INFO if path in rules.hints else Severity.WARNING
        yield Loss(LossKind.OPTION, "", -1, f"{path}: only the client's own API has it: left out", severity)


def _paths(fields: Mapping[str, Any], outer: str, rules: _Rules) -> Iterator[str]:
    for name, value in fields.items():
        path = f"{outer}{name}"
        if value in _EMPTY or path in rules.silent or value in rules.neutral.get(path, ()):
            continue
        if isinstance(value, Mapping) and _has_rules(f"{path}.", rules):
            yield from _paths(value, f"{path}.", rules)
        else:
            yield path


def _has_rules(prefix: str, rules: _Rules) -> bool:
    """Whether the table knows fields inside an object, so that each is judged alone."""
    return any(path.startswith(prefix) for table in (rules.silent, rules.hints, rules.neutral) for path in table)
