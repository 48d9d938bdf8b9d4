"""Text completions: what was recorded is read, and OpenAI's SDK sends the same."""

import json
from typing import Any

import openai
import pytest

from dragoman import AdapterOptions, Client, Message, RequestContext, ToolDefinition, WireResponse, get_adapter
from dragoman.blocks import DocumentBlock, ImageBlock, MediaSource, TextBlock, ToolUseBlock
from dragoman.canonical.events import MessageComplete, TextDelta
from dragoman.errors import ConfigurationError, RequestError, StreamTruncatedError, UnsupportedReplyError
from dragoman_adapters.compatible.adapter import build_endpoint_class
from dragoman_adapters.compatible.endpoint_row import built_in_tables, parse_row, resolve_table
from tests.conformance.coverage.loopback import loopback
from tests.exchanges import RecordedExchange, load_or_skip
from tests.tables import each_row
from tests.unit.adapters.openai_chat.wire import losses

MODEL = "text-completion:gpt-3.5-turbo-instruct"
CHAT = [Message.system("Be brief."), Message.user("Hi"), Message.assistant("Hello!"), Message.user("2+2?")]
TRANSCRIPT = "Be brief.\n\nuser:\nHi\n\nassistant:\nHello!\n\nuser:\n2+2?\n\nassistant:\n"


def recordings() -> list[RecordedExchange]:
    """Each answered request of the recordings that has one prompt."""
    return [
        each
        for provider in ("openai-chat", "openai-compatible")
        for each in load_or_skip(provider)
        if each.url_path.partition("?")[0] == "/v1/completions" and each.status == 200 and each.is_genuine
    ]


def sent_chunks(exchange: RecordedExchange) -> list[dict[str, Any]]:
    lines = exchange.body.decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def adapter_of(**fields: Any) -> Any:
    tables = {**built_in_tables(), "own": {"like": "text-completion", "base_url": "http://127.0.0.1/v1", **fields}}
    return build_endpoint_class("own", parse_row("own", resolve_table("own", tables, "a test"), "a test"))("m")


def test_recorded_replies_are_read() -> None:
    """Whole and streamed, with each choice, the stop reason and the counts."""
    adapter, whole, streamed = get_adapter(MODEL), 0, 0
    for each in recordings():
        context = RequestContext.for_model(MODEL)
        if each.streamed:
            chunks = sent_chunks(each)
            if each.body.decode().rstrip().endswith("..."):
                continue  # the recorder left the rest out
            events = list(adapter.iter_stream([each.body], context))
            assert isinstance(events[-1], MessageComplete), each.id
            message = events[-1].message
            text = "".join(choice["text"] for chunk in chunks for choice in chunk["choices"] if not choice["index"])
            assert message.text == text == "".join(e.text for e in events if isinstance(e, TextDelta)), each.id
            streamed += 1
            continue
        message = adapter.from_wire_response(WireResponse(status=200, headers={}, body=each.body), context)
        texts = [message.text, *(choice.content[0].text for choice in message.metadata.alternatives or ())]  # type: ignore[union-attr]
        assert texts == [choice["text"] for choice in each.response["choices"]], each.id
        assert message.usage is not None
        assert message.usage.output_tokens == each.response["usage"]["completion_tokens"], each.id
        whole += 1
    assert whole > 20
    assert streamed > 3


def test_recorded_requests_are_read_and_sent_again() -> None:
    """A prompt that a client wrote stays as it is."""
    adapter, count = get_adapter(MODEL), 0
    for each in recordings():
        prompt = each.request["prompt"]
        if isinstance(prompt, list) and len(prompt) != 1:
            with pytest.raises(RequestError, match="prompt is one text"):
                adapter.from_wire_request(each.request, RequestContext.for_model(MODEL))
            continue
        messages, tools, options = adapter.from_wire_request(each.request, RequestContext.for_model(MODEL))
        wire = adapter.to_wire(messages, tools, options)
        one = prompt if isinstance(prompt, str) else prompt[0]
        expected = {**each.request, "prompt": one, "model": "gpt-3.5-turbo-instruct"}
        if isinstance(expected.get("stop"), str):
            assert json.loads(wire.body)["stop"] in ([expected["stop"]], expected["stop"])
            expected["stop"] = json.loads(wire.body)["stop"]
        assert json.loads(wire.body) == expected, each.id
        assert wire.losses == ()
        count += 1
    assert count > 20


