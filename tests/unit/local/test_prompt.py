"""The prompt that the model reads, and what it may write."""

from typing import Any

import pytest

from dragoman.local.prompt import AllowedOutput, Json, build_prompt
from dragoman.local.reply import LocalRequestError

READ = {
    "name": "read_file",
    "description": "Read a file",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
ADD = {"name": "add", "description": "Add", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}
CALL = '<tool_call>{"name": "read_file", "arguments": {"path": "a.txt"}}</tool_call>'
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def text_message(role: str, text: str) -> Json:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def call_message(role: str = "assistant") -> Json:
    part = {"type": "call", "id": "a", "name": "read_file", "arguments": {"path": "a.txt"}}
    return {"role": role, "content": [part]}


def result_message(text: str, **fields: Any) -> Json:
    return {
        "role": "tool",
        "content": [{"type": "result", "id": "a", "content": [{"type": "text", "text": text}], **fields}],
    }


def body(*messages: Json, prompting: str = "tagged", **fields: Any) -> Json:
    return {"model": "m", "prompting": prompting, "messages": list(messages), **fields}


def test_calls_and_results_are_text_in_the_form_of_the_grammar() -> None:
    """The history of any provider reads as if the model itself had called."""
    built = build_prompt(
        body(
            text_message("user", "Read a.txt"),
            call_message(),
            result_message("Hello\n"),
            text_message("user", "Thanks"),
        )
    )
    assert built.messages == [
        {"role": "user", "content": "Read a.txt"},
        {"role": "assistant", "content": CALL},
        {"role": "user", "content": "<tool_response>\nHello\n</tool_response>\nThanks"},
    ]
    assert built.allowed == AllowedOutput(parallel=True)


def test_errors_and_malformed_arguments_are_shown_to_the_model() -> None:
    """An error is marked as one; arguments that are not an object stay as they were."""
    broken = {"role": "assistant", "content": [{"type": "call", "id": "a", "name": "x", "arguments": '{"pa'}]}
    built = build_prompt(body(text_message("user", "Go"), broken, result_message("no such file", is_error=True)))
    assert built.messages[1]["content"] == '<tool_call>{"name": "x", "arguments": {"pa}</tool_call>'
    assert built.messages[2]["content"] == "<tool_response>\nError: no such file\n</tool_response>"


def test_a_part_of_an_unknown_kind_is_skipped() -> None:
    """A native part that this version does not know is not text."""
    built = build_prompt(body({"role": "user", "content": [{"type": "hologram"}, {"type": "text", "text": "Hi"}]}))
    assert built.messages == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("choice", "allowed"),
    [
        ({}, AllowedOutput(calls=(READ, ADD), parallel=True)),
        ({"tool_choice": "auto", "parallel_tool_calls": False}, AllowedOutput(calls=(READ, ADD))),
        ({"tool_choice": "none", "output_schema": SCHEMA}, AllowedOutput(schema=SCHEMA)),
        ({"tool_choice": "required"}, AllowedOutput(text=False, calls=(READ, ADD), parallel=True)),
        ({"tool_choice": {"name": "add"}}, AllowedOutput(text=False, calls=(ADD,))),
        ({"output_schema": SCHEMA}, AllowedOutput(calls=(READ, ADD), parallel=True, schema=SCHEMA)),
    ],
)
def test_the_tool_choice_limits_a_larger_model(choice: Json, allowed: AllowedOutput) -> None:
    """A model that can choose may choose."""
    assert build_prompt(body(text_message("user", "Hi"), tools=[READ, ADD], **choice)).allowed == allowed


def test_a_larger_model_reads_the_tools_in_its_system_prompt() -> None:
    """In the format that the Hermes and Qwen models were trained on, after the caller's prompt."""
    built = build_prompt(body(text_message("system", "Be brief."), text_message("user", "Hi"), tools=[READ]))
    assert built.messages[0]["content"].startswith("Be brief.\n\n# Tools")
    assert '"name": "read_file"' in built.messages[0]["content"]
    assert build_prompt(body(text_message("user", "Hi"), tools=[READ])).messages[0]["role"] == "system"
    assert build_prompt(body(text_message("user", "Hi"), tools=[READ], tool_choice="none")).messages == [
        {"role": "user", "content": "Hi"}
    ]


@pytest.mark.parametrize(
    ("words", "choice", "names"),
    [
        ("Read the file a.txt", {}, ["read_file"]),
        ("Hello!", {}, []),
        ("Read the file a.txt", {"tool_choice": "none"}, []),
        ("Hello!", {"tool_choice": "required"}, ["read_file", "add"]),
        ("Hello!", {"tool_choice": {"name": "add"}}, ["add"]),
    ],
)
def test_a_guided_model_calls_if_the_message_asks_for_a_tool(words: str, choice: Json, names: list[str]) -> None:
    """It never chooses: it either calls or answers."""
    allowed = build_prompt(body(text_message("user", words), prompting="guided", tools=[READ, ADD], **choice)).allowed
    assert [tool["name"] for tool in allowed.calls] == names
    assert allowed.text == (not names)
    assert not allowed.parallel


def test_a_guided_call_has_examples_and_the_words_of_the_message() -> None:
    """The examples are after the caller's system prompt and before the conversation."""
    built = build_prompt(
        body(text_message("system", "Be brief."), text_message("user", "Read a.txt"), prompting="guided", tools=[READ])
    )
    assert built.messages[0]["content"] == ("Be brief. You can call these tools:\nread_file(path): Read a file")
    assert len(built.messages) == 10
    assert built.messages[-1] == {"role": "user", "content": "Read a.txt"}
    (tool,) = built.allowed.calls
    assert tool["parameters"]["properties"]["path"]["enum"] == ["a.txt"]


def test_a_guided_model_answers_a_result_in_words() -> None:
    """No call is due after a tool's answer, and the examples show how to answer."""
    built = build_prompt(
        body(
            text_message("user", "Read a.txt"),
            call_message(),
            result_message("Hello"),
            prompting="guided",
            tools=[READ],
        )
    )
    assert built.allowed == AllowedOutput()
    assert len(built.messages) == 1 + 12 + 3
    assert built.messages[-1]["content"] == "<tool_response>\nHello\n</tool_response>"


def test_a_guided_chat_is_left_alone() -> None:
    """The model reads the conversation only, without tools."""
    assert build_prompt(body(text_message("user", "Hi"), prompting="guided", tools=[READ])).messages == [
        {"role": "user", "content": "Hi"}
    ]


@pytest.mark.parametrize(
    "request_body",
    [
        body(),
        body(text_message("user", "Hi"), tool_choice="required"),
        body(text_message("user", "Hi"), tools=[READ], tool_choice={"name": "write_file"}),
    ],
)
def test_unsupported_requests_are_refused(request_body: Json) -> None:
    """A request for something that the model cannot do fails."""
    with pytest.raises(LocalRequestError) as caught:
        build_prompt(request_body)
    assert caught.value.status == 400


def test_the_examples_come_right_before_the_current_question() -> None:
    """Earlier turns come first, so that they weigh less than the examples."""
    earlier = [
        text_message("user", "Read a.txt"),
        call_message(),
        result_message("Hello"),
        text_message("assistant", "It says Hello."),
    ]
    built = build_prompt(body(*earlier, text_message("user", "Read b.txt"), prompting="guided", tools=[READ]))
    roles = [message["role"] for message in built.messages]
    assert roles == ["system", "user", "assistant", "user", "assistant", *["user", "assistant"] * 4, "user"]
    assert built.messages[4]["content"] == "It says Hello."
