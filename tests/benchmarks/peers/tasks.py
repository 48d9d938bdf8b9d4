"""The task of every client, and the expected answer, which is checked before it is timed. Imports the wires only."""

from typing import Any, Protocol

from tests.benchmarks.wires import SENTENCE, WIRES, arguments, words

QUESTION = "What is the capital of France?"
DELTAS, PACED = 500, 200
KEY = "none"

PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
DESCRIPTION = "Writes a text."
TOOL = {"type": "function", "function": {"name": "write", "description": DESCRIPTION, "parameters": PARAMETERS}}
"""The tool, as Chat Completions and Ollama format it."""
RESPONSES_TOOL = {"type": "function", "name": "write", "description": DESCRIPTION, "parameters": PARAMETERS}
MESSAGES_TOOL = {"name": "write", "description": DESCRIPTION, "input_schema": PARAMETERS}
OFFERED = {"messages": MESSAGES_TOOL, "responses": RESPONSES_TOOL, "chat": TOOL, "ollama": TOOL}

EXPECTED = {
    "call": SENTENCE,
    "sync": SENTENCE,
    "slow": SENTENCE,
    "burst": "".join(words(DELTAS)),
    "paced": "".join(words(PACED)),
    "calls": arguments(1_000) * 20,
    "long": arguments(20_000),
}
"""The text, or the arguments of all calls, by shape."""
CALLING = ("calls", "long")
"""The shapes whose streams are calls: a tool is in the request."""
EVENTS = {"call": 1, "sync": 1, "slow": 1, "burst": DELTAS, "paced": PACED, "calls": 20, "long": 1}
"""The divisor of the time: deltas, or calls."""


class Client(Protocol):
    """A client under test. ``base`` is the URL of the shape, without the API's own version."""

    async def call(self, base: str) -> str:
        """The answer's text."""
        ...

    async def stream(self, base: str, *, tools: bool) -> str:
        """The sum of the deltas: the text, or with tools the arguments of all calls."""
        ...


def is_expected(shape: str, found: str) -> bool:
    """Whether it is exactly what was sent. The client formats calls that come whole, with or without spaces."""
    if shape in CALLING:
        return found.replace(" ", "") == EXPECTED[shape].replace(" ", "")
    return found == EXPECTED[shape]


def model(wire: str) -> str:
    return WIRES[wire].model.partition(":")[2]


def chat_delta(delta: Any) -> str:
    """The increment of an official object of a chat's delta."""
    called = "".join((call.function.arguments or "") for call in delta.tool_calls or ())
    return called or delta.content or ""


def responses_text(reply: Any) -> str:
    """The text of an official object of a response."""
    return "".join(part.text for item in reply.output if item.type == "message" for part in item.content)


RESPONSES_DELTAS = ("response.output_text.delta", "response.function_call_arguments.delta")


def responses_delta(event: Any) -> str:
    """The increment of an official object of a response's event."""
    return event.delta if event.type in RESPONSES_DELTAS else ""
