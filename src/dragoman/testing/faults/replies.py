"""Replies of `FaultyServer`: whole or streamed, recorded or handwritten, with faults between their bytes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from dragoman.testing.event_bytes import Framing, detect_framing
from dragoman.testing.faults.plan import Plan
from dragoman.testing.faults.recorded import RecordedReply, next_exchange, reply_body
from dragoman.testing.faults.transport import BODY_HEADERS


class ConnectionFault(Enum):
    """What happens to a connection in the middle of a reply. ``STALL``: send nothing more until the client leaves.
    ``HANG_UP``: a clean end. ``RESET``: a reset connection."""

    STALL = "stall"
    HANG_UP = "hang up"
    RESET = "reset"


STALL, HANG_UP, RESET = ConnectionFault.STALL, ConnectionFault.HANG_UP, ConnectionFault.RESET

_CONTENT_TYPES = {
    Framing.SSE: "text/event-stream",
    Framing.LINES: "application/x-ndjson",
    Framing.ARRAY: "application/json",
    Framing.AWS: "application/vnd.amazon.eventstream",
}


@dataclass(frozen=True, slots=True)
class Pause:
    """A real wait before the next step."""

    seconds: float
    """How long to wait."""


ReplyStep = bytes | Pause | ConnectionFault
"""A step of a scripted reply: bytes that are sent, a wait, or what happens to the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """A reply: the step ``before`` the status line, then the head, then ``body`` or ``steps``.

    A ``body`` is sent with its length, or with a wrong ``length``. Each bytes object of ``steps`` is one HTTP chunk.
    ``raw`` replaces everything.
    """

    status: int = 200
    """The HTTP status."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The response's headers; the length is added."""
    body: bytes = b""
    length: int | None = None
    steps: Sequence[ReplyStep] | None = None
    before: ReplyStep | None = None
    raw: bytes | None = None


def json_reply(value: Any, status: int = 200, **headers: str) -> HttpReply:
    """Return a whole JSON reply. Headers are named with underscores: ``retry_after="1"``."""
    names = {name.replace("_", "-"): text for name, text in headers.items()}
    return HttpReply(
        status=status, headers={"content-type": "application/json", **names}, body=json.dumps(value).encode()
    )


def sse_reply(*steps: ReplyStep) -> HttpReply:
    """Return a stream of server-sent events. Each step is a chunk, a `Pause` or a `ConnectionFault`."""
    return HttpReply(headers={"content-type": "text/event-stream"}, steps=steps)


def recorded_reply(recorded: RecordedReply, plan: Plan | None = None) -> HttpReply:
    """Return a recorded reply, or the next one of a cassette, with a plan applied to it.

    For bytes, the status is 200 and the content type fits the framing. Raises ConfigurationError if the plan does not
    fit.
    """
    exchange, body = next_exchange(recorded), reply_body(recorded)
    status, recorded_headers = (exchange.response.status, exchange.response.headers) if exchange else (200, {})
    headers = {name.lower(): value for name, value in recorded_headers.items() if name.lower() not in BODY_HEADERS}
    headers = {"content-type": _CONTENT_TYPES[detect_framing(body)], **headers}
    if plan is None:
        return HttpReply(status=status, headers=headers, body=body)
    return HttpReply(status=status, headers=headers, steps=_apply_plan(plan, body))


def _apply_plan(plan: Plan, body: bytes) -> list[ReplyStep]:
    steps: list[ReplyStep] = []
    try:
        steps.extend(plan.apply(body))
    except ConnectionResetError:
        steps.append(RESET)
    except TimeoutError:
        steps.append(STALL)
    return steps


def encode_head(reply: HttpReply) -> bytes:
    """Return the status line and the headers, with the length or the chunked encoding that the reply claims."""
    headers = {name.lower(): value for name, value in reply.headers.items()}
    if reply.steps is not None:
        headers["transfer-encoding"] = "chunked"
    elif "content-length" not in headers:
        headers["content-length"] = str(len(reply.body) if reply.length is None else reply.length)
    lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
