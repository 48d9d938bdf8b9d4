"""The counts of a stream of Chat Completions: asked for if something counts, and hidden from a client that did not ask.

A stream has its counts only if the request says so. Without them, a budget could only be charged an estimate.
"""

import re
from typing import Any

from dragoman_gateway.json import dumps, loads
from dragoman_gateway.turn.replies import split_events

_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')


def lacks_usage(fields: dict[str, Any]) -> bool:
    """Whether a request is for a stream without counts."""
    options = fields.get("stream_options")
    return fields.get("stream") is True and not (isinstance(options, dict) and options.get("include_usage") is True)


def ask_for_usage(body: bytes, fields: dict[str, Any]) -> bytes:
    """Return the body of a request for a stream with counts. ``fields`` are those of the request."""
    if "stream_options" not in fields:
        start = body.index(b"{") + 1
        return b"".join((body[:start], b'"stream_options":{"include_usage":true},', body[start:]))
    options = fields["stream_options"]
    given = options if isinstance(options, dict) else {}
    return dumps({**loads(body), "stream_options": {**given, "include_usage": True}})


def hide_usage(events: bytes) -> bytes:
    """Return whole events without the one that has the counts and nothing else."""
    if not _NO_CHOICES.search(events):
        return events
    return b"".join(event for event in split_events(events) if not _has_only_usage(event))


def _has_only_usage(event: bytes) -> bool:
    if not _NO_CHOICES.search(event):
        return False
    try:
        chunk = loads(event.strip().removeprefix(b"data:"))
    except ValueError:
        return False
    return isinstance(chunk, dict) and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)
