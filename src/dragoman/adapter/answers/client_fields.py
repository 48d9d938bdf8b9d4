"""The options of a client's request if another provider answers, and the losses: fields that only its own wire has.

The fields stay in `AdapterOptions.extra` under the name of the client's wire, and no other provider gets them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dragoman.adapter.context import RequestContext
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.options import AdapterOptions
from dragoman.adapter.package_data import read_toml
from dragoman.adapter.requests.option_table import read_option

_EMPTY: tuple[Any, ...] = (None, "", [], {}, ...)
"""Values that ask for nothing, but for an empty object that is a switch. ``...`` stands for a field that our encoder
would add."""

_SILENT = ("read", "served", "options")
"""The lists of the table whose fields are no loss."""


def options_for_another(options: AdapterOptions, provider: str, wire: str, context: RequestContext) -> AdapterOptions:
    """Return the options of a request of the client's wire for another provider, and record what it cannot have.

    Raises RequestError for a value that has to be a number and is not.
    """
    if extra := options.extra.get(provider):
        rules = read_toml("dragoman.adapter.answers", "client_fields.toml")[wire]
        for path in _lost_paths(extra, "", rules):
            severity = Severity.INFO if path in rules["hints"] else Severity.WARNING
            reason = f"{path}: only the client's own API has it: left out"
            context.losses.append(Loss(LossKind.OPTION, "", -1, reason, severity))
        for name in rules.get("options", ()):
            if name in extra and getattr(options, name) is None:
                options = replace(options, **{name: read_option(name, name, extra[name])})
    if options.logprobs is not None:
        reason = "logprobs: they come back from the client's own API only: they are not asked for"
        context.losses.append(Loss(LossKind.OPTION, "", -1, reason, Severity.WARNING))
        options = replace(options, logprobs=None)
    return options


def _lost_paths(fields: Mapping[str, Any], outer: str, rules: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of the fields that only the client's wire has."""
    silent = {path for name in _SILENT for path in rules.get(name, ())}
    neutral: Mapping[str, list[Any]] = rules.get("neutral", {})
    for name, value in fields.items():
        path = f"{outer}{name}"
        if value in _EMPTY and not (value == {} and path in rules.get("switches", ())):
            continue
        if path in silent or value in neutral.get(path, ()):
            continue
        # If the table knows fields inside an object, each is judged alone.
        if isinstance(value, Mapping) and any(
            known.startswith(f"{path}.") for known in (*silent, *rules["hints"], *neutral)
        ):
            yield from _lost_paths(value, f"{path}.", rules)
        else:
            yield path
