"""The tables of the way back: ``python -m tests.conformance.way_back [provider ...] [--every N] [--show N]``."""

import argparse
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from tests.conformance.outcomes import Difference
from tests.conformance.way_back import clients, own_wire, pairs, turns
from tests.conformance.way_back.subjects import CLIENT_WIRES, Recorded, recorded_replies

EXPLAINED = {
    ".modelVersion": "the recorded reply names no model; the requested one stands in its place",
    ".status": "a word of a dialect that no client knows",
    ".candidates[].content": "a content without parts is the same as none",
}
"""Accepted differences of whole replies on their own wire, and why."""


class Outcome(Protocol):
    recorded: Recorded
    form: str
    differences: list[Difference]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the laws of the own wires, the pairs, and the second turns. Returns 1 if a difference is unexplained."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.way_back", description=__doc__)
    parser.add_argument("provider", nargs="*", help=f"recorded providers: {', '.join(pairs.PROVIDERS)}")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take one reply in N (default 1)")
    parser.add_argument("--show", type=int, default=2, metavar="N", help="examples of each difference (default 2)")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    providers = tuple(options.provider) or pairs.PROVIDERS
    print(f"clients: the SDKs of Anthropic, OpenAI, Ollama{' and Google' if clients.HAS_GOOGLE else ''}")
    found: dict[str, dict[tuple[str, str], Counter[str]]] = {"own wire": {}, "pairs": {}, "second turns": {}}
    faults: dict[tuple[str, ...], list[str]] = {}
    for provider in providers:
        for recorded in recorded_replies(provider, 0, options.every):
            if provider in own_wire.OWN_WIRES:
                for own in own_wire.compare(recorded):
                    _count(found["own wire"], provider, own.form, own, faults, ("own wire", provider, own.form))
            for wire in CLIENT_WIRES:
                for pair in pairs.compare(recorded, wire):
                    where = ("pairs", provider, wire, pair.form)
                    _count(found["pairs"], provider, f"{wire} {pair.form}", pair, faults, where)
                for turn in turns.compare(recorded, wire):
                    where = ("second turns", provider, wire, turn.form)
                    _count(found["second turns"], provider, f"{wire} {turn.form}", turn, faults, where)
    for title, table in found.items():
        _print_table(title, table)
    unexplained = 0
    for where, examples in faults.items():
        why = EXPLAINED.get(where[-1], "")
        unexplained += not why
        print(f"{' / '.join(where)}: {len(examples)}{f' ({why})' if why else ''}")
        for example in examples[: options.show]:
            print(f"    {example}")
    return 1 if unexplained else 0


def _count(
    table: dict[tuple[str, str], Counter[str]],
    provider: str,
    column: str,
    outcome: Outcome,
    faults: dict[tuple[str, ...], list[str]],
    where: tuple[str, ...],
) -> None:
    table.setdefault((provider, column), Counter())["equal" if not outcome.differences else "differ"] += 1
    for difference in outcome.differences:
        faults.setdefault((*where, difference.what), []).append(
            f"{outcome.recorded.exchange.id} {difference.detail[:160]}"
        )


def _print_table(title: str, table: dict[tuple[str, str], Counter[str]]) -> None:
    rows = list(dict.fromkeys(provider for provider, _ in table))
    columns = list(dict.fromkeys(column for _, column in table))
    if not rows:
        return
    print(f"\n| {title}: equal of all | {' | '.join(columns)} |\n| --- |{' ---: |' * len(columns)}")
    for row in rows:
        cells = []
        for column in columns:
            counts = table.get((row, column), Counter())
            cells.append(f"{counts['equal']} of {counts.total()}" if counts else "")
        print(f"| {row} | {' | '.join(cells)} |")
    equal = sum(counts["equal"] for counts in table.values())
    total = sum(counts.total() for counts in table.values())
    print(f"all: {equal} of {total}, {equal / total:.2%}")
