"""The settings of a session, and the options of one turn, typed for editors and type checkers."""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Union

from typing_extensions import TypeAliasType

from dragoman.adapter.contract import AdapterOptions, Prices
from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.names import check_names
from dragoman.adapter.registry import parse_model
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import ContentBlock
from dragoman.canonical.ids import new_message_id, utc_now
from dragoman.canonical.message import Message
from dragoman.configuration import ClientConfig, client_config
from dragoman.configuration.transports import Transports
from dragoman.configuration.validation import (
    check_provider_names,
    check_settings,
    merge_providers,
    read_budgets,
    read_providers,
)
from dragoman.credentials.contract import ApiKey
from dragoman.session.settings import ConfigSettings, RequestOptions

if TYPE_CHECKING:
    from dragoman.canonical.extensions.extensions import Extensions
    from dragoman.configuration.session_store import SessionStore
    from dragoman.events.bus import EventBus
    from dragoman.formats.body.message_body import MessageBody
    from dragoman.limits import Limits
    from dragoman.limits.budget import Budget
    from dragoman.limits.reservation import Governor
    from dragoman.policy import Pipeline
    from dragoman.routing import Router
    from dragoman.session.identity import Pseudonyms
    from dragoman.session.middleware import Middleware
    from dragoman.tools.context import Approve
    from dragoman.tools.toolbox import AnyTool, Toolset
    from dragoman.transport.fetch import FetchedMedia

OutputT = TypeVar("OutputT")
"""The type of a turn's answer."""

UserInput = TypeAliasType("UserInput", Union[str, ContentBlock, Iterable[ContentBlock], Message, "MessageBody"])
"""A prompt: a text, a block, several blocks, a whole message, or a message body."""

DEFAULT_PARALLEL_TOOLS = 8
"""The default of ``max_parallel_tools``."""

DEFAULT_MAX_ROUNDS = 20
"""The default of ``max_rounds``: rounds of tools in one turn."""


