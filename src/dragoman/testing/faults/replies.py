"""What `FaultyServer` answers: whole replies and streams, recorded or made up, and the faults between their bytes."""

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
    """``STALL``: say nothing more until the client goes. ``HANG_UP``: a clean end. ``RESET``: a reset connection."""

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
    """Wait, really, then go on."""

    seconds: float


ReplyStep = bytes | Pause | ConnectionFault


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """What is answered: ``before`` the status line a step, then the head, then ``body``, or ``steps``.

    A ``body`` goes out with its length, or with the ``length`` that is claimed instead. Each bytes of ``steps`` goes
    out as one HTTP chunk. ``raw`` is sent in place of everything.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    length: int | None = None
    steps: Sequence[ReplyStep] | None = None
    before: ReplyStep | None = None
    raw: bytes | None = None


def json_reply(value: Any, status: int = 200, **headers: str) -> HttpReply:
    """A whole reply of JSON. Headers are named with underscores: ``retry_after="1"``."""
    names = {name.replace("_", "-"): text for name, text in headers.items()}
    return HttpReply(
        status=status, headers={"content-type": "application/json", **names}, body=json.dumps(value).encode()
    )


def sse_reply(*steps: ReplyStep) -> HttpReply:
    """A stream of server-sent events, each step a chunk, a `Pause` or a `Fault`."""
    return HttpReply(headers={"content-type": "text/event-stream"}, steps=steps)


def recorded_reply(recorded: RecordedReply, plan: Plan | None = None) -> HttpReply:
    """A recorded reply as it came, or with what the plan does to it; of a cassette the one that it plays next.

    Of bytes alone the status is 200, and the content type that of a stream like this. Raises ConfigurationError where
    the plan does not fit.
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
    """The status line and the headers, with the length or the chunks that the reply claims."""
    headers = {name.lower(): value for name, value in reply.headers.items()}
    if reply.steps is not None:
        headers["transfer-encoding"] = "chunked"
    elif "content-length" not in headers:
        headers["content-length"] = str(len(reply.body) if reply.length is None else reply.length)
    lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
