"""Histories written for other libraries, and what these make of them: `python -m tests.conformance.formats.peers`.

Each recorded conversation, and each of other libraries' files and of the handwritten samples, is written for
pydantic-ai, LangChain, LiteLLM and simonw/llm. The library's own loader must accept it, its own copy must say the same,
and its adapter for the provider that spoke last must send it; a log of llm is continued by ``llm -c``. The server that
answers is on this machine. ``--install FOLDER`` installs the libraries; DRAGOMAN_PEERS names the folder for later runs.
"""

import argparse
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from dragoman import Message
from tests.conformance.formats.matrix import sample_conversations
from tests.conformance.formats.peers.environments import VARIABLE, install, libraries, peers_folder
from tests.conformance.formats.peers.report import check_peer, iterate_lines
from tests.conformance.formats.round_trips import SOURCES, conversations


def histories(most: int | None) -> Iterator[tuple[str, list[Message]]]:
    """Yield all histories, each name once; at most so many of each source."""
    found = [*sample_conversations(most)]
    found += [(f"{source} {name}", history) for source in SOURCES for name, history in conversations(source, most)]
    yield from ((f"{index} {name}", history) for index, (name, history) in enumerate(found))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.formats.peers", description=__doc__)
    parser.add_argument("--install", type=Path, metavar="FOLDER", help="install the libraries there first")
    parser.add_argument("--newest", action="store_true", help="install the newest releases")
    parser.add_argument("--most", type=int, help="of each source (default: all)")
    parser.add_argument("--show", type=int, default=20, help="how many faults to show")
    parser.add_argument("libraries", nargs="*", metavar="library", help=f"only these of {', '.join(libraries())}")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    if options.install is not None:
        install(options.install, newest=options.newest)
    folder = options.install or peers_folder()
    if folder is None:
        parser.error(f"name a folder with --install, or in {VARIABLE}")
    found = list(histories(options.most))
    rows = [check_peer(library, found, folder) for library in options.libraries or libraries()]
    for row in rows:
        sys.stdout.writelines(f"{line}\n" for line in iterate_lines(row))
    faults = [fault for row in rows for fault in row.faults]
    sys.stdout.writelines(f"{fault}\n" for fault in faults[: options.show])
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
