"""The settings of a client, for editors and type checkers.

`python -m tests.upkeep.settings` writes this file from the declarations.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypedDict

from dragoman.adapter.contract import AdapterOptions, Prices
from dragoman.transport.settings import Providers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.canonical.extensions.extensions import Extensions
    from dragoman.configuration.session_store import SessionStore
    from dragoman.events.bus import EventBus
    from dragoman.limits import Limits
    from dragoman.limits.budget import Budget
    from dragoman.policy import Pipeline
    from dragoman.routing import Router
    from dragoman.transport.exchanges import ExchangeHook


class ClientSettings(TypedDict, total=False):
    """The settings of a client, which `ClientConfig` declares."""

    providers: Providers | None
    """The settings of each provider, such as its key; see `ProviderSettings`."""
    options: AdapterOptions | None
    """The options of every session that has none of its own."""
    router: "Router | None"
    """Chooses the models of sessions that have no router of their own."""

    policy: "Pipeline | Sequence[Any] | None"
    """Judges everything that goes to a model or comes from one. A list of plugins becomes a `Pipeline`."""
    extensions: "Extensions | None"
    """The program's facts for the plugins, such as the user. They hold for all that has none of its own: sessions, bulk
    runs, batches, vectors and services."""
    limits: "Limits | None"
    """Delay each request until it may start."""
    budgets: "Iterable[Budget]"
    """What may be spent, by default by the client in all. The budgets of a session count as well."""
    events: "EventBus | None"
    """Receives the events of each turn. It is never closed."""

    store: "SessionStore | str | None"
    """Saves each session. A URL such as ``sqlite:///chats.db`` becomes a `Store`, which the client closes."""
    prices: Prices | None
    """The price table; None is the bundled one."""
    on_exchange: "ExchangeHook | None"
    """Receives each attempt of a request to any provider as it went over the wire, without secrets, for debugging."""
