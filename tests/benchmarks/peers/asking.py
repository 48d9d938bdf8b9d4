"""What every client is asked, and what it must find: checked before it is timed. Imports nothing but the wires."""

from typing import Any, Protocol

from tests.benchmarks.wires import SENTENCE, WIRES, arguments, words

QUESTION = "What is the capital of France?"
DELTAS, PACED = 500, 200
KEY = "none"

PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
DESCRIPTION = "Writes a text."
TOOL = {"type": "function", "function": {"name": "write", "description": DESCRIPTION, "parameters": PARAMETERS}}
"""The tool that is offered, as Chat Completions has it."""

EXPECTED = {
    "call": SENTENCE,
    "slow": SENTENCE,
    "burst": "".join(words(DELTAS)),
    "paced": "".join(words(PACED)),
    "calls": arguments(1_000) * 20,
    "long": arguments(20_000),
}
"""The text, or the arguments of all calls, by the shape that is asked for."""
EVENTS = {"call": 1, "slow": 1, "burst": DELTAS, "paced": PACED, "calls": 20, "long": 1}
"""What the time is divided by: deltas, or calls."""


class Client(Protocol):
    """A client under test. ``base`` is where the shape is served, without the API's own version."""

    async def call(self, base: str) -> str:
        """The answer's text."""
        ...

    async def stream(self, base: str, *, tools: bool) -> str:
        """What the deltas add up to: the text, or with tools the arguments of all calls."""
        ...


def model(wire: str) -> str:
    return WIRES[wire].model.partition(":")[2]


def chat_delta(delta: Any) -> str:
    """What an official object of a chat's delta adds."""
    called = "".join((call.function.arguments or "") for call in delta.tool_calls or ())
    return called or delta.content or ""
