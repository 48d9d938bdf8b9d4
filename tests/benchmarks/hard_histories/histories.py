"""The hard histories, in no library's types: each case script builds its own library's messages from them.

Each has one difficulty. Everything else that could trouble a target is left out: ids fit everywhere unless they are the
difficulty, and every result has a text of its own, so that calls and results can be told apart.
"""

import base64
import hashlib
from dataclasses import dataclass
from typing import Any

TOOLS: dict[str, str] = {"read_file": "path", "search": "query"}
"""The tools by name, each with its one parameter, a string."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool, and the tool's answer."""

    id: str
    name: str
    argument: str
    result: str

    @property
    def input(self) -> dict[str, Any]:
        return {TOOLS[self.name]: self.argument}


@dataclass(frozen=True, slots=True)
class Step:
    """One reply of the model, and the results of its calls. ``thinking`` comes with its ``signature`` or not at all."""

    text: str
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """The user's prompt, and all steps that follow; none yet for the last turn."""

    question: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """A conversation with ``model`` of ``issuer``, whose last question another model has to answer.

    ``targets`` are those that it is foreign to; empty means all.
    """

    name: str
    title: str
    issuer: str
    model: str
    turns: tuple[Turn, ...]
    targets: tuple[str, ...] = ()


def _long(seed: str, length: int) -> str:
    """An id of letters and digits, as made by gateways that store state in it."""
    digits = "".join(hashlib.sha256(f"{seed}/{part}".encode()).hexdigest() for part in range(length // 64 + 1))
    return ("call" + digits)[:length]


def _signature(seed: str) -> str:
    return base64.b64encode(hashlib.shake_256(seed.encode()).digest(96)).decode()


def _two_files(first: str, second: str, third: str) -> tuple[Turn, ...]:
    """Two calls at once, then one more in the next turn, with the three ids given."""
    return (
        Turn(
            "Which licence has this project?",
            (
                Step(
                    "I will look.",
                    (
                        Call(first, "read_file", "LICENSE", "The Apache License, version two."),
                        Call(second, "read_file", "pyproject.toml", "The field reads Apache-2.0."),
                    ),
                ),
                Step("It is Apache-2.0."),
            ),
        ),
        Turn(
            "And who wrote it?",
            (
                Step("Let me see.", (Call(third, "search", "author", "The author is Ada."),)),
                Step("Ada wrote it."),
            ),
        ),
        Turn("Thank you. Say it again in one sentence."),
    )


def _thinking(issuer: str) -> tuple[Turn, ...]:
    return (
        Turn(
            "Is the licence of this project free?",
            (
                Step(
                    "I will look.",
                    (Call("aB3dE5fG7", "read_file", "LICENSE", "The Apache License, version two."),),
                    thinking="The file LICENSE must tell.",
                    signature=_signature(f"{issuer}/1"),
                ),
                Step(
                    "Yes, it is free.",
                    thinking="Apache-2.0 is on the list of free licences.",
                    signature=_signature(f"{issuer}/2"),
                ),
            ),
        ),
        Turn("Thank you. Say it again in one sentence."),
    )


HISTORIES: tuple[History, ...] = (
    History(
        "foreign ids",
        "1. ids with foreign characters, such as `functions.read_file:0`",
        "openrouter",
        "moonshotai/kimi-k3",
        _two_files("functions.read_file:0", "functions.read_file:1", "functions.search:2"),
    ),
    History(
        "long ids",
        "2. ids of 80, 136 and 450 characters",
        "github-copilot",
        "gpt-5.4",
        _two_files(_long("a", 80), _long("b", 136), _long("c", 450)),
    ),
    History(
        "id again later",
        "3a. an id used again in a later turn",
        "openrouter",
        "mistralai/mistral-small",
        _two_files("aB3dE5fG7", "hJ9kL1mN3", "aB3dE5fG7"),
    ),
    History(
        "id twice in a turn",
        "3b. an id used twice in one turn",
        "openrouter",
        "mistralai/mistral-small",
        _two_files("aB3dE5fG7", "aB3dE5fG7", "hJ9kL1mN3"),
    ),
    History(
        "thinking of Anthropic",
        "4. signed thinking of another provider",
        "anthropic",
        "claude-opus-4-6",
        _thinking("anthropic"),
        ("responses", "chat", "gemini", "mistral"),
    ),
    History(
        "thinking of Google",
        "4. signed thinking of another provider",
        "google",
        "gemini-3-flash-preview",
        _thinking("google"),
        ("anthropic", "bedrock"),
    ),
)

TARGETS: dict[str, str] = {
    "anthropic": "claude-sonnet-4-6",
    "responses": "gpt-5.4",
    "chat": "gpt-4.1",
    "gemini": "gemini-3-flash-preview",
    "mistral": "mistral-large-latest",
    "bedrock": "us.anthropic.claude-sonnet-4-6",
}
"""The wires, each with its model."""


def cases() -> list[tuple[History, str]]:
    """Every history with every target that it is foreign to."""
    return [(each, target) for each in HISTORIES for target in TARGETS if not each.targets or target in each.targets]


def schema(tool: str) -> dict[str, Any]:
    """The tool's input as JSON Schema."""
    parameter = TOOLS[tool]
    return {
        "type": "object",
        "properties": {parameter: {"type": "string"}},
        "required": [parameter],
        "additionalProperties": False,
    }
