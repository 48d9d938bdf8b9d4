"""The differences of single endpoints, as declared in their tables."""

import json
from decimal import Decimal
from typing import Any

import pytest

from dragoman.adapter.errors import AuthenticationError, ContentFilterError, NotFoundError, RateLimitError
from dragoman.canonical.blocks import DocumentBlock, ImageBlock, MediaSource, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import Message, StopReason
from tests.unit.adapters.compatible.test_endpoint_row import adapter
from tests.unit.adapters.openai_chat.wire import (
    DONE,
    encode_request,
    handwritten_chunk,
    handwritten_reply,
    losses,
    read,
    reply_of,
    stream,
    stream_message,
)

CALL = ToolUseBlock(id="tu_00000000000000000000000001", name="f")
THOUGHT = ThinkingBlock(text="Hm")

FILTERS = {"hate": {"filtered": False, "severity": "safe"}}


def test_azure_filter_results_are_kept() -> None:
    """The results arrive with the reply, in a first chunk without choices and in deltas, and are kept."""
    azure = adapter("azure-openai", "my-deployment")
    native = handwritten_reply({"content": "Hi"}, prompt_filter_results=[{"content_filter_results": FILTERS}])
    native["choices"][0]["content_filter_results"] = FILTERS
    chunks = [
        handwritten_chunk(None, prompt_filter_results=[{"content_filter_results": FILTERS}]),
        handwritten_chunk({"content": "Hi"}),
        DONE,
    ]
    finished = json.loads(handwritten_chunk({}, "stop")[6:])
    finished["choices"][0]["content_filter_results"] = FILTERS
    chunks.insert(2, b"data: " + json.dumps(finished).encode() + b"\n\n")
    for message in (read(native, azure), stream_message(chunks, azure)):
        raw = message.metadata.provider_raw or {}
        assert raw["reply"]["prompt_filter_results"] == [{"content_filter_results": FILTERS}]
        assert raw["choice"]["content_filter_results"] == FILTERS
        assert message.text == "Hi"


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {"code": "content_filter", "message": "filtered", "innererror": {"code": "x"}}, ContentFilterError),
        (401, {"code": "401", "message": "Access denied"}, AuthenticationError),
        (404, {"code": "DeploymentNotFound", "message": "no such deployment"}, NotFoundError),
        (429, {"code": "RateLimitReached", "message": "slow down"}, RateLimitError),
    ],
)
def test_azure_errors_have_their_request_id_and_wait(status: int, error: dict[str, Any], kind: type[Exception]) -> None:
    """Their request id has a header of Azure's; a wait of 0 milliseconds does not override one of a second."""
    headers = {"apim-request-id": "a-1", "retry-after": "1", "retry-after-ms": "0"}
    found = adapter("azure-openai").error(status, json.dumps({"error": error}).encode(), headers)
    assert isinstance(found, kind)
    assert (found.request_id, found.retry_after) == ("a-1", 1.0)


def test_azure_knows_openais_models_by_name() -> None:
    """By their names; a deployment of another name sees, calls tools and does not reason."""
    assert adapter("azure-openai", "o3").capabilities.sampling == "never"
    assert adapter("azure-openai", "gpt-5.4").capabilities.supports_developer_role
    named = adapter("azure-openai", "my-deployment").capabilities
    assert named.supports_images
    assert named.sampling == "allowed"


def test_deepseek_gets_its_reasoning_back() -> None:
    """With calls, even if it is empty, if the model may reason. Reasoning of other models is not sent."""
    deepseek = adapter("deepseek", "deepseek-v4-flash")
    own = reply_of("deepseek:deepseek-v4-flash", [THOUGHT, CALL])
    foreign = reply_of("anthropic:claude-opus-5-5", [THOUGHT, CALL])
    for message, expected in ((own, "Hm"), (foreign, "")):
        history = [Message.user("?"), message, Message.tool(CALL.id, "1")]
        assert encode_request(history, deepseek)[0]["messages"][1]["reasoning_content"] == expected
    history = [Message.user("?"), foreign, Message.tool(CALL.id, "1")]
    off, _ = encode_request(history, deepseek, thinking=False)
    assert off["thinking"] == {"type": "disabled"}
    assert "reasoning_content" not in off["messages"][1]
    assert "reasoning_content" not in encode_request(history, adapter("deepseek", "deepseek-chat"))[0]["messages"][1]


