"""Requests: what a history becomes on the wire, and how a recorded one comes back."""

import json
from typing import Any

import pytest

from dragoman.adapter.errors import RequestError
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import (
    AudioBlock,
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition
from tests.tables import each_row
from tests.unit.adapters.openai_chat.wire import (
    adapter,
    adapter_with,
    context,
    encode_request,
    losses,
    reply_of,
    round_trip,
)

CALL_ID = "tu_00000000000000000000000001"
PNG = MediaSource(kind="base64", data="iVBO")
USER: dict[str, Any] = {"role": "user", "content": "Hi"}


def test_a_conversation_is_encoded() -> None:
    """Lone texts are strings, several are parts; calls carry their arguments as text, results are messages."""
    call = ToolUseBlock(id=CALL_ID, name="weather", input={"city": "Zürich"})
    body, _ = encode_request(
        [
            Message.system("Be brief."),
            Message.developer("Really."),
            Message.user([TextBlock(text="a"), TextBlock(text="b")]),
            reply_of("anthropic:claude-opus-5", [TextBlock(text="Let me see."), call]),
            Message.tool(CALL_ID, [TextBlock(text="20"), TextBlock(text="degrees")]),
            Message.assistant("20 degrees."),
        ]
    )
    first, second, third, called, answer, last = body["messages"]
    assert first == {"role": "system", "content": "Be brief."}
    assert second == {"role": "developer", "content": "Really."}
    assert third == {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    (native,) = called["tool_calls"]
    assert called["content"] == "Let me see."
    assert native["type"] == "function"
    assert native["function"] == {"name": "weather", "arguments": '{"city":"Zürich"}'}
    assert native["id"].startswith("call_")
    assert len(native["id"]) <= 64
    assert answer == {"role": "tool", "tool_call_id": native["id"], "content": "20\ndegrees"}
    assert last == {"role": "assistant", "content": "20 degrees."}


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            ImageBlock(source=PNG, media_type="image/png", detail="low"),
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO", "detail": "low"}},
        ),
        (
            ImageBlock(source=MediaSource(kind="url", data="https://a.test/b.png")),
            {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}},
        ),
        (
            DocumentBlock(source=MediaSource(kind="base64", data="JVBE"), media_type="application/pdf", title="a.pdf"),
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
        ),
        (
            DocumentBlock(source=MediaSource(kind="file_id", data="file-1", provider="openai-chat")),
            {"type": "file", "file": {"file_id": "file-1"}},
        ),
        (
            DocumentBlock(source=MediaSource(kind="text", data="words"), title="a.txt"),
            {"type": "text", "text": "[document a.txt]\nwords"},
        ),
    ],
    ids=["image", "image by URL", "PDF", "file id", "plain text"],
)
def test_media_become_parts(block: ContentBlock, part: dict[str, Any]) -> None:
    """Every kind of source that the wire has, and plain text, for which it has none."""
    body, wire = encode_request([Message.user([TextBlock(text="Look"), block])])
    assert body["messages"][0]["content"][1] == part
    assert [loss.kind for loss in wire.losses] == [LossKind.FLATTENED] * (part["type"] == "text")


def test_audio_goes_to_models_that_take_it() -> None:
    """The media type becomes the wire's own word; a model without audio gets a note instead."""
    sound = AudioBlock(source=MediaSource(kind="base64", data="UklG"), media_type="audio/mpeg")
    body, _ = encode_request([Message.user([sound])], adapter("gpt-audio"))
    assert body["messages"][0]["content"] == [{"type": "input_audio", "input_audio": {"data": "UklG", "format": "mp3"}}]
    body, wire = encode_request([Message.user([sound])])
    assert losses(wire) == [("media", "gpt-4.1 takes no audio")]
    assert "left out" in body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (DocumentBlock(source=MediaSource(kind="url", data="https://a.test/b")), "gpt-4.1 takes no document by url"),
        (ImageBlock(source=PNG, media_type="image/tiff"), "gpt-4.1 takes no image/tiff"),
        (DocumentBlock(source=PNG, media_type="application/pdf", context="old"),
         "the note that goes with a document is not sent"),
        (TextBlock(text="a", citations=(Citation(kind="page"),)), "the sources of a text are not sent"),
        (ThinkingBlock(text="Hm", signature="sig"), "gpt-4.1 cannot read thinking of anthropic"),
        (ProviderBlock(provider="anthropic", kind="server_tool_use", data={}),
         "the server_tool_use of anthropic means nothing elsewhere"),
    ],
)  # fmt: skip
def test_unsupported_content_is_a_named_loss(block: ContentBlock, reason: str) -> None:
    """Nothing is lost silently."""
    role = Role.ASSISTANT if block.type in ("thinking", "provider") else Role.USER
    reply = reply_of("anthropic:claude-opus-5", [TextBlock(text="x"), block])
    message = reply if role is Role.ASSISTANT else Message.user([block])
    _, wire = encode_request([message, Message.user("Go on.")])
    assert reason in [reply for _, reply in losses(wire)]


