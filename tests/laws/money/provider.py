"""A provider that reports exactly what it wrote, on five wires, and stops where a test says."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, cast

from dragoman.testing.faults.server import RESET, HttpReply, ReceivedRequest, ReplyStep
from tests.benchmarks.wires import WIRES, Json
from tests.gateway.upstream import PATIENCE

WORD = "four"
"""A token of the replies."""
INPUT_TOKENS = 20
RENAMED = "renamed"
"""The model that answers in place of the one that was asked. It has no price."""
PROVIDERS = {
    "messages": "anthropic",
    "chat": "openai-chat",
    "responses": "openai",
    "google": "google",
    "ollama": "ollama",
}


@dataclass(frozen=True)
class Plan:
    """``words`` of output. ``ending``: ``whole``; ``cut``, a reset connection behind that ``share`` of the bytes; or
    ``left``, where the reply stops behind that share of the words until its reader has gone, and a whole one before its
    beginning. ``tier`` and ``renamed`` make the price unknown.
    """

    words: int
    ending: str = "whole"
    share: float = 1.0
    tier: str | None = None
    renamed: bool = False

    def __str__(self) -> str:
        return f"{self.words} words, {self.ending} at {self.share:.2f}, tier {self.tier}, renamed {self.renamed}"

    @property
    def sent_words(self) -> int:
        """How many words a stream sends before it stops for its reader to leave."""
        return max(1, int(self.words * self.share))


class Provider:
    """A script of `FaultyServer`. ``plan`` is that of the next requests."""

    def __init__(self) -> None:
        self.plan = Plan(1)
        self.arrived, self.left = Event(), Event()

    def begin(self, plan: Plan) -> None:
        self.plan, self.arrived, self.left = plan, Event(), Event()

    def __call__(self, request: ReceivedRequest) -> HttpReply:
        wire = _wire_of(request.path)
        body = json.loads(request.body)
        streams = "stream" in request.path if wire == "google" else body.get("stream", wire == "ollama")
        plan, left = replace(self.plan), self.left
        kind, frames = _streamed(wire, plan) if streams else ("application/json", [_whole(wire, plan)])
        self.arrived.set()
        return HttpReply(headers={"content-type": kind}, steps=cast("Sequence[ReplyStep]", _steps(frames, plan, left)))


def _steps(frames: list[bytes], plan: Plan, left: Event) -> Iterator[ReplyStep]:
    data = b"".join(frames)
    match plan.ending:
        case "whole":
            yield data
        case "cut":
            yield data[: int(len(data) * plan.share)]
            yield RESET
        case _:
            place = _place_of_word(frames, plan.sent_words) if len(frames) > 1 else 0
            yield data[:place]
            left.wait(PATIENCE)
            yield data[place:]


def _place_of_word(frames: list[bytes], number: int) -> int:
    """Return the end of the frame with that word."""
    place = 0
    for frame in frames:
        place += len(frame)
        number -= WORD.encode() in frame
        if not number:
            break
    return place


def _wire_of(path: str) -> str:
    if path.startswith("/v1beta"):
        return "google"
    return next(name for name, wire in WIRES.items() if path == wire.path)


def _whole(wire: str, plan: Plan) -> bytes:
    text = WORD * plan.words
    reply = _google(text, plan, ends=True) if wire == "google" else WIRES[wire].text_reply(text)
    return json.dumps(_patched(reply, plan)).encode()


def _streamed(wire: str, plan: Plan) -> tuple[str, list[bytes]]:
    words = [WORD] * plan.words
    if wire == "google":
        chunks = [_google(word, plan) for word in words] + [_google("", plan, ends=True)]
        frames: list[bytes] = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
        kind = "text/event-stream"
    else:
        kind, frames = WIRES[wire].kind, list(WIRES[wire].text_stream(words))
    return kind, [_patched_frame(frame, plan) for frame in frames]


def _patched_frame(frame: bytes, plan: Plan) -> bytes:
    place = frame.find(b"{")
    if place < 0:
        return frame
    text = frame[place:]
    ending = text[len(text.rstrip()) :]
    return frame[:place] + json.dumps(_patched(json.loads(text), plan)).encode() + ending


def _patched(value: Any, plan: Plan) -> Any:
    """Return a reply, or an event, with the usage, the model and the tier of the plan."""
    if isinstance(value, list):
        return [_patched(each, plan) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _patched(each, plan) for name, each in value.items()}
    for name in ("output_tokens", "completion_tokens", "eval_count"):
        if name in found:
            found[name] = plan.words
    if "total_tokens" in found:
        found["total_tokens"] = INPUT_TOKENS + plan.words
    if found.get("content") == [] and "usage" in found and found["usage"]:  # Messages: the beginning of a stream
        found["usage"]["output_tokens"] = 1
    if plan.renamed and isinstance(found.get("model"), str):
        found["model"] = RENAMED
    reports_tier = "service_tier" in found or str(found.get("object")).startswith(("response", "chat.completion"))
    if plan.tier and reports_tier:
        found["service_tier"] = plan.tier
    return found


def _google(text: str, plan: Plan, *, ends: bool = False) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
    counts = {"promptTokenCount": INPUT_TOKENS}
    if ends:
        candidate["finishReason"] = "STOP"
        counts |= {"candidatesTokenCount": plan.words, "totalTokenCount": INPUT_TOKENS + plan.words}
    return {
        "candidates": [candidate],
        "usageMetadata": counts,
        "modelVersion": RENAMED if plan.renamed else "m",
        "responseId": "r1",
    }
