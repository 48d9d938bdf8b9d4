"""The Interactions API: recorded exchanges, and handwritten ones for the rest."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman import AdapterOptions, ImageBlock, Message, TextBlock, ToolDefinition, ToolUseBlock, WireResponse
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.errors import MalformedReplyError, RequestError, ServerError, StreamTruncatedError
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import MediaSource, ProviderBlock, ThinkingBlock
from dragoman.canonical.events import ErrorEvent, MessageComplete, StreamEvent, ToolUseEnd
from dragoman.canonical.message import MessageMetadata, StopReason
from dragoman_adapters.google_interactions.adapter import InteractionsAdapter
from tests.conformance.jsondiff import differences
from tests.conformance.recordings.oracle import interactions as oracle
from tests.conformance.recordings.oracle.expected import Expected
from tests.conformance.recordings.replies import compare
from tests.exchanges import RecordedExchange, load_or_skip
from tests.unit.adapters.google.wire import VERTEX, context, reply_of

GEMINI = InteractionsAdapter("gemini-3-flash-preview")


def recorded_exchanges() -> list[RecordedExchange]:
    return [exchange for exchange in load_or_skip("google") if "/interactions" in exchange.url_path]


def read(native: Any) -> Message:
    return GEMINI.from_wire_response(WireResponse(status=200, body=json.dumps(native).encode()), context(VERTEX))


def stream_events(body: bytes) -> list[StreamEvent]:
    return list(GEMINI.iter_stream([body], context(VERTEX)))


def encode_body(*messages: Message, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(GEMINI.to_wire(messages, [], AdapterOptions(**options)).body)
    return found


@pytest.mark.exchanges
def test_recorded_replies_agree_with_the_oracle() -> None:
    """Text, thoughts, calls, stop reasons and usage; whole and streamed."""
    exchanges = recorded_exchanges()
    assert len(exchanges) > 10
    for exchange in exchanges:
        if exchange.streamed:
            last = stream_events(exchange.body)[-1]
            assert isinstance(last, MessageComplete), exchange.id
            message, expected = last.message, oracle.stream(exchange.response)
        else:
            message, expected = read(exchange.response), oracle.reply(exchange.response)
        assert isinstance(expected, Expected)
        assert list(compare(message, expected)) == [], exchange.id


@pytest.mark.exchanges
def test_recorded_requests_are_rewritten_unchanged() -> None:
    """Recorded requests are rewritten unchanged: the three forms of input, tools and settings."""
    requests = [exchange for exchange in recorded_exchanges() if exchange.request is not None]
    assert requests
    for exchange in requests:
        adapter = InteractionsAdapter(exchange.model or "unknown")
        messages, tools, options = adapter.from_wire_request(exchange.request, context(VERTEX))
        wire = adapter.to_wire(messages, tools, options)
        assert list(differences(exchange.request, json.loads(wire.body))) == [], exchange.id
        assert wire.stream == exchange.request.get("stream", False)
        assert wire.path.partition("?")[0] == "/v1beta/interactions"


@pytest.mark.exchanges
def test_recorded_replies_are_sent_back_unchanged() -> None:
    """Steps, signatures and Google's own calls, in their order."""
    for exchange in recorded_exchanges():
        expected = (oracle.stream if exchange.streamed else oracle.reply)(exchange.response)
        assert isinstance(expected, Expected)
        if not expected.native:
            continue
        last = stream_events(exchange.body)[-1] if exchange.streamed else MessageComplete(read(exchange.response))
        assert isinstance(last, MessageComplete)
        results = [Message.tool(call.id, "done") for call in last.message.tool_uses]
        steps = encode_body(Message.user("Begin."), last.message, *results, Message.user("Go on."))["input"]
        model = [step for step in steps if step["type"] not in ("user_input", "function_result")]
        theirs = [
            {**step, "arguments": json.loads(step["arguments"])} if isinstance(step.get("arguments"), str) else step
            for step in expected.native
        ]
        assert list(differences(theirs, model)) == [], exchange.id


@pytest.mark.exchanges
def test_a_truncated_recorded_stream_never_succeeds() -> None:
    """At any byte before its terminal event; the size of the chunks makes no difference."""
    streams = sorted((each for each in recorded_exchanges() if each.streamed), key=lambda each: len(each.body))
    for exchange in streams[:4]:
        body = exchange.body
        whole = stream_events(body)
        end = body.index(b"}\n", body.index(b'"event_type":"interaction.completed"')) if b"\n" in body else len(body)
        for cut in range(0, end, 7):
            last = stream_events(body[:cut])[-1]
            assert isinstance(last, ErrorEvent)
            assert isinstance(last.error, StreamTruncatedError)
            assert list(GEMINI.iter_stream([body[:cut], body[cut:]], context(VERTEX))) == whole


