"""`reply.response` is filled on every wire: status, request id, remaining quota, retries and times."""

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any

import httpx
import pytest

from dragoman import AdapterOptions, Session
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.replies.error_context import REQUEST_ID_HEADERS
from dragoman.testing.sample_reply import SHORTEST
from dragoman.transport import RetryPolicy, Timing
from tests.laws.streams.subjects import MODELS, wires_for

WITHOUT_HTTP = {"local": "the model is in this process", "voyageai": "it embeds and ranks, and has no chat"}
PROVIDERS = sorted({entry.name for entry in entry_points(group="dragoman.adapters")} - WITHOUT_HTTP.keys())
PLAIN = replace(SHORTEST, calls=())
QUOTA = {"x-ratelimit-remaining-requests": "4", "x-ratelimit-remaining-tokens": "900"}


def model_of(provider: str) -> str:
    named = MODELS.get(provider, "some-model")
    return f"{provider}:{named}"


def replies_of(provider: str) -> Iterator[tuple[bytes, bytes]]:
    """The sample reply, whole and streamed, in each API of the provider."""
    for wire in wires_for(get_adapter(model_of(provider))):
        yield wire.whole(PLAIN), wire.stream(PLAIN)


def answer(provider: str, body: bytes, *, stream: bool, id_header: str = "x-request-id") -> Any:
    """The response of a reply that came with the second attempt. Each look at the clock is a second later."""
    sent: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if len(sent) == 1:
            return httpx.Response(503, json={"error": {"message": "busy"}})
        return httpx.Response(200, headers={id_header: "req_7", **QUOTA}, content=body)

    seconds = iter(range(100_000))
    timing = Timing(clock=lambda: float(next(seconds)), sleep=lambda _: None)
    settings = {
        "client": httpx.Client(transport=httpx.MockTransport(respond)),
        "api_key": "k",
        "base_url": "https://api.example.com/v1",
        "timing": timing,
        "retry": RetryPolicy(max_retries=2),
        "timeout": None,
    }
    options = AdapterOptions(max_output_tokens=50)
    session = Session(model_of(provider), providers={provider: settings}, options=options)
    return (session.stream("Hi").get_reply() if stream else session.ask("Hi")).response


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_response_is_filled(provider: str) -> None:
    """A retried request lists both attempts; a stream says when its first content came."""
    for whole, streamed in replies_of(provider):
        for stream, body in ((False, whole), (True, streamed)):
            response = answer(provider, body, stream=stream)
            assert (response.status, response.request_id) == (200, "req_7")
            assert (response.remaining_requests, response.remaining_tokens) == (4, 900)
            assert [attempt.status for attempt in response.attempts] == [503, 200]
            assert response.seconds > 0
            assert (response.first_event_seconds is not None) is stream
            assert not stream or 0 < response.first_event_seconds < response.seconds


@pytest.mark.parametrize("name", REQUEST_ID_HEADERS)
def test_every_known_header_names_the_request(name: str) -> None:
    """Those that errors quote are those that replies have."""
    whole, _ = next(replies_of("mistral"))
    assert answer("mistral", whole, stream=False, id_header=name).request_id == "req_7"
