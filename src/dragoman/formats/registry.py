"""All formats by name: reader, writer, and a description for people."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.package_data import read_toml
from dragoman.adapter.registry import providers
from dragoman.canonical import rules
from dragoman.canonical.extensions.message_labels import label_messages
from dragoman.canonical.message import Message, read_message
from dragoman.formats.detection import PARQUET, SESSION, SQLITE, Detection, Recogniser, identify
from dragoman.formats.document import iter_entries, parse_json_or_lines, read_document, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.native import from_native, to_native, to_native_pieces
from dragoman.formats.reading.fields import collect_losses
from dragoman.formats.results import Conversation, Conversion, Pieces, ReadResult, as_history, read_sidecar


def to_messages(messages: Sequence[Message]) -> Conversion[list[dict[str, Any]]]:
    """Write messages with all their fields; nothing is lost."""
    return Conversion([message.model_dump(mode="json", exclude_none=True) for message in as_history(messages)])


def from_messages(document: Any) -> list[Message]:
    """Read messages of any version, with the labels that a session stores for them. Raises FormatError, with a path."""
    entries = parse_json_or_lines(document, format_name="messages")
    at, extensions = "$", None
    if isinstance(entries, dict) and SESSION in entries:
        extensions = entries.get("extensions")
        entries, at = entries.get("messages"), "$.messages"
        if not isinstance(entries, list):
            raise FormatError("a session must have a list of messages", path=at)
        if extensions is not None and not isinstance(extensions, dict):
            raise FormatError("the extensions of a session must be an object", path="$.extensions")
    read: list[Message] = []
    for path, native in iter_entries(entries, format_name="messages"):
        entry_path = at + path.removeprefix("$")
        with validating(native, entry_path):
            try:
                read.append(read_message(native))
            except ValueError as error:
                if hasattr(error, "errors"):
                    raise
                raise FormatError(str(error)[:200], path=entry_path) from None
    kept = {name: each for name, each in extensions.items() if isinstance(each, dict)} if extensions else {}
    return [*label_messages(read, kept)]


_PIECE_ENTRIES = 1024

Reader = Callable[[Any, str | None], list[Message]]
Writer = Callable[[Sequence[Message], str | None], Conversion[Any]]


@dataclass(frozen=True, slots=True)
class Format:
    """A format that conversations can be read from or written to. ``read`` and ``write`` take the model of a provider's
    list. None: the format can only be read, or only be written.

    ``read_many`` reads a source with several conversations from the path of its file, ``read_all`` from its text.
    With both, ``file_mark`` has the first bytes of the files that ``read_many`` reads.
    ``recognises`` says of parsed JSON whether it is in the format; formats of other packages are detected by it.
    """

    name: str
    """The word that `to_format` and the command line take."""
    description: str
    """What the format is, in a few words for lists."""
    read: Reader | None = None
    write: Writer | None = None
    read_many: Callable[[Path], list[Conversation]] | None = None
    read_all: Callable[[Any], list[Conversation]] | None = None
    suffix: str = ".json"
    """The usual ending of a file, with its dot."""
    recognises: Recogniser | None = None
    file_mark: bytes | None = None


def _function(path: str) -> Callable[..., Any]:
    """Return a function that imports the one at the path when it is called."""
    module, _, name = path.partition(":")

    def call(*arguments: Any, **settings: Any) -> Any:
        return getattr(import_module(f"dragoman.formats.{module}"), name)(*arguments, **settings)

    return call


def _format(name: str, row: dict[str, Any]) -> Format:
    functions = {key: _function(row[key]) for key in ("read", "read_all", "read_many", "write") if key in row}
    read, write = functions.pop("read", None), functions.pop("write", None)
    takes_model = row.get("takes_model", False)
    return Format(
        name,
        row["description"],
        read and (lambda data, model: read(data, model=model) if takes_model else read(data)),
        write and (lambda history, _: write(history)),
        suffix=row.get("suffix", ".json"),
        file_mark={"sqlite": SQLITE, "parquet": PARQUET}.get(row.get("file_mark", "")),
        **functions,
    )


FORMATS: dict[str, Format] = {
    name: _format(name, row) for name, row in read_toml("dragoman.formats", "formats.toml").items()
}
"""Formats with a name of their own. The lists of a provider's clients have the provider's name: see `get_format`."""


GROUP = "dragoman.formats"
"""The entry-point group of formats from other packages: each entry is a `Format` of its name."""


@cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


@cache
def _load(name: str) -> Format:
    """Return the format of another package. Raises ConfigurationError if it cannot be loaded, or is not a format."""
    entry = _entries()[name]
    try:
        loaded = entry.load()
    except Exception as error:
        raise ConfigurationError(f"the format {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
    if not isinstance(loaded, Format) or loaded.name != entry.name:
        raise ConfigurationError(f"{entry.value}, installed as the format {entry.name!r}, is not a Format of that name")
    return loaded


def get_format(name: str) -> Format:
    """Return the format of that name, or the list format of the provider of that name. Raises ConfigurationError.

    A package's format takes the place of one of ours with the same name.
    """
    if name in _entries():
        return _load(name)
    if name in FORMATS:
        return FORMATS[name]
    if name not in providers():
        known = ", ".join([*FORMATS, *_entries()])
        raise ConfigurationError(f"there is no format {name!r:.80}: there are {known}, and the names of providers")
    return Format(
        name,
        f"the message list of a client of {name}",
        lambda data, model: from_native(name, data, model=model),
        lambda history, model: to_native(name, history, model=model),
    )


def read(document: Any, format_name: str | None = None, *, model: str | None = None) -> ReadResult:
    """Read the conversations of a document: a path, a text, or Python lists and dicts.

    ``format_name`` is a name as for `get_format`; without one, the document must show it. ``model`` is the model of a
    provider's list. Raises FormatError, with a path, and ConfigurationError if the format is unknown; OSError for
    files.
    """
    if not isinstance(document, Path):
        name = format_name or _named(identify_format(document), "the document")
        return _collect(name, lambda: _read_data(document, name, model))
    return read_file(document, format_name or _named(identify_file(document), str(document)), model)


def read_file(path: Path, name: str, model: str | None = None) -> ReadResult:
    """Read the conversations of a file in a format, with the labels of the file beside it. Raises FormatError and
    ConfigurationError, and OSError.
    """
    known = get_format(name)
    read_many = known.read_many
    mark = known.file_mark
    if read_many is not None and (mark is None or _read_head(path, len(mark)) == mark):
        return _collect(name, lambda: read_many(path))

    def read_labelled() -> list[Conversation]:
        found = _read_data(read_document(path), name, model, path.stem)
        return [Conversation(each.name, read_sidecar(path, each.messages)) for each in found]

    return _collect(name, read_labelled)


def _read_head(path: Path, length: int) -> bytes:
    with path.open("rb") as file:
        return file.read(length)


def identify_format(document: Any) -> Detection:
    """As `identify`, with the formats of other packages."""
    others = {name: _load(name).recognises for name in _entries()}
    return identify(document, {name: recognises for name, recognises in others.items() if recognises is not None})


def identify_file(path: Path) -> Detection:
    """As `identify_format`; of a database, which may be longer than any document, it reads the beginning only. Raises
    FormatError if a document is too long, and OSError.
    """
    head = _read_head(path, _HEAD)
    return identify_format(head if head.startswith((SQLITE, PARQUET)) else read_document(path))


_HEAD = 4 * 1024 * 1024
"""A database has the names of its tables in its first pages."""


def _named(found: Detection, place: str) -> str:
    if found.format is not None:
        return found.format
    closest = f"; the closest is {found.closest}" if found.closest else ""
    raise ConfigurationError(
        f"the format of {place} is unknown{closest}: {found.reason}. Name the format to read it anyway"
    )


def _collect(name: str, read_all: Callable[[], list[Conversation]]) -> ReadResult:
    with collect_losses() as losses:
        conversations = read_all()
    for each in conversations:
        rules.warn(each.messages, f"the conversation {each.name!r:.60} in the format {name}")
    return ReadResult(name, conversations, losses.report(name))


def _read_data(data: Any, name: str, model: str | None, title: str = "1") -> list[Conversation]:
    known = get_format(name)
    if known.read_all is not None:
        return known.read_all(data)
    if known.read is None:
        raise FormatError(f"{name} is read from a file" if known.read_many else f"{name} can be written but not read")
    return [Conversation(title, known.read(data, model))]


def write_pieces(name: str, history: Sequence[Message], model: str | None) -> Conversion[Any] | None:
    """Write a history as `iter_text` takes it, in pieces; None if the format has a writer of its own only."""
    if name in _entries():
        return None
    if name in providers() and name not in FORMATS:
        return to_native_pieces(name, history, model=model)
    if name != "umf":
        return None
    written: Conversion[Any] = _function("umf.convert:to_umf_pieces")(history)
    return written


def iter_text(data: Any) -> Iterator[str]:
    """Yield the output of a writer, or messages, as the text of a file, in pieces.

    One text of a long list takes twice its memory, and messages as dicts take more than the messages.
    """
    if isinstance(data, str):
        yield data
    elif isinstance(data, Pieces):
        yield from _iter_pieces(data)
    elif isinstance(data, list) and len(data) > _PIECE_ENTRIES:
        starts = range(0, len(data), _PIECE_ENTRIES)
        yield from _iter_pieces(Pieces(data[start : start + _PIECE_ENTRIES] for start in starts))
    else:
        yield _to_text(data) + "\n"


def _iter_pieces(data: Pieces) -> Iterator[str]:
    """Yield the text of a list, or of an object that ends with it."""
    indent, start, end = "", "[", "]"
    if data.fields:
        fields = _to_text(dict(data.fields)).removesuffix("\n}")
        indent, start, end = " ", f"{fields},\n {_to_text(data.name)}: [", "]\n}"
    is_empty = True
    for piece in filter(None, data.pieces):
        entries = _to_text(piece).removeprefix("[").removesuffix("\n]")
        yield ("," if not is_empty else start) + entries.replace("\n", "\n" + indent)
        is_empty = False
    yield (start if is_empty else "\n" + indent) + end + "\n"


def _to_text(data: Any) -> str:
    if isinstance(data, list) and any(isinstance(each, Message) for each in data):
        data = to_messages(data).data
    return to_json(data, indent=1).decode()
