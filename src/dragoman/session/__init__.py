"""Sessions: a conversation that asks, runs tools, and changes its model between turns."""

from typing import TYPE_CHECKING

from dragoman.lazy_names import lazy_names

if TYPE_CHECKING:
    from dragoman.effects import ResponseDetails
    from dragoman.limits.budget import Budget
    from dragoman.open_turns import FailedAttempt
    from dragoman.session.async_session import AsyncSession
    from dragoman.session.cost import Cost
    from dragoman.session.effects import SessionEvent, ToolAnswered
    from dragoman.session.identity import Pseudonyms
    from dragoman.session.preview import Preview
    from dragoman.session.question import ask
    from dragoman.session.reply import Reply
    from dragoman.session.session import Session
    from dragoman.session.stream import AsyncReplyStream, ReplyStream
    from dragoman.session.turn.answers import UnfinishedTurn
    from dragoman.tools.tool import Tool, tool
    from dragoman.tools.toolbox import Toolbox

__all__ = [
    "AsyncReplyStream",
    "AsyncSession",
    "Budget",
    "Cost",
    "FailedAttempt",
    "Preview",
    "Pseudonyms",
    "Reply",
    "ReplyStream",
    "ResponseDetails",
    "Session",
    "SessionEvent",
    "Tool",
    "ToolAnswered",
    "Toolbox",
    "UnfinishedTurn",
    "ask",
    "tool",
]

_EXPORTS = {
    "effects": ("ResponseDetails",),
    "limits.budget": ("Budget",),
    "open_turns": ("FailedAttempt",),
    "session.async_session": ("AsyncSession",),
    "session.cost": ("Cost",),
    "session.effects": ("SessionEvent", "ToolAnswered"),
    "session.identity": ("Pseudonyms",),
    "session.preview": ("Preview",),
    "session.reply": ("Reply",),
    "session.stream": ("AsyncReplyStream", "ReplyStream"),
    "session.session": ("Session",),
    "session.question": ("ask",),
    "session.turn.answers": ("UnfinishedTurn",),
    "tools.tool": ("Tool", "tool"),
    "tools.toolbox": ("Toolbox",),
}

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__, __dir__ = lazy_names(globals(), _EXPORTS)