def test_an_assistants_image_follows_it() -> None:
    """Only users show images on this wire."""
    body, wire = encode_request([reply_of("google:gemini", [ImageBlock(source=PNG, media_type="image/png")])])
    assert body["messages"][0] == {"role": "assistant", "content": "[image follows]"}
    assert body["messages"][1]["content"][0]["type"] == "image_url"
    assert losses(wire)[0][0] == "flattened"


def test_an_image_in_an_answer_follows_it() -> None:
    """A tool's message holds text alone: its image follows directly, in a user message."""
    call = ToolUseBlock(id=CALL_ID, name="shot")
    answer = Message.tool(CALL_ID, [TextBlock(text="Here"), ImageBlock(source=PNG, media_type="image/png")])
    body, _ = encode_request([Message.user("Go"), reply_of("openai-chat:gpt-4.1", [call]), answer])
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "user"]
    assert body["messages"][2]["content"] == "Here\n[image follows]"
    assert body["messages"][3]["content"][0]["type"] == "image_url"


def test_a_file_in_an_answer_that_is_read_follows_it_under_a_name() -> None:
    """The note that it had none stays with the tool's message, so the name is a loss."""
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    file = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}}
    history = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": [file]},
    ]
    chat = adapter()
    messages, tools, options = chat.from_wire_request({"model": chat.model, "messages": history}, context(chat))
    wire = chat.to_wire(messages, tools, options)
    assert json.loads(wire.body)["messages"][3]["content"][0]["file"]["filename"] == "document.pdf"
    assert ("media", "a document without a title is sent under a name") in losses(wire)


def test_a_failed_answer_keeps_its_text_and_is_a_loss() -> None:
    """The wire has no flag for it, so each failure is a change of form."""
    ids = [CALL_ID, CALL_ID[:-1] + "2"]
    calls = reply_of("openai-chat:gpt-4.1", [ToolUseBlock(id=name, name="f") for name in ids])
    answers = [Message.tool(name, "boom", is_error=True) for name in ids]
    body, wire = encode_request([calls, *answers])
    assert [message["content"] for message in body["messages"][1:]] == ["boom", "boom"]
    assert losses(wire) == [("flattened", "the wire has no flag for a failed tool")] * 2


@pytest.mark.parametrize("free", [True, False])
def test_malformed_arguments_of_another_model_are_replaced(free: bool) -> None:
    """An endpoint may accept its own model's malformed text; for another model's it gets an empty object."""
    call = ToolUseBlock(id=CALL_ID, name="f", raw_input="{a")
    history = [reply_of("anthropic:claude-opus-5", [call]), Message.tool(CALL_ID, "no")]
    body, wire = encode_request(history, adapter("any", free_arguments=free))
    assert body["messages"][0]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert [kind for kind, _ in losses(wire)] == ["invalid_input"]


def test_a_tool_is_encoded() -> None:
    """A tool is encoded: a function, with the further fields of the provider's own definition."""
    body, _ = encode_request([Message.user("Hi")], tools=[ToolDefinition(name="f", description="does f")])
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "f", "description": "does f", "parameters": {"type": "object", "properties": {}}},
        }
    ]


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
CALL: dict[str, Any] = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ANSWER: dict[str, Any] = {"role": "tool", "tool_call_id": "call_1", "content": "ok"}

