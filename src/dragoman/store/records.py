"""The records that a store returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal

from pydantic import Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import Count, JsonObject, Text
from dragoman.canonical.message import Message
from dragoman.open_turns import OpenTurn


class SessionRecord(FrozenModel):
    """One session, without its messages.

    ``version`` counts its turns; `Store.append` compares it. ``metadata`` is the caller's own. ``parent_session_id``
    and ``parent_message_id`` name the session that a fork was copied from, and the last message that was copied.
    """

    id: Text
    version: Count = 0
    model: Text | None = None
    title: Text | None = None
    workspace: Text | None = None
    routing_policy: JsonObject | None = None
    metadata: JsonObject = Field(default_factory=dict)
    user_id: Text | None = None
    team_id: Text | None = None
    parent_session_id: Text | None = None
    parent_message_id: Text | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session at one moment.

    ``tool_ids`` is the input of `ToolIdMap.load`. ``attempts`` are replies that broke and were billed. The keys of
    ``extensions`` are message ids. The first ``inherited`` messages are copies from the session that this one was
    forked from, which was billed for them. ``turn`` is the turn that has not ended, if the program that ran it was
    killed or still runs it; the results of its calls that have ended may not be among the messages yet.
    """

    record: SessionRecord
    messages: tuple[Message, ...] = ()
    tool_ids: dict[str, Any] = field(default_factory=dict)
    attempts: tuple[Message, ...] = ()
    extensions: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    inherited: int = 0
    turn: OpenTurn | None = None

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def version(self) -> int:
        return self.record.version

    @property
    def model(self) -> str | None:
        return self.record.model


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Some sessions; ``cursor`` fetches the next page, and is None at the end."""

    sessions: tuple[SessionRecord, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message that contains the searched text. ``seq`` is its index in the session, from 0."""

    session_id: str
    seq: int
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCall:
    """A tool call in a store. ``message_id`` is that of the reply with the call.

    ``status`` is pending, succeeded, failed or cancelled. A pending call with ``started_at`` may have run.
    ``side_effects`` are those that its tool had when the call started.
    """

    session_id: str
    message_id: str
    id: str
    name: str
    status: str
    side_effects: str | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    result_message_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDeletion:
    """What `Store.delete_user` did, as numbers of rows.

    ``sessions`` were the user's, and are gone with their ``messages``, ``attempts``, ``tool_calls`` and ``tool_ids``.
    In ``shared_sessions``, which belong to others, the content of ``erased`` messages and attempts of the user is gone.
    ``forks`` are sessions of others that were forked from a deleted one: they hold copies of its messages, of which
    those that name the user are erased. ``reports`` is the export that was brought up to date, None without one.
    """

    user_id: str
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
    action: RetentionAction
    at: datetime
    messages: int
    attempts: int
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The days of an export of replies: written, unchanged, and removed because no reply is left.

    ``replies`` is the number that was written.
    """

    written: tuple[date, ...]
    unchanged: tuple[date, ...]
    removed: tuple[date, ...]
    replies: int
