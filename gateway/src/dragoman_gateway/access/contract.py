"""Who may use the gateway: what a caller is, and what checks a request's key."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from dragoman import Adapter, AdapterOptions, Message, ToolDefinition
from dragoman.answers import Admitted
from dragoman.limits import Budget, Limit
from dragoman.messages import TokenUsage, Usage

Middleware = Callable[[Generator[Any, Any, None]], Generator[Any, Any, None]]
"""Wraps a turn of a session, as `dragoman.session.effects` describes."""
Question = tuple[Sequence[Message], Sequence[ToolDefinition], AdapterOptions]


class Prices(Protocol):
    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage: ...


class AttemptMiddleware(ABC):
    """A `Middleware` that also admits requests that go through without a session."""

    @abstractmethod
    def __call__(self, turn: Generator[Any, Any, None], /) -> Generator[Any, Any, None]: ...

    @property
    @abstractmethod
    def watches_streams(self) -> bool:
        """Whether a stream has to be read event by event, which only a session does."""

    @abstractmethod
    async def admit(self, adapter: Adapter, read: Callable[[], Question], prices: Prices) -> Admitted:
        """Admit one attempt. ``read`` returns what is asked; reading costs time, so it is called only if that counts.

        Raises what the client gets as an error.
        """


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request. A caller without a key came over the loopback address of an open gateway."""

    key_id: str | None = None
    """The public id of the key, never the key."""
    user: str | None = None
    team: str | None = None
    models: tuple[str, ...] = ()
    """Patterns of the models that the caller may use, such as ``anthropic:*``; empty for all."""
    endpoints: tuple[str, ...] = ()
    """The endpoints that the caller may use, such as ``messages``; empty for all."""
    admin: bool = False
    """Whether the caller may see what others spent. Such a caller may use no model."""

    @property
    def owner(self) -> str:
        """The owner of what the caller makes: its key; empty in a gateway without keys."""
        return self.key_id or ""


class Access(Protocol):
    """Checks keys, and says what a caller may spend."""

    async def authenticate(self, headers: Mapping[str, str]) -> Caller:
        """Return the caller of a request with these headers, whose names are in lower case.

        Raises AuthenticationError if there is no valid key.
        """
        ...

    async def limits_for(self, caller: Caller) -> tuple[Budget | Limit, ...]:
        """Return the budgets and limits of the caller that are counted in this process."""
        ...

    def middleware(self, caller: Caller) -> Middleware | None:
        """Return what admits each attempt of the caller's requests and counts what it used; None for nothing."""
        ...
