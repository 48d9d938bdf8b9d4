"""What forwarded requests cost: reserved before they are sent, and settled by what their replies state."""

import io
import json
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from threading import Event
from typing import Any, NamedTuple

import cohere
import cohere.core
import httpx
import openai
import pytest

from dragoman.limits import MaxUsage
from dragoman.messages import TokenUsage
from dragoman.pricing import price_table
from dragoman.testing.faults.server import RESET, HttpReply, json_reply, sse_reply
from dragoman_gateway.vendors.forwarding.costs import Cost
from dragoman_gateway.wires.forwarded import addresses, usage_rules
from tests.gateway.keyed import Keyed, Start
from tests.gateway.upstream import waiting_reply

_KINDS = tuple({each.kind for each in addresses()})
_COMPLETION = {"prompt_tokens": 1000, "completion_tokens": 2000, "total_tokens": 3000}
_IMAGE = {
    "input_tokens": 50, "output_tokens": 4160, "total_tokens": 4210,
    "input_tokens_details": {"text_tokens": 50, "image_tokens": 0},
}  # fmt: skip
_SPOKEN = {"type": "tokens", "input_tokens": 100, "output_tokens": 20, "total_tokens": 120}


class Case(NamedTuple):
    """One call, what its reply states, and what that costs: by hand, from the vendor's page of prices."""

    call: Callable[[Keyed, str], object]
    reply: HttpReply
    usd: str


def _audio() -> tuple[str, io.BytesIO]:
    return "a.wav", io.BytesIO(bytes(range(256)) * 40)


def _stream(*events: Mapping[str, Any]) -> HttpReply:
    return sse_reply(b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in events) + b"data: [DONE]\n\n")


def _complete(gateway: Keyed, key: str, **more: Any) -> object:
    made = gateway.sdk(key).completions.create(model="gpt-3.5-turbo-instruct", prompt="Hi", max_tokens=10, **more)
    return list(made) if more else made


def _draw(gateway: Keyed, key: str, **more: Any) -> object:
    made = gateway.sdk(key).images.generate(model="gpt-image-1.5", prompt="a cat", **more)
    return list(made) if more else made


def _transcribe(gateway: Keyed, key: str, model: str = "whisper-1", **more: Any) -> object:
    return gateway.sdk(key).audio.transcriptions.create(model=model, file=_audio(), **more)


def _rerank(gateway: Keyed, key: str) -> object:
    with httpx.Client() as http:
        client = cohere.ClientV2(api_key=key, base_url=gateway.url, httpx_client=http)
        return client.rerank(model="rerank-v3.5", query="Bern", documents=["a", "b"])


def _fill(gateway: Keyed, key: str) -> object:
    body = {"model": "codestral-2508", "prompt": "def f(", "stream": True}
    return gateway.http(key).post("/v1/fim/completions", json=body).raise_for_status()


def _transcribe_by_mistral(gateway: Keyed, key: str) -> object:
    headers = {"user-agent": "mistral-client-python/3"}
    form: dict[str, Any] = {"data": {"model": "voxtral"}, "files": {"file": _audio()}, "headers": headers}
    return gateway.http(key).post("/v1/audio/transcriptions", **form).raise_for_status()


_PICTURE = {"b64_json": "A" * 3_000_000}
CASES: Mapping[str, Case] = {
    "completion": Case(_complete, json_reply({"choices": [], "usage": _COMPLETION}), "0.0055"),
    "completion, streamed": Case(
        lambda gateway, key: _complete(gateway, key, stream=True, stream_options={"include_usage": True}),
        _stream({"choices": [{"text": "Hi"}], "usage": None}, {"choices": [], "usage": _COMPLETION}),
        "0.0055",
    ),
    "fim, streamed": Case(_fill, _stream({"choices": []}, {"choices": [], "usage": _COMPLETION}), "0.0021"),
    "image": Case(
        _draw, json_reply({"created": 1, "data": [_PICTURE], "usage": _IMAGE}), "0.13337"
    ),
    "image, streamed": Case(
        lambda gateway, key: _draw(gateway, key, stream=True),
        _stream(
            {"type": "image_generation.partial_image", **_PICTURE},
            {"type": "image_generation.completed", **_PICTURE, "usage": _IMAGE},
        ),
        "0.13337",
    ),
    "edit": Case(
        lambda gateway, key: gateway.sdk(key).images.edit(model="gpt-image-1.5", prompt="a hat", image=_audio()),
        json_reply({"created": 1, "data": [], "usage": _IMAGE}),
        "0.13337",
    ),
    "transcription by seconds": Case(
        _transcribe,
        json_reply({"text": "Hi", "usage": {"type": "duration", "seconds": 59.2}}),
        "0.006",
    ),
    "transcription by tokens": Case(
        lambda gateway, key: _transcribe(gateway, key, "gpt-4o-transcribe"),
        json_reply({"text": "Hi", "usage": {**_SPOKEN, "input_token_details": {"audio_tokens": 100}}}),
        "0.0008",
    ),
    "rerank": Case(
        _rerank, json_reply({"results": [], "meta": {"billed_units": {"search_units": 3}}}), "0.006"
    ),
    "pages": Case(
        lambda gateway, key: gateway.http(key).post("/v1/ocr", json={"model": "ocr"}).raise_for_status(),
        json_reply({"pages": [], "usage_info": {"pages_processed": 3}}),
        "0.006",
    ),
    "transcription of Mistral": Case(
        _transcribe_by_mistral, json_reply({"text": "Hi", "usage": {"prompt_audio_seconds": 30}}), "0.0015"
    ),
}  # fmt: skip
_OF_MISTRAL = {
    "mistral": {
        "source": "https://example.com/prices",
        "checked": date(2026, 11, 28),
        "model": [
            {
                "id": "own",
                "match": {"equals": ["ocr", "voxtral"]},
                "prices": [{"output": "0", "tools": {"pages": "2", "audio_seconds": "0.05"}}],
            }
        ],
    }
}
"""Prices of one's own, as the table has none."""


