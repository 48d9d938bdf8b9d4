"""The ledger of the id laws: `python -m tests.laws.projection.tool_ids`, ten thousand sets of tool ids by every
declared rule.

A set has the issuer and the id of each call of a session. Ids repeat, are empty or over-long, hold any Unicode, and
become equal if each illegal character is replaced by the same legal one. For every target that each set is tried with,
a row counts the sets that break a law. All sets are sent again by two other processes, with other hash seeds.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from dragoman.adapter.facts.capabilities import ToolIdRule
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.ids import format_ulid
from tests.conformance.swaps.histories import TARGETS
from tests.laws.projection.sources import ODD_IDS, SOURCES
from tests.laws.projection.targets import RULES

IdSet = list[tuple[str, str]]
"""Issuers and their ids, in the order of the calls."""

DEFAULT = 10_000
_MOST = 12
_SEEDS = ("1", "2")
_FORMS = tuple(form for source in SOURCES.values() for form in source.ids)
_BY_UPSTREAM = ("openrouter:mistralai/mistral-large", "openrouter:openai/gpt-5.2", "bedrock:us.amazon.nova-2-lite-v1:0")
"""Models whose rule differs from their adapter's usual one."""


def declared_rules() -> dict[str, ToolIdRule]:
    """The rule of each adapter, and of models with one of their own."""
    models = (*TARGETS.values(), *_BY_UPSTREAM)
    return {model: get_adapter(model).capabilities.tool_id_rule for model in models}


def all_rules() -> dict[str, ToolIdRule]:
    """The rules that adapters declare, and the extremes that the laws add, by owner."""
    return {**RULES, **declared_rules()}


def id_sets(number: int, seed: int) -> Iterator[tuple[IdSet, IdSet]]:
    """``number`` sets, each with the calls that come after a restart."""
    dice = random.Random(seed)
    issuers = sorted(all_rules())

    def native() -> str:
        match dice.randrange(6):
            case 0 | 1:
                return dice.choice(ODD_IDS)
            case 2 | 3:
                return dice.choice(_FORMS).format(dice.randrange(3))
            case 4:
                return "".join(
                    chr(dice.choice((*range(32, 127), 0xE9, 0x20AC, 0x1F600))) for _ in range(dice.randrange(9))
                )
            case _:
                return "x" * dice.randrange(36, 600) + str(dice.randrange(3))

    def draw() -> IdSet:
        few = dice.sample(issuers, 3)
        return [(dice.choice(few), native()) for _ in range(dice.randrange(1, _MOST))]

    for _ in range(number):
        yield draw(), draw()


def issue_ids(issued: IdSet) -> tuple[ToolIdMap, list[str]]:
    """The id map of a session, and our ids for its calls."""
    numbers = count(1)
    ids = ToolIdMap(lambda: f"tu_{format_ulid(next(numbers))}")
    return ids, [ids.receive(issuer, native) for issuer, native in issued]


def broken_law(issued: IdSet, later: IdSet, target: str, rule: ToolIdRule) -> str | None:
    """The law that a set breaks on a target; None if all hold."""
    ids, canonical = issue_ids(issued)
    sent = {one: ids.id_for(one, target, rule) for one in canonical}
    if len(sent) != len(issued) or len(set(sent.values())) != len(issued):
        return "two calls share an id"
    returned: set[str] = set()
    for (issuer, native), one in zip(issued, canonical, strict=True):
        if issuer == target and native and native not in returned:
            returned.add(native)
            if sent[one] != native:
                return "an issuer does not get its own id back"
        elif not rule.accepts(sent[one]):
            return f"an id that the rule refuses: {sent[one]!r}"
    numbers = count(len(issued) + 1)
    restored = ToolIdMap.load(json.loads(json.dumps(ids.dump())), lambda: f"tu_{format_ulid(next(numbers))}")
    new = [restored.receive(issuer, native) for issuer, native in later]
    fresh = {restored.id_for(one, target, rule) for one in new}
    if len(fresh) != len(new) or not fresh.isdisjoint(sent.values()):
        return "a later call gets an id that is taken"
    if any(restored.id_for(one, target, rule) != wire for one, wire in sent.items()):
        return "an id changed after a restart and further calls"
    return None


def digest(sets: Sequence[tuple[IdSet, IdSet]], rules: Mapping[str, ToolIdRule]) -> str:
    """A digest of all ids that are sent for the sets, by every rule."""
    digest_so_far = hashlib.sha256()
    for issued, _ in sets:
        for target, rule in rules.items():
            ids, canonical = issue_ids(issued)
            digest_so_far.update(json.dumps([ids.id_for(one, target, rule) for one in canonical]).encode())
    return digest_so_far.hexdigest()


PROGRAM = """
import sys
from tests.laws.projection.tool_ids import all_rules, digest, id_sets
print(digest(list(id_sets(int(sys.argv[1]), int(sys.argv[2]))), all_rules()))
"""


def digests_of_other_processes(number: int, seed: int) -> Iterator[str]:
    """The digests of two other processes, with other hash seeds."""
    for each in _SEEDS:
        command = [sys.executable, "-c", PROGRAM, str(number), str(seed)]
        environment = {**os.environ, "PYTHONHASHSEED": each}
        yield subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """The exit status: 1 if a law is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.laws.projection.tool_ids", description=__doc__)
    parser.add_argument("--sets", type=int, default=DEFAULT, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="other sets")
    chosen = parser.parse_args()
    sets, rules = list(id_sets(chosen.sets, chosen.seed)), all_rules()
    sys.stdout.write(f"{'rule of':<56}{'sets':>8}{'calls':>8}{'broken':>8}\n")
    shown: list[str] = []
    calls = sum(len(issued) + len(later) for issued, later in sets)
    for target, rule in rules.items():
        found = [fault for issued, later in sets if (fault := broken_law(issued, later, target, rule))]
        shown += [f"{target}: {fault}" for fault in found[:3]]
        sys.stdout.write(f"{target:<56}{len(sets):>8}{calls:>8}{len(found):>8}\n")
    here = digest(sets, rules)
    others = list(digests_of_other_processes(chosen.sets, chosen.seed))
    alike = sum(each == here for each in others)
    sys.stdout.write(f"{alike} of {len(others)} other processes made the same ids\n")
    sys.stdout.writelines(f"{line}\n" for line in shown)
    return 1 if shown or alike < len(others) else 0


if __name__ == "__main__":
    sys.exit(main())
