"""Several answers to one prompt (`n`): asked for, read whole and streamed, written to clients, judged and paid for."""

import json
from typing import Any

import pytest

from dragoman import AdapterOptions, Message, RequestContext, get_adapter
from dragoman.adapter.answers.reply_writer import ReplyWriter
from dragoman.adapter.errors import RequestError
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import TextBlock
from dragoman.canonical.events import MessageComplete, TextDelta
from dragoman.canonical.message import MessageMetadata, StopReason, read_message, write_message
from dragoman.limits import Limit, Limits
from dragoman.limits.bounds import max_usage
from dragoman.messages import Alternative
from dragoman.policy import Pipeline, PolicyDeniedError, Step, Violation, hook
from tests.tables import each_row

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
CHOICES: list[dict[str, Any]] = [
    {
        "index": 1,
        "message": {"role": "assistant", "content": None, "tool_calls": [CALL]},
        "finish_reason": "tool_calls",
    },
    {"index": 0, "message": {"role": "assistant", "content": "Red"}, "finish_reason": "stop"},
    {"index": 2, "message": {"role": "assistant", "content": "Blue"}, "finish_reason": "length"},
]
CHAT = {
    "id": "c", "object": "chat.completion", "model": "gpt-4.1", "choices": CHOICES,
    "usage": {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12},
}  # fmt: skip
CANDIDATES: list[dict[str, Any]] = [
    {"index": 0, "content": {"role": "model", "parts": [{"text": "Red"}]}, "finishReason": "STOP"},
    {"index": 1, "content": {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]},
     "finishReason": "STOP"},
    {"index": 2, "content": {"role": "model", "parts": [{"text": "Blue"}]}, "finishReason": "MAX_TOKENS"},
]  # fmt: skip
GEMINI = {
    "modelVersion": "gemini-2.5-flash", "candidates": CANDIDATES,
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 9, "totalTokenCount": 12},
}  # fmt: skip
HANDWRITTEN = {"openai-chat:gpt-4.1": CHAT, "mistral:mistral-medium-latest": CHAT, "google:gemini-2.5-flash": GEMINI}


def read(model: str) -> Message:
    body = json.dumps(HANDWRITTEN[model]).encode()
    return get_adapter(model).from_wire_response(WireResponse(200, body, {}), RequestContext.for_model(model))


def sse(*chunks: Any) -> list[bytes]:
    return [b"data: " + (each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n\n" for each in chunks]


def chat_chunk(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"id": "c", "model": "gpt-4.1", "choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def call_chunk(arguments: str, **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": "f"} if fields else {})}
    return chat_chunk(1, {"tool_calls": [{"index": 0, **fields, "function": function}]})


STREAMS = {
    "openai-chat:gpt-4.1": sse(
        chat_chunk(0, {"content": "R"}),
        call_chunk('{"a"', id="call_1", type="function"),
        chat_chunk(2, {"content": "Bl"}),
        call_chunk(":1}"),
        chat_chunk(0, {"content": "ed"}),
        chat_chunk(2, {"content": "ue"}, "length"),
        chat_chunk(1, {}, "tool_calls"),
        chat_chunk(0, {}, "stop"),
        {"id": "c", "model": "gpt-4.1", "choices": [], "usage": CHAT["usage"]},
        b"[DONE]",
    ),
    "google:gemini-2.5-flash": sse(
        *({**GEMINI, "candidates": [each]} for each in CANDIDATES),
    ),
}


def described(alternatives: tuple[Alternative, ...]) -> list[tuple[Any, ...]]:
    return [(each.text, [call.input for call in _calls(each)], each.stop_reason) for each in alternatives]


def _calls(alternative: Alternative) -> Any:
    return [block for block in alternative.content if block.type == "tool_use"]


OTHERS = [("", [{"a": 1}], StopReason.TOOL_USE), ("Blue", [], StopReason.MAX_TOKENS)]

SENT = {
    "openai-chat:gpt-4.1": ("n",),
    "azure-openai:gpt-4.1": ("n",),
    "together:meta-llama/x": ("n",),
    "fireworks:x": ("n",),
    "vllm:x": ("n",),
    "llamacpp:x": ("n",),
    "compatible:x": ("n",),
    "mistral:mistral-medium-latest": ("n",),
    "google:gemini-2.5-flash": ("generationConfig", "candidateCount"),
    "google-vertex:gemini-2.5-flash": ("generationConfig", "candidateCount"),
}


@each_row(("model", "path"), list(SENT.items()))
def test_the_number_is_sent_and_read_back(model: str, path: tuple[str, ...]) -> None:
    """It has a typed field, so nothing is left in ``extra``; one answer needs no field."""
    adapter = get_adapter(model)
    wire = adapter.to_wire([Message.user("Hi")], [], AdapterOptions(n=3))
    value = json.loads(wire.body)
    for step in path:
        value = value[step]
    assert (value, wire.losses) == (3, ())
    _, _, options = adapter.from_wire_request(wire.body, RequestContext.for_model(model))
    assert (options.n, dict(options.extra)) == (3, {})
    plain = adapter.to_wire([Message.user("Hi")], [], AdapterOptions())
    assert adapter.to_wire([Message.user("Hi")], [], AdapterOptions(n=1)) == plain


