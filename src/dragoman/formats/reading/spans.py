"""Spans as the Python SDK prints them, and as OTLP sends them in JSON: their attributes by name."""

from collections.abc import Iterator
from typing import Any

from dragoman.formats.importers.blocks import to_text
from dragoman.formats.reading.losses import is_empty, source_losses

_MAX_LEVELS = 8
"""Levels of an export between its root and its spans."""
_LISTS = ("resourceSpans", "scopeSpans", "spans", "resourceLogs", "scopeLogs", "logRecords", "logs")
_MAX_NESTING = 16
_SPAN_FIELDS = frozenset(
    {
        "name", "context", "kind", "parent_id", "start_time", "end_time", "status", "attributes", "events", "links",
        "resource", "traceId", "spanId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano", "flags", "traceState",
        "body", "severity_number", "severity_text", "dropped_attributes", "timestamp", "observed_timestamp", "trace_id",
        "span_id", "trace_flags", "event_name", "timeUnixNano", "observedTimeUnixNano", "instrumentation_scope",
        "droppedAttributesCount", "droppedEventsCount", "droppedLinksCount", "scope", "eventName",
    }
)  # fmt: skip
_CONTEXT_FIELDS = frozenset({"trace_id", "span_id", "trace_state", "trace_flags", "is_remote"})


def iter_spans(value: Any, path: str, level: int = 0) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the spans and log records of an export, with their paths, in order."""
    if level > _MAX_LEVELS:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from iter_spans(item, f"{path}[{index}]", level + 1)
    elif isinstance(value, dict):
        if "attributes" in value:
            yield value, path
        for name in _LISTS:
            yield from iter_spans(value.get(name), f"{path}.{name}", level + 1)


def report_span(span: dict[str, Any], path: str, format_name: str) -> None:
    """Report what a span has next to its attributes that is not a field of all spans."""
    losses = source_losses()
    context = span.get("context")
    for name in context if isinstance(context, dict) else ():
        if name not in _CONTEXT_FIELDS:
            losses.add_field(f"{path}.context", name, format_name)
    for name, value in span.items():
        if name not in _SPAN_FIELDS and not is_empty(value):
            losses.add_field(path, name, format_name)


def attributes_of(native: Any) -> dict[str, Any]:
    """Return attributes by name, from an object or from OTLP's list of keys and values."""
    if isinstance(native, dict):
        return native
    found: dict[str, Any] = {}
    for item in native if isinstance(native, list) else ():
        if isinstance(item, dict) and isinstance(item.get("key"), str):
            found[item["key"]] = _value(item.get("value"))
    return found


def _value(native: Any) -> Any:
    if not isinstance(native, dict):
        return native
    if "arrayValue" in native:
        inner = native["arrayValue"]
        return [_value(each) for each in inner.get("values", ())] if isinstance(inner, dict) else []
    if "kvlistValue" in native:
        inner = native["kvlistValue"]
        return attributes_of(inner.get("values")) if isinstance(inner, dict) else {}
    if "intValue" in native:
        text = to_text(native["intValue"])
        return int(text) if text.lstrip("-").isdigit() and len(text) < 20 else text  # OTLP sends integers as texts
    return next(iter(native.values()), None)


def nest(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return flat attributes as objects: a dot in a name is a level."""
    root: dict[str, Any] = {}
    for name, value in attributes.items():
        *outer, last = name.split(".", _MAX_NESTING)
        level = root
        for step in outer:
            below = level.setdefault(step, {})
            if not isinstance(below, dict):
                break
            level = below
        else:
            level[last] = value
    return root
