"""Access control: the caller of a request, the interface that checks its key, and access without keys."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from dragoman.limits import Budget, Governor, Limit, MeasureUsage
from dragoman.messages import TokenUsage, Usage
from dragoman_gateway.access.page_rules import PageRules


class Prices(Protocol):
    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. A caller without a key came through the loopback address of an open gateway."""

    key_id: str | None = None
    """The public id of the key, never the key."""
    user: str | None = None
    team: str | None = None
    roles: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    """What the plugins of a policy and its object profiles can see of the caller."""
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

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes under which its spend is counted."""
        names = (("key", self.key_id), ("user", self.user), ("team", self.team))
        return tuple(f"{kind}:{name}" for kind, name in names if name is not None)


class Access(Protocol):
    """Checks keys, and returns what a caller may spend."""

    async def authenticate(self, headers: Mapping[str, str], resumed: str | None = None) -> Caller:
        """Return the caller of a request with these headers, whose names are in lower case. ``resumed`` is the key that
        began what a request without one goes on with, at an address that only that caller was given.

        Raises AuthenticationError if there is no valid key.
        """
        ...

    async def limits_for(self, caller: Caller) -> tuple[Budget | Limit, ...]:
        """Return the budgets and limits of the caller that are counted in this process."""
        ...

    def governor_for(self, caller: Caller, prices: Prices) -> Governor | None:
        """Return what lets each attempt of the caller's requests start and counts what it used; None for nothing."""
        ...

    async def check(self, caller: Caller, prices: Prices, measure: MeasureUsage | None = None) -> None:
        """Raise what the governor would refuse now, and count nothing: something is about to be stored for the attempt
        that ``measure`` measures. Without a measure, the request is not read yet: refuse a caller who has nothing left
        for any request."""
        ...


ANYONE = Caller()
"""Every caller of a gateway without keys, whom nothing bounds."""


class OpenAccess:
    """Lets every program in, and no web page of another site, which ``rules`` recognize. `dragoman serve` refuses to
    listen on other addresses than loopback with it.
    """

    def __init__(self, rules: PageRules | None = None) -> None:
        self.rules = rules or PageRules()

    async def authenticate(self, headers: Mapping[str, str], resumed: str | None = None) -> Caller:
        self.rules.check(headers)
        return ANYONE

    async def limits_for(self, caller: Caller) -> tuple[Budget | Limit, ...]:
        return ()

    def governor_for(self, caller: Caller, prices: Prices) -> Governor | None:
        return None

    async def check(self, caller: Caller, prices: Prices, measure: MeasureUsage | None = None) -> None:
        """Refuse nothing."""
