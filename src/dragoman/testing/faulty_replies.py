"""What `FaultyServer` answers: whole replies and streams, recorded or made up, and the faults between their bytes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from dragoman.testing.event_bytes import Framing, framing_of
from dragoman.testing.fault_plans import Plan
from dragoman.testing.faults import Recorded, body_of, exchange_of
from dragoman.testing.faulty_transport import OF_THE_OLD_BODY


class Fault(Enum):
    """``STALL``: say nothing more until the client goes. ``HANG_UP``: a clean end. ``RESET``: a reset connection."""

    STALL = "stall"
    HANG_UP = "hang up"
    RESET = "reset"


STALL, HANG_UP, RESET = Fault.STALL, Fault.HANG_UP, Fault.RESET

_KINDS = {
    Framing.SSE: "text/event-stream",
    Framing.LINES: "application/x-ndjson",
    Framing.ARRAY: "application/json",
    Framing.AWS: "application/vnd.amazon.eventstream",
}


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait, really, then go on."""

    seconds: float


Step = bytes | Pause | Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is answered: ``before`` the status line a step, then the head, then ``body``, or ``steps``.

    A ``body`` goes out with its length, or with the ``length`` that is claimed instead. Each bytes of ``steps`` goes
    out as one HTTP chunk. ``raw`` is sent in place of everything.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    length: int | None = None
    steps: Sequence[Step] | None = None
    before: Step | None = None
    raw: bytes | None = None


def json_reply(value: Any, status: int = 200, **headers: str) -> Reply:
    """A whole reply of JSON. Headers are named with underscores: ``retry_after="1"``."""
    names = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(status=status, headers={"content-type": "application/json", **names}, body=json.dumps(value).encode())


def sse_reply(*steps: Step) -> Reply:
    """A stream of server-sent events, each step a chunk, a `Pause` or a `Fault`."""
    return Reply(headers={"content-type": "text/event-stream"}, steps=steps)


def replayed(recorded: Recorded, plan: Plan | None = None) -> Reply:
    """A recorded reply as it came, or with what the plan does to it; of a cassette the one that it plays next.

    Of bytes alone the status is 200, and the content type that of a stream like this. Raises ConfigurationError where
    the plan does not fit.
    """
    exchange, body = exchange_of(recorded), body_of(recorded)
    status, recorded_headers = (exchange.response.status, exchange.response.headers) if exchange else (200, {})
    headers = {name.lower(): value for name, value in recorded_headers.items() if name.lower() not in OF_THE_OLD_BODY}
    headers = {"content-type": _KINDS[framing_of(body)], **headers}
    if plan is None:
        return Reply(status=status, headers=headers, body=body)
    return Reply(status=status, headers=headers, steps=_planned(plan, body))


def _planned(plan: Plan, body: bytes) -> list[Step]:
    steps: list[Step] = []
    try:
        steps.extend(plan.apply(body))
    except ConnectionResetError:
        steps.append(RESET)
    except TimeoutError:
        steps.append(STALL)
    return steps


def head_of(reply: Reply) -> bytes:
    """The status line and the headers, with the length or the chunks that the reply claims."""
    headers = {name.lower(): value for name, value in reply.headers.items()}
    if reply.steps is not None:
        headers["transfer-encoding"] = "chunked"
    elif "content-length" not in headers:
        headers["content-length"] = str(len(reply.body) if reply.length is None else reply.length)
    lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
