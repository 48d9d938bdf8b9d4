"""The state of a session and everything that needs no I/O: the part that both drivers share."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel

from dragoman.adapter.contract import Adapter, AdapterOptions, Prices, RequestContext, bundled_prices
from dragoman.adapter.errors import CompactionError, ConfigurationError, RequestError, SwapRefusedError
from dragoman.adapter.requests.encode_cache import EncodeCache
from dragoman.adapter.requests.tool_ids import ToolIdMap
from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.ids import new_message_id, new_session_id
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.canonical.usage import TokenUsage
from dragoman.limits.budget import Budget, BudgetAccounts, Budgets, Spend
from dragoman.session import cost
from dragoman.session.compaction import Compaction, apply_summaries, run_compaction
from dragoman.session.cost import Attempts, Cost
from dragoman.session.identity import IdentityMixin, Pseudonyms, with_identity
from dragoman.session.media import MediaFiles
from dragoman.session.middleware import new_limiter, new_policy_hooks, new_telemetry
from dragoman.session.middleware.persistence import Persistence, PersistenceMixin, new_tool_id
from dragoman.session.preview import Preview, preview
from dragoman.session.reply_reader import ReplyReader
from dragoman.session.routes import Route, Routes
from dragoman.session.settings import (
    Approve,
    SessionSettings,
    TurnOptions,
    UserInput,
    merge_options,
    new_answer_validator,
)
from dragoman.session.snapshot import SessionStore, Snapshot
from dragoman.session.transports import TransportsMixin, TransportT
from dragoman.session.turn import RunPolicy, Send, Turn, TurnPlan, run_turn
from dragoman.session.validation import check_messages, check_settings
from dragoman.tools.calls import DECLINED, PreparedCall, error_result
from dragoman.tools.tool import Tool
from dragoman.tools.toolbox import Toolbox
from dragoman.transport.fetch import FetchedMedia

if TYPE_CHECKING:
    from dragoman.canonical.extensions.extensions import Extensions
    from dragoman.events.bus import EventBus
    from dragoman.limits import Limits
    from dragoman.policy import Declassification, Pipeline
    from dragoman.routing import RouteDecision, Router
    from dragoman.session.answer import AnswerValidator
    from dragoman.session.middleware.stream_filter import StreamFilter


TURN_IN_PROGRESS = "the session is in the middle of a turn, and takes one at a time: use another session beside it"


class Conversation(IdentityMixin, PersistenceMixin, TransportsMixin[TransportT]):
    """A history, the model that answers next, and the tools. Use `Session` or `AsyncSession`."""

    def __init__(
        self,
        model: str | None,
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        system: str | None = None,
        options: AdapterOptions | None = None,
        providers: Mapping[str, Mapping[str, Any]] | None = None,
        messages: Iterable[Message] = (),
        workspace: str | Path | None = None,
        fetch: Callable[[str], FetchedMedia] | None = None,
        approve: Approve | None = None,
        max_rounds: int = 20,
        budgets: Iterable[Budget] = (),
        limits: "Limits | None" = None,
        router: "Router | None" = None,
        events: "EventBus | None" = None,
        policy: "Pipeline | None" = None,
        extensions: "Extensions | None" = None,
        store: SessionStore | None = None,
        prices: Prices | None = None,
        tool_ids: ToolIdMap | None = None,
        session_id: str | None = None,
        new_id: Callable[[], str] = new_message_id,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        user_id: str | None = None,
        team_id: str | None = None,
        pseudonyms: Pseudonyms | None = None,
    ) -> None:
        """``model`` is ``provider:name``; ``options`` apply to every turn that does not override them.

        ``system`` precedes ``messages``, a history to continue. ``tools`` are functions or `Tool` objects; in one turn
        the model may call them in up to ``max_rounds`` rounds. ``approve`` decides before each call, and the model is
        told if a call is declined; without it every call runs. ``workspace`` is the folder below which media of the
        kind ``file_ref`` are read: once, so that what was sent stays the same if the file changes. ``fetch``, such as a
        `dragoman.transport.fetch.Fetcher`, fetches media that the model takes, but not by URL: once for each URL.
        Without it nothing is ever fetched. ``budgets`` are checked before each request; ``limits`` (see
        `dragoman.limits`) delay it until it may start. A ``store`` saves each turn when it ends; its ConflictError or
        StoreError is raised there, and the session keeps the turn all the same.

        A ``router`` chooses the model of each turn, and a fallback if that one fails before the caller receives
        anything. ``model``, or that of a `swap`, is then the model that the session is set to; it may be an alias, or
        None for none. The bus ``events`` receives the events of each turn, and is never closed.

        The plugins of a ``policy`` see what goes in and out of models, tools, prompts and resources, and may change
        or deny it; ``extensions`` are the program's facts for them, such as the user.

        ``providers`` holds transport settings by provider name: api_key, base_url, client (an httpx client, or the
        provider's official one), timeout in seconds, retry (a `RetryPolicy`) and the others of its class. ``new_id``
        and ``clock`` make a session deterministic in tests. ``user_id`` and ``team_id`` are written to each message,
        as ``pseudonyms`` derive them; without pseudonyms they are written as given, and must reveal nothing.

        Raises ConfigurationError, UnknownProviderError among them, and ToolSchemaError.
        """
        if max_rounds < 1:
            raise ConfigurationError("max_rounds is at least 1")
        check_settings(
            {"options": options, "limits": limits, "router": router, "events": events, "policy": policy,
             "extensions": extensions, "tool_ids": tool_ids, "tools": tools, "messages": messages, "budgets": budgets,
             "fetch": fetch, "approve": approve, "new_id": new_id, "clock": clock, "store": store}
        )  # fmt: skip
        self.session_id = session_id or new_session_id()
        self.toolbox = Toolbox(tools)
        self.options = options or AdapterOptions()
        self.providers = {name: dict(settings) for name, settings in (providers or {}).items()}
        self.max_rounds = max_rounds
        self.prices = prices if prices is not None else bundled_prices()
        self.tool_ids = tool_ids if tool_ids is not None else ToolIdMap(partial(new_tool_id, new_id))
        self._encodings = EncodeCache()
        self._pseudonyms = pseudonyms
        self.identify(user_id, team_id)
        self._approve = approve
        self._files = MediaFiles(workspace, fetch=fetch)
        self._new_id = new_id
        self._clock = clock
        if model is None and router is None:
            raise ConfigurationError("a session without a router needs a model")
        self._telemetry = new_telemetry(events, self.session_id, clock, self.toolbox)
        self._routes = Routes(router, clock, self._on_decision, self._route_facts)
        self._adapter = None if model is None else self._routes.find(model)
        self._accounts = BudgetAccounts(budgets)
        self._limiter = new_limiter(limits)
        self._attempts = Attempts()
        self._persistence = None if store is None else Persistence(store)
        self._transports: dict[str, TransportT] = {}
        self._messages = [self._adopt(message) for message in check_messages(messages)]
        if system is not None:
            self._messages.insert(0, self._new_message(Role.SYSTEM, system))
        self._message_extensions: dict[str, Any] = {}
        self._policy_hooks = new_policy_hooks(
            policy, extensions, self.session_id, self.toolbox, self._message_extensions, self._telemetry
        )
        self._refuse_coroutines()

    @property
    def model(self) -> str | None:
        """The model that answers the next turn, as ``provider:name``; with a router, the model that the session is set
        to, or None."""
        return None if self._adapter is None else str(self._adapter.model_id)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole history, in order, also after `compact`: only requests replace its older part by a summary."""
        return tuple(self._messages)

    @property
    def usage(self) -> TokenUsage:
        """The tokens of all replies and attempts together."""
        return cost.total_usage(self._billed_replies())

    @property
    def cost(self) -> Cost:
        """The cost of all replies and attempts together."""
        return cost.total_cost(self._billed_replies())

    @property
    def attempts(self) -> tuple[Message, ...]:
        """Broken or unusable replies that were billed: without content, and not part of the history. The cost of a
        broken reply is a lower bound.
        """
        return tuple(self._attempts.all)

    @property
    def labels(self) -> frozenset[str]:
        """Security labels of the data in the conversation, as the policy knows them; empty without a policy."""
        return frozenset() if self._policy_hooks is None else self._policy_hooks.labels

    def cost_on(self, model: str) -> Cost:
        """Return what the same replies would have cost on another model, token for token, at current prices."""
        return cost.cost_on(self._billed_replies(), model, self.prices, self._clock())

    def preview(self, model: str) -> Preview:
        """Return what a swap to that model would lose and cost. Sends and changes nothing, but may wait for ``fetch``.
        Raises UnknownProviderError.
        """
        adapter = self._routes.find(model)
        tool_ids = ToolIdMap.load(self.tool_ids.dump())
        trial = replace(
            self._new_context(self._routes.own_route(adapter)), tool_ids=tool_ids, encode_cache=EncodeCache()
        )
        result = preview(
            adapter,
            self._history_to_send(),
            self.toolbox.definitions,
            merge_options(self.options),
            with_files=partial(self._read_files, adapter),
            context=trial,
            prices=self.prices,
            at=self._clock(),
            answer=cost.average_output(self._messages),
        )
        if self._adapter is None:
            return result
        tokens = self._adapter.estimate_input_tokens(self._history_to_send(), self.toolbox.definitions)
        return replace(result, present_model=self.model, present_tokens=tokens)

    def swap(self, model: str) -> Preview:
        """Change the model from the next turn on.

        Raises SwapRefusedError with every reason if it cannot carry the history; the active model then stays.
        """
        result = self.preview(model)
        if not result.fits:
            raise SwapRefusedError(model, list(result.reasons))
        self._adapter = self._routes.find(model)
        return result

    @classmethod
    def _from_snapshot(cls, found: Snapshot, model: str | None, settings: SessionSettings) -> Self:
        session = cls(
            model or found.model,
            session_id=found.session_id,
            messages=found.messages,
            tool_ids=found.tool_ids,
            **settings,
        )
        session._attempts = Attempts(found.attempts)
        session._message_extensions.update(found.extensions)
        if session._policy_hooks is not None:
            session._policy_hooks.restore(found.messages)
        if session.model is not None and session.model != found.model:
            session.swap(session.model)
        return session

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            self.session_id, self.model, self._messages, self.tool_ids, self._attempts.all, self._message_extensions
        )

    def _new_turn(self, prompt: UserInput | None, options: TurnOptions, *, stream: bool, model: str | None) -> Turn:
        if model is not None and self._routes.router is None:
            raise ConfigurationError("a model for one message needs a router: Session(..., router=Router())")
        messages = () if prompt is None else (self._user_message(prompt),)
        turn = self._route_turn(
            messages, replace(merge_options(self.options, options), stream=stream), self._adapter, model
        )
        return self._with_telemetry(turn, *messages)

    def _new_answer_validator(self, options: TurnOptions) -> "AnswerValidator | None":
        """Return the validator of the turn's answer if it has to be a message body, else None."""
        return new_answer_validator(self.options, options, early=not self.toolbox.definitions)

    def _with_telemetry(self, turn: Turn, prompt: Message | None = None) -> Turn:
        """The turn, reported to the event bus if there is one."""
        if self._telemetry is None:
            yield from turn
            return
        messages_before, attempts_before = len(self._messages), len(self._attempts.all)

        def billed() -> list[Message]:
            return [*self._messages[messages_before:], *self._attempts.all[attempts_before:]]

        yield from self._telemetry.wrap(turn, prompt, self._messages, billed)

    def _route_turn(
        self, prompt: tuple[Message, ...], options: AdapterOptions, sticky: Adapter | None, override: str | None
    ) -> Turn:
        """The turn. Its model is chosen when it begins."""
        if self._policy_hooks is not None:
            known = sticky if self._routes.router is None else None
            prompt = yield RunPolicy(self._policy_hooks.admit(self._messages, prompt, known))
        tools = self.toolbox.definitions
        route, routed_prompt = self._routes.for_turn(sticky, override, self._history_to_send(), prompt, tools, options)
        yield from run_turn(self._new_plan(route, routed_prompt, options))

    def _route_facts(self) -> dict[str, Any]:
        """Facts of the session for the router. Before the first reply, the spend is 0."""
        cost = self.cost
        spent = cost.usd if cost.replies else Decimal(0)
        return {"user_id": self.user_id, "team_id": self.team_id, "spent_usd": spent, "labels": self.labels}

    def _declassify(
        self, labels: Iterable[str], actor: str, reason: str, audit: "Callable[[Declassification], Any] | None"
    ) -> "Declassification | None":
        if self._policy_hooks is None:
            from dragoman.policy.errors import DeclassificationError

            raise DeclassificationError("a session without a policy has no labels, and no grant to remove any")
        return self._policy_hooks.declassify(
            labels,
            actor=actor,
            reason=reason,
            audit=audit,
            keep=self._annotate,
            history=self._messages,
            at=self._clock(),
        )

    def _compaction_turn(self, model: str | None, keep_last: int | None, instructions: str | None) -> Turn:
        if self._policy_hooks is not None:
            yield RunPolicy(self._policy_hooks.admit(self._messages, (), self._adapter))
        writer = self._routes.for_summary(self._adapter)
        compaction = Compaction(
            plan=self._new_plan(writer, (), self.options),
            target=writer.adapter if model is None else self._routes.find(model),
            keep_last=keep_last,
            instructions=instructions,
            new_prompt=self._user_message,
        )
        try:
            yield from run_compaction(compaction)
        except CompactionError as error:
            self._attempts.record_unused(error.reply, self._messages)
            raise

    def _new_plan(self, route: Route, prompt: tuple[Message, ...], options: AdapterOptions) -> TurnPlan:
        return TurnPlan(
            route=route,
            history=self._history_to_send,
            prompt=prompt,
            tools=self.toolbox.definitions,
            options=options,
            new_context=self._new_context,
            new_tool_message=self._tool_message,
            max_rounds=self.max_rounds,
            retry_delay=self._retry_delay,
            budgets=self._budgets_for_turn(),
            on_broken_reply=self._attempts.record_broken,
            policy_hooks=self._policy_hooks,
        )

    def _history_to_send(self) -> list[Message]:
        """Return the history as it is sent, with summaries in place of the messages that they replace."""
        return apply_summaries(self._messages)

    def _new_context(self, route: Route) -> RequestContext:
        return RequestContext(
            model=str(route.adapter.model_id),
            session_id=self.session_id,
            tool_ids=self.tool_ids,
            encode_cache=self._encodings,
            prices=self.prices,
            new_id=self._new_id,
            clock=self._clock,
            started_at=self._clock(),
            routing=route.record,
            user_id=self.user_id,
            team_id=self.team_id,
        )

    def _read_files(self, adapter: Adapter, history: Sequence[Message]) -> list[Message]:
        """Return the history as it is sent to that model, with file content. Raises RequestError."""
        return self._files.inline(history, self._files.inlined_kinds(adapter.capabilities))

    def _keep_reply(self, send: Send, reply: Message | None) -> None:
        """Add a reply, if there is one, to the history, after the messages that it answers."""
        if reply is not None:
            send.reservation.settle(reply.usage)
            if self._telemetry is not None:
                self._telemetry.on_reply(reply)
        if reply is not None and send.new_messages is not None:
            self._messages += (*send.new_messages, reply)

    def _on_decision(self, decision: "RouteDecision", elapsed_ms: float) -> None:
        if self._telemetry is not None:
            self._telemetry.on_route_decision(decision, elapsed_ms)

    def _on_tool_results(self, prepared: Sequence[PreparedCall], results: Sequence[ToolResultBlock]) -> None:
        if self._telemetry is not None:
            self._telemetry.on_tool_results(prepared, results, deferred=self._policy_hooks is not None)

    def _budgets_for_turn(self) -> Budgets:
        accounts = self._accounts.for_turn(self.user_id, self.team_id, self._spend_so_far)
        if self._limiter is None:
            return Budgets(accounts, self.prices, self._clock)
        return self._limiter.new_budgets(accounts, self.prices, self._clock)

    def _spend_so_far(self) -> Spend:
        return Spend(self.cost.usd or Decimal(0), self.usage.total_tokens)

    def _keep_partial(self, send: Send, reader: ReplyReader, received: Message | None, kept: Message | None) -> None:
        """Keep what may be kept of a reply that the caller left, else its usage alone. ``received`` is what arrived."""
        self._keep_reply(send, kept)
        if kept is None:
            self._settle_unkept(send, reader.billed_only if received is None else received)

    def _settle_unkept(self, send: Send, reply: Message | None) -> None:
        """Record the billed usage of a reply that is not kept."""
        if (billed := self._attempts.record(reply)) is not None:
            send.reservation.settle(billed)

    def _new_stream_filter(self, send: Send, reader: ReplyReader) -> "StreamFilter | None":
        """Return the filter of a streamed reply, or None without a policy. A denied reply is recorded as billed."""
        if self._policy_hooks is None:
            return None
        from dragoman.session.middleware.stream_filter import StreamFilter

        def on_denied(reply: Message | None) -> None:
            self._settle_unkept(send, reply or reader.partial_reply() or reader.billed_only)

        return StreamFilter(self._policy_hooks, send.adapter, self.session_id, on_denied)

    def _billed_replies(self) -> list[Message]:
        return [*self._messages, *self._attempts.all]

    def _apply_decision(self, prepared: PreparedCall, allowed: object) -> PreparedCall:
        """Return the call if it was approved, else its refusal."""
        if inspect.isawaitable(allowed):
            if inspect.iscoroutine(allowed):
                allowed.close()
            raise ConfigurationError("approve has to be awaited, which only an AsyncSession does")
        return prepared if allowed else PreparedCall(prepared.call, refusal=DECLINED, fault="user_denied")

    def _check_files(self, adapter: Adapter, result: ToolResultBlock) -> ToolResultBlock:
        """Return the tool result, or an error result if it names a file that cannot be read: it would make every later
        request fail."""
        try:
            self._files.inline_blocks(result.content, self._files.inlined_kinds(adapter.capabilities))
        except RequestError as error:
            return error_result(result.tool_use_id, str(error))
        return result

    def _refuse_coroutines(self) -> None:
        if self._asynchronous:
            return
        names = [*self.toolbox.async_names, *(["approve"] if inspect.iscoroutinefunction(self._approve) else [])]
        names += [] if self._policy_hooks is None else self._policy_hooks.pipeline.async_names
        if names:
            raise ConfigurationError(f"{', '.join(names)}: coroutines need an AsyncSession")

    def _user_message(self, prompt: UserInput) -> Message:
        if isinstance(prompt, Message):
            return self._adopt(prompt)
        # A block is iterable too (over its fields), so its class decides.
        return self._new_message(Role.USER, (prompt,) if isinstance(prompt, BaseModel) else prompt)

    def _adopt(self, message: Message) -> Message:
        """Give a message without a session id the id of this session."""
        return message if message.session_id else message.model_copy(update={"session_id": self.session_id})

    def _tool_message(self, result: ToolResultBlock) -> Message:
        metadata = MessageMetadata(parent_tool_use_id=result.tool_use_id)
        return self._new_message(Role.TOOL, (result,), metadata=metadata)

    def _new_message(self, role: Role, content: Any, **fields: Any) -> Message:
        if self.user_id is not None or self.team_id is not None:
            fields["metadata"] = with_identity(fields.get("metadata"), self.user_id, self.team_id)
        return Message(
            id=self._new_id(),
            session_id=self.session_id,
            role=role,
            content=content if isinstance(content, str) else tuple(content),
            created_at=self._clock(),
            **fields,
        )
