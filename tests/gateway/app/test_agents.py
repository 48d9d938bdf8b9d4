"""What agents ask beside turns: counts, compactions, lists of models, compressed bodies, late instructions."""

import gzip
import json
import zlib
from contextlib import ExitStack
from typing import Any

import anthropic
import httpx
import openai
import pytest
import zstandard

from dragoman.testing.faults.server import HttpReply, ReceivedRequest, json_reply
from tests.gateway.upstream import PATHS, gateway_before, question, whole_reply

HOUSE = {"house": "openai-chat:gpt-5.2"}


def test_tokens_are_counted_by_the_provider_or_estimated_upward(opened: ExitStack) -> None:
    def answer(request: ReceivedRequest) -> HttpReply:
        assert request.path == "/v1/messages/count_tokens"
        return json_reply({"input_tokens": 4711})

    models = {"claude": "anthropic:claude-sonnet-5-5", **HOUSE}
    with gateway_before(answer, models=models) as (url, server):
        client = opened.enter_context(anthropic.Anthropic(base_url=url, api_key="none", max_retries=0))
        ask: dict[str, Any] = {"messages": [{"role": "user", "content": "word " * 200}]}
        assert client.messages.count_tokens(model="claude", **ask).input_tokens == 4711
        estimated = client.messages.with_raw_response.count_tokens(model="house", **ask)
    assert estimated.parse().input_tokens >= 200
    assert estimated.headers["x-dragoman-estimated"] == "input_tokens"
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [404, 405, 501])
@pytest.mark.parametrize("body", [b"{}", b"<html>Not here</html>", b'{"detail": "Not Found"}'])
def test_tokens_are_estimated_if_the_server_of_the_provider_s_wire_does_not_count(status: int, body: bytes) -> None:
    models = {"claude": "anthropic:claude-sonnet-5-5", "gpt": "openai:gpt-5.4", "gemini": "google:gemini-3.5-flash"}
    message = {"role": "user", "content": "word " * 200}
    asked: dict[str, dict[str, Any]] = {
        "/v1/messages/count_tokens": {"model": "claude", "messages": [message]},
        "/v1/responses/input_tokens": {"model": "gpt", "input": "word " * 200},
        "/v1beta/models/gemini:countTokens": {"contents": [{"role": "user", "parts": [{"text": "word " * 200}]}]},
    }
    with gateway_before(HttpReply(status=status, body=body), models=models) as (url, server):
        replies = [httpx.post(url + path, json=fields) for path, fields in asked.items()]
    assert [reply.status_code for reply in replies] == [200] * 3
    assert [reply.headers["x-dragoman-estimated"] for reply in replies] == ["input_tokens"] * 3
    assert all((reply.json().get("input_tokens") or reply.json()["totalTokens"]) >= 200 for reply in replies)
    assert len(server.requests) == 3


def test_a_count_that_the_provider_refuses_is_not_an_estimate() -> None:
    refusal = json_reply({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}, 400)
    with gateway_before(refusal, models={"claude": "anthropic:claude-sonnet-5-5"}) as (url, _):
        reply = httpx.post(f"{url}/v1/messages/count_tokens", json=question("messages", "claude"))
    assert reply.status_code == 400


def test_input_tokens_of_responses() -> None:
    with gateway_before(whole_reply("chat"), models=HOUSE) as (url, server):
        reply = httpx.post(f"{url}/v1/responses/input_tokens", json={"model": "house", "input": "Where is Bern?"})
    assert reply.json()["object"] == "response.input_tokens"
    assert reply.json()["input_tokens"] > 0
    assert not server.requests


def test_a_conversation_is_compacted_by_a_summary_that_comes_back(opened: ExitStack) -> None:
    with gateway_before(whole_reply("chat", "They spoke of Bern."), models=HOUSE) as (url, server):
        client = opened.enter_context(openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))
        compacted = client.responses.compact(model="house", input="Where is Bern?")
        (item,) = compacted.output
        assert "Bern" not in item.model_dump_json()
        client.responses.create(
            model="house", input=[item.model_dump(exclude_none=True), {"role": "user", "content": "Go on."}]
        )
        changed = {**item.model_dump(exclude_none=True), "encrypted_content": item.encrypted_content[:-8] + "AAAAAAA="}
        with pytest.raises(openai.BadRequestError, match="cannot be read"):
            client.responses.create(model="house", input=[changed])
    first, second = (json.loads(request.body)["messages"] for request in server.requests)
    assert first[0]["content"] == "Where is Bern?"
    assert "Summarize" in first[-1]["content"]
    assert second[0] == {"role": "user", "content": "Summary of the conversation so far:\n\nThey spoke of Bern."}
    assert compacted.usage.total_tokens > 0


def test_a_provider_that_compacts_does_it_itself() -> None:
    compaction = {
        "id": "resp_1", "object": "response.compaction", "created_at": 1, "model": "m",
        "output": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "opaque"}],
        "usage": {
            "input_tokens": 5, "output_tokens": 7, "total_tokens": 12,
            "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
        },
    }  # fmt: skip
    with gateway_before(json_reply(compaction), models={"house": "openai:m"}) as (url, server):
        reply = httpx.post(f"{url}/v1/responses/compact", json={"model": "house", "input": "Where is Bern?"})
    assert reply.json() == compaction
    assert [request.path for request in server.requests] == ["/v1/responses/compact"]


