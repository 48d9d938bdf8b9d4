"""The options of a client's request if another provider answers, and the losses: fields that only its own wire has.

The fields stay in `AdapterOptions.extra` under the name of the client's wire, and no other provider gets them.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from dragoman.adapter.context import RequestContext
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.options import AdapterOptions
from dragoman.adapter.requests.option_table import read_option

_EMPTY: tuple[Any, ...] = (None, "", [], {}, ...)
"""Values that ask for nothing, but for an empty object that is a switch. ``...`` stands for a field that our encoder
would add."""


@dataclass(frozen=True, slots=True)
class _Rules:
    silent: frozenset[str]
    hints: frozenset[str]
    switches: frozenset[str]
    options: frozenset[str]
    neutral: Mapping[str, list[Any]]


@cache
def _rules() -> Mapping[str, _Rules]:
    text = files("dragoman.adapter.answers").joinpath("client_fields.toml").read_text(encoding="utf-8")
    return {
        wire: _Rules(
            frozenset((*table["read"], *table.get("served", ()), *table.get("options", ()))),
            frozenset(table.get("hints", ())),
            frozenset(table.get("switches", ())),
            frozenset(table.get("options", ())),
            table.get("neutral", {}),
        )
        for wire, table in tomllib.loads(text).items()
    }


def options_for_another(options: AdapterOptions, provider: str, wire: str, context: RequestContext) -> AdapterOptions:
    """Return the options of a request of the client's wire for another provider, and record what it cannot have.

    Raises RequestError for a value that has to be a number and is not.
    """
    if extra := options.extra.get(provider):
        rules = _rules()[wire]
        for path in _lost_paths(extra, "", rules):
            severity = Severity.INFO if path in rules.hints else Severity.WARNING
            reason = f"{path}: only the client's own API has it: left out"
            context.losses.append(Loss(LossKind.OPTION, "", -1, reason, severity))
        found = {name: extra[name] for name in rules.options & extra.keys() if getattr(options, name) is None}
        if found:
            options = replace(options, **{name: read_option(name, name, value) for name, value in found.items()})
    if options.logprobs is not None:
        reason = "logprobs: they come back from the client's own API only: they are not asked for"
        context.losses.append(Loss(LossKind.OPTION, "", -1, reason, Severity.WARNING))
        options = replace(options, logprobs=None)
    return options


def _lost_paths(fields: Mapping[str, Any], outer: str, rules: _Rules) -> Iterator[str]:
    """Yield the paths of the fields that only the client's wire has."""
    for name, value in fields.items():
        path = f"{outer}{name}"
        if value in _EMPTY and not (value == {} and path in rules.switches):
            continue
        if path in rules.silent or value in rules.neutral.get(path, ()):
            continue
        if isinstance(value, Mapping) and _has_rules(f"{path}.", rules):
            yield from _lost_paths(value, f"{path}.", rules)
        else:
            yield path


def _has_rules(prefix: str, rules: _Rules) -> bool:
    """Whether the table knows fields inside an object, so that each is judged alone."""
    return any(path.startswith(prefix) for table in (rules.silent, rules.hints, rules.neutral) for path in table)
