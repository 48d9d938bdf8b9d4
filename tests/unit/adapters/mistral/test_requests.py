"""Requests for Mistral: its names, its ids, its order of messages, its parts."""

import json
import re
from typing import Any

import pytest

from dragoman import AdapterOptions, RequestContext
from dragoman.adapter.contract import NamedTool
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.mistral.adapter import MistralAdapter
from tests.unit.adapters.openai_chat.wire import encode_request, handwritten_reply, losses, read, reply_of, round_trip

SMALL = MistralAdapter("mistral-small-latest")
VOICE = MistralAdapter("voxtral-small-latest")
CALL = ToolUseBlock(id="tu_00000000000000000000000001", name="weather", input={"city": "Paris"})
TOOLS = [ToolDefinition(name="weather", description="Weather")]


def messages(history: list[Message], adapter: MistralAdapter = SMALL) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = encode_request(history, adapter)[0]["messages"]
    return found


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ({"max_output_tokens": 5}, {"max_tokens": 5}),
        ({"seed": 5}, {"random_seed": 5}),
        ({"stream": True}, {"stream": True}),
        ({"tool_choice": "required"}, {"tool_choice": "any"}),
        ({"tool_choice": "none"}, {"tool_choice": "none"}),
        (
            {"tool_choice": NamedTool("weather")},
            {"tool_choice": {"type": "function", "function": {"name": "weather"}}},
        ),
        ({"effort": "high"}, {"reasoning_effort": "high"}),
        ({"stop_sequences": ("a",)}, {"stop": ["a"]}),
    ],
)
def test_parameters_have_mistrals_names(options: dict[str, Any], written: dict[str, Any]) -> None:
    """And are read from them; a stream reports its usage without a request for it."""
    body, wire = encode_request([Message.user("Hi")], SMALL, TOOLS, **options)
    assert {name: value for name, value in body.items() if name not in ("model", "messages", "tools")} == written
    assert not wire.losses
    assert round_trip(body, SMALL) == body


def test_prompt_mode_travels_as_it_is() -> None:
    """It is Mistral's own field, and is merged into the body."""
    body, _ = encode_request([Message.user("Hi")], SMALL, extra={"mistral": {"prompt_mode": "reasoning"}})
    assert body["prompt_mode"] == "reasoning"
    assert round_trip(body, SMALL) == body


def test_foreign_ids_become_nine_letters_or_digits() -> None:
    """The same in call and answer, and distinct from one another."""
    calls = [ToolUseBlock(id=f"tu_{index:026}", name="weather") for index in range(50)]
    history = [
        Message.user("Hi"),
        reply_of("anthropic:claude-opus-5-5", calls),
        *(Message.tool(call.id, "done") for call in calls),
    ]
    assistant, *answers = messages(history)[1:]
    ids = [call["id"] for call in assistant["tool_calls"]]
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", name) for name in ids)
    assert len(set(ids)) == 50
    assert [answer["tool_call_id"] for answer in answers] == ids


def test_own_ids_return_unchanged() -> None:
    call = {"id": "call_abcdefghij", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    body = {
        "model": "mistral-small-latest",
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_abcdefghij", "content": "done"},
        ],
    }
    assert round_trip(body, SMALL) == body


def test_arguments_may_be_an_object() -> None:
    """They go back in the form that they were read in."""
    call = {"id": "abcdefghi", "function": {"name": "weather", "arguments": {"city": "Paris"}}, "index": 0}
    body = {
        "model": "mistral-small-latest",
        "messages": [
            {"role": "assistant", "content": "", "prefix": False, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "abcdefghi", "name": "weather", "content": "done"},
        ],
    }
    assert round_trip(body, SMALL) == body


def test_a_tools_message_names_the_tool() -> None:
    """The answer itself has no field for it."""
    history = [Message.user("Hi"), reply_of("openai:gpt-5", [CALL]), Message.tool(CALL.id, "done")]
    answer = messages(history)[2]
    assert (answer["name"], answer["content"]) == ("weather", "done")


def test_an_interrupted_answer_names_the_tool() -> None:
    """It is ours, also after a call of Mistral's own: the notes on the call say nothing about it."""
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    reply = read(handwritten_reply({"content": "", "tool_calls": [call]}, "tool_calls"), SMALL)
    answer = messages([Message.user("Hi"), reply, Message.user("Go on")])[2]
    assert (answer["role"], answer["name"]) == ("tool", "weather")


def test_a_tool_is_named_in_a_session_as_in_a_new_one() -> None:
    """Earlier messages are not encoded again, but no result is separated from its call."""
    history: list[Message] = []
    session = RequestContext(model=str(SMALL.model_id), session_id="s")
    for number in range(12):
        call = CALL.model_copy(update={"id": f"{CALL.id[:-2]}{number:02}"})
        calls = [reply_of("openai:gpt-5", [call]), reply_of("openai:gpt-5", [TextBlock(text="One moment")])]
        for message in (Message.user("Hi"), *calls, Message.tool(call.id, "done"), Message.assistant("Sunny")):
            history.append(message)
            body = SMALL.to_wire(history, TOOLS, AdapterOptions(context=session)).body
            assert body == SMALL.to_wire(history, TOOLS, AdapterOptions()).body
    assert session.encode_cache.prefixes
    assert body.count(b'"content":"done","name":"weather"') == 12


