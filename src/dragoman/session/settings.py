"""The settings of a session, and the options of a turn, for editors and type checkers.

`python -m tests.upkeep.settings` writes this file from the declarations.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from dragoman.adapter.contract import AdapterOptions, Prices
from dragoman.adapter.options import ToolChoice
from dragoman.configuration import ClientConfig, HasConfig
from dragoman.transport.settings import Providers

if TYPE_CHECKING:
    from dragoman.canonical.extensions.extensions import Extensions
    from dragoman.events.bus import EventBus
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


class ConfigSettings(TypedDict, total=False):
    """The settings that `SessionConfig` declares."""

    tools: "Iterable[AnyTool] | Toolset"
    """What the model may call: functions, `Tool` objects and tools of `dragoman.server_tools`. A `ToolDefinition` is a
    tool whose calls wait for `Session.answer`. One function in place of the list returns the tools of a turn, and is
    called with a `Context` when the turn starts."""
    context: Any
    """The value that tools with a `Context` receive. It is not sent and not stored."""
    max_parallel_tools: int
    """The most calls of tools that run at the same time, at least 1."""

    options: AdapterOptions | None
    """The options of every turn that does not override them."""
    client: ClientConfig | HasConfig | None
    """The client of the session, whose settings hold here too; by default the one of `set_default_client`, if any."""
    providers: Providers | None
    """The settings of each provider, such as its key; see `ProviderSettings`. The settings of the client hold where
    these say nothing. ``api_key`` and ``base_url`` of a session are those of its model's provider."""

    workspace: str | Path | None
    """The folder with the media of the kind ``file_ref``. Each file is read once, so that what was sent stays the same
    if the file changes."""
    fetch: "Callable[[str], FetchedMedia] | None"
    """Fetches media if the model does not accept their URLs, once for each URL. An example is
    `dragoman.transport.fetch.Fetcher`. Without it, nothing is fetched."""
    approve: "Approve | None"
    """Decides before each call of a tool. If it declines, the model receives an error; if it returns `Later`, the call
    waits for `Session.answer`. Without it, every call runs."""
    max_rounds: int
    """The rounds of tools in one turn, at least 1."""

    budgets: "Iterable[Budget]"
    """Limits on what the session may spend, checked before each request."""
    limits: "Limits | None"
    """Delay each request until it may start (see `dragoman.limits`)."""
    router: "Router | None"
    """Chooses the model of each turn, and a fallback if one fails before the caller receives anything. The model
    of the session, or that of a `swap`, is then one of its inputs; it may be an alias, or None."""
    events: "EventBus | None"
    """Receives the events of each turn. It is never closed."""

    policy: "Pipeline | None"
    """Its plugins see what goes in and out of models, tools, prompts and resources, and may change or deny it."""
    extensions: "Extensions | None"
    """The program's facts for the plugins, such as the user."""
    labels: Iterable[str]
    """Security labels of the data that the session starts with, besides those that its messages carry."""
    labels_without_policy: Literal["refuse", "allow"]
    """Whether a session with labels is refused if nothing reads them: neither a policy nor a router. ``allow`` writes a
    warning to the log."""

    middleware: "Iterable[Middleware]"
    """Wrappers of each turn, the outermost first (see `dragoman.session.middleware`)."""
    governors: "Iterable[Governor]"
    """What each attempt needs before it is sent, behind the labels, the budgets and the limits."""
    durability: Literal["step", "turn"]
    """When a turn is saved: each step when it happens, or all of them at its end. With ``step``, a killed program loses
    none; ``turn`` is faster."""
    prices: Prices | None
    """The price table; None is the bundled one."""
    new_id: Callable[[], str]
    """Creates ids. With ``clock``, it makes a session deterministic in tests."""
    clock: Callable[[], datetime]
    """Returns the time, with its zone."""

    user_id: str | None
    """The user's id, which is written to each message. It must not identify a person, unless ``pseudonyms`` turns it
    into a pseudonym."""
    team_id: str | None
    """The team's id, as ``user_id``."""
    pseudonyms: "Pseudonyms | None"
    """Turns the ids of users and teams into pseudonyms, with a key of the program."""


class RequestOptions(TypedDict, total=False):
    """The options of one request, which `AdapterOptions` declares."""

    max_output_tokens: int | None
    """The most tokens of a reply, reasoning included."""
    temperature: float | None
    """How random the choice of each token is: from 0, the least, up to 1 or 2, by provider."""
    top_p: float | None
    """Choose among the most likely tokens only: those that together have this probability."""
    top_k: int | None
    """Choose among this many of the most likely tokens."""
    frequency_penalty: float | None
    """Makes tokens less likely the more often they occurred, usually from -2 to 2."""
    presence_penalty: float | None
    """Makes tokens less likely that occurred at all, usually from -2 to 2."""
    seed: int | None
    """Makes replies repeatable, as far as the provider can."""
    stop_sequences: tuple[str, ...]
    """Texts that end the reply when the model writes one of them. A plain string counts as one sequence."""

    tool_choice: ToolChoice | None
    """Whether the model may call tools, must not or must; a `NamedTool` must be called."""
    parallel_tool_calls: bool | None
    """Whether one reply may call several tools."""
    output_schema: Mapping[str, Any] | None
    """A JSON Schema that the answer's text obeys."""

    effort: str | None
    """Reasoning effort: none, minimal, low, medium, high, xhigh or max. The adapter maps it to the model's levels."""
    thinking: bool | None
    """Whether to reason, and to return the reasoning if the model hides it by default."""
    thinking_budget: int | None
    """The limit of reasoning tokens, for models that accept a budget."""

    prompt_cache: Literal["5m", "1h"] | None
    """Request prompt caching with that lifetime, if caching is not automatic."""
    service_tier: str | None
    """How fast and at which price to serve: auto, standard, flex or priority, or a word of the provider's own."""
    verbosity: Literal["low", "medium", "high"] | None
    """How long the answer should be."""
    reasoning_summary: str | None
    """How much of the reasoning to return as a summary: auto, concise or detailed."""

    user: str | None
    """An id of your end user by which a provider recognises abuse. It must not identify a person."""
    metadata: Mapping[str, str] | None
    """Labels that the provider stores with the request, such as for its bill."""
    safety: Literal["off", "standard", "strict"] | None
    """How much the provider's own filter of harmful content blocks."""
    logprobs: int | None
    """Return the log probability of each token of the answer, and of this many alternatives to it."""

    server_state: bool | str | None
    """Continue the history that the provider stores, and send only what is new. True: after its last reply. A text: in
    the provider's conversation of that id. If the history was edited, or the provider no longer has it, all is sent."""
    background: bool | float | None
    """Let the provider work on the reply without an open connection, and ask for it until it has ended. A number is the
    seconds after which it is cancelled. A stream then has progress events, and the whole reply at its end."""
    n: int | None
    """How many answers to the same prompt to return: the first one is the message, the others are its `alternatives`.
    Each of them is paid for. 1 is the same as None."""
    num_ctx: int | None
    """The context window that a local server reserves, in tokens."""
    keep_alive: str | int | None
    """How long a local server keeps the model in memory, such as ``10m``, or seconds."""

    strict_prefix: bool
    """Raise ProjectionError for a request that would void signed thinking of earlier turns."""
    headers: Mapping[str, Mapping[str, str]]
    """Headers by provider name. No other provider receives them."""
    extra: Mapping[str, Mapping[str, Any]]
    """Body fields by provider name; no other provider receives them. They are merged into the body at any depth. If an
    option sets the same field, the value here is sent, and the option is a loss. Tools are added to the tools. The
    value ``...`` removes a field from the body."""
