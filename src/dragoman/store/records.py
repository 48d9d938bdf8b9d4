"""The records that a store returns, and a session as JSON lines.

The lines are a header, then one for each message and each attempt. The header states their number, so that a truncated
file is detected.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal

from pydantic import Field
from pydantic_core import from_json

from dragoman.adapter import wirejson
from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH, Count, JsonObject, Text, copy_json
from dragoman.canonical.message import Message, read_message, write_message
from dragoman.open_turns import OpenTurn
from dragoman.store.columns import MALFORMED_DATA_ERRORS, unreadable_error, wrong_class
from dragoman.store.errors import StoreVersionError, UnreadableError


class SessionRecord(FrozenModel):
    """One session, without its messages.

    ``version`` counts its turns; `Store.append` compares it. ``metadata`` is the caller's own. ``parent_session_id``
    and ``parent_message_id`` name the session that a fork was copied from, and the last message that was copied.
    """

    id: Text
    """The session's id, unique in a store."""
    version: Count = 0
    model: Text | None = None
    """The model that the session is set to, as ``provider:name``; None if a router chooses."""
    title: Text | None = None
    """A name for people; None if the program gave none."""
    workspace: Text | None = None
    """The path of the program's workspace, as the program names it."""
    routing_policy: JsonObject | None = None
    """The program's own routing settings of this session, as JSON."""
    metadata: JsonObject = Field(default_factory=dict)
    user_id: Text | None = None
    """The pseudonymous id of the user."""
    team_id: Text | None = None
    """The pseudonymous id of the team."""
    parent_session_id: Text | None = None
    parent_message_id: Text | None = None
    created_at: datetime
    """When the session was created, in UTC."""
    updated_at: datetime
    """When the session was last changed, in UTC."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session at one moment.

    ``tool_ids`` is the input of `ToolIdMap.load`. ``attempts`` are replies that broke and were billed. The keys of
    ``extensions`` are message ids. The first ``inherited`` messages are copies from the session that this one was
    forked from, which was billed for them. ``turn`` is the turn that has not ended, if the program that ran it was
    killed or still runs it; the results of its calls that have ended may not be among the messages yet.
    """

    record: SessionRecord
    """The session without its messages."""
    messages: tuple[Message, ...] = ()
    """The history, oldest first."""
    tool_ids: dict[str, Any] = field(default_factory=dict)
    attempts: tuple[Message, ...] = ()
    extensions: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    inherited: int = 0
    turn: OpenTurn | None = None

    @property
    def id(self) -> str:
        """The session's id."""
        return self.record.id

    @property
    def version(self) -> int:
        """The number that the next `Store.append` has to expect."""
        return self.record.version

    @property
    def model(self) -> str | None:
        """The model that the session is set to, as ``provider:name``; None if a router chooses."""
        return self.record.model


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Some sessions; ``cursor`` fetches the next page, and is None at the end."""

    sessions: tuple[SessionRecord, ...]
    """The sessions of this page, those that changed last first."""
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message that contains the searched text. ``seq`` is its index in the session, from 0."""

    session_id: str
    """The session that holds the message."""
    seq: int
    message: Message
    """The whole message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCall:
    """A tool call in a store. ``message_id`` is that of the reply with the call.

    ``status`` is pending, succeeded, failed or cancelled. A pending call with ``started_at`` may have run.
    ``side_effects`` are those that its tool had when the call started.
    """

    session_id: str
    """The session that holds the call."""
    message_id: str
    id: str
    """The canonical id of the call (``tu_<ulid>``)."""
    name: str
    """The name of the tool."""
    status: str
    side_effects: str | None
    created_at: datetime
    """When the reply with the call was stored, in UTC."""
    started_at: datetime | None
    completed_at: datetime | None
    """When the result was stored, in UTC; None if there is none."""
    result_message_id: str | None
    """The id of the message with the result; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDeletion:
    """What `Store.delete_user` did, as numbers of rows.

    ``sessions`` were the user's, and are gone with their ``messages``, ``attempts``, ``tool_calls`` and ``tool_ids``.
    In ``shared_sessions``, which belong to others, the content of ``erased`` messages and attempts of the user is gone.
    ``forks`` are sessions of others that were forked from a deleted one: they hold copies of its messages, of which
    those that name the user are erased. ``reports`` is the export that was brought up to date, None without one.
    """

    user_id: str
    """The pseudonymous id of the user."""
    sessions: int
    messages: int
    attempts: int
    tool_calls: int
    tool_ids: int
    shared_sessions: tuple[str, ...] = ()
    erased: int = 0
    forks: tuple[str, ...] = ()
    reports: "ExportResult | None" = None


