"""The state of a session and everything that needs no I/O: the part that both drivers share."""

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Unpack

from dragoman.adapter.contract import AdapterOptions, bundled_prices
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.requests.encode_cache import EncodeCache
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.ids import new_session_id
from dragoman.canonical.message import Message, Role, render_end
from dragoman.canonical.usage import TokenUsage
from dragoman.configuration.transports import Transports, TransportT
from dragoman.configuration.validation import check_class, check_messages
from dragoman.session.config import SessionConfig, SessionSettings
from dragoman.session.history import History, MessageFactory, RequestHistory, may_have_labels
from dragoman.session.turn.routes import Routes
from dragoman.transport.settings import seal_keys

if TYPE_CHECKING:
    from dragoman.configuration.session_store import SessionStore
    from dragoman.limits.budget import BudgetAccounts
    from dragoman.open_turns import OpenTurn, TurnStep
    from dragoman.policy import Declassification
    from dragoman.policy.conversation.hooks import PolicyHooks
    from dragoman.routing import Router
    from dragoman.session.cost import Cost
    from dragoman.session.middleware import Middleware
    from dragoman.session.middleware.no_policy import NoPolicy, UnreadLabels
    from dragoman.session.middleware.steps import TurnSteps
    from dragoman.session.middleware.telemetry import Telemetry
    from dragoman.session.preview import Preview
    from dragoman.session.snapshot import Persistence, Snapshot
    from dragoman.tools.context import Context
    from dragoman.tools.toolbox import Toolbox

_NO_OPTIONS = AdapterOptions()


