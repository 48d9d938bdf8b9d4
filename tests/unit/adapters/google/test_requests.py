"""Decoded requests are encoded unchanged, whatever their spelling. Bodies are handwritten."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import AdapterOptions, Message, Role, ToolDefinition
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.errors import RequestError
from dragoman.canonical.blocks import (
    AudioBlock,
    DocumentBlock,
    ImageBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman_adapters.google import decode_blocks, encode_blocks
from tests.tables import each_row
from tests.unit.adapters.google.wire import GEMINI_2, GEMINI_3, context, return_trip


def user(*encode_blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(encode_blocks), **more}


def model(*encode_blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(encode_blocks), **more}


def history(*contents: dict[str, Any], **more: Any) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
    return GEMINI_3.from_wire_request({"contents": list(contents), **more}, context(GEMINI_3))


CALL = {"functionCall": {"name": "add", "args": {"x": 1}}}
LOW = {"level": "MEDIA_RESOLUTION_LOW"}
ANSWER = {"functionResponse": {"name": "add", "response": {"output": "2"}}}

BODIES: dict[str, dict[str, Any]] = {
    "plain": {"contents": [user({"text": "Hi"})]},
    "no role": {"contents": [{"parts": [{"text": "Hi"}]}]},
    "role function": {"contents": [user({"text": "Hi"}), model(CALL), {"role": "function", "parts": [ANSWER]}]},
    "a lone part": {"contents": [{"role": "user", "parts": {"text": "Hi"}}]},
    "empty parts": {"contents": [user({"text": "Hi"}), model(), user({"text": "Hm"})]},
    "no parts": {"contents": [user({"text": "Hi"}), {"role": "model"}, user({"text": "Hm"})]},
    "flags": {"contents": [user({"text": "Hi", "thought": False})]},
    "neighbours": {
        "contents": [user({"text": "A"}), user({"text": "B"}), model({"text": "C"}), model(CALL), user(ANSWER)]
    },
    "text before the answer": {"contents": [user({"text": "Hi"}), model(CALL), user({"text": "Here:"}, ANSWER)]},
    "text around answers": {
        "contents": [user({"text": "Hi"}), model(CALL, CALL), user({"text": "1"}, ANSWER, {"text": "2"}, ANSWER)]
    },
    "answers as objects": {
        "contents": [
            user({"text": "Hi"}),
            model(CALL, CALL, CALL, CALL),
            user(
                {"functionResponse": {"name": "add", "response": {"result": 5}}},
                {"functionResponse": {"name": "add", "response": {}}},
                {"functionResponse": {"name": "add", "response": {"error": {"code": 1}}}},
                {"functionResponse": {"name": "add", "response": {"output": [1], "error": "x"}, "scheduling": "IDLE"}},
            ),
        ]
    },
    "ids": {
        "contents": [
            user({"text": "Hi"}),
            model(
                {"functionCall": {"id": "a1", "name": "add", "args": {"x": 1}}},
                {"functionCall": {"id": "a2", "name": "now"}},
            ),
            user(
                {"functionResponse": {"id": "a2", "name": "now", "response": {"output": "3"}}},
                {"functionResponse": {"id": "a1", "name": "add", "response": {"output": "2"}}},
            ),
        ]
    },
    "an id in the answer alone": {
        "contents": [
            user({"text": "Hi"}),
            model(CALL),
            user({"functionResponse": {"id": "z", "name": "add", "response": {"output": "2"}}}),
        ]
    },
    "instruction as text": {"contents": [user({"text": "Hi"})], "systemInstruction": "Be brief."},
    "instruction with a role": {
        "contents": [user({"text": "Hi"})],
        "systemInstruction": user({"text": "A"}, {"text": "B"}),
    },
    "instruction as a lone part": {
        "contents": [user({"text": "Hi"})],
        "system_instruction": {"parts": {"text": "A"}, "role": "model"},
    },
    "nulls": {
        "contents": [user({"text": "Hi"})],
        "systemInstruction": None, "tools": None, "toolConfig": None, "generationConfig": None, "safetySettings": None,
    },
    "empties": {"contents": [user({"text": "Hi"})], "tools": [], "generationConfig": {}, "safetySettings": []},
    "tools of all kinds": {
        "contents": [user({"text": "Hi"})],
        "tools": [
            {"codeExecution": None, "functionDeclarations": [{"name": "a"}, {"name": "b", "description": ""}]},
            {"google_search": {}, "urlContext": {}},
            {"functionDeclarations": [{"name": "c", "parameters_json_schema": {"type": "object"}, "behavior": 1}]},
            {"functionDeclarations": [{"name": "d", "parameters": {"type": 6, "properties": {"x": {"type": 1}}}}]},
            {"function_declarations": [], "codeExecution": {}},
        ],
    },
    "no tools after all": {"contents": [user({"text": "Hi"})], "tools": [{"function_declarations": []}]},
    "settings": {
        "contents": [user({"text": "Hi"})],
        "generationConfig": {
            "temperature": 0, "topP": 0.5, "top_k": 3, "candidateCount": 2, "stopSequences": ["x"], "seed": 1,
            "responseMimeType": "application/json", "responseSchema": {"type": "STRING", "nullable": True},
            "thinkingConfig": {"include_thoughts": True, "thinkingBudget": 10},
        },
        "toolConfig": {"functionCallingConfig": {"mode": "any", "allowedFunctionNames": ["a", "b"]}},
        "safetySettings": [{"category": 7, "threshold": 4}], "cachedContent": "cachedContents/1", "labels": {"a": "b"},
    },
    "parts of all kinds": {
        "contents": [
            user(
                {"inlineData": {"mimeType": "image/png", "data": "aGk-_w"}, "mediaResolution": LOW},
                {"inline_data": {"mime_type": "audio/mp3", "data": "aGk="}},
                {"fileData": {"file_uri": "gs://b/f.mp4", "mimeType": "video/mp4"}, "videoMetadata": {"fps": 1.0}},
                {"fileData": {"fileUri": "https://youtu.be/x"}},
                {"inlineData": {"mimeType": "text/plain", "data": "aGk=", "displayName": "hi.txt"}},
                {"somethingNew": {"deep_inside": 1}},
            ),
            model(
                {"text": "hm", "thought": True, "thoughtSignature": "c2ln"},
                {"thoughtSignature": "ZW5k"},
                {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "eA=="},
                {"code_execution_result": {"outcome": "OUTCOME_OK"}},
                {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thought": True},
                {"text": ""},
            ),
            user({"text": "Go on"}),
        ]
    },
}  # fmt: skip


@each_row("name", BODIES)
@each_row("adapter", [GEMINI_2, GEMINI_3], ids=str)
def test_a_request_is_rewritten_unchanged(adapter: Any, name: str) -> None:
    """Spelling, order, flags, nulls and unknown fields stay."""
    assert return_trip(BODIES[name], adapter) == BODIES[name]


names = st.sampled_from(
    ["text", "thought", "thoughtSignature", "thought_signature", "inlineData", "inline_data", "mimeType", "mime_type",
     "data", "functionCall", "function_call", "name", "args", "fileData", "fileUri", "file_uri", "new_thing"]
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x", "a-b_c", "a+b/", "aGk="]),
    lambda inner: st.dictionaries(names, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=6,
)


@given(native=st.dictionaries(names, values, max_size=4), encoded=st.dictionaries(names, values, max_size=4))
def test_a_diff_restores_any_part(native: dict[str, Any], encoded: dict[str, Any]) -> None:
    """However much our encoding differs from the original, the stored diff restores it."""
    assert repr(_sort(encode_blocks.apply_note(encoded, decode_blocks.note_part(native, encoded)))) == repr(
        _sort(native)
    )


def _sort(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sort(value[key]) for key in sorted(value)}
    return [_sort(item) for item in value] if isinstance(value, list) else value


def test_media_are_distinguished_by_type() -> None:
    """The type of a part decides its block; base64 is converted to the alphabet that all providers accept."""
    messages, _, _ = history(*BODIES["parts of all kinds"]["contents"])
    user_blocks, thought = messages[0].content, messages[1].content
    kinds = [type(block) for block in user_blocks]
    assert kinds == [ImageBlock, AudioBlock, VideoBlock, VideoBlock, DocumentBlock, ProviderBlock]
    image, _, stored, detailed, *_ = user_blocks
    assert isinstance(image, ImageBlock)
    assert (image.source.data, image.detail) == ("aGk+/w==", "low")
    assert isinstance(stored, VideoBlock)
    assert (stored.source.kind, stored.source.provider) == ("file_id", "google")
    assert isinstance(detailed, VideoBlock)
    assert detailed.source.kind == "url"
    assert [block.type for block in thought] == ["thinking", "text", "provider", "provider", "provider", "text"]
    assert thought[0] == ThinkingBlock(text="hm", signature="c2ln")
    assert thought[1] == TextBlock(text="")


def test_answers_without_ids_find_their_calls_by_name_and_order() -> None:
    """Two calls of one name are answered in their order, a third of another name by its name."""
    other = {"functionCall": {"name": "now", "args": {}}}
    answers = [
        {"functionResponse": {"name": "now", "response": {"output": "noon"}}},
        {"functionResponse": {"name": "add", "response": {"output": "first"}}},
        {"functionResponse": {"name": "add", "response": {"error": "second"}}},
    ]
    messages, _, _ = history(user({"text": "Hi"}), model(CALL, other, CALL), user(*answers))
    calls = [block for block in messages[1].content if isinstance(block, ToolUseBlock)]
    results = [block for message in messages[2:] for block in message.content if isinstance(block, ToolResultBlock)]
    assert [result.tool_use_id for result in results] == [calls[1].id, calls[0].id, calls[2].id]
    assert [result.is_error for result in results] == [False, False, True]
    assert results[2].content == (TextBlock(text="second"),)


def test_an_answer_comes_before_the_users_additions() -> None:
    """On no other wire may anything come between a call and its answer."""
    messages, _, _ = history(user({"text": "Hi"}), model(CALL), user({"text": "Here:"}, ANSWER))
    assert [message.role for message in messages] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]


def test_googles_schemas_become_json_schemas() -> None:
    """Types in lower case, null as a type, counts as numbers; Google's own keywords are left out."""
    native = {
        "type": "OBJECT",
        "properties": {
            "a_b": {"type": "STRING", "nullable": True, "maxLength": "5"},
            "list": {"type": 5, "items": {"type": "INTEGER"}, "min_items": 1},
            "either": {"any_of": [{"type": "NUMBER"}, {"type": "NULL"}]},
        },
        "propertyOrdering": ["a_b"],
        "required": ["a_b"],
    }
    _, (tool,), _ = history(
        user({"text": "Hi"}), tools=[{"functionDeclarations": [{"name": "t", "parameters": native}]}]
    )
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "a_b": {"type": ["string", "null"], "maxLength": 5},
            "list": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            "either": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        },
        "required": ["a_b"],
    }


