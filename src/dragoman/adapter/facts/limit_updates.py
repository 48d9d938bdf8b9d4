"""Limits of models that are newer than the adapters: `dragoman.pricing.use_update` sets them for the process."""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from dragoman.adapter.facts.capabilities import AdapterCapabilities

UPDATED_FIELDS = ("max_context_tokens", "max_output_tokens", "deprecated", "retires_on")

_rows: dict[str, Sequence[Mapping[str, Any]]] = {}
_found: dict[tuple[str, str], dict[str, Any]] = {}
_revision = 0


def limits_revision() -> int:
    """Return a number that changes with each update: what was derived from limits before it may be out of date."""
    return _revision


def set_limit_updates(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Replace the updates: for each provider, rows with ``match`` globs and fields of AdapterCapabilities."""
    global _revision
    _rows.clear()
    _found.clear()
    _rows.update(rows)
    _revision += 1


def with_updates(declared: Callable[[Any], AdapterCapabilities]) -> property:
    """Return the property ``capabilities`` of an adapter class, in which the updates override what is declared."""

    def capabilities(adapter: Any) -> AdapterCapabilities:
        found = declared(adapter)
        if adapter.provider not in _rows:
            return found
        changes = _changes(adapter.provider, adapter.model)
        return found.model_copy(update=changes) if changes else found

    return property(capabilities, doc=declared.__doc__)


def _changes(provider: str, model: str) -> dict[str, Any]:
    if (provider, model) not in _found:
        changes: dict[str, Any] = {}
        for row in _rows[provider]:
            if any(fnmatchcase(model, pattern) for pattern in row["match"]):
                changes |= {name: row[name] for name in UPDATED_FIELDS if name in row}
        _found[provider, model] = changes
    return _found[provider, model]
