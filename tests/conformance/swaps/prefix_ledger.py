"""The ledger of the prefix law: `python -m tests.conformance.swaps.prefix_ledger`, every conversation on every wire.

All recorded conversations, and the number of generated ones in ``--generated``, are sent to each target prefix by
prefix, with one context that grows as a session's does. Each request must start with the one before it, as `prefix_law`
defines, and have the same bytes as with a fresh context. A sample of the conversations is sent by two other processes
as well, with other hash seeds. A row is a target: its conversations, their steps (requests that follow another one of
the same conversation), the steps that break the law, and the requests whose bytes depend on anything but the history.
"""

import argparse
import hashlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace

from dragoman import AdapterOptions, RequestContext, ToolDefinition
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.message import read_message, write_message
from tests.conformance.swaps.histories import (
    TARGETS,
    History,
    generated_histories,
    recorded_histories,
    recorded_messages,
)
from tests.conformance.swaps.prefix_law import RequestParts, prefix_fault, prefixes, split_request
from tests.exchanges import exchanges_folder

DEFAULT = 10_000
SAMPLE = 12
"""One of this many generated conversations is sent by other processes too."""
_SEEDS = ("1", "2")


@dataclass(slots=True)
class PrefixRow:
    """One target. ``differing`` counts requests whose bytes differ in a fresh context or another process."""

    target: str
    conversations: int = 0
    steps: int = 0
    broken: int = 0
    differing: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, other: "PrefixRow") -> None:
        self.conversations += other.conversations
        self.steps += other.steps
        self.broken += other.broken
        self.differing += other.differing
        self.shown += other.shown


def encode_request(
    history: History, target: str, context: RequestContext | None = None, end: int | None = None
) -> bytes:
    """The request of a prefix of a history; in a fresh context by default."""
    options = replace(history.options, context=context)
    return get_adapter(TARGETS[target]).to_wire(history.messages[:end], history.tools, options).body


def check_growth(history: History, target: str, row: PrefixRow) -> None:
    """Counts the results of one conversation on one target."""
    row.conversations += 1
    context = RequestContext(model=TARGETS[target])
    before: RequestParts | None = None
    for beginning in prefixes(history.messages):
        end = len(beginning)
        body = encode_request(history, target, context, end)
        if body != encode_request(history, target, None, end):
            row.differing += 1
            row.shown.append(f"{target} {history.name}[:{end}]: not the bytes of a fresh context")
        now = split_request(body)
        if before is not None:
            row.steps += 1
            if fault := prefix_fault(before, now):
                row.broken += 1
                row.shown.append(f"{target} {history.name}[:{end}]: {fault}")
        before = now


def conversations(source: str, count: int, number: int = 0) -> tuple[list[History], list[History]]:
    """The recorded conversations of a source, and ``count`` generated ones."""
    has_recordings = (exchanges_folder() / f"{source}.jsonl.gz").is_file()
    recorded_ones = list(recorded_histories(source, prefixes=False)) if has_recordings else []
    mixed = recorded_messages(source) if has_recordings else ()
    return recorded_ones, generated_histories(source, count, number=number, mixed=mixed) if count else []


def check_source(source: str, count: int, number: int, targets: Sequence[str]) -> list[PrefixRow]:
    """One source on all targets, in one process, so that its conversations are generated once."""
    logging.getLogger("dragoman").setLevel(logging.CRITICAL)  # losses are expected here
    recorded_ones, generated_ones = conversations(source, count, number)
    found = [PrefixRow(target) for target in targets]
    for row in found:
        for history in (*recorded_ones, *generated_ones):
            check_growth(history, row.target, row)
    compare_processes(generated_ones[::SAMPLE], found)
    return found


PROGRAM = """
import json, logging, sys
from tests.conformance.swaps.prefix_ledger import digests, read
logging.getLogger("dragoman").setLevel(logging.CRITICAL)
given = json.load(sys.stdin)
print(json.dumps(digests([read(each) for each in given["histories"]], given["targets"])))
"""


def compare_processes(histories: Sequence[History], found: Iterable[PrefixRow]) -> None:
    """Has two other processes send the histories, and counts the requests whose bytes differ."""
    by_target = {row.target: row for row in found}
    here = digests(histories, list(by_target))
    sent = json.dumps({"histories": [write(history) for history in histories], "targets": list(by_target)})
    for number in _SEEDS:
        environment = {**os.environ, "PYTHONHASHSEED": number}
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, input=sent, env=environment, capture_output=True, text=True, check=True)
        for target, theirs in json.loads(done.stdout).items():
            for history, one, other in zip(histories, here[target], theirs, strict=True):
                if one != other:
                    by_target[target].differing += 1
                    by_target[target].shown.append(f"{target} {history.name}: other bytes with the hash seed {number}")


def digests(histories: Sequence[History], targets: Sequence[str]) -> dict[str, list[str]]:
    """A digest of each history's request, by target."""
    return {
        target: [hashlib.sha256(encode_request(history, target)).hexdigest() for history in histories]
        for target in targets
    }


def write(history: History) -> dict[str, object]:
    """A generated history as JSON. Its options are the defaults."""
    return {
        "name": history.name,
        "issuer": history.issuer,
        "messages": [write_message(message).decode() for message in history.messages],
        "tools": [tool.model_dump(mode="json") for tool in history.tools],
    }


def read(given: dict[str, list[str]]) -> History:
    tools = [ToolDefinition.model_validate(tool) for tool in given["tools"]]
    messages = [read_message(message) for message in given["messages"]]
    return History(str(given["name"]), str(given["issuer"]), messages, tools, AdapterOptions())


def format_table(found: Sequence[PrefixRow]) -> Iterator[str]:
    yield f"{'target':<22}{'conversations':>14}{'steps':>10}{'broken':>8}{'differing':>10}"
    total = PrefixRow("all")
    for row in found:
        total.add(row)
    for row in (*found, total):
        yield f"{row.target:<22}{row.conversations:>14}{row.steps:>10}{row.broken:>8}{row.differing:>10}"


def main() -> int:
    """The exit status: 1 if the law is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.swaps.prefix_ledger", description=__doc__)
    parser.add_argument("--generated", type=int, default=DEFAULT, help="how many conversations, of all sources")
    parser.add_argument("--seed", type=int, default=0, help="other generated conversations")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--show", type=int, default=20, help="how many faults to show")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only these targets")
    chosen = parser.parse_args()
    started = time.monotonic()
    targets = chosen.target or list(TARGETS)
    each = -(-chosen.generated // len(TARGETS))
    ledger = {target: PrefixRow(target) for target in targets}
    with ProcessPoolExecutor(chosen.jobs) as pool:
        waiting = {source: pool.submit(check_source, source, each, chosen.seed, targets) for source in TARGETS}
        for source, done in waiting.items():
            for row in done.result():
                ledger[row.target].add(row)
            sys.stderr.write(f"{time.monotonic() - started:7.0f} s  {source}\n")
    shown = [line[:500] for row in ledger.values() for line in row.shown]
    sys.stdout.write("\n".join([*format_table(list(ledger.values())), *shown[: chosen.show]]) + "\n")
    return 1 if shown else 0


if __name__ == "__main__":
    sys.exit(main())