def test_deepseek_promises_json_but_no_schema() -> None:
    """The schema is a loss."""
    body, wire = encode_request(
        [Message.user("Hi")], adapter("deepseek"), output_schema={"type": "object", "properties": {}}
    )
    assert body["response_format"] == {"type": "json_object"}
    assert losses(wire) == [("option", "output_schema")]


def test_perplexity_alternates_and_cites() -> None:
    """Neighbours of one role are one message; the searched pages become citations."""
    sonar = adapter("perplexity", "sonar")
    body, wire = encode_request([Message.user("a"), Message.user([TextBlock(text="b")]), Message.user("c")], sonar)
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": text} for text in "abc"]}]
    assert losses(wire) == [("flattened", "neighbouring messages of one role are sent as one")] * 2
    results = [{"title": "T", "url": "https://a.test", "date": "2026-01-01"}]
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "cost": {"total_cost": 0.006}}
    message = read(handwritten_reply({"content": "Hi"}, search_results=results, usage=usage), sonar)
    (text,) = message.content
    assert isinstance(text, TextBlock)
    assert [(cited.title, cited.url, cited.data) for cited in text.citations] == [("T", "https://a.test", results[0])]
    assert message.usage is not None
    assert message.usage.reported_cost_usd == Decimal("0.006")


