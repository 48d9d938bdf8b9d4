"""Requests in Bedrock's forms: read, and written again as they were."""

import json
from dataclasses import replace
from typing import Any

import pytest

from dragoman import AdapterOptions, Message
from dragoman.adapter.errors import RequestError
from dragoman.canonical.blocks import DocumentBlock, ImageBlock, TextBlock, ToolResultBlock, VideoBlock
from dragoman.canonical.message import Role
from dragoman_adapters.bedrock.adapter import BedrockAdapter
from tests.exchanges import load_or_skip
from tests.tables import each_row
from tests.unit.adapters.bedrock.wire import CLAUDE, NOVA, VERSION, Native, answer, call, context, return_trip

MARKER: Native = {"cachePoint": {"type": "default"}}
HI: Native = {"role": "user", "content": [{"text": "Hi"}]}
TOOL: Native = {
    "toolSpec": {
        "name": "weather",
        "description": "Tells.",
        "inputSchema": {"json": {"type": "object", "properties": {}}},
    }
}
TOOLS: Native = {"toolConfig": {"tools": [TOOL]}}


def assistant(*content: Native) -> Native:
    return {"role": "assistant", "content": list(content)}


def user(*content: Native) -> Native:
    return {"role": "user", "content": list(content)}


BODIES: list[Native] = [
    {"messages": [HI]},
    {"messages": [HI], "system": [], "inferenceConfig": {}},
    {"messages": [HI], "system": [{"text": "Be brief."}, MARKER, {"text": "Be kind."}]},
    {"messages": [user({"text": "Hi"}, MARKER), assistant({"text": "Hello"}, MARKER), user(MARKER, {"text": "Go on"})]},
    {"messages": [HI, assistant(call()), user(answer())], **TOOLS},
    {"messages": [HI, assistant(call()), user(answer(status="success"), MARKER, {"text": "And?"})], **TOOLS},
    {"messages": [HI, assistant(call("a"), call("b")), user(answer("a"), answer("b", status="error"))], **TOOLS},
    {"messages": [HI, assistant(call()), user(answer(content=[{"json": {"a": 1}}, {"text": "x"}]))], **TOOLS},
    {
        "messages": [
            HI,
            assistant(call()),
            user(
                answer(
                    content=[
                        {"image": {"format": "jpeg", "source": {"bytes": "YQ=="}}},
                        {"document": {"format": "pdf", "name": "my_file", "source": {"bytes": "YQ=="}}},
                        {"searchResult": {"source": "s", "title": "t", "content": [{"text": "x"}]}},
                    ]
                )
            ),
        ],
        **TOOLS,
    },
    {"messages": [HI, HI]},
    {"messages": [user({"guardContent": {"text": {"text": "Hi", "qualifiers": ["query"]}}})]},
    {
        "messages": [
            user(
                {"text": "Look"},
                {"document": {"format": "txt", "name": "a b", "source": {"text": "Facts"}, "context": "Old"}},
                {"document": {"format": "txt", "name": "a b", "source": {"content": [{"text": "x"}, {"text": "y"}]}}},
                {
                    "document": {
                        "format": "md",
                        "name": "c_d",
                        "source": {"bytes": "YQ=="},
                        "citations": {"enabled": True},
                    }
                },
                {"image": {"format": "webp", "source": {"s3Location": {"uri": "s3://b/k", "bucketOwner": "1"}}}},
                {"image": {"format": "png", "source": {"hologram": 1}}},
            )
        ]
    },
    {"messages": [HI, {"role": "system", "content": [{"text": "Be brief."}]}, assistant({"text": "Hm"}), HI]},
    {"messages": [HI], "toolConfig": {"tools": [TOOL, MARKER, {"systemTool": {"name": "grounding"}}, MARKER]}},
    {
        "messages": [HI],
        "toolConfig": {"tools": [MARKER, {"toolSpec": {"name": "bare", "inputSchema": {"json": None}}}]},
    },
    {"messages": [HI], "guardrailConfig": {"guardrailIdentifier": "x"}, "performanceConfig": {"latency": "optimized"}},
]


@pytest.mark.parametrize("body", BODIES)
def test_conversations_are_rewritten_unchanged(body: Native) -> None:
    """Layouts, markers, empty fields and native parts included."""
    assert return_trip(body, "us.anthropic.claude-opus-4-8") == body


def test_videos_are_rewritten_unchanged() -> None:
    """For a model that sees them."""
    body = {"messages": [user({"text": "Look"}, {"video": {"format": "mov", "source": {"bytes": "YQ=="}}})]}
    assert return_trip(body, NOVA) == body


