"""Ollama's official client asks a gateway: models of another wire answer, and those of its own."""

import asyncio
import json
import threading
from typing import Any

import httpx
import ollama
import pytest

from dragoman.session import AsyncReplyStream
from dragoman.testing.faults.server import HttpReply, Pause, json_reply, sse_reply
from tests.benchmarks.wires import WIRES
from tests.gateway.upstream import gateway_before, stream_bytes, streamed_reply, waiting_reply, whole_reply

ANSWER = "In Switzerland."
QUESTION = [{"role": "user", "content": "Where is Bern?"}]
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "W.", "parameters": WEATHER}}]
JSON = {"content-type": "application/json"}


def lines_reply(data: bytes) -> HttpReply:
    """Return a stream of Ollama's own."""
    return HttpReply(headers={"content-type": "application/x-ndjson"}, steps=(data,))


OWN_STREAM = b"".join(WIRES["ollama"].text_stream(["In ", "Switzerland."]))
BEHIND = {
    "anthropic:m": (whole_reply("messages"), streamed_reply("messages")),
    "openai-chat:m": (whole_reply("chat"), streamed_reply("chat")),
    "ollama:llama3.2": (whole_reply("ollama"), lines_reply(OWN_STREAM)),
}
MODELS = list(BEHIND)


@pytest.mark.parametrize("model", MODELS)
def test_the_official_client_asks_and_streams(model: str) -> None:
    whole, streamed = BEHIND[model]
    with (
        gateway_before([whole, streamed, whole, streamed], models={"house": model}) as (url, _),
        ollama.Client(host=url) as client,
    ):
        first = client.chat(model="house", messages=QUESTION)
        chunks = [*client.chat(model="house", messages=QUESTION, stream=True)]
        generated = client.generate(model="house:latest", prompt="Where is Bern?")
        pieces = [*client.generate(model="house", prompt="Where is Bern?", stream=True)]
    assert (first.message.content, first.done, first.done_reason) == (ANSWER, True, "stop")
    assert "".join(each.message.content for each in chunks) == ANSWER
    assert [each.done for each in chunks] == [False] * (len(chunks) - 1) + [True]
    assert first.prompt_eval_count > 0
    assert chunks[-1].eval_count > 0
    assert (generated.response, generated.done) == (ANSWER, True)
    assert "".join(each.response for each in pieces) == ANSWER
    assert [each.done for each in pieces] == [False] * (len(pieces) - 1) + [True]


def test_the_async_client_streams() -> None:
    async def ask(url: str) -> str:
        async with ollama.AsyncClient(host=url) as client:
            stream = await client.chat(model="anthropic:m", messages=QUESTION, stream=True)
            return "".join([each.message.content async for each in stream])

    with gateway_before(streamed_reply("messages")) as (url, _):
        assert asyncio.run(ask(url)) == ANSWER


def test_a_call_and_its_result_travel_through_another_wire() -> None:
    message = json.loads(whole_reply("messages").body)
    call = {"id": "toolu_1", "type": "tool_use", "name": "weather", "input": {"city": "Bern"}}
    asked = json_reply({**message, "content": [call], "stop_reason": "tool_use"})
    with (
        gateway_before([asked, whole_reply("messages")], models={"house": "anthropic:m"}) as (url, server),
        ollama.Client(host=url) as client,
    ):
        reply = client.chat(model="house", messages=QUESTION, tools=TOOLS)
        (found,) = reply.message.tool_calls
        result = {"role": "tool", "tool_name": "weather", "content": "sunny"}
        last = client.chat(model="house", messages=[*QUESTION, reply.message, result], tools=TOOLS)
        second = json.loads(server.requests[1].body)
    assert (found.function.name, found.function.arguments) == ("weather", {"city": "Bern"})
    assert last.message.content == ANSWER
    use, answered = second["messages"][1]["content"][0], second["messages"][2]["content"][0]
    assert (use["type"], answered["type"], use["id"]) == ("tool_use", "tool_result", answered["tool_use_id"])


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
def test_thinking_is_asked_for_and_returned(path: str) -> None:
    message = json.loads(whole_reply("messages").body)
    thought = {"type": "thinking", "thinking": "A city.", "signature": "s"}
    content = [thought, {"type": "text", "text": ANSWER}]
    body: dict[str, Any] = {"model": "anthropic:claude-opus-5-5", "think": True, "stream": False}
    body |= {"messages": QUESTION, "prompt": "Where is Bern?"}
    with gateway_before(json_reply({**message, "content": content})) as (url, server):
        reply = httpx.post(url + path, json=body).json()
        (request,) = server.requests
    said = reply.get("message", reply)
    assert (said["thinking"], said.get("content", said.get("response"))) == ("A city.", ANSWER)
    assert json.loads(request.body)["thinking"]["type"] != "disabled"


def test_generate_says_everything_that_a_chat_can() -> None:
    body = {
        "model": "openai-chat:m",
        "system": "Be brief.",
        "prompt": "Describe Bern.",
        "format": WEATHER,
        "options": {"num_predict": 20, "temperature": 0.5},
        "stream": False,
    }
    with gateway_before(whole_reply("chat", '{"city": "Bern"}')) as (url, server):
        untyped = {"authorization": "Bearer none"}  # as LiteLLM sends it
        reply = httpx.post(f"{url}/api/generate", content=json.dumps(body), headers=untyped)
        refused = [
            httpx.post(f"{url}/api/generate", json={**body, **more}).json()["error"]
            for more in ({"raw": True}, {"suffix": "}"}, {"context": [1]}, {"prompt": ""})
        ]
        (request,) = server.requests
    assert json.loads(reply.json()["response"]) == {"city": "Bern"}
    sent = json.loads(request.body)
    assert [each["content"] for each in sent["messages"]] == ["Be brief.", "Describe Bern."]
    assert sent["response_format"]["json_schema"]["schema"]["required"] == ["city"]
    assert sent["temperature"] == 0.5
    assert [error.partition(":")[0] for error in refused] == ["raw", "suffix", "context", "prompt"]


