"""Random replies of a model, cut into pieces as a provider would send them."""

import json
import random
from itertools import pairwise
from typing import Any

from dragoman.testing.sample_reply import SampleCall, SampleReply
from dragoman.testing.strategies import TROUBLESOME_TEXTS

WORDS = TROUBLESOME_TEXTS

NAMES = ("rm", "get_weather", "add", "search")


def random_reply(seed: int) -> SampleReply:
    """A reply that depends on the seed alone: the same one in every process."""
    picker = random.Random(seed)
    number = picker.choice((0, 0, 1, 2))
    thinking = _speech(picker) if picker.random() < 0.4 else ()
    text = _speech(picker) if picker.random() < 0.8 or not number else ()
    return SampleReply(
        thinking,
        text,
        tuple(_call(picker, index) for index in range(number)),
        truncated=not number and picker.random() < 0.2,
        input_tokens=picker.randrange(1, 5000),
        cached_tokens=picker.choice((0, 0, 1024)),
        output_tokens=picker.randrange(1, 900),
    )


def _speech(picker: random.Random) -> tuple[str, ...]:
    return (
        "So",
        *("".join(picker.choices(WORDS, k=picker.randint(1, 3))) for _ in range(picker.randint(1, 2))),
        " end",
    )


def _call(picker: random.Random, index: int) -> SampleCall:
    given: dict[str, Any] = {
        "path": "/tmp/" + picker.choice(WORDS),
        "n": picker.choice((0, -1, 12345, 1.5, 2**53 + 1)),
        "deep": picker.choice(({}, [None], {"a": {"b": "é"}})),
    }
    written = json.dumps(given, ensure_ascii=picker.random() < 0.5)
    places = sorted(picker.sample(range(1, len(written)), 2))
    pieces = tuple(written[start:end] for start, end in pairwise([0, *places, len(written)]))
    return SampleCall(f"id{index}{picker.randrange(16**6):06x}", picker.choice(NAMES), given, pieces)