@pytest.mark.parametrize("streamed", [False, True])
def test_the_request_is_that_of_the_sdk(streamed: bool) -> None:
    """The same body reaches the same path, and the SDK and a session read the same text."""
    logprobs = {"tokens": ["4"], "token_logprobs": [-0.1], "top_logprobs": [{"4": -0.1}], "text_offset": [0]}
    choice = {"index": 0, "text": "4", "logprobs": logprobs, "finish_reason": "stop"}
    reply = {
        "id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m", "choices": [choice],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
    }  # fmt: skip
    answer = json.dumps(reply)
    arguments: dict[str, Any] = {"model": "m", "max_tokens": 9, "temperature": 0.5, "logprobs": 2, "stop": ["\nuser:"]}
    if streamed:
        answer = f"data: {answer}\n\ndata: [DONE]\n\n"
        arguments |= {"stream": True, "stream_options": {"include_usage": True}}
    with loopback() as server, Client() as client, openai.OpenAI(api_key="key", base_url=server.url) as sdk:
        server.answer = ("text/event-stream" if streamed else "application/json", answer.encode())
        theirs: Any = sdk.completions.create(prompt=TRANSCRIPT, **arguments)
        text = theirs.choices[0].text if not streamed else "".join(chunk.choices[0].text for chunk in theirs)
        options = AdapterOptions(max_output_tokens=9, temperature=0.5, logprobs=2)
        settings: Any = {"base_url": server.url, "api_key": "key", "options": options}
        session = client.session("text-completion:m", messages=CHAT[:-1], **settings)
        ours = session.stream("2+2?").get_reply() if streamed else session.ask("2+2?")
        assert [each.path for each in server.sent] == ["/completions"] * 2
        assert server.sent[1].body == server.sent[0].body
    assert ours.text == text == "4"
    assert (ours.usage.input_tokens, ours.usage.output_tokens) == (9, 1)
    assert (ours.message.metadata.provider_raw or {})["choice"]["logprobs"] == logprobs
    assert ours.losses == ()


def test_what_cannot_be_sent_is_a_loss() -> None:
    """Tools, media and reasoning have no place in a prompt."""
    history = [
        Message.user([TextBlock(text="See"), ImageBlock(source=MediaSource(kind="url", data="https://a.test/b.png"))]),
        Message.assistant([ToolUseBlock(id="tu_1", name="f", input={"a": 1})]),
        Message.tool("tu_1", "done"),
        Message.user([DocumentBlock(source=MediaSource(kind="base64", data="aGk="), media_type="application/pdf")]),
    ]
    options = AdapterOptions(thinking=True, effort="high", top_k=3, tool_choice="required")
    wire = get_adapter(MODEL).to_wire(history, [ToolDefinition(name="f")], options)
    prompt = json.loads(wire.body)["prompt"]
    assert "done" in prompt
    assert json.loads(wire.body).keys() == {"model", "stop", "prompt"}
    assert {kind for kind, _ in losses(wire)} >= {"tools", "media", "option", "flattened"}
    assert {reason for kind, reason in losses(wire) if kind == "option"} >= {"effort", "top_k"}


def test_a_schema_is_asked_for_in_the_prompt() -> None:
    """And the loss says so."""
    options = AdapterOptions(output_schema={"type": "object", "properties": {"a": {"type": "string"}}})
    wire = get_adapter(MODEL).to_wire([Message.user("Hi")], [], options)
    assert '"properties"' in json.loads(wire.body)["prompt"]
    assert [kind for kind, _ in losses(wire)] == ["option"]


FORMATS: list[tuple[dict[str, Any], list[Message], str, list[str] | None]] = [
    ({}, CHAT, TRANSCRIPT, ["\nuser:"]),
    ({}, CHAT[:3], TRANSCRIPT.partition("\n\nuser:\n2")[0], ["\nuser:"]),
    ({"user": "[INST] {text} [/INST]", "assistant": " {text}</s>", "reply": "", "stop": ["</s>"]}, CHAT,
     "Be brief.\n\n[INST] Hi [/INST] Hello!</s>[INST] 2+2? [/INST]", ["</s>"]),
    ({"system": "{text}", "user": "{text}", "assistant": "{text}", "reply": "", "stop": []},
     [Message.user("Once {text} "), Message.assistant("upon")], "Once {text} upon", None),
]  # fmt: skip


@each_row(("form", "history", "prompt", "stop"), FORMATS)
def test_the_format_of_the_prompt_is_data(
    form: dict[str, Any], history: list[Message], prompt: str, stop: list[str] | None
) -> None:
    """The endpoint's row has it. The assistant's last message is continued."""
    body = json.loads(adapter_of(default={"wire": {"prompt": form}}).to_wire(history, [], AdapterOptions()).body)
    assert body["prompt"] == prompt
    assert body.get("stop") == stop


def test_a_longer_history_begins_with_the_shorter_one() -> None:
    """A server can keep what it has read."""
    adapter = get_adapter(MODEL)
    first, second = (json.loads(adapter.to_wire(CHAT[:n], [], AdapterOptions()).body)["prompt"] for n in (2, 4))
    assert second.startswith(first)


def test_a_cut_stream_is_truncated() -> None:
    """A stream without an end is an error that has the text so far."""
    chunk = b'data: {"id": "c", "choices": [{"index": 0, "text": "Hel", "finish_reason": null}]}\n\n'
    last: Any = list(get_adapter(MODEL).iter_stream([chunk], RequestContext.for_model(MODEL)))[-1]
    assert isinstance(last.error, StreamTruncatedError)
    assert last.partial.text == "Hel"


def test_an_endpoint_has_text_completions_or_the_others() -> None:
    """One that has both uses the others."""
    with pytest.raises(ConfigurationError, match="apis"):
        adapter_of(apis=["completions", "chat"])


def test_clients_get_no_text_completions() -> None:
    """The adapter reads requests and replies, and says that it writes no replies."""
    adapter, context = get_adapter(MODEL), RequestContext.for_model(MODEL)
    with pytest.raises(UnsupportedReplyError):
        adapter.to_wire_response(Message.assistant("Hi"), context)