def _start(start: Start, script: Any) -> Keyed:
    return start(script, forward=_KINDS, client={"prices": price_table().with_overlay(_OF_MISTRAL)})


@pytest.mark.parametrize("name", CASES)
def test_a_key_with_a_budget_is_charged_what_the_reply_states(start: Start, name: str) -> None:
    case = CASES[name]
    gateway = _start(start, [case.reply])
    key, secret = gateway.create_key("$5/month")
    case.call(gateway, secret)
    assert gateway.spent(f"key:{key}").usd == Decimal(case.usd)
    assert "dragoman_unpriced_total{" not in gateway.bare.get("/metrics").text


@pytest.mark.parametrize("name", CASES)
def test_a_budget_that_has_no_room_for_it_refuses_it_before_it_is_sent(start: Start, name: str) -> None:
    gateway = _start(start, json_reply({}))
    _, secret = gateway.create_key("$0.000001/month")
    with pytest.raises((openai.APIStatusError, httpx.HTTPStatusError, cohere.core.ApiError)):
        CASES[name].call(gateway, secret)
    assert not gateway.server.requests


@pytest.mark.parametrize("name", CASES)
def test_a_key_without_a_budget_is_booked_the_same(start: Start, name: str) -> None:
    case = CASES[name]
    gateway = _start(start, [case.reply])
    key, secret = gateway.create_key()
    case.call(gateway, secret)
    assert gateway.spent(f"key:{key}").usd == Decimal(case.usd)


def test_each_rule_is_used_by_an_address_and_tried_here() -> None:
    assert {each.cost for each in addresses()} == {"free", "unknown", *usage_rules()}
    assert all(each.most for each in usage_rules().values())


def test_a_model_without_a_price_is_closed_to_a_budget(start: Start) -> None:
    gateway = _start(start, json_reply({}))
    _, secret = gateway.create_key("$5/month")
    with pytest.raises(openai.APIStatusError, match="price"):
        gateway.sdk(secret).images.generate(model="dall-e-3", prompt="a cat")
    assert not gateway.server.requests


@pytest.mark.parametrize(
    "call",
    [
        lambda gateway, key: _complete(gateway, key, stream=True),
        lambda gateway, key: _complete(gateway, key, stream=True, stream_options={"include_usage": False}),
        lambda gateway, key: _transcribe(gateway, key, response_format="text"),
        lambda gateway, key: _transcribe(gateway, key, response_format="srt"),
    ],
)
def test_a_budget_gets_no_reply_that_states_nothing(start: Start, call: Callable[[Keyed, str], object]) -> None:
    gateway = _start(start, json_reply({}))
    _, secret = gateway.create_key("$5/month")
    with pytest.raises(openai.BadRequestError, match=r"include_usage must be true|response_format must be json"):
        call(gateway, secret)
    assert not gateway.server.requests


@pytest.mark.parametrize(
    "reply",
    [
        json_reply({"created": 1, "data": []}),
        json_reply({"created": 1, "data": [], "usage": None}),
        json_reply({"created": 1, "data": [], "usage": {"input_tokens": -5, "output_tokens": "many"}}),
    ],
)
def test_a_reply_that_states_nothing_all_the_same_is_charged_what_was_reserved(start: Start, reply: HttpReply) -> None:
    gateway = _start(start, [reply])
    key, secret = gateway.create_key("$5/month")
    _draw(gateway, secret)
    assert gateway.spent(f"key:{key}").usd > Decimal("0.1")
    assert "dragoman_unpriced_total{" in gateway.bare.get("/metrics").text


