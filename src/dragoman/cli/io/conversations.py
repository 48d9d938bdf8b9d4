"""The client of a command, which governs whatever it asks a model, and the conversation that it starts, continues and
keeps, with the tools that its options name.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import ConfigurationError, DragomanError, MissingExtraError
from dragoman.adapter.names import bundled_aliases
from dragoman.adapter.registry import is_provider, parse_model
from dragoman.canonical.log import one_line
from dragoman.canonical.message import Message, Role
from dragoman.cli.io.console import console, counted, show_line
from dragoman.client import Client
from dragoman.configuration import ClientSettings, client_config
from dragoman.configuration.file import build_settings, find_configuration, is_trusted, read_configuration
from dragoman.open_turns import TurnStep
from dragoman.session import Session
from dragoman.session.config import SessionSettings
from dragoman.session.turn.answers import UnfinishedTurn
from dragoman.tools.tool import Tool
from dragoman.transport.settings import Providers

if TYPE_CHECKING:
    from dragoman.store import Store
    from dragoman.store.records import SessionRecord


def command_client(providers: Providers | None = None) -> Client:
    """Return the client of the default client's settings, or else of the configuration file, with these settings of
    providers.
    """
    settings, _ = find_settings()
    return Client(**settings).with_(providers=providers or {})


def find_settings() -> tuple[dict[str, Any], bool | None]:
    """Return the settings that apply, and whether the file lets the command line keep conversations.

    The second is None for the settings of a default client: its program decides what is kept.
    """
    config = client_config(None)
    if config is not None:
        return {name: getattr(config, name) for name in ClientSettings.__annotations__}, None
    found = find_configuration()
    if found is None:
        return {}, True
    file = read_configuration(*found)
    settings: Any = build_settings(file, trusted=is_trusted(file))
    return settings, file.tables.get("log", True)


def own_store() -> str | None:
    """Return the URL of the store of the kept conversations; None if none was kept yet. Raises ConfigurationError if
    the configuration keeps none."""
    settings, keeps_log = find_settings()
    if keeps_log is False:
        raise ConfigurationError("conversations are not kept here: the configuration has log = false")
    if isinstance(url := settings.get("store"), str):
        return url
    from dragoman.store.database import default_url  # most commands need no store

    file = default_url(create_folder=False).database
    return None if file is None or not Path(file).exists() else f"sqlite:///{file}"


def store_url(name: str | None) -> str | None:
    """Return the URL of a store that an option names: a URL, or a SQLite file."""
    return name if name is None or "://" in name else f"sqlite:///{name}"


def base_url_setting(model: str, base_url: str | None) -> Providers:
    """Return the settings of the model's provider for the option --base-url."""
    return {parse_model(model).provider: {"base_url": base_url}} if base_url else {}


COMMAND = "command"
"""The metadata of a session that a command of this name has started. A store may also hold those of programs."""
_MAX_TITLE = 60
_MIN_ID_END = 6
"""Characters of an id that name a conversation; a shorter number is that of the list."""
_MAX_HITS = 1_000


