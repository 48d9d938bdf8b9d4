"""Globs against brute force, and their cost: `python -m tests.laws.policy.globs`, 1 if a pair differs.

The first table compares 50,000 random pairs with a matcher that tries every division of the text. The second counts
steps and takes the time of patterns on which backtracking would not end.
"""

import random
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from dragoman.canonical.glob import Glob

PAIRS = 50_000
LENGTH = 10_000
HARD = {
    "*a times 100, then b": "*a" * 100 + "b",
    "**a times 100, then b": "**a" * 100 + "b",
    "a, 100 stars, b": "a" + "*" * 100 + "b",
    "**/*a times 50, **": "**/*a" * 50 + "**",
    "** then a* times 100": "**" + "a*" * 100,
}


@cache
def match_by_brute_force(pattern: str, text: str) -> bool:
    """Every division of the text, one after the other."""
    if not pattern:
        return not text
    if pattern.startswith("**"):
        return any(match_by_brute_force(pattern[2:].lstrip("*"), text[length:]) for length in range(len(text) + 1))
    if pattern.startswith("*"):
        return any(
            match_by_brute_force(pattern[1:], text[length:])
            for length in range(len(text) + 1)
            if "/" not in text[:length]
        )
    return text[:1] == pattern[0] and match_by_brute_force(pattern[1:], text[1:])


class Comparison(NamedTuple):
    pairs: int
    matching: int
    wrong: list[tuple[str, str]]


def compare(pairs: int, seed: int) -> Comparison:
    """Over a small alphabet, with a newline, a dot, a parenthesis and a letter of two bytes, so that many match."""
    chance = random.Random(seed)
    matching, wrong = 0, []
    for _ in range(pairs):
        pattern = "".join(chance.choices("ab/*.\n(ä", weights=(3, 2, 2, 6, 1, 1, 1, 1), k=chance.randrange(9)))
        text = "".join(chance.choices("ab/.\n(ä", weights=(4, 3, 2, 1, 1, 1, 1), k=chance.randrange(9)))
        expected = match_by_brute_force(pattern, text)
        matching += expected
        if Glob(pattern).matches(text) != expected:
            wrong.append((pattern, text))
    return Comparison(pairs, matching, wrong)


class _Counted(str):
    """A text that counts how often its characters are read."""

    steps = 0

    def __iter__(self) -> Iterator[str]:
        for character in super().__iter__():
            self.steps += 1
            yield character


def steps(pattern: str, text: str) -> int:
    """How many characters a match reads, with repetitions."""
    counted = _Counted(text)
    Glob(pattern).matches(counted)
    return counted.steps


def _milliseconds(pattern: str, text: str) -> float:
    """The median of five, with a newly compiled pattern."""
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        Glob(pattern).matches(text)
        times.append(time.perf_counter() - begun)
    return sorted(times)[2] * 1_000


def main() -> int:
    count = compare(PAIRS, seed=2026)
    print("| random pairs | that match | that differ |\n| --- | --- | --- |")
    print(f"| {count.pairs:,} | {count.matching:,} | {len(count.wrong)} |\n")
    print(f"| pattern | steps for {LENGTH:,} characters | for {LENGTH * 10:,} | ms for {LENGTH:,} |")
    print("| --- | --- | --- | --- |")
    linear = True
    for name, pattern in HARD.items():
        short, long = steps(pattern, "a" * LENGTH), steps(pattern, "a" * LENGTH * 10)
        linear = linear and short <= LENGTH and long <= LENGTH * 10
        print(f"| {name} | {short:,} | {long:,} | {_milliseconds(pattern, 'a' * LENGTH):.1f} |")
    return 1 if count.wrong or not linear else 0


if __name__ == "__main__":
    sys.exit(main())
