"""InvokeModel with the body of Chat Completions, for models that Converse does not serve."""

import json
from typing import Any

import pytest
from botocore.config import Config
from botocore.session import get_session

from dragoman import AdapterOptions, Client, Message, RequestContext, ToolDefinition, WireResponse, get_adapter
from dragoman.canonical.events import ErrorEvent, MessageComplete, TextDelta
from dragoman.errors import RateLimitError, StreamTruncatedError
from tests.conformance.coverage.loopback import loopback
from tests.exchanges import load_or_skip
from tests.unit.adapters.bedrock.wire import chunk, frame

IMPORTED = "arn:aws:bedrock:us-east-1:123456789012:imported-model/abcdefgh1234"
MODEL = f"bedrock-invoke:{IMPORTED}"
REPLY = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "qwen",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
}  # fmt: skip
METRICS = {"inputTokenCount": 5, "outputTokenCount": 2, "invocationLatency": 9, "firstByteLatency": 3}


def piece(text: str, finish: str | None = None, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return chunk({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice], **fields})


def test_the_recorded_bodies_of_this_form_are_read() -> None:
    """A reply of AI21's, and the requests."""
    found = []
    for each in load_or_skip("bedrock"):
        if each.url_path.endswith("/invoke") and "max_tokens" in (each.request or {}) and "messages" in each.request:
            if "anthropic_version" in each.request:
                continue
            model = f"bedrock-invoke:{each.model}"
            adapter, context = get_adapter(model), RequestContext.for_model(model)
            messages, tools, options = adapter.from_wire_request(each.request, context)
            assert json.loads(adapter.to_wire(messages, tools, options).body) == each.request
            if each.status == 200:
                message = adapter.from_wire_response(WireResponse(200, each.body, {}), context)
                found.append((message.text, message.usage and message.usage.output_tokens))
    assert found == [(" Hello! I'm doing great, thank you. How can I assist you today?", 19)]


@pytest.mark.parametrize("streamed", [False, True])
def test_the_request_is_that_of_the_sdk(streamed: bool) -> None:
    """The same body and path, and both read the reply."""
    body = {
        "max_tokens": 9,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    }
    stream = piece("Ye") + piece("s.", "stop", **{"amazon-bedrock-invocationMetrics": METRICS})
    answer = ("application/vnd.amazon.eventstream", stream) if streamed else ("application/json", _json(REPLY))
    with loopback() as server, Client() as client:
        server.answer = answer
        sdk = get_session().create_client(
            "bedrock-runtime", region_name="us-east-1", endpoint_url=server.url, aws_access_key_id="a",
            aws_secret_access_key="b", config=Config(retries={"max_attempts": 0}),
        )  # fmt: skip
        if streamed:
            theirs = sdk.invoke_model_with_response_stream(modelId=IMPORTED, body=_json(body))["body"]
            chunks = [json.loads(each["chunk"]["bytes"]) for each in theirs]
            text = "".join(each["choices"][0]["delta"]["content"] for each in chunks)
        else:
            text = json.loads(sdk.invoke_model(modelId=IMPORTED, body=_json(body))["body"].read())["choices"][0][
                "message"
            ]["content"]
        sdk.close()
        settings: Any = {"base_url": server.url, "api_key": "key", "options": AdapterOptions(max_output_tokens=9)}
        session = client.session(MODEL, system="Be brief.", **settings)
        ours = session.stream("Hi").get_reply() if streamed else session.ask("Hi")
        assert server.sent[1].path == server.sent[0].path
        assert server.sent[1].body == server.sent[0].body == body
    assert ours.text == text == "Yes."
    assert (ours.usage.input_tokens, ours.usage.output_tokens) == (5, 2)
    assert ours.losses == ()


def test_calls_of_tools_arrive_in_a_stream() -> None:
    """They arrive as they do on the chat wire."""
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    wire = get_adapter(MODEL).to_wire([Message.user("Hi")], [ToolDefinition(name="f")], AdapterOptions(stream=True))
    assert "tools" in json.loads(wire.body)
    assert wire.headers["accept"] == "application/vnd.amazon.eventstream"
    last = list(get_adapter(MODEL).iter_stream([chunk({"choices": [choice]})], RequestContext.for_model(MODEL)))[-1]
    assert isinstance(last, MessageComplete)
    assert [(use.name, use.input) for use in last.message.tool_uses] == [("f", {"a": 1})]


def test_an_error_in_a_stream_has_its_class() -> None:
    """The error carries the text so far; a stream that stops is truncated."""
    failed = frame("throttlingException", {"message": "slow down"}, kind="exception")
    for end, kind in ((failed, RateLimitError), (b"", StreamTruncatedError)):
        events = list(get_adapter(MODEL).iter_stream([piece("Ye") + end], RequestContext.for_model(MODEL)))
        assert isinstance(events[-1], ErrorEvent)
        assert isinstance(events[-1].error, kind)
        assert events[-1].partial is not None
        assert events[-1].partial.text == "Ye" == "".join(e.text for e in events if isinstance(e, TextDelta))


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_its_services_are_those_of_bedrock() -> None:
    services = get_adapter("bedrock-invoke:qwen").services
    assert services is not None
    assert services.offers == {"count_tokens"}
