"""Google's official client asks a gateway: models of another wire answer, and those of its own."""

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import errors, types
from pydantic import BaseModel

from dragoman.testing.faults.server import Pause, json_reply, sse_reply
from tests.gateway.upstream import gateway_before, stream_bytes, streamed_reply, waiting_reply, whole_reply

ANSWER = "In Switzerland."
WEATHER = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}
USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13, "trafficType": "ON_DEMAND"}


def chunk(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0, **more}
    return {"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": "gemini-3", "responseId": "r1"}


OWN_REPLY = json_reply(chunk({"text": ANSWER}, finishReason="STOP"))
OWN_STREAM = b"".join(
    b"data: " + json.dumps(each).encode() + b"\r\n\r\n"
    for each in (chunk({"text": "In "}), chunk({"text": "Switzerland."}, finishReason="STOP"))
)
BEHIND = {
    "anthropic:m": (whole_reply("messages"), streamed_reply("messages")),
    "openai:m": (whole_reply("responses"), streamed_reply("responses")),
    "google:gemini-3.5-flash": (OWN_REPLY, sse_reply(OWN_STREAM)),
}
MODELS = list(BEHIND)


def google_client(url: str) -> genai.Client:
    return genai.Client(api_key="mine", http_options=types.HttpOptions(base_url=url))


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.parametrize("model", MODELS)
def test_the_official_client_asks_and_streams(model: str) -> None:
    whole, streamed = BEHIND[model]
    with (
        gateway_before([whole, streamed, whole, streamed], models={"house": model}) as (url, _),
        google_client(url) as client,
    ):
        first = client.models.generate_content(model="house", contents="Where is Bern?")
        chunks = [*client.models.generate_content_stream(model="house", contents="Where is Bern?")]
        later, later_chunks = asyncio.run(_ask_async(client))
    for reply in (first, later):
        assert (reply.text, reply.candidates[0].finish_reason.value) == (ANSWER, "STOP")
        assert reply.usage_metadata.prompt_token_count > 0
    for each in (chunks, later_chunks):
        assert "".join(part.text or "" for part in each) == ANSWER
        assert len(each) > 1
        assert each[-1].candidates[0].finish_reason.value == "STOP"


async def _ask_async(client: genai.Client) -> tuple[Any, list[Any]]:
    whole = await client.aio.models.generate_content(model="house", contents="Where is Bern?")
    stream = await client.aio.models.generate_content_stream(model="house", contents="Where is Bern?")
    chunks = [each async for each in stream]
    await client.aio.aclose()
    return whole, chunks


def test_a_call_and_its_result_travel_through_another_wire() -> None:
    call = {"id": "toolu_1", "type": "tool_use", "name": "weather", "input": {"city": "Bern"}}
    message = json.loads(whole_reply("messages").body)
    asked = json_reply({**message, "content": [call], "stop_reason": "tool_use"})
    tool = types.Tool(function_declarations=[{"name": "weather", "description": "W.", "parameters": WEATHER}])
    config = types.GenerateContentConfig(
        tools=[tool], automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
    )
    with (
        gateway_before([asked, whole_reply("messages")], models={"house": "anthropic:m"}) as (url, server),
        google_client(url) as client,
    ):
        question = types.Content(role="user", parts=[types.Part(text="How is Bern?")])
        reply = client.models.generate_content(model="house", contents=[question], config=config)
        (found,) = reply.function_calls
        response = types.FunctionResponse(id=found.id, name=found.name, response={"result": "sunny"})
        answered = types.Content(role="user", parts=[types.Part(function_response=response)])
        history = [question, reply.candidates[0].content, answered]
        last = client.models.generate_content(model="house", contents=history, config=config)
        first_request, second_request = (json.loads(each.body) for each in server.requests)
    assert (found.name, found.args, last.text) == ("weather", {"city": "Bern"}, ANSWER)
    schema = first_request["tools"][0]["input_schema"]
    assert (schema["type"], schema["properties"]["city"]["type"]) == ("object", "string")
    use, result = second_request["messages"][1]["content"][0], second_request["messages"][2]["content"][0]
    assert (use["type"], result["type"], use["id"]) == ("tool_use", "tool_result", result["tool_use_id"])
    assert "sunny" in json.dumps(result)


