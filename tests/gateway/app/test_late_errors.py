"""A stream fails after its status and headers went out: the official client of each wire reads the provider's words."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import anthropic
import ollama
import openai
import pytest
from google import genai
from google.genai import errors, types

from dragoman import Budget
from dragoman.testing.faults.server import HttpReply, Pause, ReceivedRequest, json_reply
from dragoman_gateway.turn.replies import StreamBody
from tests.benchmarks.wires import WIRES
from tests.gateway.app.test_unread import read_until_cut
from tests.gateway.keyed import Start
from tests.gateway.upstream import PATIENCE, gateway_before

OVERFLOW = "prompt is too long: 210000 tokens > 200000 maximum"
_OPENAI = {"message": OVERFLOW, "type": "invalid_request_error", "param": None, "code": "context_length_exceeded"}
REFUSALS: dict[str, dict[str, Any]] = {
    "anthropic": {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": OVERFLOW},
        "request_id": "req_of_the_provider",
    },
    "openai-chat": {"error": _OPENAI},
    "openai": {"error": _OPENAI},
    "google": {
        "error": {
            "code": 400,
            "message": f"The input token count is too large. {OVERFLOW}",
            "status": "INVALID_ARGUMENT",
        }
    },
    "ollama": {"error": f"the input exceeds the available context size. {OVERFLOW}"},
}
"""How each provider refuses a prompt that is too long, by HTTP."""
OTHER = {
    "anthropic": "openai-chat",
    "openai-chat": "anthropic",
    "openai": "anthropic",
    "google": "anthropic",
    "ollama": "openai-chat",
}
"""A provider of another wire for the clients of each wire."""
PATHS = {
    "anthropic": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai": "/v1/responses",
    "google": "/v1beta/models/house:streamGenerateContent?alt=sse",
    "ollama": "/api/chat",
}
BODIES: dict[str, dict[str, Any]] = {
    "anthropic": {"model": "house", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "stream": True},
    "openai-chat": {"model": "house", "messages": [{"role": "user", "content": "Hi"}], "stream": True},
    "openai": {"model": "house", "input": "Hi", "stream": True},
    "google": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    "ollama": {"model": "house", "messages": [{"role": "user", "content": "Hi"}]},
}
QUICK = {"first_event_seconds": 0.03, "ping_seconds": 0.03}
MODELS = {
    "anthropic": "anthropic:claude-opus-4-8",
    "openai-chat": "openai-chat:gpt-4.1",
    "openai": "openai:gpt-5.4",
    "google": "google:gemini-3.5-flash",
    "ollama": "ollama:llama3.2",
}


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a stream's status and headers are out."""
    write, event = StreamBody._write, threading.Event()

    async def note(body: StreamBody, data: bytes, *, more: bool = True) -> None:
        await write(body, data, more=more)
        event.set()

    monkeypatch.setattr(StreamBody, "_write", note)
    return event


def refuse(behind: str, begun: threading.Event) -> Callable[[ReceivedRequest], HttpReply]:
    """Return a provider that refuses the prompt by its HTTP status, late."""

    def answer(_: ReceivedRequest) -> HttpReply:
        assert begun.wait(PATIENCE)
        return json_reply(REFUSALS[behind], 400)

    return answer


def fail(behind: str, begun: threading.Event) -> Callable[[ReceivedRequest], HttpReply]:
    """Return a provider that says 200, and refuses the prompt in its first event, late."""

    def steps() -> Iterator[bytes]:
        begun.wait(PATIENCE)
        yield error_event(behind)

    kind = "application/x-ndjson" if behind == "ollama" else "text/event-stream"
    return lambda _: HttpReply(headers={"content-type": kind}, steps=steps())  # type: ignore[arg-type]


def error_event(behind: str) -> bytes:
    """Return the error as the provider says it in a stream."""
    data = json.dumps(REFUSALS[behind]).encode()
    if behind == "ollama":
        return data + b"\n"
    if behind == "openai":
        return b'event: error\ndata: {"type": "error", "sequence_number": 0, ' + data[1:] + b"\n\n"
    return (b"event: error\n" if behind == "anthropic" else b"") + b"data: " + data + b"\n\n"