def test_use_that_has_no_price_here_makes_the_cost_a_lower_bound() -> None:
    cost = Cost(price_table(), "openai:gpt-image-1.5", usage_rules()["image"], free=False, fields={}, size=9)
    cost.begin("application/json", "openai:gpt-image-1.5")
    cost.feed(json.dumps({"data": [], "usage": _IMAGE, "svg_usage": {"output_tokens": 10}}).encode())
    stated = cost.stated()
    assert stated is not None
    assert (stated.cost_usd, stated.cost_status, stated.unpriced) == (Decimal("0.13337"), "partial", ("svg_usage",))


def test_a_reply_that_breaks_off_is_charged_what_was_reserved(start: Start) -> None:
    torn = HttpReply(headers={"content-type": "application/json"}, steps=[b'{"created": 1, "data": [', RESET])
    gateway = _start(start, [torn])
    key, secret = gateway.create_key("$5/month")
    with pytest.raises(openai.APIConnectionError):
        _draw(gateway, secret)
    assert gateway.spent(f"key:{key}").usd > Decimal("0.1")


def test_a_client_that_leaves_pays_what_was_reserved(start: Start) -> None:
    go = Event()
    gateway = _start(start, [waiting_reply(go, b"data: [DONE]\n\n", before=b"data: 1\n\n")])
    key, secret = gateway.create_key("$5/month")
    body = {"model": "gpt-image-1.5", "prompt": "a cat", "stream": True}
    with gateway.http(secret).stream("POST", "/v1/images/generations", json=body) as reply:
        assert next(reply.iter_raw()) == b"data: 1\n\n"
    assert gateway.spent(f"key:{key}").usd > Decimal("0.1")
    go.set()


def test_a_form_is_for_models_that_the_key_may_use(start: Start) -> None:
    gateway = _start(start, [CASES["transcription by seconds"].reply])
    _, secret = gateway.create_key(models=("openai:whisper-1",))
    with pytest.raises(openai.PermissionDeniedError):
        _transcribe(gateway, secret, "gpt-4o-transcribe")
    assert not gateway.server.requests
    _transcribe(gateway, secret)


def test_a_form_names_one_model(start: Start) -> None:
    gateway = _start(start, json_reply({}))
    _, secret = gateway.create_key(models=("openai:whisper-1",))
    for second in ("model", "MODEL"):
        files = [("model", (None, "whisper-1")), (second, (None, "gpt-4o-transcribe")), ("file", ("a", b"b"))]
        assert gateway.http(secret).post("/v1/audio/transcriptions", files=files).status_code == 400
    assert not gateway.server.requests


@pytest.mark.parametrize(
    ("rule", "fields", "size", "most"),
    [
        ("completion", {"prompt": "Hi"}, 100, TokenUsage(input_tokens=50, output_tokens=16)),
        (
            "completion", {"prompt": ["a", "b"], "max_tokens": 9, "n": 2, "best_of": 3}, 4,
            TokenUsage(input_tokens=2, output_tokens=54),
        ),
        ("completion", {"prompt": [1, 2, 3], "max_tokens": 9}, 4, TokenUsage(input_tokens=2, output_tokens=9)),
        ("image", {"n": "3"}, 4, TokenUsage(input_tokens=2, output_tokens=3 * 16_384)),
        ("image", {"n": True}, 10**7, TokenUsage(input_tokens=16_000, output_tokens=16_384)),
        ("search_units", {"documents": ["a"] * 101}, 100, TokenUsage(server_tools={"search_units": 2})),
        ("search_units", {"documents": ["a"]}, 500_000, TokenUsage(server_tools={"search_units": 6})),
        ("pages", {"pages": [1, 2]}, 100, TokenUsage(server_tools={"pages": 2})),
        ("pages", {}, 100, TokenUsage(server_tools={"pages": 1000})),
        ("audio_seconds", {}, 60_000, TokenUsage(server_tools={"audio_seconds": 60})),
    ],
)  # fmt: skip
def test_the_most_that_a_request_may_use(rule: str, fields: dict[str, Any], size: int, most: TokenUsage) -> None:
    cost = Cost(price_table(), "openai:m", usage_rules()[rule], free=False, fields=fields, size=size)
    found: MaxUsage = cost.measure()
    assert found.total == most
