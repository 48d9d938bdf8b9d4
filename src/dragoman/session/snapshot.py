"""A session as JSON, which a later program needs to continue it, and what of it is saved to its store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from threading import RLock
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.errors import MALFORMED_ERRORS, ConfigurationError, MalformedReplyError
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.extensions.message_labels import BEFORE_MESSAGES, EARLIER_RECORDS
from dragoman.canonical.message import Message, read_message
from dragoman.configuration.session_store import SessionStore
from dragoman.open_turns import TurnStep

VERSION = 1
"""Version of the format. Every version ever written stays readable."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    session_id: str
    model: str | None
    """The model that the session is set to; None if its router chooses."""
    messages: Sequence[Message]
    tool_ids: ToolIdMap
    attempts: Sequence[Message] = ()
    """Broken replies that were billed, without content."""
    extensions: Mapping[str, Any] = field(default_factory=dict)
    """Extensions of messages, as JSON by message id: the labels of their data."""


def write(snapshot: Snapshot) -> bytes:
    document = {
        "dragoman_session": VERSION,
        "session_id": snapshot.session_id,
        "model": snapshot.model,
        "tool_ids": snapshot.tool_ids.dump(),
        "messages": list(map(_to_json, snapshot.messages)),
    }
    if snapshot.attempts:
        document["attempts"] = list(map(_to_json, snapshot.attempts))
    ids = [message.id for message in snapshot.messages]
    if not ids or EARLIER_RECORDS not in snapshot.extensions.get(ids[0], {}):
        ids = [BEFORE_MESSAGES, *ids]
    extensions = {each: snapshot.extensions[each] for each in ids if each in snapshot.extensions}
    if extensions:
        document["extensions"] = extensions
    return wirejson.dumps(document)


def _to_json(message: Message) -> dict[str, Any]:
    return message.model_dump(mode="json", exclude_none=True)


def read(data: bytes | str, mint: Callable[[], str]) -> Snapshot:
    """Read what `write` wrote; ``mint`` makes new tool ids. Raises ConfigurationError if it is something else, and says
    what it is: a path, a file, or a document of another format.
    """
    _check_kind(data)
    try:
        raw: dict[str, Any] = wirejson.loads_object(data, what="the stored session")
        if raw.get("dragoman_session") != VERSION:
            raise ConfigurationError(
                f"this is not a stored session of version {VERSION}: its version is "
                f"{raw.get('dragoman_session')!r:.80}{_other_format(raw)}"
            )
        return Snapshot(
            str(raw["session_id"]),
            None if raw["model"] is None else str(raw["model"]),
            [read_message(message) for message in raw["messages"]],
            ToolIdMap.load(raw["tool_ids"], mint),
            [read_message(message) for message in raw.get("attempts", ())],
            {str(message_id): dict(kept) for message_id, kept in raw.get("extensions", {}).items()},
        )
    except MalformedReplyError as error:
        raise ConfigurationError(f"{error.message}{_other_format(data)}") from None
    except MALFORMED_ERRORS as error:
        raise ConfigurationError(f"this is not a stored session: {type(error).__name__}: {error!s:.400}") from None


def _check_kind(data: Any) -> None:
    """Raise ConfigurationError for a path or a file, which hold the text of a session and are none."""
    if isinstance(data, PurePath):
        raise ConfigurationError(f"{str(data)!r:.200} is a path: pass what its file holds, path.read_bytes()")
    if hasattr(data, "read"):
        raise ConfigurationError("this is an open file: pass what it holds, file.read()")
    if not isinstance(data, (bytes, bytearray, str)):
        raise ConfigurationError(f"a stored session is a text or bytes, not a value of the class {type(data).__name__}")
    if isinstance(data, str) and len(data) <= _MAX_PATH and "\n" not in data and not data.lstrip().startswith(_JSON):
        raise ConfigurationError(
            "this text is not a session, which is a JSON object: if it is the path of one, pass Path(...).read_bytes()"
        )


_MAX_PATH = 4096
"""Characters of the longest path."""
_JSON = ("{", "[")


def _other_format(data: Any) -> str:
    """Return what else a document is, as the end of a sentence; nothing if that is unknown."""
    from dragoman.formats.detection import detect

    found = detect(data)
    found = None if found == "session" else found
    return f". It is a document of the format {found}: dragoman.formats.read reads it" if found else ""


class Persistence:
    """Tracks what the store has of one session. ``version`` is the store's; None if the session is not stored yet.

    Tools that run at the same time may save from several threads.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        version: int | None = None,
        messages: int = 0,
        attempts: int = 0,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self._store = store
        self._facts = {name: value for name, value in (facts or {}).items() if value is not None}
        self._version = version
        self._messages = messages
        self._attempts = attempts
        self._lock = RLock()

    def save(
        self,
        snapshot: Snapshot,
        *,
        user_id: str | None,
        team_id: str | None,
        may_save: Callable[[Sequence[Message]], bool],
        step: TurnStep | None = None,
        touch: bool = False,
    ) -> int | None:
        """Save what is new, if anything is, and if ``may_save`` accepts it. Return the session's version in the store.
        ``touch``: write to a session that is stored even if nothing is new, which a store that is gone refuses.

        Raises ConflictError if another program added to the session meanwhile: nothing is overwritten, and this session
        keeps what it has. Raises StoreError.
        """
        with self._lock:
            messages, attempts = snapshot.messages[self._messages :], snapshot.attempts[self._attempts :]
            is_due = messages or attempts or step or (touch and self._version is not None)
            if not is_due or not may_save(messages):
                return self._version
            self._write(snapshot, messages, attempts, user_id, team_id, step)
            self._messages, self._attempts = len(snapshot.messages), len(snapshot.attempts)
            return self._version

    def _write(
        self,
        snapshot: Snapshot,
        messages: Sequence[Message],
        attempts: Sequence[Message],
        user_id: str | None,
        team_id: str | None,
        step: TurnStep | None,
    ) -> None:
        new_extensions = {
            message.id: snapshot.extensions[message.id] for message in messages if message.id in snapshot.extensions
        }
        optional: dict[str, Any] = {"extensions": new_extensions or None, "step": step}
        extra = {name: value for name, value in optional.items() if value is not None}  # a store need not support them
        # Only messages bring new ids.
        tool_ids = snapshot.tool_ids if messages or self._version is None else None
        if self._version is None:
            record = self._store.create(
                snapshot.model,
                messages,
                session_id=snapshot.session_id,
                tool_ids=tool_ids,
                attempts=attempts,
                user_id=user_id,
                team_id=team_id,
                **self._facts,
                **extra,
            )
            self._version = record.version
        else:
            self._version = self._store.append(
                snapshot.session_id,
                messages,
                expected_version=self._version,
                tool_ids=tool_ids,
                model=snapshot.model,
                attempts=attempts,
                **extra,
            )

    def annotate(self, snapshot: Snapshot, message_id: str, extensions: Mapping[str, Any]) -> None:
        """Replace the stored extensions of a message. A message that is not stored yet is saved with them later.
        Raises as `save` does.
        """
        is_stored = any(message.id == message_id for message in snapshot.messages[: self._messages])
        if self._version is None or not is_stored:
            return
        annotate = getattr(self._store, "annotate", None)  # an optional method of a store
        if annotate is None:
            raise ConfigurationError(
                f"a {type(self._store).__name__} cannot change the extensions of a stored message, which a"
                " declassification needs: give it a method annotate, as dragoman.store.Store has"
            )
        self._version = annotate(snapshot.session_id, message_id, extensions, expected_version=self._version)
