"""Requests in the provider's own format: the round trip is exact, and they are decoded correctly."""

import cProfile
import json
from typing import Any

import pytest

from dragoman import RequestContext, ToolDefinition, get_adapter
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.errors import RequestError
from dragoman.canonical.blocks import DocumentBlock, ImageBlock, MediaSource, ProviderBlock, ToolResultBlock
from dragoman.canonical.message import Role
from dragoman.server_tools import WebSearch
from tests.tables import each_row
from tests.unit.adapters.openai_responses.wire import ADAPTER, MODEL, Item, call_item, context

USER: Item = {"role": "user", "content": "Hi"}
OUTPUT: Item = {"type": "function_call_output", "call_id": "call_1", "output": "Sunny."}
CUSTOM: Item = {"type": "custom_tool_call", "call_id": "call_2", "name": "sh", "input": "ls"}
CUSTOM_OUTPUT: Item = {"type": "custom_tool_call_output", "call_id": "call_2", "output": "a.txt"}
ASSISTANT: Item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
REASONING: Item = {"type": "reasoning", "id": "rs_1", "summary": []}
PNG = "data:image/png;base64,iVBORw0="
PDF = "data:application/pdf;base64,JVBERi0="


def user(*parts: Item) -> Item:
    return {"role": "user", "content": list(parts)}