def test_options_are_read_and_may_be_changed() -> None:
    """A field that was read as an option changes with the option; the fields around it stay."""
    config = {"temperature": 0.5, "candidateCount": 1, "thinkingConfig": {"thinkingLevel": "LOW"}}
    messages, _, options = history(
        user({"text": "Hi"}),
        generationConfig=config,
        toolConfig={"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["a"]}},
        tools=[{"functionDeclarations": [{"name": "a"}]}],
    )
    assert (options.temperature, options.effort, options.tool_choice) == (0.5, "low", NamedTool("a"))
    changed = replace(options, temperature=0.9, effort="high", tool_choice="none", max_output_tokens=9)
    body = GEMINI_3.to_wire(messages, [ToolDefinition(name="a")], changed).body
    assert b'"temperature":0.9' in body
    assert b'"candidateCount":1' in body
    assert b'"thinkingLevel":"HIGH"' in body
    assert b'"maxOutputTokens":9' in body
    assert b'{"functionCallingConfig":{"mode":"NONE"}}' in body


def test_nulls_of_a_request_do_not_hide_additions() -> None:
    """An instruction, tools or settings that come later are sent, although the request had them as null."""
    messages, _, options = history(
        user({"text": "Hi"}), systemInstruction=None, tools=None, generationConfig=None, toolConfig=None
    )
    tool = ToolDefinition(name="add")
    wire = GEMINI_3.to_wire(
        [Message.system("Be brief."), *messages], [tool], replace(options, seed=1, tool_choice="auto")
    )
    for fragment in (b"Be brief.", b'"add"', b'"seed":1', b'"AUTO"'):
        assert fragment in wire.body


@pytest.mark.parametrize("body", [{}, {"contents": 5}, {"contents": ["x"]}, {"contents": [{"parts": 5}]}, b"[]", b"{"])
def test_invalid_requests_are_refused(body: Any) -> None:
    with pytest.raises(RequestError):
        GEMINI_3.from_wire_request(body, context(GEMINI_3))
