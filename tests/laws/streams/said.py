"""Replies out of nothing: what a model may say, cut into pieces as a provider would send them."""

import json
import random
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

WORDS = (
    "Hello", " world", ".", "\n\n", " é", " 你好", " 😀", "\u2028", "\u0085", "\u2029", ' "quoted"', " \\back", "\t",
    " data: x", " event: y", "\r\n", " {", " }", " [DONE]", " 42", "\ufeff", "\x1e", " null",
)  # fmt: skip
"""What streams have been broken by: characters of several bytes, line separators, text that looks like framing."""

NAMES = ("rm", "get_weather", "add", "search")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; ``pieces`` join to the JSON text of ``input``."""

    id: str
    name: str
    input: dict[str, Any]
    pieces: tuple[str, ...]

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


_RM = Call("id0", "rm", {"path": "/tmp/é"}, ('{"path": "/t', 'mp/é"}'))


@dataclass(frozen=True, slots=True)
class Said:
    """A reply: thinking, then text, then calls, each of which may be missing. Counts are tokens."""

    thinking: tuple[str, ...]
    text: tuple[str, ...]
    calls: tuple[Call, ...]
    cut: bool
    """Whether the model ran into its limit."""
    input_tokens: int
    cached_tokens: int
    output_tokens: int


def handwritten_reply(seed: int, *, calls: int | None = None) -> Said:
    """A reply, by the seed: the same one in every process."""
    picker = random.Random(seed)
    number = picker.choice((0, 0, 1, 2)) if calls is None else calls
    thinking = _speech(picker) if picker.random() < 0.4 else ()
    text = _speech(picker) if picker.random() < 0.8 or not number else ()
    return Said(
        thinking,
        text,
        tuple(_call(picker, index) for index in range(number)),
        cut=not number and picker.random() < 0.2,
        input_tokens=picker.randrange(1, 5000),
        cached_tokens=picker.choice((0, 0, 1024)),
        output_tokens=picker.randrange(1, 900),
    )


def handwritten_short() -> Said:
    """A bit of everything: two calls, one of them without arguments."""
    return Said(("So",), ("\u2028 is", " it 😀"), (_RM, Call("id1", "stop", {}, ("{}",))), False, 20, 0, 9)


def handwritten_shortest() -> Said:
    """The least that can be cut into half a character and half a call."""
    return Said((), ("\u2028 😀",), (_RM,), False, 20, 0, 9)


def _speech(picker: random.Random) -> tuple[str, ...]:
    return (
        "So",
        *("".join(picker.choices(WORDS, k=picker.randint(1, 3))) for _ in range(picker.randint(1, 2))),
        " end",
    )


def _call(picker: random.Random, index: int) -> Call:
    given: dict[str, Any] = {
        "path": "/tmp/" + picker.choice(WORDS),
        "n": picker.choice((0, -1, 12345, 1.5, 2**53 + 1)),
        "deep": picker.choice(({}, [None], {"a": {"b": "é"}})),
    }
    written = json.dumps(given, ensure_ascii=picker.random() < 0.5)
    places = sorted(picker.sample(range(1, len(written)), 2))
    pieces = tuple(written[start:end] for start, end in pairwise([0, *places, len(written)]))
    return Call(f"id{index}{picker.randrange(16**6):06x}", picker.choice(NAMES), given, pieces)