class City(BaseModel):
    name: str
    people: int


def test_a_schema_goes_to_the_other_wire_and_its_answer_is_parsed() -> None:
    answer = whole_reply("responses", '{"name": "Bern", "people": 137000}')
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=City)
    with gateway_before(answer, models={"house": "openai:m"}) as (url, server), google_client(url) as client:
        reply = client.models.generate_content(model="house", contents="Describe Bern.", config=config)
        (request,) = server.requests
    assert reply.parsed == City(name="Bern", people=137000)
    schema = json.loads(request.body)["text"]["format"]["schema"]
    assert schema["properties"]["people"]["type"] == "integer"


def test_tokens_are_counted_by_the_provider_or_estimated() -> None:
    counted = json_reply({"input_tokens": 41})
    models = {"house": "anthropic:m", "plain": "mistral:m"}
    with gateway_before(counted, models=models) as (url, server), google_client(url) as client:
        found = [client.models.count_tokens(model=name, contents="Where is Bern?") for name in models]
        inner = {"model": "models/house", "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
        wrapped = httpx.post(f"{url}/v1beta/models/house:countTokens", json={"generateContentRequest": inner})
    assert found[0].total_tokens == 41
    assert 1 <= found[1].total_tokens < 20
    assert wrapped.json() == {"totalTokens": 41}
    assert [each.path for each in server.requests] == ["/v1/messages/count_tokens"] * 2


def test_models_are_listed() -> None:
    names = {"house": "anthropic:claude-opus-5-5", "small": "google:gemini-3.5-flash", "any-*": "openai:m"}
    with gateway_before(OWN_REPLY, models=names) as (url, _), google_client(url) as client:
        listed = [*client.models.list()]
        paged = [each.name for each in client.models.list(config={"page_size": 1})]
        one = client.models.get(model="house")
        with pytest.raises(errors.ClientError) as caught:
            client.models.get(model="hose")
        shapes = [httpx.get(f"{url}/v1/models", headers=head).json() for head in ({"x-goog-api-key": "k"}, {})]
    assert [each.name for each in listed] == ["models/house", "models/small"]
    assert paged == ["models/house", "models/small"]
    assert (one.name, one.input_token_limit) == ("models/house", listed[0].input_token_limit)
    assert caught.value.status == "NOT_FOUND"
    assert "near names are house" in str(caught.value)
    assert [set(shape) for shape in shapes] == [{"models"}, {"object", "data"}]


REQUEST = b'{ "contents" : [{"role":"user","parts":[{"text":"Hi"}]}],\n "new_field": {"n": 1.10}}'


def test_to_google_the_bytes_go_through() -> None:
    path = "/v1beta/models/house:"
    with gateway_before([OWN_REPLY, sse_reply(OWN_STREAM)], models={"house": "google:gemini-3.5-flash"}) as (
        url,
        server,
    ):
        json_type = {"content-type": "application/json"}
        whole = httpx.post(f"{url}{path}generateContent?key=mine", content=REQUEST, headers=json_type)
        streamed = httpx.post(f"{url}{path}streamGenerateContent?alt=sse", content=REQUEST, headers=json_type)
    assert [each.body for each in server.requests] == [REQUEST, REQUEST]
    assert [each.path for each in server.requests] == [
        "/v1beta/models/gemini-3.5-flash:generateContent",
        "/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse",
    ]
    assert all(b"mine" not in each.head for each in server.requests)
    assert whole.content == OWN_REPLY.body
    assert streamed.content == OWN_STREAM
    assert streamed.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("model", MODELS)
def test_without_alt_sse_a_stream_is_one_array(model: str) -> None:
    with gateway_before(BEHIND[model][1], models={"house": model}) as (url, _):
        reply = httpx.post(f"{url}/v1beta/models/house:streamGenerateContent", json=json.loads(REQUEST))
    assert reply.headers["content-type"] == "application/json"
    texts = [
        part.get("text", "")
        for each in reply.json()
        for candidate in each.get("candidates", ())
        for part in candidate["content"]["parts"]
    ]
    assert "".join(texts) == ANSWER


@pytest.mark.parametrize("prefix", ["/v1beta", "/v1", "/v1alpha", ""])
def test_addresses_and_spellings(prefix: str) -> None:
    body = {
        "model": "models/house",
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "generation_config": {"max_output_tokens": 50, "stop_sequences": ["."]},
        "tools": [{"function_declarations": [{"name": "weather", "parameters": WEATHER}]}],
    }
    with gateway_before(whole_reply("messages")) as (url, server):
        reply = httpx.post(f"{url}{prefix}/models/anthropic:m:generateContent", json=body)
        (request,) = server.requests
    assert reply.json()["candidates"][0]["content"]["parts"] == [{"text": ANSWER}]
    sent = json.loads(request.body)
    assert (sent["model"], sent["max_tokens"], sent["stop_sequences"]) == ("m", 50, ["."])
    assert "Be brief." in json.dumps(sent["system"])
    assert sent["tools"][0]["input_schema"]["properties"]["city"] == {"type": "string"}


@pytest.mark.parametrize("model", MODELS)
def test_a_broken_stream_is_an_error_to_the_client(model: str) -> None:
    whole = stream_bytes("messages") if "anthropic" in model else stream_bytes("responses")
    events = (OWN_STREAM if "google" in model else whole).replace(b"\r\n", b"\n").split(b"\n\n")
    cut = b"\n\n".join(events[: len(events) // 2]) + b"\n\n"
    with gateway_before([sse_reply(cut)], models={"house": model}) as (url, _), google_client(url) as client:
        with pytest.raises(errors.ServerError, match="UNAVAILABLE"):
            for _ in client.models.generate_content_stream(model="house", contents="Hi"):
                pass
        address = f"{url}/v1beta/models/house:streamGenerateContent"
        for query in ("?alt=sse", ""):
            with (
                pytest.raises(httpx.RemoteProtocolError),
                httpx.stream("POST", address + query, json=json.loads(REQUEST)) as reply,
            ):
                reply.read()


def test_signs_of_life_do_not_disturb_the_client() -> None:
    events = stream_bytes("messages").split(b"\n\n")
    steps = b"\n\n".join(events[:4]) + b"\n\n", Pause(0.15), b"\n\n".join(events[4:])
    go = threading.Event()
    slow = [sse_reply(Pause(0.15), *steps), waiting_reply(go, *steps)]
    quick = {"first_event_seconds": 0.03, "ping_seconds": 0.03}
    with gateway_before(slow, models={"house": "anthropic:m"}, **quick) as (url, _), google_client(url) as client:
        chunks = [*client.models.generate_content_stream(model="house", contents="Hi")]
        address = f"{url}/v1beta/models/house:streamGenerateContent"
        with httpx.stream("POST", address, json=json.loads(REQUEST)) as reply:
            pieces = reply.iter_bytes()
            first = next(pieces)
            go.set()
            array = b"".join((first, *pieces))
    assert "".join(each.text or "" for each in chunks) == ANSWER
    assert first.startswith(b"\r\n\r\n")
    assert isinstance(json.loads(array), list)


def test_errors_have_google_s_shape() -> None:
    refusal = json_reply({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}, 429)
    with gateway_before(refusal, models={"house": "anthropic:m"}) as (url, _), google_client(url) as client:
        with pytest.raises(errors.ClientError) as limited:
            client.models.generate_content(model="house", contents="Hi")
        with pytest.raises(errors.ClientError) as unknown:
            client.models.generate_content(model="hose", contents="Hi")
        garbage = httpx.post(
            f"{url}/v1beta/models/house:generateContent", content=b"{", headers={"x-goog-api-key": "k"}
        )
    assert (limited.value.code, limited.value.status) == (429, "RESOURCE_EXHAUSTED")
    assert (unknown.value.code, unknown.value.status) == (404, "NOT_FOUND")
    assert garbage.json()["error"]["status"] == "INVALID_ARGUMENT"