class ConversationLog:
    """Keeps the conversations of the command line in a store, so that a later command can continue one. It opens the
    store when a turn is saved or a conversation continued.

    A turn that cannot be saved does not fail: its answer is there. ``problem`` then says why it is not kept. Without
    the extra ``store``, nothing is kept, and no problem reported.
    """

    stores_steps = True

    def __init__(self, url: str | None, command: str, *, read_only: bool = False) -> None:
        """``url`` is that of the store; None is the user's own store."""
        self._url = url
        self._read_only = read_only
        self._command = command
        self.problem: str | None = None

    @cached_property
    def _store(self) -> "Store":
        from dragoman.store import Store  # the extra is needed only if a conversation is kept

        return Store(self._url, read_only=self._read_only)

    def find(self, name: str = "1") -> str:
        """Return the id of a conversation: by its number, 1 for the last used one, or by its id or the end of it.

        Raises ConfigurationError if there is none, and MissingExtraError and StoreError as `Store` does.
        """
        for number, record in enumerate(self._all(), 1):
            if (name == str(number)) if name.isdecimal() and len(name) < _MIN_ID_END else record.id.endswith(name):
                return record.id
        if name == "1":
            raise ConfigurationError("there is no conversation to continue: dragoman ask MODEL PROMPT starts one")
        raise ConfigurationError(f"there is no conversation {name!r:.60}: dragoman history lists them")

    def find_all(self, words: str | None, most: int) -> "list[tuple[int, SessionRecord]]":
        """Return conversations with their numbers, the last used first: those with that text in a message or the title.

        Raises as `find` does.
        """
        having = None if words is None else {hit.session_id for hit in self._store.search(words, limit=_MAX_HITS)}
        found = (
            (number, record)
            for number, record in enumerate(self._all(), 1)
            if having is None or record.id in having or (words or "").casefold() in (record.title or "").casefold()
        )
        return list(islice(found, most))

    def _all(self) -> "Iterator[SessionRecord]":
        """Yield the conversations of the command line. One whose only turn has failed is none."""
        cursor: str | None = None
        while True:
            page = self._store.list(cursor=cursor)
            for record in page.sessions:
                if COMMAND not in record.metadata:
                    continue
                found = self._store.load(record.id)
                if found.messages or found.turn is not None:
                    yield record
            if (cursor := page.cursor) is None:
                return

    def create(
        self,
        model: str | None = None,
        messages: Sequence[Message] = (),
        *,
        step: TurnStep | None = None,
        **facts: Any,
    ) -> Any:
        asked = () if step is None or step.turn is None else step.turn.prompt
        texts = (message.text.strip() for message in (*messages, *asked) if message.role is Role.USER)
        line = next((text for text in texts if text), "").partition("\n")[0].strip()
        title = (line if len(line) <= _MAX_TITLE else f"{line[:_MAX_TITLE]}…") or None
        metadata = {COMMAND: self._command}
        try:
            return self._store.create(model, messages, title=title, metadata=metadata, step=step, **facts)
        except DragomanError as error:
            self._fail(error)
            return SimpleNamespace(version=0)

    def append(
        self, session_id: str, messages: Sequence[Message] = (), *, expected_version: int | None, **facts: Any
    ) -> int:
        if self.problem is None:
            try:
                return self._store.append(session_id, messages, expected_version=expected_version, **facts)
            except DragomanError as error:
                self._fail(error)
        return expected_version or 0

    def annotate(
        self, session_id: str, message_id: str, extensions: Mapping[str, Any], *, expected_version: int | None
    ) -> int:
        return self._store.annotate(session_id, message_id, extensions, expected_version=expected_version)

    def load(self, session_id: str) -> Any:
        return self._store.load(session_id)

    def close(self) -> None:
        """Close the store, if it is open, and say so if a conversation could not be kept."""
        if "_store" in vars(self):
            self._store.close()
        if self.problem:
            hint = "log = false in dragoman.toml turns the log off"
            notes = console(stderr=True)
            notes.print(f"[yellow]the conversation is not kept:[/] {show_line(self.problem)} ({hint})")

    def _fail(self, error: DragomanError) -> None:
        self.problem = "" if isinstance(error, MissingExtraError) else str(error)


