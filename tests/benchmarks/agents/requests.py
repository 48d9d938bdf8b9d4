"""Requests of an agent: a list of tools, and a conversation with rounds of tools, as the Messages API has them."""

import json
from collections.abc import Sequence
from typing import Any

from dragoman import Message, TextBlock, ToolDefinition, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Role

Json = dict[str, Any]

PROVIDER = "anthropic"
MODEL = "claude-sonnet-4-6"
RESULT = "A line of a file that the agent has read, with numbers 1, 2 and 3. " * 6


def schema(number: int) -> Json:
    """The schema of one tool, of the usual size."""
    names = [f"argument_{index}" for index in range(4)]
    return {
        "type": "object",
        "properties": {
            **{name: {"type": "string", "description": f"What {name} of tool {number} means."} for name in names},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "The most lines."},
            "paths": {"type": "array", "items": {"type": "string"}, "description": "The files."},
        },
        "required": names[:2],
    }


def tools(count: int) -> list[Json]:
    return [
        {"name": f"tool_{number}", "description": f"Tool {number} does one thing well.", "input_schema": schema(number)}
        for number in range(count)
    ]


def definitions(count: int) -> list[ToolDefinition]:
    return [
        ToolDefinition(name=each["name"], description=each["description"], input_schema=each["input_schema"])
        for each in tools(count)
    ]


def wire_messages(count: int) -> list[Json]:
    """A conversation that ends with the result of a call."""
    found: list[Json] = [{"role": "user", "content": "Find the fault and repair it."}]
    for number in range((count - 1) // 2):
        call = {"type": "tool_use", "id": f"toolu_{number:06}", "name": "tool_1", "input": {"argument_0": f"f{number}"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number:06}", "content": f"{number}: {RESULT}"}
        found.append({"role": "assistant", "content": [{"type": "text", "text": f"Step {number}."}, call]})
        found.append({"role": "user", "content": [result]})
    return found


def body(messages: Sequence[Json], tool_list: Sequence[Json], **more: Any) -> bytes:
    """A request as an agent's client writes it."""
    fields = {
        "model": MODEL, "max_tokens": 1000, "system": "You are careful. " * 100, "tools": tool_list,
        "messages": messages,
    }  # fmt: skip
    return json.dumps({**fields, **more}).encode()


def growing(count: int, tool_count: int, requests: int) -> list[bytes]:
    """The requests of one agent, each with one round more than the one before."""
    longest, offered = wire_messages(count + 2 * requests), tools(tool_count)
    return [body(longest[: count + 2 * number], offered) for number in range(requests)]


def history(count: int) -> list[Message]:
    """A conversation of questions and answers, with a round of tools in every second turn."""
    found: list[Message] = []
    for number in range(count // 4 + 1):
        call = ToolUseBlock(id=f"tu_{number:026}", name="tool_1", input={"argument_0": f"file {number}"})
        result = ToolResultBlock(tool_use_id=call.id, content=(TextBlock(text=f"{number}: {RESULT}"),))
        found += [
            Message.user(f"Question {number}: what is in the file?"),
            Message(role=Role.ASSISTANT, content=(TextBlock(text=f"Step {number}."), call)),
            Message(role=Role.TOOL, content=(result,)),
            Message.assistant(f"Answer {number}: nothing of interest."),
        ]
    return found[:count]