LOST = (
    "anthropic:claude-sonnet-4-6", "openai:gpt-5.4", "cohere:command-a-03-2025", "groq:openai/gpt-oss-120b",
    "bedrock:amazon.nova-lite-v1:0", "ollama:qwen3", "local:smollm2-135m", "mistral:mistral-large-latest",
    "openrouter:openai/gpt-4.1-mini",
)  # fmt: skip


@each_row(("model",), [(model,) for model in LOST])
def test_the_number_is_a_loss_elsewhere(model: str) -> None:
    wire = get_adapter(model).to_wire([Message.user("Hi")], [], AdapterOptions(n=3))
    assert [loss.reason.partition(":")[0] for loss in wire.losses] == ["n"]


@pytest.mark.parametrize("number", [0, -1, True, "2", 1.5])
def test_a_wrong_number_is_refused(number: Any) -> None:
    with pytest.raises(RequestError, match="n must be a number of answers"):
        AdapterOptions(n=number)


@pytest.mark.parametrize("model", HANDWRITTEN)
def test_all_answers_of_a_whole_reply_are_read(model: str) -> None:
    """The first choice is the message; the others follow by index, and survive storage."""
    message = read(model)
    assert message.text == "Red"
    assert described(message.alternatives) == OTHERS
    assert message.usage is not None
    assert message.usage.output_tokens == 9
    assert read_message(write_message(message)).alternatives == message.alternatives


@pytest.mark.parametrize("model", STREAMS)
def test_all_answers_of_a_stream_are_read(model: str) -> None:
    """Only the first one has events."""
    events = list(get_adapter(model).iter_stream(STREAMS[model], RequestContext.for_model(model)))
    last = events[-1]
    assert isinstance(last, MessageComplete)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == last.message.text == "Red"
    assert described(last.message.alternatives) == OTHERS


@pytest.mark.parametrize("client", ["openai-chat:gpt-4.1", "google:gemini-2.5-flash"])
@pytest.mark.parametrize("model", HANDWRITTEN)
def test_a_client_with_choices_gets_all_answers(model: str, client: str) -> None:
    """Whoever answered, the reply that is written reads back as the same answers."""
    adapter = get_adapter(client)
    wire = adapter.to_wire_response(read(model), RequestContext.for_model(model))
    again = adapter.from_wire_response(wire, RequestContext.for_model(client))
    assert (again.text, described(again.alternatives), wire.losses) == ("Red", OTHERS, ())


@pytest.mark.parametrize("client", ["anthropic:claude-sonnet-4-6", "openai:gpt-5.4", "ollama:qwen3"])
def test_a_client_without_choices_gets_the_first(client: str) -> None:
    wire = get_adapter(client).to_wire_response(
        read("openai-chat:gpt-4.1"), RequestContext.for_model("openai-chat:gpt-4.1")
    )
    assert [loss.reason for loss in wire.losses] == ["n: the reply has one answer here, the 2 others are left out"]


def test_a_streaming_client_gets_the_first() -> None:
    """The wire streams choices side by side; ours are known at the end only."""
    model = "openai-chat:gpt-4.1"
    adapter, context = get_adapter(model), RequestContext.for_model(model)
    b"".join(adapter.iter_encoded(adapter.iter_stream(STREAMS[model], context), context))
    assert [loss.reason for loss in context.losses] == ["n: the reply has one answer here, the 2 others are left out"]
    assert ReplyWriter.for_stream("a", "b", context).finish() == ()


def test_all_answers_are_reserved_for() -> None:
    """Budgets and limits count the output of each."""
    adapter = get_adapter("openai-chat:gpt-4.1")
    assert adapter.output_limit(AdapterOptions(n=3, max_output_tokens=10)) == 30
    limits = Limits(Limit(tokens=100_000), reply_tokens=50)
    sizes = [limits.expected_output(max_usage(adapter, [], (), options)) for options in (
        AdapterOptions(), AdapterOptions(n=3), AdapterOptions(n=3, max_output_tokens=10)
    )]  # fmt: skip
    assert sizes == [50, 150, 30]


SECRET = Message.assistant(
    "Fine",
    metadata=MessageMetadata(
        alternatives=(Alternative(content=(TextBlock(text="secret"),)), Alternative(content=(TextBlock(text="Good"),))),
        provider_raw={"by": "openai-chat", "choices": [{"message": {"content": "secret"}}]},
    ),
)


def test_a_policy_changes_each_answer() -> None:
    """A plugin gets one answer at a time, and the raw copy of a changed one is gone."""

    @hook("llm_output")
    def redact(step: Step) -> Message:
        assert step.message.alternatives == ()
        return step.message.model_copy(update={"content": (TextBlock(text=step.message.text.replace("secret", "*")),)})

    judged = Pipeline([redact]).run("llm_output", SECRET).message
    assert (judged.text, [each.text for each in judged.alternatives]) == ("Fine", ["*", "Good"])
    assert judged.metadata.provider_raw is None


def test_a_denied_answer_denies_the_reply() -> None:
    @hook("llm_output")
    def deny(step: Step) -> Violation | None:
        return Violation("no secrets") if "secret" in step.message.text else None

    with pytest.raises(PolicyDeniedError):
        Pipeline([deny]).run("llm_output", SECRET)


def test_alternatives_belong_to_their_content() -> None:
    """A message with another content has none, so what blanks a message blanks them too."""
    assert SECRET.model_copy(update={"content": ()}).alternatives == ()
    assert SECRET.model_copy(update={"session_id": "s"}).alternatives == SECRET.alternatives
