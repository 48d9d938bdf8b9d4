"""ClientConfig: what holds for every session, question, bulk run and batch of a client."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack

from dragoman.adapter import registry
from dragoman.adapter.contract import AdapterOptions, Prices
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.names import check_names
from dragoman.configuration.transports import Transports
from dragoman.configuration.validation import check_settings, merge_providers, read_budgets, read_providers
from dragoman.transport.settings import seal_keys

if TYPE_CHECKING:
    from dragoman.canonical.extensions.extensions import Extensions
    from dragoman.configuration.session_store import SessionStore
    from dragoman.configuration.settings import ClientSettings
    from dragoman.events.bus import EventBus
    from dragoman.limits import Limits
    from dragoman.limits.budget import Budget
    from dragoman.policy import Pipeline
    from dragoman.routing import Router
    from dragoman.transport.exchanges import ExchangeHook

_GOVERNING = {"policy": "a policy", "limits": "limits", "events": "an event bus", "store": "a store"}
"""Settings of a client that a session cannot replace: what they govern would be ungoverned there."""


@dataclass(slots=True, eq=False)
class Lifetime:
    """What a client has while it is open, beside its settings."""

    transports: Mapping[bool, Transports[Any]]
    """The sync and the async ones, by whether they are async. Sessions share them, and so do clients that are derived
    from this one."""
    closed: bool = False
    own_store: Any = None
    """The store that the client has opened."""
    on_billed: Callable[[Any], None] | None = None
    """Receives each reply that was billed, for `Client.cost`."""
    plain_session: Any = None
    """The settings of sessions that have none of their own, made by the first of them."""

    def end(self) -> None:
        """Close the client and its own store."""
        self.closed = True
        if self.own_store is not None:
            self.own_store.close()

    def check(self) -> None:
        """Raise ConfigurationError if the client is closed."""
        if self.closed:
            raise ConfigurationError("the client is closed: make a new one, or close it after its last session")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The validated settings of a client. What a caller gives never changes.

    Raises ConfigurationError for a value of the wrong class, and for unknown providers and settings.
    """

    providers: Mapping[str, Mapping[str, Any]] | None = field(
        default=None,
        repr=False,
        metadata={"accepts": "Providers | None"},  # for `python -m tests.upkeep.settings`
    )
    """The settings of each provider, such as its key; see `ProviderSettings`."""
    options: AdapterOptions | None = None
    """The options of every session that has none of its own."""
    router: "Router | None" = None
    """Chooses the models of sessions that have no router of their own."""

    policy: "Pipeline | None" = field(default=None, metadata={"accepts": '"Pipeline | Sequence[Any] | None"'})
    """Judges everything that goes to a model or comes from one. A list of plugins becomes a `Pipeline`."""
    extensions: "Extensions | None" = None
    """The program's facts for the plugins, such as the user. They hold for all that has none of its own: sessions, bulk
    runs, batches, vectors and services."""
    limits: "Limits | None" = None
    """Delay each request until it may start."""
    budgets: "Iterable[Budget]" = ()
    """What may be spent, by default by the client in all. The budgets of a session count as well."""
    events: "EventBus | None" = None
    """Receives the events of each turn. It is never closed."""

    store: "SessionStore | None" = field(default=None, metadata={"accepts": '"SessionStore | str | None"'})
    """Saves each session. A URL such as ``sqlite:///chats.db`` becomes a `Store`, which the client closes."""
    prices: Prices | None = None
    """The price table; None is the bundled one."""
    on_exchange: "ExchangeHook | None" = None
    """Receives each attempt of a request to any provider as it went over the wire, without secrets, for debugging."""
    lifetime: Lifetime = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.policy, (list, tuple)):
            from dragoman.policy import Pipeline

            object.__setattr__(self, "policy", Pipeline(self.policy))
        settings = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        del settings["providers"]
        url = settings.pop("store") if isinstance(self.store, str) else None
        check_settings(settings)
        providers = read_providers(self.providers)
        if self.on_exchange is not None:  # a provider's own hook is kept
            hooked = {name: {"on_exchange": self.on_exchange} for name in registry.providers()}
            providers = merge_providers(hooked, providers)
        object.__setattr__(self, "providers", providers)
        object.__setattr__(self, "budgets", read_budgets(self.budgets, "client"))
        transports = {each: Transports[Any](providers, asynchronous=each) for each in (False, True)}
        object.__setattr__(self, "lifetime", Lifetime(transports))
        if url is not None:  # opened last: nothing can fail after it
            from dragoman.store import Store

            self.lifetime.own_store = Store(url)
            object.__setattr__(self, "store", self.lifetime.own_store)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        """Return the configuration. Raises ConfigurationError for an unknown name, with the nearest known one."""
        settings = seal_keys(settings)
        _check_names(settings)
        return cls(**settings)

    def with_(self, **changes: "Unpack[ClientSettings]") -> Self:
        """Return a configuration with some settings replaced. It shares the connections, unless ``providers`` or
        ``on_exchange`` change. A store stays that of the first client, which closes it.

        The settings of a provider are merged into those that it has.
        """
        settings = seal_keys(changes)
        _check_names(settings)
        shares_connections = not {"providers", "on_exchange"} & settings.keys()
        if not shares_connections:
            # The hook of all exchanges was given to every provider: the new one takes its place.
            own = {
                name: {
                    key: value for key, value in each.items() if key != "on_exchange" or value is not self.on_exchange
                }
                for name, each in (self.providers or {}).items()
            }
            settings["providers"] = merge_providers(own, read_providers(settings.get("providers")))
        derived = replace(self, **settings)
        if shares_connections:
            derived.lifetime.transports = self.lifetime.transports
        return derived

    def new_transports(self, own: Mapping[str, Mapping[str, Any]], *, asynchronous: bool) -> Transports[Any]:
        """Return transports for a caller with settings of its own, by provider, besides those of the client."""
        return Transports(merge_providers(self.providers or {}, own), asynchronous=asynchronous)

    def session_settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a session of this client, given those that the caller passed.

        Budgets and providers are added to the client's; options, router, prices and extensions replace them. Raises
        ConfigurationError if the caller replaces the policy, the limits, the events or the store.
        """
        merged = dict(settings)
        for name, described in _GOVERNING.items():
            ours, theirs = getattr(self, name), merged.get(name)
            if ours is not None and theirs is not None and theirs is not ours:
                raise ConfigurationError(
                    f"the client has {described} of its own, and a session cannot replace it: use a client with "
                    f"another, client.with_({name}=...)"
                )
            merged[name] = theirs if ours is None else ours
        for name in ("options", "router", "prices", "extensions"):
            if merged.get(name) is None:
                merged[name] = getattr(self, name)
        merged["budgets"] = self.budgets
        if "budgets" in settings:
            check_settings({"budgets": settings["budgets"]})
            merged["budgets"] = (*self.budgets, *read_budgets(settings["budgets"], "session"))
        return merged


def _check_names(settings: Mapping[str, Any]) -> None:
    check_names(settings, [each.name for each in fields(ClientConfig) if each.init], "setting of a client")


class HasConfig(Protocol):
    """A client."""

    @property
    def config(self) -> ClientConfig: ...


class _Default:
    """The client of sessions and questions that name none."""

    config: ClientConfig | None = None


def set_default_config(config: ClientConfig | None) -> None:
    """Set the client of sessions, questions and bulk runs that name none. None removes it."""
    _Default.config = config


def is_client(value: object) -> bool:
    """Whether the value is a client of this library, not the HTTP client of a provider."""
    return isinstance(value if isinstance(value, ClientConfig) else getattr(value, "config", None), ClientConfig)


def client_config(client: "ClientConfig | HasConfig | None") -> ClientConfig | None:
    """Return the configuration of a client, or that of the default client if it is None.

    Raises ConfigurationError if the value is not a client, or if the client is closed.
    """
    config = _Default.config if client is None else client
    if config is not None and not isinstance(config, ClientConfig):
        config = getattr(config, "config", None)
        if not isinstance(config, ClientConfig):
            raise ConfigurationError(
                f"client must be a Client or an AsyncClient, not a value of the class {type(client).__name__}: "
                "the HTTP client of a provider belongs in providers={...}"
            )
    if config is not None:
        config.lifetime.check()
    return config
