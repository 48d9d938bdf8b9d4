"""How Acme answers, written by hand from its reference, and the kit over the adapter."""

import re
from typing import Any

from acme_adapter.adapter import AcmeAdapter
from dragoman.adapter.errors import ContextOverflowError, NotFoundError, OverloadedError, RateLimitError
from dragoman.testing import AdapterConformance
from dragoman.testing.conformance import Failing, Said, Wire, compact, sse


def _parts(said: Said) -> list[dict[str, Any]]:
    spoken = (("musing", said.thinking), ("words", said.text))
    parts: list[dict[str, Any]] = [{"kind": kind, "words": "".join(words)} for kind, words in spoken if words]
    asked = [{"kind": "ask", "ref": f"ask-{call.id}", "name": call.name, "with": call.input} for call in said.calls]
    return parts + asked


def _end(said: Said) -> dict[str, Any]:
    meter = {
        "read": said.input_tokens + said.cached_tokens,
        "reread": said.cached_tokens,
        "written": said.output_tokens,
    }
    return {"ended": "asked" if said.calls else "limit" if said.cut else "said", "meter": meter}


def handwritten_whole(said: Said) -> bytes:
    turn = {"by": "engine", "parts": _parts(said)}
    return compact({"id": "dlg-1", "engine": "acme-large", "turn": turn, **_end(said)}).encode()


def handwritten_stream(said: Said) -> bytes:
    written = [sse({"id": "dlg-1", "engine": "acme-large"}, "opened")]
    spoken = [pieces for pieces in (said.thinking, said.text) if pieces]
    calls = iter(said.calls)
    for position, part in enumerate(_parts(said)):
        if part["kind"] != "ask":
            pieces = spoken[position]
            written += [sse({"part": position, "words": piece}, part["kind"]) for piece in pieces]
            continue
        written.append(sse({"part": position, "ref": part["ref"], "name": part["name"]}, "ask"))
        written += [sse({"part": position, "with": piece}, "ask-more") for piece in next(calls).pieces]
        written.append(sse({"part": position}, "ask-end"))
    return b"".join([*written, sse(_end(said), "closed")])


def _fault(code: str) -> dict[str, str]:
    return {"code": code, "message": "That went wrong"}


def _failing(status: int, code: str, kind: Any) -> Failing:
    return Failing(status, compact({"fault": _fault(code)}).encode(), kind)


WIRE = Wire(
    stream=handwritten_stream,
    whole=handwritten_whole,
    terminal=re.compile(rb"event: closed"),
    errors=((sse(_fault("too-many"), "fault"), RateLimitError), (sse(_fault("busy"), "fault"), OverloadedError)),
    keep_alive=b": still here\n\n",
    failures=(
        _failing(404, "no-such-engine", NotFoundError),
        _failing(400, "too-long", ContextOverflowError),
        _failing(429, "too-many", RateLimitError),
    ),
)


class TestAcme(AdapterConformance):
    adapter = AcmeAdapter
    wire = WIRE