@dataclass(frozen=True, kw_only=True)
class SessionConfig:
    """The validated settings of a session, which never change.

    Raises ConfigurationError for a value of the wrong class.
    """

    tools: "Iterable[AnyTool] | Toolset" = ()
    """What the model may call: functions, `Tool` objects and tools of `dragoman.server_tools`. A `ToolDefinition` is a
    tool whose calls wait for `Session.answer`. One function in place of the list returns the tools of a turn, and is
    called with a `Context` when the turn starts."""
    context: Any = field(default=None, repr=False)
    """The value that tools with a `Context` receive. It is not sent and not stored."""
    max_parallel_tools: int = DEFAULT_PARALLEL_TOOLS
    """The most calls of tools that run at the same time, at least 1."""

    options: AdapterOptions | None = None
    """The options of every turn that does not override them."""
    client: ClientConfig | None = field(default=None, metadata={"accepts": "ClientConfig | HasConfig | None"})
    """The client of the session, whose settings hold here too; by default the one of `set_default_client`, if any."""
    providers: Mapping[str, Mapping[str, Any]] | None = field(
        default=None, repr=False, metadata={"accepts": "Providers | None"}
    )
    """The settings of each provider, such as its key; see `ProviderSettings`. The settings of the client hold where
    these say nothing. ``api_key`` and ``base_url`` of a session are those of its model's provider."""

    workspace: str | Path | None = None
    """The folder with the media of the kind ``file_ref``. Each file is read once, so that what was sent stays the same
    if the file changes."""
    fetch: "Callable[[str], FetchedMedia] | None" = None
    """Fetches media if the model does not accept their URLs, once for each URL. An example is
    `dragoman.transport.fetch.Fetcher`. Without it, nothing is fetched."""
    approve: "Approve | None" = None
    """Decides before each call of a tool. If it declines, the model receives an error; if it returns `Later`, the call
    waits for `Session.answer`. Without it, every call runs."""
    max_rounds: int = DEFAULT_MAX_ROUNDS
    """The rounds of tools in one turn, at least 1."""

    budgets: "Iterable[Budget]" = ()
    """Limits on what the session may spend, checked before each request."""
    limits: "Limits | None" = None
    """Delay each request until it may start (see `dragoman.limits`)."""
    router: "Router | None" = None
    """Chooses the model of each turn, and a fallback if one fails before the caller receives anything. The model
    of the session, or that of a `swap`, is then one of its inputs; it may be an alias, or None."""
    events: "EventBus | None" = None
    """Receives the events of each turn. It is never closed."""

    policy: "Pipeline | None" = None
    """Its plugins see what goes in and out of models, tools, prompts and resources, and may change or deny it."""
    extensions: "Extensions | None" = None
    """The program's facts for the plugins, such as the user."""
    labels: Iterable[str] = ()
    """Security labels of the data that the session starts with, besides those that its messages carry."""
    labels_without_policy: Literal["refuse", "allow"] = "refuse"
    """Whether a session with labels is refused if nothing reads them: neither a policy nor a router. ``allow`` writes a
    warning to the log."""

    middleware: "Iterable[Middleware]" = ()
    """Wrappers of each turn, the outermost first (see `dragoman.session.middleware`)."""
    governors: "Iterable[Governor]" = ()
    """What each attempt needs before it is sent, behind the labels, the budgets and the limits."""
    store: "SessionStore | None" = None
    """Saves each step of a turn when it happens. Its ConflictError or StoreError is raised there; the session keeps
    what it has."""
    durability: Literal["step", "turn"] = "step"
    """When a turn is saved: each step when it happens, or all of them at its end. With ``step``, a killed program loses
    none; ``turn`` is faster."""
    prices: Prices | None = None
    """The price table; None is the bundled one."""
    new_id: Callable[[], str] = new_message_id
    """Creates ids. With ``clock``, it makes a session deterministic in tests."""
    clock: Callable[[], datetime] = utc_now
    """Returns the time, with its zone."""

    user_id: str | None = None
    """The user's id, which is written to each message. It must not identify a person, unless ``pseudonyms`` turns it
    into a pseudonym."""
    team_id: str | None = None
    """The team's id, as ``user_id``."""
    pseudonyms: "Pseudonyms | None" = None
    """Turns the ids of users and teams into pseudonyms, with a key of the program."""

    own_providers: bool = field(init=False, repr=False)
    """Whether some settings of providers are the session's own."""

    def __post_init__(self) -> None:
        for name, value in (("max_rounds", self.max_rounds), ("max_parallel_tools", self.max_parallel_tools)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"{name} is a whole number, at least 1")
        if self.labels_without_policy not in ("refuse", "allow"):
            raise ConfigurationError(f"labels_without_policy: {self.labels_without_policy!r:.80}: use refuse or allow")
        values = zip(_DEFAULTS.items(), _values(self), strict=True)
        check_settings({name: value for (name, default), value in values if value is not default})
        own = read_providers(self.providers)
        object.__setattr__(self, "own_providers", bool(own) or self.client is None)
        shared = {} if self.client is None else self.client.providers or {}
        object.__setattr__(self, "providers", merge_providers(shared, own) if shared else own)
        object.__setattr__(self, "budgets", read_budgets(self.budgets, "session"))
        for name in ("middleware", "governors", "labels"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.durability not in ("step", "turn"):
            raise ConfigurationError(f"durability: {self.durability!r:.80}: use step or turn")
        if not all(isinstance(label, str) for label in self.labels):
            raise ConfigurationError("labels are texts, such as labels=['pii']")
        if self.labels and self.policy is not None:
            from dragoman.policy.labels import with_labels

            object.__setattr__(self, "extensions", with_labels(self.extensions, self.labels))
        object.__setattr__(self, "tools", _keep_tools(self.tools))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, model: str | None = None) -> Self:
        """Return the configuration. ``model`` is that of the session, or an alias of it.

        Raises ConfigurationError for an unknown name, with what to write or the nearest known one.
        """
        client = client_config(settings.get("client"))
        if client is not None and settings.keys() <= _USUAL_NAMES and settings.get("store") is None:
            plain: Self | None = client.lifetime.plain_session
            if plain is None:
                plain = client.lifetime.plain_session = cls(**client.session_settings({}), client=client)
            if "tools" not in settings:
                return plain
            check_settings({"tools": settings["tools"]})  # all others were checked with those of the client
            with_tools = copy(plain)
            object.__setattr__(with_tools, "tools", _keep_tools(settings["tools"]))
            return with_tools
        provider = None if model is None or ":" not in model else model.partition(":")[0]
        check_names(settings, _NAMES, "setting of a session", provider=provider)
        merged = dict(settings) if client is None else client.session_settings(settings)
        given: dict[str, Any] = {name: merged.pop(name, None) for name in ("api_key", "base_url")}
        own = {name: value for name, value in given.items() if value is not None}
        if own:
            if model is None:
                raise ConfigurationError(f"{' and '.join(own)}: a session without a model needs providers={{...}}")
            aliases = getattr(merged.get("router"), "aliases", None)
            provider = parse_model(model, getattr(aliases, "custom", None)).provider
            merged["providers"] = merge_providers(read_providers(merged.get("providers")), {provider: own})
        return cls(**{**merged, "client": client})

    def transports(self, *, asynchronous: bool) -> Transports[Any]:
        """Return the transports: those of the client, unless the session has settings of its own."""
        if self.client is None or self.own_providers:
            return Transports(self.providers or {}, asynchronous=asynchronous)
        return self.client.lifetime.transports[asynchronous]


def _keep_tools(tools: "Iterable[AnyTool] | Toolset") -> "tuple[AnyTool, ...] | Toolset":
    """Return the list of tools as it is now. A function that chooses them stays one."""
    return tuple(tools) if isinstance(tools, Iterable) else tools


