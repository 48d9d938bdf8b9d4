"""The formats side by side: `python -m tests.conformance.formats.matrix`.

A row is a format: whether it is read and written, whether the library or client that owns it accepts what is written,
and the kinds of losses that are named. Conversations are those of handwritten samples, and of other libraries' files if
their folder is present. A validator whose library is not installed is named, and does not count: ``--install FOLDER``
installs those of `tests.conformance.formats.peers`, which also send what they accept.
"""

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from dragoman import Message
from dragoman.formats.registry import FORMATS, read
from tests.conformance.formats.peers.environments import install, interpreter, libraries, peers_folder
from tests.conformance.formats.peers.report import check_peer
from tests.conformance.formats.round_trips import FORMATS as WRITTEN
from tests.conformance.formats.round_trips import (
    LIBRARY_FILES,
    NATIVE,
    FormatRow,
    check_conversation,
    conversations,
    writer_for,
)
from tests.unit.formats.documents import everything
from tests.unit.formats.importers.framework_samples import FRAMEWORK_SAMPLES, TEXT_SAMPLES
from tests.unit.formats.importers.samples import SAMPLES

Validate = Callable[[Any], object]


@cache
def _list_of(kind: Any) -> TypeAdapter[list[Any]]:
    """Return the check of a list; to make one takes longer than all its uses."""
    return TypeAdapter(list[kind])


def _openai_chat(data: Any) -> object:
    from openai.types.chat import ChatCompletionMessageParam

    return _list_of(ChatCompletionMessageParam).validate_python(data)


def _openai(data: Any) -> object:
    from openai.types.responses import ResponseInputItemParam

    items = data["input"] if isinstance(data, dict) else data
    # The API takes reasoning without an id, as encrypted content of a response that is not stored; the type has one.
    named = [{"id": "", **item} if item.get("type") == "reasoning" else item for item in items]
    return _list_of(ResponseInputItemParam).validate_python(named)


def _anthropic(data: Any) -> object:
    from anthropic.types import MessageParam

    return _list_of(MessageParam).validate_python(data["messages"] if isinstance(data, dict) else data)


def _google(data: Any) -> object:
    from google.genai.types import Content

    return [Content.model_validate(each) for each in (data["contents"] if isinstance(data, dict) else data)]


def _ollama(data: Any) -> object:
    from ollama import Message as OllamaMessage

    return [OllamaMessage.model_validate(each) for each in data]


VALIDATORS: dict[str, tuple[str, Validate]] = {
    "openai-chat": ("openai", _openai_chat),
    "openai": ("openai", _openai),
    "anthropic": ("anthropic", _anthropic),
    "google": ("google.genai", _google),
    "ollama": ("ollama", _ollama),
}
"""The SDK of the provider that owns a format, and its own check."""


@dataclass(slots=True)
class MatrixRow:
    """One format. ``accepted`` is None if the validator is not installed, or there is none."""

    name: str
    is_read: bool
    trips: FormatRow
    validator: str = "none"
    accepted: int | None = None
    refused: list[str] = field(default_factory=list)

    @property
    def losses(self) -> Counter[str]:
        return self.trips.losses


def sample_conversations(most: int | None = None) -> Iterator[tuple[str, list[Message]]]:
    """Yield the conversations of all samples, and at most so many of library files."""
    yield "everything", everything()
    for name, (format_name, document) in {**SAMPLES, **FRAMEWORK_SAMPLES, **TEXT_SAMPLES}.items():
        yield from ((f"{name} {each.name}", each.messages) for each in read(document, format_name).conversations)
    yield from islice(conversations(LIBRARY_FILES, None), most)


def build_matrix(found: list[tuple[str, list[Message]]], peers: Path | None = None) -> list[MatrixRow]:
    """Return a row for each format, those that are written first. ``peers`` has the environments of libraries."""
    rows = []
    for name in WRITTEN:
        row = MatrixRow(name, is_read=True, trips=FormatRow(name))
        module, validate = VALIDATORS.get(name, ("", None))
        if validate is not None:
            row.validator = module if _is_installed(module) else f"{module} (not installed)"
            row.accepted = 0 if _is_installed(module) else None
        for title, history in found:
            check_conversation(row.trips, title, history)
            if row.accepted is not None and validate is not None:
                _validate(row, validate, title, history)
        if name in libraries():
            _ask_library(row, found, peers)
        rows.append(row)
    others = [name for name in FORMATS if name not in WRITTEN]
    return [*rows, *(MatrixRow(name, is_read=True, trips=FormatRow(name)) for name in others)]


def _ask_library(row: MatrixRow, found: list[tuple[str, list[Message]]], folder: Path | None) -> None:
    if folder is None or interpreter(row.name, folder) is None:
        row.validator = f"{row.name} (not installed)"
        return
    peer = check_peer(row.name, [(f"{index} {name}", history) for index, (name, history) in enumerate(found)], folder)
    row.validator, row.accepted, row.refused = f"{row.name} (sends {peer.sent})", peer.accepted, peer.faults


def _validate(row: MatrixRow, validate: Validate, title: str, history: list[Message]) -> None:
    data = writer_for(row.name)(history).data
    try:
        validate(data if isinstance(data, bytes) else json.loads(json.dumps(data)))
    except Exception as error:  # each library has its own
        row.refused.append(f"{title}: {type(error).__name__}: {str(error)[:300]}")
    else:
        assert row.accepted is not None
        row.accepted += 1


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _print(rows: list[MatrixRow]) -> None:
    print("| format | read by | written by | accepted | validator | changes without a loss | kinds of losses |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        is_native = row.name in NATIVE
        name = "umf" if row.name == "umf-openai" else row.name
        reader = f"from_native({name!r})" if is_native else f"read(..., {name!r})"
        writer = f"to_native({name!r})" if is_native else f"convert --to {name}" if row.trips.tried else ""
        accepted = "" if row.accepted is None else f"{row.accepted} of {row.trips.tried}"
        unnamed = f"{row.trips.unnamed} of {row.trips.tried}" if row.trips.tried else ""
        kinds = ", ".join(sorted({loss.partition(" ")[0] for loss in row.losses}))
        print(f"| {row.name} | {reader} | {writer} | {accepted} | {row.validator} | {unnamed} | {kinds} |")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.formats.matrix")
    parser.add_argument("--most", type=int, help="of library files (default: all)")
    parser.add_argument("--install", type=Path, metavar="FOLDER", help="install the libraries there first")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    if options.install is not None:
        install(options.install)
    rows = build_matrix(list(sample_conversations(options.most)), options.install or peers_folder())
    _print(rows)
    faults = [f"{row.name}: {fault}" for row in rows for fault in (*row.trips.faults, *row.refused)]
    for fault in faults[:40]:
        print(fault, file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