def test_perplexity_gets_calls_as_text() -> None:
    """Calls and answers become text, and its turns still alternate."""
    history = [Message.user("?"), reply_of("openai:gpt-5", [CALL]), Message.tool(CALL.id, "1"), Message.user("!")]
    roles = [message["role"] for message in encode_request(history, adapter("perplexity", "sonar"))[0]["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_xai_sources_and_ticks_are_read() -> None:
    """Bare URLs are citations too; a tick is a ten-thousand-millionth of a dollar, in either API."""
    grok = adapter("xai", "grok-4.5")
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "cost_in_usd_ticks": 1399000}
    message = read(handwritten_reply({"content": "Hi"}, citations=["https://a.test"], usage=usage), grok)
    (text,) = message.content
    assert isinstance(text, TextBlock)
    assert [cited.url for cited in text.citations] == ["https://a.test"]
    assert message.usage is not None
    assert message.usage.reported_cost_usd == Decimal("0.0001399")
    counts = {
        "input_tokens": 1,
        "output_tokens": 1,
        "cost_in_usd_ticks": 20,
        "server_side_tool_usage_details": {"x_search_calls": 1, "web_search_calls": 0},
    }
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    usage_read = read({"object": "response", "status": "completed", "output": [item], "usage": counts}, grok).usage
    assert usage_read is not None
    assert usage_read.reported_cost_usd == Decimal("2e-9")
    assert usage_read.server_tools == {"x_search": 1}


@pytest.mark.parametrize("model", ["grok-4.5", "grok-4-fast-reasoning", "grok-3"])
def test_xai_has_neither_verbosity_nor_metadata(model: str) -> None:
    """They are losses, and what the Responses API has in common with OpenAI's is sent."""
    options = {"verbosity": "low", "metadata": {"a": "b"}, "user": "u", "service_tier": "priority"}
    body, wire = encode_request([Message.user("Hi")], adapter("xai", model), **options)
    assert wire.path == "/responses"
    assert body.keys() == {"model", "input", "safety_identifier", "service_tier"}
    assert sorted(losses(wire)) == [("option", "metadata"), ("option", "verbosity")]


@pytest.mark.parametrize(
    ("model", "effort", "written"),
    [("grok-4.5", "medium", "medium"), ("grok-3-mini", "medium", "low"), ("grok-4-0709", "high", None)],
)
def test_xai_models_have_effort_levels_of_their_own(model: str, effort: str, written: str | None) -> None:
    """Some have none and refuse the field; an unsupported level is a loss."""
    grok = adapter("xai", model)
    body, wire = encode_request([Message.user("Hi")], grok, effort=effort)
    assert body.get("reasoning", {}).get("effort") == written
    assert bool(wire.losses) is (written != effort)
    chatted = [Message.user("Hi"), read(handwritten_reply({"content": "Hi"}), grok), Message.user("?")]
    body, wire = encode_request(chatted, grok, effort=effort)
    assert body.get("reasoning_effort") == written
    assert bool(wire.losses) is (written != effort)


@pytest.mark.parametrize("name", ["huggingface", "writer", "perplexity"])
def test_some_streams_end_without_a_marker(name: str) -> None:
    """Then the finish reason and the counts are required, in one chunk or in two."""
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    text_chunk, finished = handwritten_chunk({"content": "Hi"}), handwritten_chunk({}, "stop")
    whole = (
        [text_chunk, handwritten_chunk({}, "stop", usage=usage)],
        [text_chunk, finished, handwritten_chunk(None, usage=usage)],
    )
    for chunks in whole:
        assert isinstance(stream(chunks, adapter(name))[-1], MessageComplete)
    for cut in ([text_chunk], [text_chunk, finished], [text_chunk, handwritten_chunk(None, usage=usage)]):
        assert isinstance(stream(cut, adapter(name))[-1], ErrorEvent)


def test_a_custom_server_may_omit_fields() -> None:
    """A finish reason is enough for it."""
    chunks = [handwritten_chunk({"content": "Hi"}), handwritten_chunk({}, "stop")]
    assert isinstance(stream(chunks, adapter("compatible"))[-1], MessageComplete)


def test_writer_has_a_path_of_its_own() -> None:
    """Writer has a path of its own under the same base URL as all other paths."""
    assert encode_request([Message.user("Hi")], adapter("writer"))[1].path == "/chat"


def test_plain_text_documents_become_text() -> None:
    """Other files are left out, which is a loss."""
    text = DocumentBlock(source=MediaSource(kind="text", data="One"), title="a.txt")
    file = DocumentBlock(source=MediaSource(kind="base64", data="aGk="), media_type="application/pdf")
    body, wire = encode_request([Message.user([text, file])], adapter("groq", "llama-3.3-70b-versatile"))
    first, second = body["messages"][0]["content"]
    assert first["text"] == "[document a.txt]\nOne"
    assert second["text"].startswith("[document left out")
    assert [kind for kind, _ in losses(wire)] == ["media", "flattened"]


@pytest.mark.parametrize(
    ("name", "model", "sees"),
    [
        ("groq", "openai/gpt-oss-120b", False),
        ("groq", "meta-llama/llama-4-scout-17b-16e-instruct", True),
        ("together", "meta-llama/Llama-3.3-70B-Instruct-Turbo", False),
        ("vllm", "Qwen/Qwen3-VL-8B", True),
        ("vllm", "Qwen/Qwen3-30B-A3B", False),
        ("cerebras", "anything", False),
    ],
)
def test_model_families_are_known_at_every_endpoint(name: str, model: str, sees: bool) -> None:
    """Content that a family does not accept is left out with a loss, not sent and refused."""
    image = ImageBlock(source=MediaSource(kind="url", data="https://a.test/b.png"))
    body, wire = encode_request([Message.user([image])], adapter(name, model))
    content = body["messages"][0]["content"]
    assert (isinstance(content, list) and content[0]["type"] == "image_url") is sees
    assert ([kind for kind, _ in losses(wire)] == ["media"]) is not sees


def test_prefill_has_a_field_of_its_own() -> None:
    """If the endpoint has such a field."""
    history = [Message.user("Hi"), Message.assistant("The answer")]
    assert encode_request(history, adapter("moonshot", "kimi-k2.6"))[0]["messages"][-1]["partial"] is True
    assert "partial" not in encode_request(history, adapter("groq"))[0]["messages"][-1]


@pytest.mark.parametrize(
    ("name", "finish", "reason"),
    [
        ("z-ai", "sensitive", StopReason.REFUSAL),
        ("z-ai", "model_context_window_exceeded", StopReason.CONTEXT_OVERFLOW),
        ("deepseek", "insufficient_system_resource", StopReason.ERROR),
    ],
)
def test_finish_reasons_of_their_own_are_read(name: str, finish: str, reason: StopReason) -> None:
    """Some endpoints have reasons beyond the common ones."""
    assert read(handwritten_reply({"content": "Hi"}, finish), adapter(name)).stop_reason is reason