COMPRESSIONS = {
    "gzip": gzip.compress,
    "x-gzip": lambda body: gzip.compress(body[:20]) + gzip.compress(body[20:]),  # in two members
    "deflate": zlib.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "identity": bytes,
}


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_compressed_bodies(name: str) -> None:
    body = json.dumps(question("chat", "house")).encode()
    headers = {"content-encoding": name, "content-type": "application/json"}
    with gateway_before(whole_reply("chat"), models=HOUSE, body_cap=100_000) as (url, server):
        reply = httpx.post(f"{url}/v1/chat/completions", content=COMPRESSIONS[name](body), headers=headers)
        bomb = httpx.post(f"{url}/v1/chat/completions", content=COMPRESSIONS[name](b" " * 200_000), headers=headers)
        damaged = httpx.post(f"{url}/v1/chat/completions", content=COMPRESSIONS[name](body)[:-9], headers=headers)
    assert reply.status_code == 200
    assert server.requests[0].headers.get("content-encoding") is None
    assert json.loads(server.requests[0].body)["messages"] == question("chat", "house")["messages"]
    assert (bomb.status_code, damaged.status_code) == (413, 400)


def test_lists_of_models_have_the_shape_of_the_wire(opened: ExitStack) -> None:
    models = {
        "big": "anthropic:claude-opus-5-5",
        "small": "anthropic:claude-haiku-5-5",
        "claude-*": "local:smollm2-135m",
    }
    with gateway_before(whole_reply("chat"), models=models) as (url, _):
        mine = opened.enter_context(anthropic.Anthropic(base_url=url, api_key="none", max_retries=0))
        page = mine.models.list(limit=1)
        assert [model.id for model in mine.models.list()] == ["big", "small"]
        assert (page.data[0].id, page.has_more, page.first_id, page.last_id) == ("big", True, "big", "big")
        assert [model.id for model in page] == ["big", "small"]
        assert mine.models.retrieve("small").display_name == "small"
        theirs = opened.enter_context(openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))
        assert [(model.id, model.owned_by) for model in theirs.models.list()] == [
            ("big", "anthropic"),
            ("small", "anthropic"),
        ]
        raw = httpx.get(f"{url}/v1/models", headers={"anthropic-version": "2023-06-01"}).json()
    assert raw["data"][0]["max_input_tokens"] > 8192


LATE = {
    "model": "house",
    "max_tokens": 100,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197.abc; cc_entrypoint=sdk-cli;"},
        {"type": "text", "text": "Be brief."},
    ],
    "messages": [
        {"role": "user", "content": "Where is Bern?"},
        {"role": "system", "content": "Answer in German."},
        {"role": "assistant", "content": "In der Schweiz."},
        {"role": "user", "content": "And Paris?"},
    ],
}


def test_late_instructions_stay_in_place_and_a_token_of_the_client_is_left_out_as_a_loss() -> None:
    with gateway_before(whole_reply("chat"), models=HOUSE) as (url, server):
        reply = httpx.post(f"{url}/v1/messages", json=LATE)
    sent = json.loads(server.requests[0].body)["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "system", "assistant", "user"]
    assert sent[0]["content"] == "Be brief."
    assert reply.headers["x-dragoman-losses"].startswith("1; field=1")


def test_on_the_client_s_own_wire_nothing_of_the_prompt_is_edited() -> None:
    with gateway_before(whole_reply("messages"), models={"house": "anthropic:m"}) as (url, server):
        httpx.post(f"{url}/v1/messages", json=LATE)
    assert json.loads(server.requests[0].body) == {**LATE, "model": "m"}


def test_a_strict_gateway_refuses_what_would_be_lost() -> None:
    thinking = {
        "role": "assistant",
        "content": [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "a"}],
    }
    body = question("messages", "house")
    body["messages"] += [thinking, {"role": "user", "content": "Go on."}]
    with gateway_before(whole_reply("chat"), models=HOUSE, strict=True) as (url, server):
        refused = httpx.post(f"{url}/v1/messages", json=body)
        taken = httpx.post(f"{url}/v1/messages", json=question("messages", "house"))
    assert (refused.status_code, taken.status_code) == (400, 200)
    assert "thinking" in refused.json()["error"]["message"]
    assert len(server.requests) == 1


OVERFLOW = {
    "error": {
        "message": "The model's maximum context length is 128000 tokens. Your messages resulted in 130112 tokens.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
}


@pytest.mark.parametrize("wire", PATHS)
def test_an_overflow_is_said_in_the_words_that_agents_read(wire: str) -> None:
    with gateway_before(json_reply(OVERFLOW, 400), models=HOUSE) as (url, _):
        reply = httpx.post(url + PATHS[wire], json=question(wire, "house"))
    error = reply.json()["error"]
    assert reply.status_code == 400
    if wire == "messages":
        assert error["message"] == "prompt is too long: 130112 tokens > 128000 maximum"
    else:
        assert error["code"] == "context_length_exceeded"


def test_a_client_that_wants_a_websocket_is_told_to_use_http() -> None:
    with gateway_before(whole_reply("chat"), models=HOUSE) as (url, _):
        upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        assert httpx.get(f"{url}/v1/responses", headers=upgrade).status_code == 426
