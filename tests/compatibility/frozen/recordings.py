"""The digests over all recorded exchanges: `python -m tests.compatibility.frozen.recordings` prints the cells that
differ.

A cell is one recorded provider and one thing that is read from its exchanges or made from them, such as the requests to
one target; see `exchange_parts`. The command exits with 1 if a cell differs. `--write` accepts the current ones.

To find out which exchange differs between two trees, run `--exchanges FILE` in each and compare the files: they hold a
digest for each part. `--show ID` prints the parts of one exchange.
"""

import argparse
import json
import logging
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from tests.compatibility.frozen.exchange_parts import parts
from tests.conformance.scope import ADAPTERS, skip_reason
from tests.exchanges import RecordedExchange, load

FILE = Path(__file__).with_suffix(".json")
COMMAND = f"uv run python -m {__spec__.name}"
PROVIDERS = tuple(ADAPTERS)
SAMPLE, WHOLE = "sample", "whole"
EVERY = {SAMPLE: 20, WHOLE: 1}
"""By section of the file: it covers every twentieth exchange, or every one. Error replies are always covered."""

_DIGITS = 16
"""Hexadecimal digits of a cell's SHA-256 that are kept."""

Digests = dict[str, list[tuple[str, str]]]
"""The cell and the digest of each part of an exchange, by the exchange's id."""
Cells = dict[str, str]
"""The number of parts and their digest, by provider and name of the cell."""


def select_exchanges(provider: str, every: int = 1) -> list[RecordedExchange]:
    """The exchanges that the provider's adapter can read: one in ``every``, and all error replies."""
    readable = [exchange for exchange in load(provider) if skip_reason(exchange) is None]
    return [exchange for place, exchange in enumerate(readable) if place % every == 0 or exchange.status >= 400]


def digests(provider: str, every: int = 1) -> Digests:
    """The digests of each exchange. Raises FileNotFoundError if there are no recordings."""
    with _quiet():
        return {
            exchange.id: [(cell, sha256(part).hexdigest()) for cell, part in parts(exchange)]
            for exchange in select_exchanges(provider, every)
        }


def cells(provider: str, found: Digests) -> Cells:
    """The digests of a provider's cells, from those of its exchanges."""
    lines: dict[str, list[str]] = defaultdict(list)
    for name, exchange in found.items():
        for cell, digest in exchange:
            lines[cell].append(f"{name} {digest}\n")
    return {
        f"{provider}: {cell}": f"{len(each)} {sha256(''.join(each).encode()).hexdigest()[:_DIGITS]}"
        for cell, each in lines.items()
    }


def read(section: str, providers: Iterable[str] = PROVIDERS) -> Cells:
    """The kept cells of these providers."""
    kept: Cells = json.loads(FILE.read_bytes())[section]
    return {name: value for name, value in kept.items() if name.partition(":")[0] in providers}


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The cells that differ, with the number of parts and the digest before and now."""
    return [
        f"{name}: {before.get(name, 'nothing')} -> {now.get(name, 'nothing')}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]


@contextmanager
def _quiet() -> Iterator[None]:
    """Losses and unknown events are expected here."""
    logger = logging.getLogger("dragoman")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("providers", nargs="*", metavar="provider", help=f"only these of {', '.join(PROVIDERS)}")
    parser.add_argument("--write", action="store_true", help="keep these digests from now on")
    parser.add_argument("--exchanges", type=Path, metavar="FILE", help="write the digest of each part to a file")
    parser.add_argument("--show", metavar="ID", help="print the parts of one exchange, and compare nothing")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    providers = given.providers or PROVIDERS
    if unknown := set(providers) - set(PROVIDERS):
        parser.error(f"no such provider: {', '.join(sorted(unknown))}")
    if given.show is not None:
        return _show(given.show, providers)
    with ProcessPoolExecutor(given.jobs) as pool:
        found = dict(zip(providers, pool.map(digests, providers), strict=True))
    if given.exchanges is not None:
        given.exchanges.write_text("".join(_lines(found)), encoding="utf-8")
    now = {section: _section(found, every) for section, every in EVERY.items()}
    if given.write:
        _write(now, providers)
        return 0
    different = differences(read(WHOLE, providers), now[WHOLE])
    sys.stdout.writelines(f"{line}\n" for line in different or ["nothing differs"])
    return 1 if different else 0


def _lines(found: Mapping[str, Digests]) -> Iterator[str]:
    for provider, exchanges in found.items():
        for name, exchange in exchanges.items():
            yield from (f"{provider} {name} {digest} {cell}\n" for cell, digest in exchange)


def _section(found: Mapping[str, Digests], every: int) -> Cells:
    section: Cells = {}
    for provider, exchanges in found.items():
        section |= cells(provider, {each.id: exchanges[each.id] for each in select_exchanges(provider, every)})
    return section


def _write(now: Mapping[str, Cells], providers: Sequence[str]) -> None:
    others = [provider for provider in PROVIDERS if provider not in providers]
    kept = {section: read(section, others) | found for section, found in now.items()} if FILE.exists() else now
    FILE.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    sys.stdout.write(f"{FILE.name}: {len(kept[WHOLE])} cells\n")


def _show(wanted: str, providers: Iterable[str]) -> int:
    for exchange in (each for provider in providers for each in select_exchanges(provider) if each.id == wanted):
        with _quiet():
            sys.stdout.writelines(
                f"{cell} {part.decode(errors='backslashreplace')}\n" for cell, part in parts(exchange)
            )
        return 0
    sys.stderr.write(f"no exchange has the id {wanted}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
