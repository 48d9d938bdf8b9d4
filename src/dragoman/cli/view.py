"""`dragoman view SOURCE`: a conversation as one HTML page."""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dragoman.adapter.errors import ConfigurationError, UnknownProviderError
from dragoman.adapter.registry import adapter_class
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.ids import new_tool_use_id
from dragoman.canonical.message import Message
from dragoman.cli.convert import file_name, read_conversations
from dragoman.cli.io.console import console, counted, show_line
from dragoman.cli.io.conversations import store_url
from dragoman.formats import detect, from_cassette
from dragoman.formats.document import read_document
from dragoman.session import snapshot
from dragoman.sqlite_files import is_sqlite_file, table_names

_CASSETTE_HEADER = re.compile(rb"\A(---\s*)?format: \d+\s")
_TABLES = {"sessions", "messages", "attempts"}
"""The tables of our store."""
_MAX_NAMED = 8


def view(
    source: Annotated[
        str, typer.Argument(help="A session, cassette, store (a file or URL) or other history; or a session's id.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file of the page; the default is the source's name in this folder."),
    ] = None,
    of: Annotated[str | None, typer.Option("--from", help="The format to read; detected by default.")] = None,
    only: Annotated[
        str | None, typer.Option(help="The name or id of one conversation, if the source holds several.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="The store that holds the session; the default is your own store.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model's name, for a provider's message lists.")] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    raw: Annotated[bool, typer.Option(help="Include the raw requests and replies.")] = True,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Writes a conversation as one HTML page. It is self-contained and uses no network."""
    from dragoman.view import page

    loaded = _load_conversation(source, source_format=of, only=only, store=store, model=model)
    default = f"{file_name(loaded.title)}.html"
    path = output or Path(default)
    text = page(
        loaded.messages,
        title=title or loaded.title,
        attempts=loaded.attempts,
        tool_ids=loaded.tool_ids,
        next_model=loaded.model,
        raw=raw,
    )
    if path.is_dir():
        path = path / default
    if output is None and path.exists():
        raise ConfigurationError(f"{path} exists already: name another file with --output")
    path.write_text(text, encoding="utf-8", newline="")
    console().print(f"{show_line(str(path))}, {counted(len(loaded.messages), 'message')}")
    if open_browser:
        typer.launch(str(path))


@dataclass(frozen=True, slots=True)
class LoadedConversation:
    """``model`` is the session's current model, if known."""

    title: str
    messages: Sequence[Message]
    model: str | None = None
    attempts: Sequence[Message] = ()
    tool_ids: ToolIdMap | None = None


def _load_conversation(
    source: str, *, source_format: str | None, only: str | None, store: str | None, model: str | None
) -> LoadedConversation:
    """Return the conversation to show. A source that is not a file is the URL of a store, or the id of a session in
    ``store``.

    Raises ConfigurationError if there is none, or several and ``only`` names none; and FormatError.
    """
    if "://" in source:
        return _from_store(source, only)
    path = Path(source)
    if path.is_file():
        try:  # other tools' logs are SQLite as well
            is_store = source_format is None and is_sqlite_file(path) and table_names(path) >= _TABLES
        except sqlite3.Error as error:
            raise ConfigurationError(f"{path} cannot be read: {error}") from None
        if is_store:
            return _from_store(f"sqlite:///{path}", only)
        return _from_file(path, source_format, only, model)
    if path.is_dir():
        raise ConfigurationError(f"{source} is a folder: name one of its files")
    if not source.startswith("sess_") and store is None:
        raise ConfigurationError(f"there is no file {source!r:.200}, and it is not the id of a session")
    return _from_store(store_url(store), source)


def _from_file(path: Path, source_format: str | None, only: str | None, model: str | None) -> LoadedConversation:
    data = read_document(path)
    if source_format in (None, "session") and detect(data) == "session":
        session = snapshot.read(data, new_tool_use_id)
        return LoadedConversation(path.stem, session.messages, session.model, session.attempts, session.tool_ids)
    if source_format in (None, "vcr") and _CASSETTE_HEADER.match(data):
        # Few conversations are cassettes.
        from dragoman.testing.cassettes.file import read_recording
        from dragoman.testing.cassettes.vcrpy import to_vcr

        conversations = from_cassette(to_vcr(read_recording(path).exchanges, _origin))
    else:
        conversations = read_conversations(path, source_format, model).conversations
    names = [each.name for each in conversations]
    matching = [each for each in conversations if only is None or each.name == only]
    if only is not None and not matching:
        raise ConfigurationError(f"{path} holds no conversation {only!r:.80}: there are {_join_names(names)}")
    if not names:
        raise ConfigurationError(f"{path} holds no conversation")
    if len(matching) > 1:
        raise ConfigurationError(
            f"{path} holds {len(names)} conversations: choose one with --only: {_join_names(names)}"
        )
    (chosen,) = matching
    return LoadedConversation(path.stem if len(names) == 1 else f"{path.stem} {chosen.name}", chosen.messages)


def _from_store(url: str | None, session_id: str | None) -> LoadedConversation:
    from dragoman.store import Store  # its extra is needed for stores only

    with Store(url, read_only=True) as store:
        if session_id is None:
            ids = [record.id for record in store.list(limit=_MAX_NAMED + 1).sessions]
            if not ids:
                raise ConfigurationError("the store holds no session")
            if len(ids) > 1:
                raise ConfigurationError(
                    f"the store holds several sessions: choose one with --only: {_join_names(ids)}"
                )
            (session_id,) = ids
        session = store.load(session_id)
    title = session.record.title or session.id
    return LoadedConversation(
        title, session.messages, session.model, session.attempts, ToolIdMap.load(session.tool_ids)
    )


def _join_names(names: Sequence[str]) -> str:
    more = " and others" if len(names) > _MAX_NAMED else ""
    return ", ".join(f"{name:.80}" for name in names[:_MAX_NAMED]) + more


def _origin(provider: str | None) -> str:
    """Return the provider's address: the host identifies the wire. Nothing is sent there."""
    try:
        address = adapter_class(provider).endpoint.base_url if provider else ""
    except (ConfigurationError, UnknownProviderError):
        address = ""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if rest and "{" not in rest else "https://recorded.invalid"
