"""A session as JSON: what a later program needs to go on with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.decoding import MALFORMED
from dragoman.adapter.errors import ConfigurationError, MalformedReplyError
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.evolve import read_message
from dragoman.canonical.message import Message

VERSION = 1
"""Every version ever written stays readable."""


@dataclass(frozen=True, slots=True)
class Stored:
    session_id: str
    model: str | None
    """The one that the session was set to; None where its router chooses."""
    messages: Sequence[Message]
    tool_ids: ToolIdMap
    attempts: Sequence[Message] = ()
    """Replies that broke and were billed; they have no content."""
    extensions: Mapping[str, Any] = field(default_factory=dict)
    """What is kept beside messages, as JSON by message id: the labels of their data."""


def write(stored: Stored) -> bytes:
    written = {
        "dragoman_session": VERSION,
        "session_id": stored.session_id,
        "model": stored.model,
        "tool_ids": stored.tool_ids.dump(),
        "messages": list(map(_written, stored.messages)),
    }
    if stored.attempts:
        written["attempts"] = list(map(_written, stored.attempts))
    beside = {of.id: stored.extensions[of.id] for of in stored.messages if of.id in stored.extensions}
    if beside:
        written["extensions"] = beside
    return wirejson.dumps(written)


def _written(message: Message) -> dict[str, Any]:
    return message.model_dump(mode="json", exclude_none=True)


def read(data: bytes | str, mint: Callable[[], str]) -> Stored:
    """What `write` wrote; ``mint`` makes the tool ids to come. Raises ConfigurationError where it is something else."""
    try:
        raw: dict[str, Any] = wirejson.loads_object(data, what="the stored session")
        if raw.get("dragoman_session") != VERSION:
            raise ConfigurationError(
                f"this is no stored session of version {VERSION}: its version is {raw.get('dragoman_session')!r:.80}"
            )
        return Stored(
            str(raw["session_id"]),
            None if raw["model"] is None else str(raw["model"]),
            [read_message(message) for message in raw["messages"]],
            ToolIdMap.load(raw["tool_ids"], mint),
            [read_message(message) for message in raw.get("attempts", ())],
            {str(of): dict(kept) for of, kept in raw.get("extensions", {}).items()},
        )
    except MalformedReplyError as error:
        raise ConfigurationError(error.message) from None
    except MALFORMED as error:
        raise ConfigurationError(f"this is no stored session: {type(error).__name__}: {error!s:.400}") from None