class Conversation(Generic[TransportT]):
    """A history, the model that answers next, and the tools. Use `Session` or `AsyncSession`."""

    _asynchronous: ClassVar[bool]
    """Whether tools, approvals, plugins and transports may be coroutines."""

    def __init__(
        self,
        model: str | None,
        *,
        system: str | None = None,
        messages: Iterable[Message] = (),
        session_id: str | None = None,
        tool_ids: ToolIdMap | None = None,
        store: "SessionStore | None" = None,
        **settings: Unpack[SessionSettings],
    ) -> None:
        """Raises ConfigurationError, UnknownProviderError among them, and ToolSchemaError.

        Args:
            model: The model as ``provider:name``, or an alias. With a router it may be None.

            system: The system prompt, which precedes ``messages``.
            messages: A history to continue.
            session_id: The id of the session; by default a new one.
            tool_ids: The ids that tool calls of the history have at each provider.
            store: Saves each step of a turn when it happens.

            tools: What the model may call: functions, `Tool` objects and tools of `dragoman.server_tools`.
            context: The value that tools with a `Context` receive.
            max_parallel_tools: The most calls of tools that run at the same time, at least 1.

            options: The options of every turn that does not override them.
            client: The client of the session, whose settings hold here too; by default the one of `set_default_client`,
                if any.
            providers: The settings of each provider, such as its key; see `ProviderSettings`.

            workspace: The folder with the media of the kind ``file_ref``.
            fetch: Fetches media if the model does not accept their URLs, once for each URL.
            approve: Decides before each call of a tool.
            max_rounds: The rounds of tools in one turn, at least 1.

            budgets: Limits on what the session may spend, checked before each request.
            limits: Delay each request until it may start (see `dragoman.limits`).
            router: Chooses the model of each turn, and a fallback if one fails before the caller receives anything.
            events: Receives the events of each turn.

            policy: Its plugins see what goes in and out of models, tools, prompts and resources, and may change or deny
                it.
            extensions: The program's facts for the plugins, such as the user.
            labels: Security labels of the data that the session starts with, besides those that its messages carry.
            labels_without_policy: Whether a session with labels is refused if nothing reads them: neither a policy nor
                a router.

            middleware: Wrappers of each turn, the outermost first (see `dragoman.session.middleware`).
            governors: What each attempt needs before it is sent, behind the labels, the budgets and the limits.
            durability: When a turn is saved: each step when it happens, or all of them at its end.
            prices: The price table; None is the bundled one.
            new_id: Creates ids.
            clock: Returns the time, with its zone.

            user_id: The user's id, which is written to each message.
            team_id: The team's id, as ``user_id``.
            pseudonyms: Turns the ids of users and teams into pseudonyms, with a key of the program.

            api_key: The key of the model's provider, or a function that returns it.
            base_url: The address of the model's provider, with its scheme.
        """
        settings = seal_keys(settings)  # type: ignore[assignment]  # the same settings, before anything can fail
        if model is not None and not isinstance(model, str):
            raise ConfigurationError(f"a model is a text such as anthropic:claude-opus-5-5, not {type(model).__name__}")
        self.config = config = SessionConfig.from_settings({**settings, "store": store}, model=model)
        check_class("tool_ids", tool_ids)
        self.session_id = session_id or new_session_id()
        if config.tools:
            _ = self.toolbox  # raises if a tool cannot be offered
        self.options = config.options or _NO_OPTIONS
        self.prices = config.prices if config.prices is not None else bundled_prices()
        self.tool_ids = tool_ids if tool_ids is not None else ToolIdMap(partial(new_tool_id, config.new_id))
        self._factory = MessageFactory(self.session_id, config.new_id, config.clock, config.pseudonyms)
        self.identify(config.user_id, config.team_id)
        self._encodings = EncodeCache()
        self._request_history = RequestHistory(config.workspace, fetch=config.fetch)
        self._transports: Transports[TransportT] = config.transports(asynchronous=self._asynchronous)
        if model is None and config.router is None:
            raise ConfigurationError("a session without a router needs a model")
        on_billed = None if config.client is None else config.client.lifetime.on_billed
        self._history = History([self._factory.adopt(message) for message in check_messages(messages)], on_billed)
        if system is not None:
            self._history.messages.insert(0, self._factory.new_message(Role.SYSTEM, system))
        self._accounts = self._new_accounts()
        self._persistence = self._new_persistence()
        self._steps = self._new_steps()
        self._on_swap: Callable[[str | None, Preview], object] = lambda previous, preview: None
        self._middlewares: list[Middleware] = list(reversed(tuple(config.middleware)))
        self._add_middlewares()
        # No part of a session without a store refers to it, so that it is freed without the collector.
        facts: Callable[[], Mapping[str, Any]] = dict
        if config.router is not None:
            facts = partial(_route_facts, self._factory, self._history, self._policy)
        self._routes = Routes(config.router, config.clock, facts)
        self._own = None if model is None else self._routes.own_route(model)
        """The route of the model that the session is set to."""
        if config.labels or any(map(may_have_labels, self._history.messages)):
            self._policy.restore(self._history.messages)
        elif config.tools:
            _ = self._policy  # the result of a tool may have labels
        self._check_tools()

    @property
    def model(self) -> str | None:
        """The model that answers the next turn, as ``provider:name``; with a router, the model that the session is set
        to, or None."""
        return None if self._own is None else self._own.record.chosen_model

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole history, in order, also after `compact`: only requests replace its older part by a summary. Each
        message carries its labels in ``metadata.labels``."""
        return self._history.labelled()

    def _repr_html_(self) -> str | None:

        return render_end(self.messages)

    @property
    def user_id(self) -> str | None:
        return self._factory.user_id

    @property
    def team_id(self) -> str | None:
        return self._factory.team_id

    @property
    def providers(self) -> Mapping[str, Mapping[str, Any]]:
        """The settings of each provider; keys are hidden."""
        return self.config.providers or {}

    @property
    def max_rounds(self) -> int:
        return self.config.max_rounds

    @property
    def usage(self) -> TokenUsage:
        """The tokens of all replies and attempts together."""
        return self._history.usage

    @property
    def cost(self) -> "Cost":
        """The cost of all replies and attempts together."""
        return self._history.cost

    @property
    def attempts(self) -> tuple[Message, ...]:
        """Broken or unusable replies that were billed: without content, and not part of the history. The cost of a
        broken reply is a lower bound.
        """
        return tuple(self._history.attempts.all)

    @property
    def labels(self) -> frozenset[str]:
        """Security labels of the data in the conversation."""
        return self._policy.labels

    def identify(self, user_id: str | None = None, team_id: str | None = None) -> None:
        """Set the user and the team from the next turn on. Earlier messages keep their ids.

        Raises ConfigurationError if an id is empty or, without pseudonyms, looks personal.
        """
        self._factory.identify(user_id, team_id)

    def cost_on(self, model: str) -> "Cost":
        """Return what the same replies would have cost on another model, token for token, at current prices."""
        from dragoman.session.cost import cost_on  # imported late: few programs ask

        target = str(self._routes.find(model).model_id)
        return cost_on(self._history.billed, target, self.prices, self.config.clock())

    @cached_property
    def toolbox(self) -> "Toolbox":
        """The tools of the session. One without tools has none before somebody asks for it."""
        from dragoman.tools.toolbox import Toolbox  # imported late: many sessions have no tools

        return Toolbox(self.config.tools if isinstance(self.config.tools, tuple) else ())

    @cached_property
    def _policy(self) -> "PolicyHooks | NoPolicy":
        """What judges the data of the session. Without a policy, it keeps labels, and is made when there may be any."""
        from dragoman.session.middleware.no_policy import NoPolicy

        labels = frozenset(self.config.labels)
        keeper = NoPolicy(self._history.extensions, labels, self._unread_labels, self.toolbox)
        self._middlewares.insert(len(tuple(self.config.middleware)), keeper)  # inside of all that the session has
        return keeper

    @property
    def _unread_labels(self) -> "UnreadLabels":
        return "read" if self.config.router is not None else self.config.labels_without_policy

    def _add_middlewares(self) -> None:
        """Add what wraps each turn, the innermost first. What is not configured is not imported."""
        config, middlewares = self.config, self._middlewares
        telemetry, hooks = None, None
        if config.events is not None:
            from dragoman.session.middleware.telemetry import Telemetry

            telemetry = Telemetry(config.events, self.session_id, config.clock, self.toolbox, self._history)
            self._on_swap = telemetry.on_swap
        if config.policy is not None:
            from dragoman.policy.conversation.hooks import PolicyHooks
            from dragoman.session.middleware.policy import PolicyMiddleware

            self._policy = hooks = PolicyHooks(
                config.policy, config.extensions, self.session_id, self.toolbox, self._history.extensions, telemetry
            )
            if telemetry is not None:
                telemetry.may_log_content = partial(hooks.permits, "log_raw")
            middlewares.append(
                PolicyMiddleware(hooks, self.session_id, self._history.messages, self._factory.tool_message)
            )
        elif config.extensions is not None:
            raise ConfigurationError("extensions are for the plugins of a policy: give policy=Pipeline([...]) too")
        if config.policy is not None or self._label_router is not None:
            middlewares.append(self._decide(hooks, telemetry))
        if telemetry is not None:
            middlewares.append(telemetry)
        if config.budgets or config.limits is not None or config.governors:
            from dragoman.session.middleware.attempt import govern

            middlewares.append(partial(govern, config, self._accounts, self._factory, self._history))
        if self._steps is not None:
            middlewares.append(self._steps)

    @property
    def _label_router(self) -> "Router | None":
        """The router whose rules say which models may see labelled content."""
        return self.config.router

    def _decide(self, hooks: "PolicyHooks | None", telemetry: "Telemetry | None") -> "Middleware":
        """Return the middleware in front of all that counts, reports and sends a request."""
        from dragoman.session.middleware.decision import decide_requests

        policy = self._policy
        return partial(
            decide_requests,
            lambda: policy.labels,
            self._history.messages,
            hooks,
            self._label_router,
            None if telemetry is None else telemetry.on_denial,
        )

    @property
    def _open_turn(self) -> "OpenTurn | None":
        return None if self._steps is None else self._steps.turn

    def _snapshot(self, new: tuple[Message, ...] = ()) -> "Snapshot":
        """Return the session as it is, with the messages that are about to be kept."""
        from dragoman.session.snapshot import Snapshot  # as in dump

        history = self._history
        messages = [*history.messages, *new] if new else history.messages
        return Snapshot(self.session_id, self.model, messages, self.tool_ids, history.attempts.all, history.extensions)

    def _save(
        self, step: "TurnStep | None" = None, new: tuple[Message, ...] = (), *, touch: bool = False
    ) -> int | None:
        """Save what is new, if there is a store, and if the policy has judged it."""
        if self._persistence is None:
            return None
        return self._persistence.save(
            self._snapshot(new),
            user_id=self._factory.user_id,
            team_id=self._factory.team_id,
            may_save=self._may_read,
            step=step,
            touch=touch,
        )

    def _may_read(self, messages: Sequence[Message]) -> bool:
        """Whether these messages may be stored, and their files read: the policy, if any, has judged them."""
        return self.config.policy is None or self._policy.has_judged(messages)

    def _save_rest(self) -> None:
        """Save what is not in the store yet."""
        if self._steps is not None:
            self._steps.save_rest()

    def _annotate(self, message_id: str, extensions: Mapping[str, Any]) -> None:
        if self._persistence is not None:
            self._persistence.annotate(self._snapshot(), message_id, extensions)

    def _new_persistence(self) -> "Persistence | None":
        config = self.config
        if config.store is None:
            return None
        from dragoman.session.snapshot import Persistence  # as in dump

        facts = {
            "workspace": None if config.workspace is None else str(config.workspace),
            "routing_policy": None if config.router is None else config.router.configuration,
        }
        return Persistence(config.store, facts=facts)

    def _new_steps(self) -> "TurnSteps | None":
        config = self.config
        if config.store is None:
            return None
        from dragoman.session.middleware.steps import TurnSteps  # as above

        every_step = config.durability == "step" and getattr(config.store, "stores_steps", False)
        return TurnSteps(
            lambda step=None, new=(), *, touch=False: self._save(step, new, touch=touch),
            self._history,
            lambda: self.labels,
            every_step=every_step,
            in_thread=not getattr(config.store, "never_waits", False),
            hides_results=config.policy is not None,
        )

    def _new_accounts(self) -> "BudgetAccounts | None":
        """Return the accounts of the session. Raises ConfigurationError if a budget does not know who pays."""
        if not self.config.budgets:
            return None
        from dragoman.limits.budget import BudgetAccounts  # imported late: many sessions have no budget

        accounts = BudgetAccounts(self.config.budgets)
        accounts.check(self.user_id, self.team_id)
        return accounts

    def _declassify(
        self, labels: Iterable[str], actor: str, reason: str, audit: "Callable[[Declassification], Any] | None"
    ) -> "Declassification | None":
        keep, history, now = self._annotate, self._history.messages, self.config.clock()
        return self._policy.declassify(
            labels, actor=actor, reason=reason, audit=audit, keep=keep, history=history, at=now
        )

    def _new_call_context(self, call: ToolUseBlock | None = None) -> "Context[Any]":
        from dragoman.tools.context import Context  # as above

        name, call_id = ("", "") if call is None else (call.name, call.id)
        return Context(self.config.context, self.session_id, name, call_id, self._history.messages)

    def _check_tools(self) -> None:
        """Raise ConfigurationError if a tool takes another context, or if a sync session has a coroutine."""
        if self.config.tools:
            self.toolbox.check_context(self.config.context)
            self.toolbox.check_workspace(self.config.workspace)
        if self._asynchronous:
            return
        asks = self.config.approve
        approve = ("approve",) if asks is not None and inspect.iscoroutinefunction(asks) else ()
        plugins = () if self.config.policy is None else self._policy.async_names
        tools = self.toolbox.async_names if self.config.tools else ()
        names = (*tools, *approve, *plugins)
        if names:
            raise ConfigurationError(f"{', '.join(names)}: coroutines need an AsyncSession")

    @abstractmethod
    def close(self) -> Any:
        """Release the connections."""


def _route_facts(who: MessageFactory, history: History, policy: "PolicyHooks | NoPolicy") -> dict[str, Any]:
    """Return the facts of a session for the router. Before the first reply, the spend is 0."""
    cost = history.cost
    spent = cost.usd if cost.replies else Decimal(0)
    return {"user_id": who.user_id, "team_id": who.team_id, "spent_usd": spent, "labels": policy.labels}


def new_tool_id(new_id: Callable[[], str]) -> str:
    """Return a new tool id."""
    return f"tu_{new_id()}"