HANDWRITTEN_REQUESTS: dict[str, dict[str, Any]] = {
    "texts as a list": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
    "fields of a part": {
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}
            ]}
        ]
    },
    "names": {"messages": [{"role": "user", "name": "ann", "content": "Hi"}]},
    "empty contents": {
        "messages": [
            {"role": "user", "content": ""}, {"role": "assistant", "content": ""}, {"role": "user", "content": []}
        ]
    },
    "no content with calls": {"messages": [USER, {"role": "assistant", "tool_calls": [CALL]}, ANSWER]},
    "null content with calls": {
        "messages": [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, ANSWER]
    },
    "empty content with calls": {
        "messages": [USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}, ANSWER]
    },
    "an echoed message": {
        "messages": [
            USER,
            {
                "role": "assistant", "content": "Hi", "refusal": None, "annotations": [], "audio": None,
                "function_call": None, "tool_calls": None, "parsed": None,
            },
        ]
    },
    "audio by id": {"messages": [USER, {"role": "assistant", "content": None, "audio": {"id": "audio_1"}}]},
    "an echoed call": {
        "messages": [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [
                {**CALL, "index": 0, "function": {"name": "f", "arguments": '{ "a": 1 }', "parsed_arguments": None}}
            ]},
            {**ANSWER, "name": "f"},
        ]
    },
    "arguments that are not JSON": {
        "messages": [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [
                {**CALL, "function": {"name": "f", "arguments": "go"}}
            ]},
            ANSWER,
        ]
    },
    "answers in parts": {
        "messages": [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {**ANSWER, "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ]
    },
    "a refusal in parts": {
        "messages": [USER, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, USER]
    },
    "the older form": {
        "messages": [
            USER,
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}},
            {"role": "function", "name": "f", "content": "ok"},
        ],
        "functions": [{"name": "f", "parameters": SCHEMA}],
        "function_call": "auto",
    },
    "images": {
        "messages": [
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "https://a.test/b.png", "detail": "high"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
            ]}
        ]
    },
    "files": {
        "messages": [
            {"role": "user", "content": [
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE"}},
                {"type": "file", "file": {"file_id": "file-1"}},
            ]}
        ]
    },
    "videos": {
        "messages": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "https://a.test/b.mp4"}}]}]
    },
    "an unknown part": {"messages": [{"role": "user", "content": [{"type": "smell", "smell": {"of": "tea"}}]}]},
    "tools of every kind": {
        "messages": [USER],
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}},
            {"type": "function", "function": {"name": "g", "description": ""}, "cache_control": {"type": "ephemeral"}},
            {"type": "custom", "custom": {"name": "h", "format": {"type": "text"}}},
            {"function": {"name": "i", "description": "no type", "parameters": SCHEMA}},
        ],
        "tool_choice": {"type": "custom", "custom": {"name": "h"}},
    },
    "no tools in a list": {"messages": [USER], "tools": [], "tool_choice": "none"},
    "choice among some": {
        "messages": [USER],
        "tools": [{"type": "function", "function": {"name": "f", "description": "f", "parameters": SCHEMA}}],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}},
    },
    "the older limit": {"messages": [USER], "max_tokens": 5},
    "a stream without usage": {"messages": [USER], "stream": True},
    "a stream with usage": {"messages": [USER], "stream": True, "stream_options": {"include_usage": True}},
    "nulls": {"messages": [USER], "stream_options": None, "stop": None, "tool_choice": None, "response_format": None},
    "stop as text": {"messages": [USER], "stop": "END", "stream": False},
    "no stops": {"messages": [USER], "stop": []},
    "a loose schema": {
        "messages": [USER],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
    },
    "JSON without a schema": {"messages": [USER], "response_format": {"type": "json_object"}},
    "sampling": {"messages": [USER], "temperature": 0, "top_p": 1.0, "seed": 7, "n": 2, "logit_bias": {"1": -100}},
}  # fmt: skip


@each_row("body", HANDWRITTEN_REQUESTS.values())
def test_a_request_is_rewritten_unchanged(body: dict[str, Any]) -> None:
    """Reading a request and writing it again changes nothing, whatever form of the wire it uses."""
    body = {"model": "gpt-4.1", **body}
    chat = adapter()
    assert round_trip(body, adapter_with(chat, **{**dict(chat.capabilities), "supports_video": "native"})) == body


def test_a_request_of_a_reasoning_model_is_rewritten_unchanged() -> None:
    """They are the caller's own."""
    body = {"model": "gpt-5", "messages": [USER], "temperature": 0.5, "stop": ["x"], "reasoning_effort": "low"}
    assert round_trip(body) == body


def test_a_request_becomes_canonical() -> None:
    """A request means the same to any other provider: texts, calls, results, tools and options."""
    chat = adapter()
    messages, tools, options = chat.from_wire_request(
        {"model": "gpt-4.1", **HANDWRITTEN_REQUESTS["the older form"], "max_tokens": 5}, context(chat)
    )
    call = messages[1].tool_uses[0]
    assert (call.name, call.input) == ("f", {"a": 1})
    assert messages[2].content == (ToolResultBlock(tool_use_id=call.id, content=(TextBlock(text="ok"),)),)
    assert [tool.name for tool in tools] == ["f"]
    assert (options.tool_choice, options.max_output_tokens) == ("auto", 5)


def test_native_ids_return_to_their_issuer() -> None:
    """The issuer is sent its own id, in the call and in the answer."""
    body = {
        "model": "gpt-4.1",
        "messages": [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, ANSWER],
    }
    chat = adapter()
    messages, _, _ = chat.from_wire_request(body, context(chat))
    assert messages[1].tool_uses[0].id.startswith("tu_")
    assert encode_request(messages)[0]["messages"] == body["messages"]


def test_a_history_is_a_prefix_of_the_next() -> None:
    """What was sent before is sent again unchanged, byte for byte."""
    call = ToolUseBlock(id=CALL_ID, name="f", input={"a": 1})
    history = [
        Message.user("Hi"),
        reply_of("anthropic:claude-opus-5", [TextBlock(text="x"), call]),
        Message.tool(CALL_ID, "1"),
        Message.assistant("Done."),
    ]
    longer = encode_request(history)[0]["messages"]
    assert encode_request(history[:3])[0]["messages"] == longer[:3]
    assert encode_request(history[:1])[0]["messages"] == longer[:1]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": [{"content": "no role"}]},
        {"messages": [{"role": "narrator", "content": "x"}]},
        {"messages": [{"role": "user", "content": [{"text": "no type"}]}]},
        {"messages": [], "tools": [{"type": "function", "function": {}}]},
        {"messages": "none"},
    ],
)
def test_invalid_requests_are_refused(body: dict[str, Any]) -> None:
    """A body of another shape is a RequestError, never a bare exception."""
    chat = adapter()
    with pytest.raises(RequestError):
        chat.from_wire_request(body, context(chat))