def ask(wire: str, url: str, opened: ExitStack, secret: str = "none") -> tuple[str, str | None]:
    """Stream with the official client of the wire, and return the message and the type of the error that it raises."""
    if wire == "anthropic":
        messages = opened.enter_context(anthropic.Anthropic(base_url=url, api_key=secret, max_retries=0)).messages
        with pytest.raises(anthropic.APIStatusError) as of_messages:
            for _ in messages.create(**BODIES[wire]):
                pass
        body: Any = of_messages.value.body
        return body["error"]["message"], body["error"]["type"]
    if wire in ("openai", "openai-chat"):
        client = opened.enter_context(openai.OpenAI(base_url=f"{url}/v1", api_key=secret, max_retries=0))
        create: Any = client.responses.create if wire == "openai" else client.chat.completions.create
        with pytest.raises(openai.APIError) as of_openai:
            for _ in create(**BODIES[wire]):
                pass
        return of_openai.value.message, of_openai.value.code
    if wire == "google":
        options = types.HttpOptions(base_url=url)
        models = opened.enter_context(genai.Client(api_key=secret, http_options=options)).models
        with pytest.raises(errors.APIError) as of_google:
            for _ in models.generate_content_stream(model="house", contents="Hi"):
                pass
        return str(of_google.value.message), of_google.value.status
    chat = opened.enter_context(ollama.Client(host=url, headers={"authorization": f"Bearer {secret}"}))
    with pytest.raises(ollama.ResponseError) as of_ollama:
        for _ in chat.chat(**{**BODIES[wire], "stream": True}):
            pass
    return of_ollama.value.error, None


KINDS = {
    "anthropic": "invalid_request_error",
    "openai-chat": "context_length_exceeded",
    "openai": "context_length_exceeded",
    "google": "INVALID_ARGUMENT",
    "ollama": None,
}
WAYS = [(wire, behind) for wire in PATHS for behind in (wire, OTHER[wire])]


@pytest.mark.parametrize("late", [refuse, fail])
@pytest.mark.parametrize("client", [{}, {"budgets": [Budget(tokens=10**9)]}], ids=["alone", "governed"])
@pytest.mark.parametrize(("wire", "behind"), WAYS)
def test_a_late_error_reaches_the_client(
    wire: str, behind: str, client: dict[str, Any], late: Any, begun: threading.Event, opened: ExitStack
) -> None:
    """A late error reaches the client on its own wire and on another one, by status and in the stream, with a session
    and without one.
    """
    with gateway_before(late(behind, begun), models={"house": MODELS[behind]}, client=client, **QUICK) as (url, _):
        message, kind = ask(wire, url, opened)
    assert OVERFLOW in message
    assert kind == KINDS[wire]


@pytest.mark.parametrize("late", [refuse, fail])
@pytest.mark.parametrize(("wire", "behind"), WAYS)
def test_a_late_error_reaches_the_client_with_a_key(
    wire: str, behind: str, late: Any, begun: threading.Event, opened: ExitStack, start: Start
) -> None:
    keyed = start(late(behind, begun), models={"house": MODELS[behind]}, **QUICK)
    message, kind = ask(wire, keyed.url, opened, keyed.secrets[0])
    assert OVERFLOW in message
    assert kind == KINDS[wire]


@pytest.mark.parametrize("late", [refuse, fail])
@pytest.mark.parametrize(("wire", "behind"), WAYS)
def test_the_connection_is_cut_behind_a_late_error(wire: str, behind: str, late: Any, begun: threading.Event) -> None:
    """Said once, and no end that looks complete."""
    with gateway_before(late(behind, begun), models={"house": MODELS[behind]}, **QUICK) as (url, _):
        received = read_until_cut(url + PATHS[wire], BODIES[wire])
    said = {"anthropic": b"event: error", "openai": b"event: response.failed", "openai-chat": b'data: {"error"'}
    assert received.count(said.get(wire, OVERFLOW.encode())) == (2 if wire == "google" else 1)
    for end in (b"message_stop", b"response.completed", b"[DONE]", b'"done":true', b'"finishReason"'):
        assert end not in received


@pytest.mark.parametrize("wire", PATHS)
def test_an_error_behind_content_is_said_once(wire: str, opened: ExitStack) -> None:
    """An error behind content is said once: the provider's own bytes, and nothing of the gateway's."""
    texts = list("abcdefgh")
    whole = list(STREAMS[wire](texts))
    begun = b"".join(whole[: len(whole) // 2])
    kind = "application/x-ndjson" if wire == "ollama" else "text/event-stream"
    reply = HttpReply(headers={"content-type": kind}, steps=(begun, Pause(0.01), error_event(wire)))
    with gateway_before(reply, models={"house": MODELS[wire]}) as (url, _):
        received = read_until_cut(url + PATHS[wire], BODIES[wire])
        assert OVERFLOW in ask(wire, url, opened)[0]
    assert received.startswith(begun)
    assert received.count(OVERFLOW.encode()) == 1


def _google_stream(texts: list[str]) -> list[bytes]:
    chunks = ({"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}}]} for text in texts)
    return [b"data: " + json.dumps(each).encode() + b"\r\n\r\n" for each in chunks]


_NAMES = {"anthropic": "messages", "openai-chat": "chat", "openai": "responses", "ollama": "ollama"}
STREAMS: dict[str, Any] = {
    **{wire: WIRES[name].text_stream for wire, name in _NAMES.items()},
    "google": _google_stream,
}