OPTIONS: list[Native] = [
    {"inferenceConfig": {"maxTokens": 9, "temperature": 0.3, "topP": 0.9, "stopSequences": ["END"]}},
    {"inferenceConfig": {"maxTokens": 9, "stopSequences": []}},
    {"additionalModelRequestFields": {"top_k": 5, "other": {"a": 1}}},
    {"additionalModelRequestFields": {}},
    {"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}}},
    {"additionalModelRequestFields": {"thinking": {"type": "disabled"}}},
    {"additionalModelRequestFields": {"reasoning_config": "high"}},
    {"outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": "{}"}}}}},
    {
        "outputConfig": {
            "textFormat": {
                "type": "json_schema",
                "structure": {"jsonSchema": {"name": "x", "schema": '{ "type": "object" }'}},
            }
        }
    },
    {"outputConfig": {"effort": "high"}},
    {"toolConfig": {"tools": [TOOL], "toolChoice": {"auto": {}}}},
    {"toolConfig": {"tools": [TOOL], "toolChoice": {"any": {}}}},
    {"toolConfig": {"tools": [TOOL], "toolChoice": {"tool": {"name": "weather"}}}},
    {"toolConfig": {"tools": [TOOL], "toolChoice": {"new": {}}, "mode": "x"}},
]


TOOLLESS = "anthropic.claude-v2"
BY_MODEL = [
    (fields, model)
    for fields in OPTIONS
    for model in (CLAUDE, NOVA, TOOLLESS)
    if not (model == TOOLLESS and "toolConfig" in fields)
]


@each_row(("fields", "model"), BY_MODEL)
def test_options_are_rewritten_unchanged(fields: Native, model: str) -> None:
    """A field without a canonical option, or without one on this model, stays a field of Bedrock's."""
    body = {"messages": [HI], **fields}
    assert return_trip(body, model) == body


MESSAGES_BODIES: list[Native] = [
    {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9, **VERSION},
    {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9, "anthropic_beta": ["x"], "tools": [], **VERSION},
    {
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t_1", "name": "weather", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t_1", "content": "Sunny"}]},
        ],
        "max_tokens": 9,
        "temperature": 0.5,
        "tools": [{"name": "weather", "input_schema": {"type": "object"}}],
        **VERSION,
    },
    {
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "x", "input": {}}]},
            {"role": "user", "content": "Go on"},
        ],
        "max_tokens": 9,
        **VERSION,
    },
]


@pytest.mark.parametrize("body", MESSAGES_BODIES)
def test_anthropic_bodies_are_rewritten_unchanged(body: Native) -> None:
    """Through InvokeModel, as the path shows."""
    adapter = BedrockAdapter(CLAUDE)
    messages, tools, options = adapter.from_wire_request(json.dumps(body).encode(), context())
    wire = adapter.to_wire(messages, tools, options)
    assert json.loads(wire.body) == body
    assert wire.path == "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke"
    streamed = adapter.to_wire(messages, tools, replace(options, stream=True))
    assert (streamed.path.rpartition("/")[2], json.loads(streamed.body)) == ("invoke-with-response-stream", body)


def test_nova_bodies_are_rewritten_unchanged() -> None:
    """They are Converse's in all but their parameters and their path."""
    body = {"schemaVersion": "messages-v1", "messages": [HI], "inferenceConfig": {"max_new_tokens": 9, "topK": 5}}
    adapter = BedrockAdapter(NOVA)
    messages, tools, options = adapter.from_wire_request(body, context(NOVA))
    wire = adapter.to_wire(messages, tools, options)
    assert (wire.path.rpartition("/")[2], json.loads(wire.body)) == ("invoke", body)


def test_results_are_messages_of_their_own() -> None:
    """The content around them is separate, and their status is decoded."""
    body = {
        "messages": [HI, assistant(call("a"), call("b")), user(answer("a"), answer("b", status="error"), {"text": "?"})]
    }
    messages, _, _ = BedrockAdapter(CLAUDE).from_wire_request(body, context())
    assert [message.role for message in messages] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.USER]
    called = messages[1].tool_uses
    assert [message.content[0] for message in messages[2:4]] == [
        ToolResultBlock(tool_use_id=called[0].id, content=(TextBlock(text="Sunny"),)),
        ToolResultBlock(tool_use_id=called[1].id, content=(TextBlock(text="Sunny"),), is_error=True),
    ]


def test_repeated_ids_are_distinguished_by_occurrence() -> None:
    """Some models use a tool's name as the id of each of its calls."""
    turn = [assistant(call("weather")), user(answer("weather"))]
    body = {"messages": [HI, *turn, *turn], **TOOLS}
    messages, tools, options = BedrockAdapter(NOVA).from_wire_request(body, context(NOVA))
    ids = [used.id for message in messages for used in message.tool_uses]
    assert len(set(ids)) == 2
    written = json.loads(BedrockAdapter(NOVA).to_wire(messages, tools, options).body)
    native = [block["toolUse"]["toolUseId"] for message in written["messages"] for block in message["content"][:1]
              if "toolUse" in block]  # fmt: skip
    assert native[0] == "weather"
    assert native[1] != "weather"
    assert written["messages"][4]["content"][0]["toolResult"]["toolUseId"] == native[1]


