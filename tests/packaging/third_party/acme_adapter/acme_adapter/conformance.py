"""How Acme answers, written by hand from its reference, and the kit over the adapter."""

import re
from typing import Any

from acme_adapter.adapter import AcmeAdapter
from dragoman.errors import ContextOverflowError, NotFoundError, OverloadedError, RateLimitError
from dragoman.testing import AdapterConformance
from dragoman.testing.conformance import UNKNOWN, FailedReply, SampleReply, Wire, compact, sse


def _parts(sample: SampleReply) -> list[dict[str, Any]]:
    texts = (("musing", sample.thinking), ("words", sample.text))
    parts: list[dict[str, Any]] = [{"kind": kind, "words": "".join(words)} for kind, words in texts if words]
    calls = [{"kind": "ask", "ref": f"ask-{call.id}", "name": call.name, "with": call.input} for call in sample.calls]
    return parts + calls


def _end(sample: SampleReply) -> dict[str, Any]:
    meter = {
        "read": sample.input_tokens + sample.cached_tokens,
        "reread": sample.cached_tokens,
        "written": sample.output_tokens,
    }
    return {"ended": "asked" if sample.calls else "limit" if sample.truncated else "said", "meter": meter}


def handwritten_whole(sample: SampleReply) -> bytes:
    turn = {"by": "engine", "parts": _parts(sample)}
    return compact({"id": "dlg-1", "engine": "acme-large", "turn": turn, **_end(sample)}).encode()


def handwritten_stream(sample: SampleReply) -> bytes:
    written = [sse({"id": "dlg-1", "engine": "acme-large"}, "opened")]
    texts = [pieces for pieces in (sample.thinking, sample.text) if pieces]
    calls = iter(sample.calls)
    for position, part in enumerate(_parts(sample)):
        if part["kind"] != "ask":
            pieces = texts[position]
            written += [sse({"part": position, "words": piece}, part["kind"]) for piece in pieces]
            continue
        written.append(sse({"part": position, "ref": part["ref"], "name": part["name"]}, "ask"))
        written += [sse({"part": position, "with": piece}, "ask-more") for piece in next(calls).pieces]
        written.append(sse({"part": position}, "ask-end"))
    return b"".join([*written, sse(_end(sample), "closed")])


def _unknown_part() -> bytes:
    parts = [{"kind": "words", "words": "So"}, {"kind": "hologram", "beam": UNKNOWN}]
    meter = {"read": 9, "reread": 0, "written": 3}
    turn = {"by": "engine", "parts": parts}
    return compact({"id": "dlg-1", "engine": "acme-large", "turn": turn, "ended": "said", "meter": meter}).encode()


def _fault(code: str) -> dict[str, str]:
    return {"code": code, "message": "That went wrong"}


def _failed_reply(status: int, code: str, kind: Any) -> FailedReply:
    return FailedReply(status, compact({"fault": _fault(code)}).encode(), kind)


WIRE = Wire(
    stream=handwritten_stream,
    whole=handwritten_whole,
    terminal=re.compile(rb"event: closed"),
    errors=((sse(_fault("too-many"), "fault"), RateLimitError), (sse(_fault("busy"), "fault"), OverloadedError)),
    keep_alive=b": still here\n\n",
    failures=(
        _failed_reply(404, "no-such-engine", NotFoundError),
        _failed_reply(400, "too-long", ContextOverflowError),
        _failed_reply(429, "too-many", RateLimitError),
    ),
    model="acme-large",
    unknown_event=sse({"part": 0, "beam": 7}, "hologram"),
    unknown_block=_unknown_part(),
)


class TestAcme(AdapterConformance):
    adapter = AcmeAdapter
    wire = WIRE
