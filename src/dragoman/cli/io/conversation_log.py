"""Keeps the conversations of the command line in a store, so that a later command can continue the last one."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import ConfigurationError, DragomanError, MissingExtraError
from dragoman.canonical.message import Message, Role
from dragoman.open_turns import TurnStep

if TYPE_CHECKING:
    from dragoman.store import Store
    from dragoman.store.records import SessionRecord

COMMAND = "command"
"""The metadata of a session that a command of this name has started. A store may also hold those of programs."""
_MAX_TITLE = 60
_MIN_ID_END = 6
"""Characters of an id that name a conversation; a shorter number is that of the list."""
_MAX_HITS = 1_000


class ConversationLog:
    """The store of a client of the command line. It opens its store when a turn is saved or a conversation continued.

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
        found: list[tuple[int, SessionRecord]] = []
        for number, record in enumerate(self._all(), 1):
            title = (record.title or "").casefold()
            if having is None or record.id in having or (words or "").casefold() in title:
                found.append((number, record))
                if len(found) == most:
                    break
        return found

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
        title, metadata = _title((*messages, *asked)), {COMMAND: self._command}
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
        """Close the store, if it is open."""
        if "_store" in vars(self):
            self._store.close()

    def _fail(self, error: DragomanError) -> None:
        self.problem = "" if isinstance(error, MissingExtraError) else str(error)


def _title(messages: Sequence[Message]) -> str | None:
    """Return the first line that the user wrote, shortened."""
    texts = (message.text.strip() for message in messages if message.role is Role.USER)
    first = next((text for text in texts if text), "")
    line = first.partition("\n")[0].strip()
    return None if not line else line if len(line) <= _MAX_TITLE else f"{line[:_MAX_TITLE]}…"
