"""All formats by name: reader, writer, and a description for people."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.registry import providers
from dragoman.canonical.message import Message
from dragoman.formats.acp.convert import from_acp, to_acp
from dragoman.formats.body.convert import from_message_body, to_message_body
from dragoman.formats.chatml import from_chatml, to_chatml
from dragoman.formats.cmf.convert import from_cmf, to_cmf
from dragoman.formats.conversion import Conversion
from dragoman.formats.document import decode_text
from dragoman.formats.errors import FormatError
from dragoman.formats.importers import (
    Conversation,
    from_cassette,
    from_langchain,
    from_litellm,
    from_llm_logs,
    from_pydantic_ai,
)
from dragoman.formats.labels import read_sidecar
from dragoman.formats.native import from_native, to_native
from dragoman.formats.own_messages import from_messages, to_messages
from dragoman.formats.umf.convert import from_umf, to_umf
from dragoman.formats.umf.events import from_umf_events

_PIECE_ENTRIES = 1024

Reader = Callable[[Any, str | None], list[Message]]
Writer = Callable[[Sequence[Message], str | None], Conversion[Any]]


@dataclass(frozen=True, slots=True)
class Format:
    """``read`` and ``write`` take the model of a provider's list. None: the format can only be read, or only be
    written.

    ``read_many`` reads a source with several conversations, from the path of its file.
    """

    name: str
    description: str
    read: Reader | None = None
    write: Writer | None = None
    read_many: Callable[[Path], list[Conversation]] | None = None
    suffix: str = ".json"


def _write_body(history: Sequence[Message], model: str | None) -> Conversion[Any]:
    if len(history) != 1:
        raise ConfigurationError(f"a message body holds one message, not {len(history)}: use acp")
    written = to_message_body(history[0])
    return Conversion(written.data.as_json(), written.losses, written.labels)


def _build_formats() -> dict[str, Format]:
    found = (
        Format("messages", "Dragoman's own messages", lambda data, _: from_messages(data),
              lambda history, _: to_messages(history)),
        Format("session", "a session of Dragoman, as Session.dump writes it", lambda data, _: from_messages(data)),
        Format("cmf", "CMF 2.0, with its extensions", lambda data, _: from_cmf(data),
              lambda history, _: to_cmf(history)),
        Format("umf", "UMF", lambda data, _: from_umf(data), lambda history, _: to_umf(history)),
        Format("umf-events", "UMF's event log", lambda data, _: from_umf_events(data), suffix=".jsonl"),
        Format("chatml", "ChatML as one text", lambda data, _: from_chatml(decode_text(data)),
              lambda history, _: to_chatml(history), suffix=".chatml"),
        Format("acp", "messages of ACP, in its final version", lambda data, _: from_acp(data),
              lambda history, _: to_acp(history)),
        Format("message-body", "ACP's message body: one message", lambda data, _: [from_message_body(data)],
        _write_body),
        Format("pydantic-ai", "pydantic-ai's message history", lambda data, _: from_pydantic_ai(data)),
        Format("langchain", "dumps of LangChain's messages", lambda data, _: from_langchain(data)),
        Format("litellm", "LiteLLM's message lists and replies", lambda data, model: from_litellm(data, model=model)),
        Format("llm", "the log of simonw/llm, a SQLite file", read_many=from_llm_logs),
        Format("vcr", "vcrpy's cassettes", read_many=lambda path: from_cassette(path.read_bytes())),
    )  # fmt: skip
    return {entry.name: entry for entry in found}


FORMATS = _build_formats()
"""Formats with a name of their own. The lists of a provider's clients have the provider's name: see `get_format`."""


def get_format(name: str) -> Format:
    """Return the format of that name, or the list format of the provider of that name. Raises ConfigurationError."""
    if name in FORMATS:
        return FORMATS[name]
    if name not in providers():
        known = ", ".join(FORMATS)
        raise ConfigurationError(f"there is no format {name!r:.80}: there are {known}, and the names of providers")
    return Format(
        name,
        f"the message list of a client of {name}",
        lambda data, model: from_native(name, data, model=model),
        lambda history, model: to_native(name, history, model=model),
    )


def read_file(path: Path, name: str, model: str | None = None) -> list[Conversation]:
    """Read the conversations of a file in a format, with the labels of the file beside it. Raises FormatError and
    ConfigurationError, and OSError.
    """
    known = get_format(name)
    if known.read_many is not None:
        return known.read_many(path)
    if known.read is None:
        raise FormatError(f"{name} can be written but not read")
    return [Conversation(path.stem, read_sidecar(path, known.read(path.read_bytes(), model)))]


def iter_text(data: Any) -> Iterator[str]:
    """Yield the output of a writer as the text of a file, in pieces. One text of a long list takes twice its memory."""
    if isinstance(data, str):
        yield data
        return
    if not isinstance(data, list) or len(data) <= _PIECE_ENTRIES:
        yield to_json(data, indent=1).decode() + "\n"
        return
    for start in range(0, len(data), _PIECE_ENTRIES):
        entries = to_json(data[start : start + _PIECE_ENTRIES], indent=1).decode()
        yield ("," if start else "[") + entries.removeprefix("[").removesuffix("\n]")
    yield "\n]\n"