def test_to_ollama_the_bytes_go_through() -> None:
    body = b'{ "model" : "house", "messages":[{"role":"user","content":"Hi"}], "new_field": {"n": 1.10}}'
    with gateway_before(lines_reply(OWN_STREAM), models={"house": "ollama:llama3.2"}) as (url, server):
        reply = httpx.post(f"{url}/api/chat", content=body, headers=JSON)
        (request,) = server.requests
    assert request.body == body.replace(b'"house"', b'"llama3.2"')
    assert reply.content == OWN_STREAM
    assert reply.headers["content-type"] == "application/x-ndjson"


def test_models_are_listed_and_described() -> None:
    names = {"house": "anthropic:claude-opus-4-5", "any-*": "openai:m"}
    with gateway_before(whole_reply("messages"), models=names) as (url, _), ollama.Client(host=url) as client:
        (listed,) = client.list().models
        shown = client.show("house:latest")
        by_name = httpx.post(f"{url}/api/show", json={"name": "house"}).json()
        running = client.ps().models
        version = httpx.get(f"{url}/api/version").json()["version"]
        with pytest.raises(ollama.ResponseError) as caught:
            client.show("hose")
    assert (listed.model, listed.details.family) == ("house", "anthropic")
    assert shown.capabilities == ["completion", "tools", "vision", "thinking"]
    assert by_name["model_info"]["anthropic.context_length"] == shown.modelinfo["anthropic.context_length"] >= 200_000
    assert running == []
    assert [part.isdecimal() for part in version.split(".")] == [True] * 3
    assert caught.value.status_code == 404
    assert "near names are house" in str(caught.value)


@pytest.mark.parametrize("model", MODELS)
def test_a_broken_stream_is_an_error_to_the_client(model: str) -> None:
    if model.startswith("ollama"):
        reply = lines_reply(OWN_STREAM[: OWN_STREAM.index(b"\n") + 1])
    else:
        events = stream_bytes("messages" if "anthropic" in model else "chat").split(b"\n\n")
        reply = HttpReply(
            headers={"content-type": "text/event-stream"}, steps=(b"\n\n".join(events[: len(events) // 2]) + b"\n\n",)
        )
    with gateway_before(reply, models={"house": model}) as (url, _), ollama.Client(host=url) as client:
        for ask in (
            lambda: client.chat(model="house", messages=QUESTION, stream=True),
            lambda: client.generate(model="house", prompt="Hi", stream=True),
        ):
            with pytest.raises(ollama.ResponseError):
                for _ in ask():
                    pass
        with (
            pytest.raises(httpx.RemoteProtocolError),
            httpx.stream("POST", f"{url}/api/chat", json={"model": "house", "messages": QUESTION}) as raw,
        ):
            raw.read()


def test_signs_of_life_do_not_disturb_the_client() -> None:
    events = stream_bytes("messages").split(b"\n\n")
    steps = (b"\n\n".join(events[:4]) + b"\n\n", Pause(0.15), b"\n\n".join(events[4:]))
    go = threading.Event()
    slow = [sse_reply(Pause(0.15), *steps), waiting_reply(go, *steps)]
    quick = {"first_event_seconds": 0.03, "ping_seconds": 0.03}
    with gateway_before(slow, models={"house": "anthropic:m"}, **quick) as (url, _):
        with ollama.Client(host=url) as client:
            chunks = [*client.chat(model="house", messages=QUESTION, stream=True)]
        with httpx.stream("POST", f"{url}/api/chat", json={"model": "house", "messages": QUESTION}) as reply:
            pieces = reply.iter_bytes()
            first = next(pieces)
            go.set()
            assert b"".join(pieces).endswith(b"}\n")
    assert "".join(each.message.content for each in chunks) == ANSWER
    assert first.startswith(b" ")


def test_errors_have_ollama_s_shape() -> None:
    refusal = json_reply({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}, 429)
    with gateway_before(refusal, models={"house": "anthropic:m"}) as (url, _), ollama.Client(host=url) as client:
        with pytest.raises(ollama.ResponseError) as limited:
            client.chat(model="house", messages=QUESTION)
        replies = [
            httpx.post(f"{url}/api/{name}", content=b"{", headers=JSON)
            for name in ("chat", "generate", "embed", "show")
        ]
    assert (limited.value.status_code, limited.value.error) == (429, "slow down")
    assert [reply.status_code for reply in replies] == [400] * 4
    assert all(reply.json()["error"].startswith("the body is not JSON") for reply in replies)


def test_nothing_follows_the_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a sign of life, while the gateway stores what it answered: a client reads whole lines."""
    close = AsyncReplyStream.__aexit__

    async def close_slowly(stream: Any, *error: Any) -> None:
        await asyncio.sleep(0.1)
        await close(stream, *error)

    monkeypatch.setattr(AsyncReplyStream, "__aexit__", close_slowly)
    quick = {"first_event_seconds": 0.01, "ping_seconds": 0.01}
    with gateway_before(streamed_reply("messages"), models={"house": "anthropic:m"}, **quick) as (url, _):
        raw = httpx.post(f"{url}/api/chat", json={"model": "house", "messages": QUESTION})
    assert raw.content.endswith(b"}\n")