class SessionSettings(ConfigSettings, total=False):
    """The settings of a session that a stored session does not contain."""

    api_key: str | ApiKey | Callable[[], Any] | None
    """The key of the model's provider, or a function that returns it."""
    base_url: str | None
    """The address of the model's provider, with its scheme."""


class NewSessionSettings(SessionSettings, total=False):
    """The settings of a new session."""

    system: str | None
    """The system prompt, which precedes ``messages``."""
    messages: Iterable[Message]
    """A history to continue."""
    session_id: str | None
    """The id of the session; by default a new one."""
    tool_ids: ToolIdMap | None
    """The ids that tool calls of the history have at each provider."""
    store: "SessionStore | None"
    """Saves each step of a turn when it happens."""


_DEFAULTS = {each.name: each.default for each in fields(SessionConfig) if each.init}
_values = attrgetter(*_DEFAULTS)
_NAMES = {**_DEFAULTS, "api_key": None, "base_url": None}
_PLAIN_NAMES = {"client", "store"}
"""The settings of a session that has none of its own."""
_USUAL_NAMES = {*_PLAIN_NAMES, "tools"}


class TurnOptions(RequestOptions, total=False):
    """Options that replace the session's for one turn."""

    output_retries: int
    """How often a model is asked again if its answer is not of the requested type, by default once."""
    partial_strings: bool
    """Whether a stream shows the strings of a typed answer as they arrive, and not only at their end."""
    extensions: "Extensions | None"
    """The program's facts about this turn for the plugins. Each slot that they set replaces the session's, as does each
    field of ``security``; labels are added."""


_TURN_NAMES = dict.fromkeys((*TurnOptions.__annotations__, "output"))
_NOT_SENT = ("output_retries", "partial_strings", "extensions")
"""The options of a turn that no adapter receives."""


class QuestionSettings(NewSessionSettings, TurnOptions, total=False):
    """What one question takes: the settings of its session, and the options of its turn."""


_QUESTION_NAMES = dict.fromkeys((*QuestionSettings.__annotations__, "output"))


def split_question(model: str | None, settings: Mapping[str, Any]) -> tuple[Any, TurnOptions]:
    """Return the settings of a question's session, and the options of its turn. API keys are sealed before.

    Raises ConfigurationError for an unknown name, with what to write.
    """
    given, options = dict(settings), {}
    if given.keys() - _PLAIN_NAMES:
        provider = None if model is None or ":" not in model else model.partition(":")[0]
        check_names(given, _QUESTION_NAMES, "argument of a question", provider=provider)
        own = TurnOptions.__annotations__.keys() - SessionSettings.__annotations__.keys()
        options = {name: given.pop(name) for name in own if name in given}
    return given, options  # type: ignore[return-value]  # the names were checked


def merge_options(
    options: AdapterOptions, overrides: TurnOptions | None = None, *, stream: bool = False
) -> AdapterOptions:
    """Merge the options of a session and of one turn, as adapters take them. Raises RequestError, and
    ConfigurationError for an unknown option."""
    if not overrides and stream == options.stream:
        plain = not (options.extra or options.headers or options.output_schema)
        return options if plain else _check_options(options)
    given = overrides or {}
    if options.extra or options.headers or "extra" in given or "headers" in given:
        return _merge(options, given, stream)
    key = (id(options), stream, *given, *given.values(), *map(type, given.values()))
    try:
        known = _MERGED.get(key)
    except TypeError:  # a value that is not hashable may change
        return _merge(options, given, stream)
    if known is not None and known[0] is options:
        return known[1]
    if len(_MERGED) >= _MAX_MERGED:
        _MERGED.clear()
    _MERGED[key] = known = options, _merge(options, given, stream)
    return known[1]


_MERGED: dict[tuple[Any, ...], tuple[AdapterOptions, AdapterOptions]] = {}
"""Options that were merged lately, by the options of the turn, with those of the session. No headers are among them."""
_MAX_MERGED = 256


def _merge(options: AdapterOptions, overrides: Mapping[str, Any], stream: bool) -> AdapterOptions:
    changes = dict(overrides)
    if changes:
        check_names(changes, _TURN_NAMES, "option of a turn")
        for name in _NOT_SENT:
            changes.pop(name, None)
    return _check_options(replace(options, stream=stream, **changes))


def _check_options(merged: AdapterOptions) -> AdapterOptions:
    if merged.extra or merged.headers:
        check_provider_names("extra", merged.extra)
        check_provider_names("headers", merged.headers)
    if not isinstance(merged.output_schema, Mapping | None):
        given = type(merged.output_schema).__name__
        raise RequestError(f"output_schema is a JSON Schema, a dict, and not a value of the class {given}: see output=")
    return merged