def handwritten(*steps: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    return {
        "object": "interaction",
        "id": "v1_x",
        "model": GEMINI.model,
        "status": status,
        "steps": list(steps),
        **more,
    }


TEXT = {"type": "model_output", "content": [{"type": "text", "text": "Yes."}]}
CALL = {"type": "function_call", "id": "c1", "name": "add", "arguments": {"x": 1}}


@pytest.mark.parametrize(
    ("status", "steps", "meaning"),
    [
        ("completed", [TEXT], StopReason.END_TURN),
        ("requires_action", [CALL], StopReason.TOOL_USE),
        ("requires_action", [TEXT], StopReason.PAUSE),
        ("incomplete", [TEXT], StopReason.MAX_TOKENS),
        ("requires_continuation", [TEXT], StopReason.PAUSE),
        ("in_progress", [], StopReason.PAUSE),
        ("cancelled", [TEXT], StopReason.CANCELLED),
        ("failed", [TEXT], StopReason.ERROR),
        ("something_new", [TEXT], StopReason.ERROR),
    ],
)
def test_every_status_has_its_meaning(status: str, steps: list[dict[str, Any]], meaning: StopReason) -> None:
    """A status with open calls is tool_use; an unfinished interaction is a pause."""
    assert read(handwritten(*steps, status=status)).stop_reason is meaning


def test_steps_become_blocks_and_return_whole() -> None:
    """Two outputs in a row stay two, an empty one stays empty, and fields next to the contents stay."""
    steps: list[dict[str, Any]] = [
        {
            "type": "thought",
            "signature": "c2ln",
            "summary": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
        {"type": "google_search_call", "id": "s", "arguments": {"queries": ["q"]}, "signature": "c2ln"},
        TEXT,
        {"type": "model_output"},
        {"type": "model_output", "content": [], "error": {"code": 3}},
        {
            "type": "model_output",
            "content": [{"type": "image", "data": "a-_w", "mime_type": "image/png"}, {"type": "new"}],
        },
        CALL,
    ]
    message = read(handwritten({"type": "user_input", "content": []}, *steps, status="requires_action"))
    assert [type(block) for block in message.content] == [
        ThinkingBlock, ProviderBlock, TextBlock, ImageBlock, ProviderBlock, ToolUseBlock,
    ]  # fmt: skip
    assert message.thinking == "ab"
    (call,) = message.tool_uses
    sent = encode_body(Message.user("Hi"), message, Message.tool(call.id, "2"))["input"]
    assert sent[1:-1] == steps
    assert sent[-1] == {"type": "function_result", "call_id": "c1", "name": "add", "result": "2"}


def test_foreign_histories_become_steps() -> None:
    """Signatures of generateContent are not sent; results carry their error flag, and their media."""
    other = reply_of({"functionCall": {"name": "add", "args": {}}, "thoughtSignature": "c2ln"})
    (call,) = other.tool_uses
    image = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")
    failed = Message.tool(call.id, (TextBlock(text="no"), image), is_error=True)
    body = encode_body(Message.system("Brief."), Message.user("Hi"), other, failed, Message.user("So?"))
    call_id = body["input"][1]["id"]
    assert body["system_instruction"] == "Brief."
    assert body["input"] == [
        {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]},
        {"type": "function_call", "id": call_id, "name": "add", "arguments": {}},
        {
            "type": "function_result",
            "call_id": call_id,
            "name": "add",
            "result": [{"type": "text", "text": "no"}, {"type": "image", "data": "aGk=", "mime_type": "image/png"}],
            "is_error": True,
        },
        {"type": "user_input", "content": [{"type": "text", "text": "So?"}]},
    ]


def test_a_bare_text_input_becomes_a_step_when_extended() -> None:
    """The short forms of input hold one turn only."""
    messages, _, _ = GEMINI.from_wire_request({"model": GEMINI.model, "input": "Hi"}, context(VERTEX))
    assert encode_body(*messages)["input"] == "Hi"
    assert [step["type"] for step in encode_body(*messages, read(handwritten(TEXT)), Message.user("So?"))["input"]] == [
        "user_input", "model_output", "user_input",
    ]  # fmt: skip


def test_a_stored_conversation_continues_with_results_only() -> None:
    """Google knows the calls that they answer."""
    native = {
        "model": GEMINI.model,
        "previous_interaction_id": "v1_x",
        "input": [{"type": "function_result", "call_id": "c1", "name": "add", "result": {"sum": 3}}],
    }
    messages, tools, options = GEMINI.from_wire_request(native, context(VERTEX))
    assert json.loads(GEMINI.to_wire(messages, tools, options).body) == native
    assert messages[0].tool_results[0].content == (TextBlock(text='{"sum":3}'),)


def test_options_have_their_names() -> None:
    """Levels in lower case, one function by name, a schema in its format; the others are losses."""
    schema = {"type": "object"}
    options = AdapterOptions(
        temperature=0.5, max_output_tokens=5, effort="max", thinking=True, tool_choice=NamedTool("add"),
        output_schema=schema, top_k=3, thinking_budget=9, parallel_tool_calls=False, stream=True,
    )  # fmt: skip
    wire = GEMINI.to_wire([Message.user("Hi")], [ToolDefinition(name="add")], options)
    body = json.loads(wire.body)
    assert body["generation_config"] == {
        "temperature": 0.5, "max_output_tokens": 5, "thinking_summaries": "auto", "thinking_level": "high",
        "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["add"]}},
    }  # fmt: skip
    assert body["response_format"] == {"type": "text", "mime_type": "application/json", "schema": schema}
    assert (wire.path, wire.stream) == ("/v1beta/interactions?alt=sse", True)
    assert [loss.kind for loss in wire.losses] == [LossKind.OPTION] * 4


def frames(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {each['event_type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events)


def delta(index: int, **fields: Any) -> dict[str, Any]:
    return {"event_type": "step.delta", "index": index, "delta": fields}


def start(index: int, **step: Any) -> dict[str, Any]:
    return {"event_type": "step.start", "index": index, "step": step}


CREATED = {"event_type": "interaction.created", "interaction": {"id": "v1_x", "model": GEMINI.model}}


def test_truncated_arguments_run_nothing() -> None:
    """They stay text; a call that came whole before keeps its input."""
    begun = frames(
        CREATED,
        start(0, type="function_call", id="c1", name="add", arguments={}),
        delta(0, type="arguments_delta", arguments='{"x": 1}'),
        {"event_type": "step.stop", "index": 0},
        start(1, type="function_call", id="c2", name="add", arguments={}),
        delta(1, type="arguments_delta", arguments='{"x": '),
    )
    *before, last = stream_events(begun)
    assert len([event for event in before if isinstance(event, ToolUseEnd)]) == 1
    assert isinstance(last, ErrorEvent)
    assert last.partial is not None
    first, second = last.partial.tool_uses
    assert (first.input, second.input, second.raw_input) == ({"x": 1}, {}, '{"x": ')


def test_an_error_in_mid_stream_has_its_class() -> None:
    """The error code decides it."""
    error = {"event_type": "error", "error": {"code": "internal", "message": "Oops"}}
    last = stream_events(frames(CREATED, error))[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, ServerError)


def test_annotations_count_bytes_and_follow_their_text() -> None:
    """They come in separate deltas."""
    note = {"type": "url_citation", "url": "https://a.example", "start_index": 3, "end_index": 6}
    first = {**note, "start_index": 0, "end_index": 2}
    body = frames(
        CREATED,
        start(0, type="model_output"),
        delta(0, type="text", text="Ü a"),
        delta(0, type="text", text="ha."),
        delta(0, type="text_annotation_delta", annotations=[note, first]),
        {"event_type": "interaction.completed", "interaction": {"status": "completed"}},
    )
    last = stream_events(body)[-1]
    assert isinstance(last, MessageComplete)
    (block,) = last.message.content
    assert isinstance(block, TextBlock)
    assert [block.text[each.start : each.end] for each in block.citations if each.start is not None] == ["aha", "Ü"]


@pytest.mark.parametrize("native", [{}, {"candidates": []}, {"status": "completed", "steps": [5]}])
def test_malformed_interactions_are_a_typed_error(native: dict[str, Any]) -> None:
    """An empty object, the reply of another API, and a step that is not an object."""
    with pytest.raises(MalformedReplyError):
        read(native)


def bodies() -> Iterator[Any]:
    yield from ({"input": 5}, {"input": [5]}, {"input": [{"type": "user_input", "content": 5}]}, b"[]")


@pytest.mark.parametrize("body", list(bodies()))
def test_invalid_requests_are_refused(body: Any) -> None:
    with pytest.raises(RequestError):
        GEMINI.from_wire_request(body, context(VERTEX))


def test_thinking_of_generate_content_is_not_sent() -> None:
    """Each API reads only its own signatures."""
    message = Message.assistant(
        (ThinkingBlock(text="hm", signature="x"), TextBlock(text="Yes.")),
        metadata=MessageMetadata(model="google:gemini-3-flash-preview", provider="google"),
    )
    steps = encode_body(Message.user("Hi"), message, Message.user("So?"))["input"]
    assert [step["type"] for step in steps] == ["user_input", "model_output", "user_input"]