def test_a_last_assistant_message_is_marked_as_prefix() -> None:
    """It is marked as the beginning of the answer, and only there."""
    history = [Message.user("Hi"), Message.assistant("The answer is")]
    assert messages(history)[-1] == {"role": "assistant", "content": "The answer is", "prefix": True}
    assert messages([*history, Message.user("Go on")])[1] == {"role": "assistant", "content": "The answer is"}


def test_missing_roles_become_similar_ones() -> None:
    """A developer message becomes a system message; later instructions become the user's text, which may be last."""
    history = [
        Message(role=Role.DEVELOPER, content=(TextBlock(text="Be kind"),)),
        Message.user("Hi"),
        Message.assistant("Ho"),
        Message.system("Be brief"),
    ]
    assert [message["role"] for message in messages(history)] == ["system", "user", "assistant", "user"]


def test_thinking_returns_as_parts() -> None:
    """Its own thinking, with the signature; other models' thinking is a loss."""
    thought = ThinkingBlock(text="Hm", signature="s1")
    part = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}], "signature": "s1"}
    own = reply_of("mistral:magistral-medium-2509", [thought, TextBlock(text="Hi")])
    assert messages([own, Message.user("?")])[0]["content"] == [part, {"type": "text", "text": "Hi"}]
    foreign = reply_of("anthropic:claude-opus-5-5", [thought, TextBlock(text="Hi")])
    body, wire = encode_request([foreign, Message.user("?")], SMALL)
    assert body["messages"][0]["content"] == "Hi"
    assert [kind for kind, _ in losses(wire)] == ["thinking"]


def test_malformed_arguments_are_not_sent() -> None:
    """A call whose arguments were cut off is sent without them, with a loss."""
    broken = ToolUseBlock(id=CALL.id, name="weather", raw_input='{"city": "Par')
    body, wire = encode_request([reply_of("openai:gpt-5", [broken]), Message.tool(CALL.id, "no")], SMALL)
    assert body["messages"][0]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert ("invalid_input", "arguments that are not a JSON object") in losses(wire)


MEDIA: list[tuple[ContentBlock, dict[str, Any]]] = [
    (
        ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png"),
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ),
    (
        DocumentBlock(source=MediaSource(kind="url", data="https://a.test/b.pdf"), title="b.pdf"),
        {"type": "document_url", "document_url": "https://a.test/b.pdf", "document_name": "b.pdf"},
    ),
    (
        DocumentBlock(source=MediaSource(kind="base64", data="aGk="), media_type="application/pdf"),
        {"type": "document_url", "document_url": "data:application/pdf;base64,aGk="},
    ),
    (
        DocumentBlock(source=MediaSource(kind="file_id", data="f1", provider="mistral")),
        {"type": "file", "file_id": "f1"},
    ),
]


@pytest.mark.parametrize(("block", "part"), MEDIA)
def test_media_are_parts_of_mistrals_kinds(block: ContentBlock, part: dict[str, Any]) -> None:
    """Documents by URL, also inline ones; such a part decodes to the same block."""
    body, wire = encode_request([Message.user([block])], SMALL)
    assert body["messages"][0]["content"] == [part]
    assert not wire.losses
    assert round_trip(body, SMALL) == body


@pytest.mark.parametrize("sound", ["aGk=", "https://a.test/b.mp3", "data:audio/mpeg;base64,aGk="])
def test_audio_is_a_text(sound: str) -> None:
    """Bare base64 or a URL, sent back as it was read; new audio is sent as bare base64."""
    body = {
        "model": "voxtral-small-latest",
        "messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": sound}]}],
    }
    assert round_trip(body, VOICE) == body
    audio = AudioBlock(source=MediaSource(kind="base64", data="aGk="), media_type="audio/mpeg")
    assert messages([Message.user([audio])], VOICE)[0]["content"] == [{"type": "input_audio", "input_audio": "aGk="}]


def test_requests_only_grow() -> None:
    """Each request is a prefix of the next one, except for the mark of a message to continue."""
    history = [
        Message.user("Hi"),
        reply_of("openai:gpt-5", [TextBlock(text="Let me see"), CALL]),
        Message.tool(CALL.id, "done"),
        reply_of("mistral:mistral-small-latest", [ThinkingBlock(text="Hm"), TextBlock(text="Sunny")]),
        Message.user("Thanks"),
    ]
    whole = json.loads(SMALL.to_wire(history, TOOLS, AdapterOptions()).body)["messages"]
    for end in (1, 3, 5):
        assert json.loads(SMALL.to_wire(history[:end], TOOLS, AdapterOptions()).body)["messages"] == whole[:end]


@pytest.mark.parametrize("named", [True, False])
def test_a_result_whose_image_follows_it_still_names_its_tool(named: bool) -> None:
    """A result whose image follows it still names its tool, as in the request that was read."""
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    image = {"type": "image_url", "image_url": "https://example.com/map.png"}
    name = {"name": "weather"} if named else {}
    content = [{"type": "text", "text": "Sunny"}, image]
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdefghi", **name, "content": content},
    ]
    sent = round_trip({"model": "mistral-small-latest", "messages": history}, SMALL)["messages"]
    assert sent[2] == {"role": "tool", "tool_call_id": "abcdefghi", "content": "Sunny\n[image follows]", **name}
    assert [part["type"] for part in sent[3]["content"]] == ["image_url"]
