"""The files of `dragoman convert`: what is in the source, where it goes, and that nothing is written over silently."""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic_core import to_json

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.ids import new_session_id
from dragoman.canonical.message import Message
from dragoman.events.umf import history_to_umf
from dragoman.formats.detect import detect
from dragoman.formats.errors import FormatError
from dragoman.formats.importers import Conversation
from dragoman.formats.shapes import as_text, read_file, shape
from dragoman.formats.umf import to_umf
from dragoman.formats.written import Written
from dragoman.session import stored

_UNFIT_FOR_FILES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80
_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".db", ".sqlite", ".sqlite3", ".chatml", ".txt"})
"""Of the files of a directory that are tried."""


_WRITTEN_HERE = frozenset({"session", "umf-events"})


def check_writable(to: str) -> None:
    """Raises ConfigurationError where there is no such shape, or it is read and never written."""
    if shape(to).write is None and to not in _WRITTEN_HERE:
        raise ConfigurationError(f"{to} is read and never written")


def files_in(source: Path, target: Path) -> Iterator[Path]:
    """The files of a directory, in order; not those of the target where that lies in it, nor hidden ones."""
    inside = target.resolve()
    for path in sorted(source.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(source).parts)
        if path.suffix.lower() in _SUFFIXES and path.is_file() and not hidden and inside not in path.resolve().parents:
            yield path


def targets_of(
    source: Path, target: Path, *, of: str | None, to: str, model: str | None, only: str | None, named: bool = True
) -> Iterator[tuple[str, list[Message], Path]]:
    """Each conversation of a file, with the file that it goes to.

    ``named``: the target is the file's own name; otherwise it lacks the shape's suffix. Raises FormatError, with a
    path, and ConfigurationError.
    """
    found = conversations_in(source, of, model)
    if only is not None:
        found = [conversation for conversation in found if conversation.name == only]
        if not found:
            raise ConfigurationError(f"{source} holds no conversation {only!r:.80}")
    if not found:
        raise ConfigurationError(f"{source} holds no conversation")
    suffix = shape(to).suffix
    if len(found) == 1:
        (conversation,) = found
        if named and target.is_dir():
            target = target / f"{source.stem}{suffix}"
        yield conversation.name, conversation.messages, target if named else target.with_name(target.name + suffix)
        return
    if named and target.suffix and not target.is_dir():
        raise ConfigurationError(
            f"{source} holds {len(found)} conversations: name a directory as the target, or one of them with --only"
        )
    taken: set[str] = set()
    for conversation in found:
        yield conversation.name, conversation.messages, target / f"{_file_name(conversation.name, taken)}{suffix}"


def conversations_in(source: Path, of: str | None, model: str | None) -> list[Conversation]:
    """Those of a file, in the shape that is named, or else told by looking. Raises FormatError, with a path, and
    ConfigurationError."""
    name = of or detect(source.read_bytes())
    if name is None:
        raise ConfigurationError(f"nothing tells in which shape {source} is: say it with --from")
    try:
        return read_file(source, name, model)
    except FormatError as error:
        raise FormatError(f"{error.reason} (read as {name})", path=error.path) from None


def _file_name(name: str, taken: set[str]) -> str:
    """The name as one of a file, and not that of another one."""
    fit = _UNFIT_FOR_FILES.sub("_", name).strip("._")[:_LONGEST_NAME] or "conversation"
    found, number = fit, 1
    while found in taken:
        number += 1
        found = f"{fit}-{number}"
    taken.add(found)
    return found


def converted(history: Sequence[Message], to: str, model: str | None) -> Written[str]:
    """The text of a file in a shape. Raises ConfigurationError where the shape is read and never written."""
    if to == "session":
        spoken = [message.metadata.model for message in history if message.metadata.model]
        session = next((message.session_id for message in history if message.session_id), new_session_id())
        last = next((name for name in reversed(spoken) if ":" in name), None)
        return Written(stored.write(stored.Stored(session, model or last, list(history), ToolIdMap())).decode())
    if to == "umf-events":
        # The envelopes hold UMF's messages, so that what is lost in those is lost in them.
        lines = (to_json(envelope).decode() + "\n" for envelope in history_to_umf(history))
        return Written("".join(lines), to_umf(history).losses)
    write = shape(to).write
    if write is None:
        raise ConfigurationError(f"{to} is read and never written")
    found = write(history, model)
    return Written(as_text(found.data), found.losses)


def written(found: Written[str], path: Path, *, overwrite: bool) -> None:
    """Writes the file, whole or not at all. Raises ConfigurationError where there is one and it may not be lost."""
    if path.exists() and not overwrite:
        raise ConfigurationError(f"{path} is there already: choose another name, or say --overwrite")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(found.data)
        Path(beside).chmod(0o666 & ~_umask())
        if overwrite:
            Path(beside).replace(path)
        else:
            os.link(beside, path)
            Path(beside).unlink()
    except BaseException as error:
        Path(beside).unlink(missing_ok=True)
        if isinstance(error, FileExistsError):
            raise ConfigurationError(f"{path} is there already: choose another name, or say --overwrite") from None
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