def test_media_become_blocks() -> None:
    """Only Bedrock can read stored files; a document in pieces is one text."""
    messages, _, _ = BedrockAdapter(CLAUDE).from_wire_request(BODIES[11], context())
    _, facts, pieces, markdown, kept, unknown = messages[0].content
    assert isinstance(facts, DocumentBlock)
    assert (facts.source.kind, facts.title, facts.context, facts.media_type) == ("text", "a b", "Old", "text/plain")
    assert isinstance(pieces, DocumentBlock)
    assert pieces.source.data == "x\ny"
    assert isinstance(markdown, DocumentBlock)
    assert markdown.media_type == "text/markdown"
    assert isinstance(kept, ImageBlock)
    assert (kept.source.kind, kept.source.provider, kept.source.data) == ("file_id", "bedrock", "s3://b/k")
    assert unknown.type == "provider"
    body = {"messages": [user({"video": {"format": "three_gp", "source": {"bytes": "YQ=="}}})]}
    (video,) = BedrockAdapter(NOVA).from_wire_request(body, context(NOVA))[0][0].content
    assert isinstance(video, VideoBlock)
    assert video.media_type == "video/3gpp"


def test_an_empty_field_does_not_hide_later_content() -> None:
    """Instructions can be added to a request without any."""
    adapter = BedrockAdapter(CLAUDE)
    messages, tools, options = adapter.from_wire_request({"messages": [HI], "system": []}, context())
    wire = adapter.to_wire([Message.system("Be brief."), *messages], tools, options)
    assert json.loads(wire.body)["system"] == [{"text": "Be brief."}]


REFUSED: list[Any] = [b"[]", b"{", {}, {"messages": [{"role": "chatbot", "content": []}]}, {"messages": [{}]}]


@pytest.mark.parametrize("body", [*REFUSED, {"messages": [HI], "toolConfig": {"tools": [{}]}}])
def test_invalid_requests_are_refused(body: Any) -> None:
    with pytest.raises(RequestError):
        BedrockAdapter(CLAUDE).from_wire_request(body, context())


def test_bodies_of_other_vendors_are_refused() -> None:
    """As recorded, and in ``extra``: the error says what to send. Converse serves the same models."""
    refused, served = set(), set()
    for each in load_or_skip("bedrock"):
        model, _, operation = each.url_path.removeprefix("/model/").partition("/")
        fields = (each.request or {}).keys()
        if operation.startswith("converse"):
            served.add(model)
        elif (
            operation.startswith("invoke")
            and not fields & {"anthropic_version", "schemaVersion", "texts", "inferenceConfig"}
            and fields
            and "embed" not in model
        ):
            with pytest.raises(RequestError, match="Converse serves these models"):
                BedrockAdapter(model).from_wire_request(each.request, context(model))
            options = AdapterOptions(extra={"bedrock": each.request})
            with pytest.raises(RequestError, match="additionalModelRequestFields"):
                BedrockAdapter(model).to_wire([Message.user("Hi")], [], options)
            refused.add(model)
    assert refused & served >= {"amazon.titan-text-lite-v1"}
    assert len(refused) > 10


def test_a_document_that_follows_an_answer_that_was_read_has_a_text() -> None:
    """It is not in the message that was read, but in one of ours, which Converse refuses without a text."""
    file = {"document": {"format": "pdf", "name": "my_file", "source": {"bytes": "YQ=="}}}
    result = {"toolResult": {"toolUseId": "tooluse_1", "content": [file]}}
    used = {"toolUse": {"toolUseId": "tooluse_1", "name": "weather", "input": {}}}
    history = [HI, assistant(used), {"role": "user", "content": [result]}]
    sent = return_trip({"messages": history, **TOOLS}, "mistral.pixtral-large-2502-v1:0")["messages"]
    text = {"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": "[document follows]"}]}}
    assert sent[2]["content"] == [text, {"text": "Attached:"}, file]


def test_a_marker_before_a_call_is_not_repeated_in_an_interrupted_result() -> None:
    """It was read with the call, and the result is ours."""
    used = {"toolUse": {"toolUseId": "tooluse_1", "name": "weather", "input": {}}}
    sent = return_trip({"messages": [HI, assistant(MARKER, used), HI], **TOOLS})["messages"]
    assert sent[1]["content"][0] == MARKER
    assert [list(block) for block in sent[2]["content"]] == [["toolResult"], ["text"]]