handwritten_inputs: list[Any] = [
    "Hi",
    "",
    [],
    [USER],
    [{"type": "message", "role": "user", "content": "Hi"}],
    [user({"type": "input_text", "text": "Hi"})],
    [user({"type": "input_text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}})],
    [user()],
    [{"role": "user", "content": ""}],
    [user({"type": "input_image", "image_url": PNG, "detail": "high"}, {"type": "input_text", "text": "What?"})],
    [user({"type": "input_image", "image_url": "https://a.test/a.png"})],
    [user({"type": "input_image", "file_id": "file_1", "detail": "auto"})],
    [user({"type": "input_file", "file_data": PDF, "filename": "a.pdf"})],
    [user({"type": "input_file", "file_data": PDF})],
    [user({"type": "input_file", "file_data": "JVBERi0=", "filename": "a.pdf"})],
    [user({"type": "input_file", "file_data": "data:text/csv;charset=utf-8;base64,YQ==", "filename": "a.csv"})],
    [user({"type": "input_file", "file_url": "https://a.test/a.pdf", "detail": "low"})],
    [user({"type": "input_file", "file_id": "file_1"})],
    [user({"type": "input_audio", "input_audio": {"data": "YQ==", "format": "wav"}})],
    [{"role": "system", "content": "Be brief."}, USER],
    [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}, USER],
    [USER, {"role": "system", "content": "In French."}, USER],
    [USER, ASSISTANT, USER],
    [USER, {"role": "assistant", "content": "Hello"}, USER],
    [USER, {"role": "assistant", "content": ""}, USER],
    [USER, {"role": "assistant", "content": "Hello", "phase": "commentary"}, ASSISTANT, USER],
    [USER, {"role": "assistant", "content": [{"type": "input_text", "text": "odd"}]}],
    [USER, REASONING, call_item(), OUTPUT],
    [USER, call_item(), call_item(call_id="call_3", id="fc_2"), {**OUTPUT, "call_id": "call_3"}, OUTPUT],
    [USER, call_item(), CUSTOM, CUSTOM_OUTPUT, OUTPUT, ASSISTANT],
    [USER, call_item(), CUSTOM, OUTPUT, CUSTOM_OUTPUT, ASSISTANT],
    [USER, call_item(), {**OUTPUT, "output": [{"type": "input_image", "image_url": PNG}], "status": "completed"}],
    [USER, call_item(), {**OUTPUT, "output": [{"type": "input_text", "text": "x", "odd": 1}]}],
    [USER, call_item(), {**OUTPUT, "output": ""}],
    [USER, call_item(), {**OUTPUT, "output": None}],
    [USER, {"type": "item_reference", "id": "fc_1"}, OUTPUT],
    [USER, {"id": "fc_1"}, OUTPUT],
    [USER, ASSISTANT, {"type": "configuration_update", "reasoning": {"effort": "high"}}, USER],
    [{"type": "additional_tools", "role": "developer", "tools": []}, USER],
    [{"type": "compaction", "id": "cmp_1", "encrypted_content": "gA"}, USER],
    [USER, {"type": "mcp_approval_request", "id": "mcpr_1"}, {"type": "mcp_approval_response", "approve": True}],
    [USER, {"type": "from_the_future", "id": "x_1"}, USER],
    [{"role": "critic", "content": "Hm."}],
]

FUNCTION: Item = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}

handwritten_fields: list[Item] = [
    {"instructions": "Be brief."},
    {"instructions": ""},
    {"instructions": None},
    {"instructions": "Be brief.", "stream": True, "temperature": 0, "top_p": 1, "max_output_tokens": 9},
    {"stream": False, "store": False, "include": ["reasoning.encrypted_content"], "user": "u"},
    {"reasoning": {"effort": "high"}},
    {"reasoning": {"effort": "low", "summary": "auto"}},
    {"reasoning": {"effort": "max", "summary": "detailed", "context": "all_turns"}},
    {"reasoning": {"effort": None, "summary": None}},
    {"tools": []},
    {"tools": [FUNCTION, {**FUNCTION, "strict": True, "description": "d"}, {**FUNCTION, "strict": None}]},
    {"tools": [{"type": "function", "name": "a", "parameters": None, "strict": True, "defer_loading": True}]},
    {"tools": [{"type": "web_search"}, {"type": "mcp", "server_label": "docs"}, {"type": "custom", "name": "sh"}]},
    {"tool_choice": "required", "parallel_tool_calls": False},
    {"tool_choice": {"type": "function", "name": "weather"}},
    {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
    {"tool_choice": {"type": "web_search_preview"}},
    {"text": {"format": {"type": "text"}, "verbosity": "low"}},
    {"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}, "strict": False}}},
    {"previous_response_id": "resp_0", "background": True},
    {"unheard_of": {"a": [1, 2.5, None]}},
]


def round_trip(native: Item) -> Any:
    messages, tools, options = ADAPTER.from_wire_request(native, context())
    return json.loads(ADAPTER.to_wire(messages, tools, options).body)


@each_row("given", handwritten_inputs, ids=str)
def test_input_is_rewritten_unchanged(given: Any) -> None:
    """Every form of input: short and full forms, parts and items of all kinds."""
    native = {"model": MODEL, "input": given}
    assert round_trip(native) == native


@each_row("fields", handwritten_fields, ids=str)
def test_parameters_are_rewritten_unchanged(fields: Item) -> None:
    """A parameter without an option is kept as the provider's own field."""
    native = {"model": MODEL, "input": "Hi", **fields}
    assert round_trip(native) == native


def test_a_body_without_input_gets_none() -> None:
    """A stored prompt needs no input."""
    native = {"model": MODEL, "prompt": {"id": "pmpt_1"}}
    assert round_trip(native) == native


def read(*items: Any) -> list[Any]:
    messages, _, _ = ADAPTER.from_wire_request({"model": MODEL, "input": list(items)}, context())
    return messages


def test_neighbouring_items_of_the_assistant_are_one_message() -> None:
    """Reasoning, text and calls of one turn are one message; each output is a separate tool message."""
    second = call_item(call_id="call_3", id="fc_2")
    messages = read(USER, REASONING, ASSISTANT, call_item(), second, OUTPUT, {**OUTPUT, "call_id": "call_3"}, ASSISTANT)
    assert [message.role for message in messages] == [
        Role.USER, Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.ASSISTANT,
    ]  # fmt: skip
    reply = messages[1]
    assert [block.type for block in reply.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert reply.metadata.model == f"openai:{MODEL}"
    answered = [message.tool_results[0].tool_use_id for message in messages[2:4]]
    assert answered == [call.id for call in reply.tool_uses]


@pytest.mark.parametrize(
    ("item", "role"),
    [
        ({"type": "configuration_update"}, Role.USER),
        ({"type": "compaction_trigger"}, Role.USER),
        ({"type": "additional_tools", "role": "developer", "tools": []}, Role.DEVELOPER),
        ({"type": "item_reference", "id": "rs_1"}, Role.ASSISTANT),
        ({"type": "compaction", "encrypted_content": "gA"}, Role.ASSISTANT),
        ({"type": "shell_call_output", "call_id": "call_2"}, Role.TOOL),
        ({"type": "from_the_future"}, Role.ASSISTANT),
    ],
)
def test_a_native_item_keeps_its_place(item: Item, role: Role) -> None:
    """It is kept whole, in a message of its role."""
    (_, message) = read(USER, item)
    assert message.role is role
    assert message.content == (ProviderBlock(provider="openai", kind=item["type"], data=item),)


def test_an_output_of_a_native_tool_stays_in_its_reply() -> None:
    """So it does not separate a call from its output."""
    shell = {"type": "shell_call", "call_id": "call_2", "action": {"commands": ["ls"]}}
    shell_output = {"type": "shell_call_output", "call_id": "call_2", "output": []}
    messages = read(USER, call_item(), shell, shell_output, OUTPUT)
    assert [message.role for message in messages] == [Role.USER, Role.ASSISTANT, Role.TOOL]


def test_media_are_read_by_type() -> None:
    """Data URLs give their type and data; ids belong to the provider."""
    (message,) = read(
        user(
            {"type": "input_image", "image_url": PNG, "detail": "low"},
            {"type": "input_image", "image_url": "https://a.test/a.png"},
            {"type": "input_file", "file_data": PDF, "filename": "a.pdf"},
            {"type": "input_file", "file_id": "file_1"},
        )
    )
    assert message.content == (
        ImageBlock(source=MediaSource(kind="base64", data="iVBORw0="), media_type="image/png", detail="low"),
        ImageBlock(source=MediaSource(kind="url", data="https://a.test/a.png")),
        DocumentBlock(source=MediaSource(kind="base64", data="JVBERi0="), media_type="application/pdf", title="a.pdf"),
        DocumentBlock(source=MediaSource(kind="file_id", data="file_1", provider="openai")),
    )


def test_options_are_read() -> None:
    """Canonical options are set; the others are kept as the provider's own fields."""
    _, tools, options = ADAPTER.from_wire_request(
        {
            "model": MODEL,
            "input": "Hi",
            "max_output_tokens": 9,
            "temperature": 0.5,
            "tool_choice": {"type": "function", "name": "weather"},
            "parallel_tool_calls": False,
            "reasoning": {"effort": "none"},
            "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}},
            "stream": True,
            "tools": [FUNCTION, {"type": "web_search"}],
            "store": False,
        },
        context(),
    )
    assert (options.max_output_tokens, options.temperature, options.effort) == (9, 0.5, "none")
    assert options.tool_choice == NamedTool("weather")
    assert (options.parallel_tool_calls, options.stream) == (False, True)
    assert options.output_schema == {"type": "object"}
    assert options.extra["openai"].keys() == {"store", "text"}
    assert tools == [ToolDefinition(name="weather"), WebSearch(required=False)]


def test_an_orphan_output_is_kept_if_the_provider_stores_its_call() -> None:
    """Otherwise it has no call, and becomes the user's text."""
    native = {"model": MODEL, "input": [OUTPUT], "previous_response_id": "resp_0"}
    assert round_trip(native)["input"] == [OUTPUT]
    assert round_trip({**native, "previous_response_id": None})["input"][0]["role"] == "user"


@pytest.mark.parametrize(
    "native",
    [
        b"[]",
        b"{",
        {"model": MODEL, "input": [1]},
        {"model": MODEL, "input": [{"type": "function_call", "name": "x"}]},
        {"model": MODEL, "input": [{"role": "user"}]},
        {"model": MODEL, "input": [{"role": "user", "content": [{"type": "input_text"}]}]},
    ],
)
def test_invalid_requests_are_refused(native: Any) -> None:
    with pytest.raises(RequestError):
        ADAPTER.from_wire_request(native, context())


def test_a_tool_answer_is_read_part_by_part() -> None:
    """A text is one text block; parts are blocks; an empty answer has no block."""
    listed = {**OUTPUT, "output": [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": PNG}]}
    for output, kinds in ((OUTPUT, ["text"]), (listed, ["text", "image"]), ({**OUTPUT, "output": ""}, [])):
        *_, message = read(USER, call_item(), output)
        (result,) = message.content
        assert isinstance(result, ToolResultBlock)
        assert [part.type for part in result.content] == kinds


def test_many_replies_in_a_row_are_read_in_linear_time() -> None:
    """They are one message with many items. A request of a small key could stop a gateway for minutes."""

    def count_calls(number: int) -> int:
        content = [{"type": "output_text", "text": "x", "annotations": []}]
        items = [{"type": "message", "role": "assistant", "id": f"msg_{each}", "content": content}
                 for each in range(number)]  # fmt: skip
        adapter, profile = get_adapter("openai:gpt-5.4"), cProfile.Profile()
        context = RequestContext.for_model("openai:gpt-5.4", prices=None)
        with profile:
            adapter.from_wire_request({"model": "m", "input": [*items, {"role": "user", "content": "Hi"}]}, context)
        return sum(entry.callcount for entry in profile.getstats())

    assert count_calls(800) < 5 * count_calls(200)
