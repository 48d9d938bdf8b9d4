"""A turn that has begun, as a session and its store know it apart from the history."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.message import Message

REPEATABLE = frozenset({"none", "read"})
"""The side effects of tools whose calls may run twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """A request of a turn that gave no usable reply.

    ``error`` is the class of the error. ``cost_usd`` is what the provider has reported, a lower bound; None if the cost
    is not known. ``reply_id`` names the broken reply among the session's ``attempts``.
    """

    model: str
    """The model that was asked, as ``provider:name``."""
    error: str
    cost_usd: Decimal | None = None
    reply_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgress:
    """A call that has started, or whose result comes from elsewhere.

    ``result`` is its result if it has ended. ``waits``: the result comes from elsewhere.
    """

    started: bool = True

    side_effects: str | None
    result: ToolResultBlock | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTurn:
    """A turn that has not ended. ``number`` is the version of the session that began it.

    ``prompt`` is what the model was asked; it enters the history with the first reply. The messages of the history from
    ``first_message`` on belong to the turn. ``calls`` are those that have started or wait, by call id.
    """

    number: int = 0
    prompt: tuple[Message, ...] = ()
    first_message: int = 0
    attempts: tuple[FailedAttempt, ...] = ()
    calls: Mapping[str, CallProgress] = field(default_factory=dict)
    retention: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """How long the data of a message of the prompt may be kept, by its id; see `stored_retention`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStep:
    """What a step changes. A store writes it together with the messages of the step.

    ``number`` is that of the turn; a step that ``begins`` the turn has none. ``state`` is that of the turn after the
    step: a turn that is done leaves nothing behind, and one that failed stays with its ``error``. ``turn`` is the turn
    if it begins, or if its prompt or its attempts have changed. ``given_up`` is the number of an open turn that another
    one replaces.
    """

    number: int = 0
    state: Literal["open", "done", "failed"] = "open"
    error: str | None = None
    begins: bool = False
    turn: OpenTurn | None = None
    given_up: int = 0
    started: Mapping[str, str | None] = field(default_factory=dict)
    """The side effects of calls that start, by call id."""
    ended: Mapping[str, ToolResultBlock | None] = field(default_factory=dict)
    """The results of calls that have ended, by call id; None if the result comes from elsewhere."""