RetentionAction = Literal["redact", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRecord:
    """What `Store.enforce_retention` did in one session; it holds no content.

    ``messages`` and ``attempts`` are the numbers of those that were redacted, or deleted with their session.
    ``sources`` are the ids of the messages whose data was due.
    """

    session_id: str
    """The session that was changed."""
    action: RetentionAction
    """Whether the messages were redacted or their session deleted."""
    at: datetime
    """When it was done, in UTC."""
    messages: int
    attempts: int
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The days of an export of replies: written, unchanged, and removed because no reply is left.

    ``replies`` is the number that was written.
    """

    written: tuple[date, ...]
    """The days whose files are new or changed."""
    unchanged: tuple[date, ...]
    """The days whose files were there already."""
    removed: tuple[date, ...]
    """The days whose files were removed."""
    replies: int


LINES_VERSION = 1
"""The current version of the lines. Every version ever written stays readable."""


def write_lines(stored: StoredSession) -> Iterator[str]:
    yield wirejson.dumps_text(
        {
            "dragoman_store": LINES_VERSION,
            "session": stored.record.model_dump(mode="json", exclude_none=True),
            "tool_ids": stored.tool_ids,
            "messages": len(stored.messages),
            "inherited": stored.inherited,
            "attempts": len(stored.attempts),
        }
    )
    for message in stored.messages:
        line: dict[str, Any] = {"message": from_json(write_message(message))}
        if message.id in stored.extensions:
            line["extensions"] = stored.extensions[message.id]
        yield wirejson.dumps_text(line)
    for attempt in stored.attempts:
        yield wirejson.dumps_text({"attempt": from_json(write_message(attempt))})


def read_lines(lines: Iterable[str | bytes]) -> StoredSession:
    """Read the output of `write_lines`; empty lines are skipped.

    Raises UnreadableError, naming the line, for malformed or missing lines, StoreVersionError for a newer version, and
    StoreError for what is not an iterable of lines.
    """
    if isinstance(lines, (str, bytes)) or not isinstance(lines, Iterable):
        raise wrong_class("lines", "an iterable of lines, such as a file,", lines)
    numbered = (
        (number, line) for number, line in enumerate(lines, 1) if not isinstance(line, (str, bytes)) or line.strip()
    )
    header = _parse_object(*next(numbered, (1, "null")))
    version = header.get("dragoman_store")
    if isinstance(version, int) and version > LINES_VERSION:
        raise StoreVersionError(f"the lines are of version {version}: upgrade dragoman to read them")
    try:
        if version != LINES_VERSION:
            raise ValueError("this is not an exported session of a store")
        record = SessionRecord.model_validate(header["session"], extra="ignore")
        tool_ids = dict(header["tool_ids"])
        expected_counts = (int(header["messages"]), int(header["attempts"]))
        inherited = int(header["inherited"])
    except MALFORMED_DATA_ERRORS as error:
        raise unreadable_error("line 1", error) from None
    messages: list[Message] = []
    attempts: list[Message] = []
    extensions: dict[str, dict[str, Any]] = {}
    for number, line in numbered:
        entry = _parse_object(number, line)
        try:
            if "attempt" in entry:
                attempts.append(read_message(entry["attempt"]))
                continue
            messages.append(read_message(entry["message"]))
            if "extensions" in entry:
                extensions[messages[-1].id] = dict(entry["extensions"])
        except MALFORMED_DATA_ERRORS as error:
            raise unreadable_error(f"line {number}", error) from None
    if (len(messages), len(attempts)) != expected_counts:
        raise UnreadableError(
            f"{expected_counts[0]} messages and {expected_counts[1]} attempts are due, and {len(messages)} "
            f"and {len(attempts)} are there: the"
            " lines are not all of the session"
        )
    return StoredSession(record, tuple(messages), tool_ids, tuple(attempts), extensions, inherited)


def _parse_object(number: int, line: str | bytes) -> dict[str, Any]:
    try:
        value = copy_json(from_json(line, allow_inf_nan=False), MAX_DOCUMENT_DEPTH + 2)
    except MALFORMED_DATA_ERRORS as error:
        raise unreadable_error(f"line {number}", error) from None
    if not isinstance(value, dict):
        raise UnreadableError(f"line {number} is not a JSON object")
    return value
