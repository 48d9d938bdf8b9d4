"""Files that other libraries wrote, compared with what they say: `python -m tests.conformance.formats.library_files`.

The files and their manifest are in the folder of shared conversations (`FOLDER_VARIABLE`, or ``shared/conversations``
next to the checkout). A row is a library: how many of its files were detected and read as the manifest says. Each other
file that ``unreadable.toml`` explains is named with its reason; any other is a fault, named with the first difference.
"""

import argparse
import json
import logging
import os
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dragoman import DragomanError
from dragoman.formats.detection import detect, identify
from dragoman.formats.registry import read_file
from tests.conformance.formats.neutral_turns import Turn, differences, turns_of

FOLDER_VARIABLE = "DRAGOMAN_CONVERSATIONS"
_WITHOUT_CACHED = ("autogen",)
"""The libraries that store no count of tokens from a cache."""
_CHECKOUT_ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """``expected`` has the turns of each conversation in the file; ``absent`` says what the library did not store."""

    name: str
    library: str
    path: Path
    expected: tuple[tuple[str, list[Turn]], ...]
    absent: frozenset[str]


def conversations_folder() -> Path:
    """The folder of the files, which may be absent."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else _CHECKOUT_ROOT.parent / "shared" / "conversations"


@cache
def library_files() -> tuple[LibraryFile, ...]:
    manifest = json.loads((conversations_folder() / "manifest.json").read_text(encoding="utf-8"))
    return tuple(
        LibraryFile(
            row["file"],
            row["library"],
            conversations_folder() / row["file"],
            tuple(_conversations(manifest["expectations"][row["expected"]])),
            frozenset(row.get("not_in_file", ())),
        )
        for row in manifest["files"]
    )


def files_or_skip(*libraries: str) -> list[LibraryFile]:
    """The files of the libraries; skips the running test if the folder is absent."""
    if not conversations_folder().is_dir():
        pytest.skip(f"the folder of shared conversations is absent: {FOLDER_VARIABLE} names it")
    return [file for file in library_files() if file.library in libraries]


def _conversations(expected: Any) -> Iterator[tuple[str, list[Turn]]]:
    """Yield the turns of each conversation, with the prefix of its paths in ``not_in_file``."""
    if isinstance(expected, list):
        yield "", expected
    elif "rows" in expected:
        yield from ((f"rows[{index}].", turns) for index, turns in enumerate(expected["rows"]))
    else:
        yield from ((f"{name}.", turns) for name, turns in expected["conversations"].items())


@cache
def _reasons() -> dict[str, str]:
    found: dict[str, str] = tomllib.loads(Path(__file__).with_name("unreadable.toml").read_text(encoding="utf-8"))[
        "files"
    ]
    return found


def reason_for(file: LibraryFile) -> str | None:
    """Why nobody can read the file as its manifest says; None if somebody can."""
    return next((reason for name, reason in _reasons().items() if file.name.startswith(name)), None)


def fault_of(file: LibraryFile) -> str | None:
    """Return the first difference between a file and its manifest, or None."""
    found = detect(file.path.read_bytes())
    if found is None:
        found_kind = identify(file.path.read_bytes())
        return f"unknown, closest {found_kind.closest}: {found_kind.reason}"
    try:
        read = read_file(file.path, found).conversations
    except DragomanError as error:
        return f"read as {found}: {type(error).__name__}: {error}"
    expected = [(prefix, turns) for prefix, turns in file.expected if any(turn["role"] != "error" for turn in turns)]
    conversations = {conversation.name: conversation.messages for conversation in read}
    if len(conversations) != len(expected):
        return f"read as {found}: {len(conversations)} conversations, not {len(expected)}"
    for (prefix, turns), messages in zip(expected, conversations.values(), strict=True):
        absent = {path.removeprefix(prefix) for path in file.absent if path.startswith(prefix)}
        counted = file.library not in _WITHOUT_CACHED
        if (fault := next(differences(turns, turns_of(messages), absent, counts_cached=counted), None)) is not None:
            return f"read as {found}: {prefix}{fault}"
    return None


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.formats.library_files")
    parser.add_argument("libraries", nargs="*", help="all by default")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    rows: dict[str, list[str | None]] = defaultdict(list)
    unexplained = 0
    for file in library_files():
        if options.libraries and file.library not in options.libraries:
            continue
        fault = fault_of(file)
        rows[file.library].append(fault)
        if fault is not None:
            reason = reason_for(file)
            unexplained += reason is None
            print(f"{file.name}: {fault if reason is None else reason}")
    for library, faults in sorted(rows.items()):
        print(f"{library:20} {faults.count(None):4} of {len(faults):4}")
    total = [fault for faults in rows.values() for fault in faults]
    print(f"{'all':20} {total.count(None):4} of {len(total):4}")
    print(f"{unexplained} of the others without a reason")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
