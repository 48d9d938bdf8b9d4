"""The rows of an update: prices and limits of models that are newer than the bundled ones (pricing/README.md)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.facts.capabilities import UPDATED_FIELDS
from dragoman.pricing.rows import FORMAT_ERRORS

FORMAT = 1
_OWN_KEYS = ("format", "date")
_SECTION_KEYS = {"source", "checked", "tools", "model", "limits"}
_LIMIT_KEYS = {"match", "checked", *UPDATED_FIELDS}
_TYPES: dict[str, type] = {"deprecated": bool, "retires_on": date}

Sections = dict[str, dict[str, Any]]


def update_date(update: Mapping[str, Any]) -> date:
    """Return the day up to which the update is known to be correct. Raises ConfigurationError."""
    day = update.get("date")
    if update.get("format") != FORMAT:
        raise ConfigurationError(f"the update has the format {update.get('format')!r:.80}: this version reads {FORMAT}")
    if not isinstance(day, date) or isinstance(day, datetime):
        raise ConfigurationError("the update has no date: it says how new its rows are")
    return day


def newer_prices(update: Mapping[str, Any], bundled: Callable[[str], Mapping[str, date]]) -> Sections:
    """Return the sections with the models that are at least as new as those of the same id in the bundled table.

    ``bundled`` returns the day of each model of a provider.
    """
    found: Sections = {}
    for provider, section in read_sections(update):
        days = bundled(provider)
        try:
            models = [
                model for model in section.get("model", ()) if _day(model, section) >= days.get(model["id"], date.min)
            ]
        except FORMAT_ERRORS as error:
            raise ConfigurationError(f"the prices of {provider} in the update: {error!r:.400}") from None
        if models or "tools" in section:
            found[provider] = {key: section[key] for key in section if key != "limits"} | {"model": models}
    return found


def split_by_model(found: Sections, overlay: Mapping[str, Any]) -> tuple[Sections, Sections]:
    """Return the sections with the models that the overlay has, which take the place of its rows, and those with the
    others, which come after it."""
    inside: Sections = {}
    outside: Sections = {}
    for provider, section in found.items():
        ids = {model["id"] for model in overlay.get(provider, {}).get("model", ())}
        inside[provider] = {**section, "model": [model for model in section["model"] if model["id"] in ids]}
        outside[provider] = {**section, "model": [model for model in section["model"] if model["id"] not in ids]}
    return inside, outside


def newer_limits(update: Mapping[str, Any], bundled: date) -> dict[str, list[dict[str, Any]]]:
    """Return the rows with limits that are at least as new as the bundled table, by provider."""
    found: dict[str, list[dict[str, Any]]] = {}
    for provider, section in read_sections(update):
        try:
            rows = [_read_limits(row) for row in section.get("limits", ())]
        except FORMAT_ERRORS as error:
            raise ConfigurationError(f"the limits of {provider} in the update: {error!s:.400}") from None
        if newer := [row for row in rows if _day(row, section) >= bundled]:
            found[provider] = newer
    return found


def row_names(sections: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Yield the name of each row: ``provider:id`` for prices, ``provider:glob`` for limits."""
    for provider, section in sections:
        yield from (f"{provider}:{model['id']}" for model in section.get("model", ()))
        yield from (f"{provider}:{', '.join(row['match'])}" for row in section.get("limits", ()))


def read_sections(update: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each provider with its section, which has a day. Raises ConfigurationError."""
    for name, section in update.items():
        if name in _OWN_KEYS:
            continue
        if not isinstance(section, dict):
            raise ConfigurationError(f"an update has one section for each provider; {name!r:.80} is not a section")
        if unknown := section.keys() - _SECTION_KEYS:
            raise ConfigurationError(f"the update of {name}: unknown: {', '.join(sorted(unknown))}")
        yield name, {"checked": update_date(update), **section}


def _read_limits(row: Any) -> dict[str, Any]:
    """Return one row, checked. Raises one of FORMAT_ERRORS."""
    if unknown := row.keys() - _LIMIT_KEYS:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
    if not row["match"] or not all(isinstance(pattern, str) for pattern in row["match"]):
        raise ValueError("match is a list of names, in which * stands for any text")
    for name in UPDATED_FIELDS:
        kind = _TYPES.get(name, int)
        # The exact class: a bool is an int, and a datetime a date.
        if name in row and (type(row[name]) is not kind or (kind is int and row[name] < 1)):
            raise ValueError(f"{name}: {row[name]!r:.80} is no {'positive ' if kind is int else ''}{kind.__name__}")
    return dict(row)


def _day(row: Mapping[str, Any], section: Mapping[str, Any]) -> date:
    day = row.get("checked", section["checked"])
    if not isinstance(day, date) or isinstance(day, datetime):
        raise ConfigurationError("checked must be a date, in TOML without quotes")
    return day