@contextmanager
def open_conversation(
    command: str,
    model: str | None,
    prompt: str | None = None,
    *,
    takes_prompt: bool = False,
    continued: str | None = None,
    dumped: bytes | None = None,
    system: str | None = None,
    tools: Sequence[str] = (),
    base_url: str | None = None,
    mentions: bool = False,
) -> Iterator[tuple[Session, str | None, ConversationLog | None]]:
    """Open a new conversation, the one of the log that ``continued`` names, or the one that was ``dumped``. Yield its
    session, the prompt of the command's words, and the log that keeps it, if any.

    If a command ``takes_prompt`` and the model may be left out, its only argument is the model if it names one, else
    the prompt. With ``mentions``, the router reads those of the prompts. Raises ConfigurationError if there is no model
    or nothing to continue, and as `Session` does.
    """
    found, keeps_log = find_settings()
    log: ConversationLog | None = None
    if keeps_log is not None:  # else a program has set a default client, which decides what is kept
        url = found.pop("store", None)
        log = found["store"] = ConversationLog(url, command) if keeps_log else None
    client = Client(**found)
    router = client.config.router
    has_model = (
        continued is not None or dumped is not None or (router is not None and router.global_default is not None)
    )
    if takes_prompt and has_model and prompt is None and model is not None and not _names_model(client, model):
        model, prompt = None, model
    if model is None and not has_model:
        raise ConfigurationError(
            f"name a model, such as: dragoman {command} local:smollm2-135m; or set default_model in dragoman.toml"
        )
    settings: SessionSettings = {"tools": [_load_tool(name) for name in tools], "base_url": base_url}
    if router is not None:  # a stored conversation may have no model of its own
        settings["router"] = router.with_mentions() if mentions else router
    session: Session
    if continued is None and dumped is None:
        session = client.session(model, system=system, **settings)
    elif system is not None:
        raise ConfigurationError("a system prompt starts a conversation: leave it out to continue one")
    elif dumped is not None:
        session = client.load(dumped, model=model, **settings)
    elif log is None:
        raise ConfigurationError("conversations are not kept here: the configuration has log = false")
    else:
        session = client.resume(log.find(continued or "1"), model=model, **settings)
    try:
        yield session, prompt, log
    finally:
        session.close()
        if log is not None:
            log.close()


def _names_model(client: Client, word: str) -> bool:
    """Whether the word is a model id or an alias, and not a prompt."""
    provider, separator, _ = word.partition(":")
    if separator:
        return is_provider(provider)
    router = client.config.router
    return word.lower() in bundled_aliases() or (router is not None and word in router.aliases)


def describe(session: Session) -> str:
    """Return a line about the conversation that is continued."""
    return (
        f"continues a conversation of {counted(len(session.messages), 'message')} with"
        f" {session.model or 'the model of the rules'}"
    )


def describe_unfinished(turn: UnfinishedTurn) -> Iterator[str]:
    """Yield lines about a turn that was interrupted: what was asked, and what its calls have done."""
    asked = " ".join(message.text for message in turn.prompt).strip()
    yield f"the last turn was interrupted: {one_line(asked):.200}" if asked else "the last turn was interrupted"
    for calls, state in ((turn.ran, "ran"), (turn.may_have_run, "may have run"), (turn.not_run, "has not run")):
        for call in calls:
            yield f"{call.name}({json.dumps(call.input, ensure_ascii=False)}) {state}"
    for attempt in turn.attempts:
        cost = "" if attempt.cost_usd is None else f", at least ${attempt.cost_usd:.6f}"
        yield f"{attempt.model} failed: {attempt.error}{cost}"
    if turn.awaits_reply:
        yield "it waited for a reply, which may have been billed"
    if turn.cost.replies:
        yield f"it has cost {turn.cost}"


def _load_tool(name: str) -> Any:
    """Return the function that ``MODULE:function`` names. The module may be in the working folder.

    Raises ConfigurationError if it cannot be imported or does not exist.
    """
    module_name, separator, attribute = name.partition(":")
    if not (module_name and separator and attribute):
        raise ConfigurationError(f"--tool {name!r:.80} is not of the form MODULE:function, such as mytools:add")
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:  # the module is the user's own, and may raise anything
        raise ConfigurationError(f"--tool {name}: the import fails with {type(error).__name__}: {error}") from None
    finally:
        # The module may import others of this folder later. They do not hide installed ones, which come first now.
        sys.path.remove(folder)
        sys.path.append(folder)
    found = getattr(module, attribute, None)
    if not isinstance(found, Tool) and not callable(found):
        near = get_close_matches(attribute, [each for each in vars(module) if not each.startswith("_")], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"--tool {name}: the module {module_name} has no such function{hint}")
    return found
