"""A request as one turn of a session."""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeGuard

from dragoman import (
    Adapter,
    AdapterOptions,
    AsyncSession,
    Loss,
    Message,
    RequestContext,
    ToolDefinition,
    Usage,
    WireRequest,
    get_adapter,
)
from dragoman.answers import Admitted, ClientToolIds, DirectRequest, PassThrough, Relay, holds_state
from dragoman.blocks import TextBlock, ThinkingBlock
from dragoman.errors import DragomanError, InvalidRequestError, TurnLimitError
from dragoman.messages import Role
from dragoman.policy import Hook, PolicyDeniedError
from dragoman.pricing import price_table
from dragoman.session.effects import Failed, Perform, RunTools, Send, intercept
from dragoman_gateway.access import AttemptMiddleware, Middleware, Question
from dragoman_gateway.errors import ClientError, ModelDeniedError, ServerStateError
from dragoman_gateway.models.deployments import Deployment
from dragoman_gateway.turn.means import Means
from dragoman_gateway.turn.other_wire import OtherWire
from dragoman_gateway.turn.reading import is_plain, must_read
from dragoman_gateway.turn.replies import Headers
from dragoman_gateway.turn.request import ClientRequest
from dragoman_gateway.turn.usage_chunk import ask_for_usage, lacks_usage


class Turn:
    """The tools are the client's, so their calls go to it. If the provider of the model has the wire of the client, the
    bytes of the request and of the reply go through.

    If a place fails before the client has received anything, the next one is asked: `go_on`.
    """

    session: AsyncSession
    """The session that asks the present place, unless the request goes without one."""
    reply: Message
    """The last whole reply that was read."""

    def __init__(self, request: ClientRequest, means: Means, *, path: str | None = None) -> None:
        """``path`` is the address at a provider of the client's wire, if it is not the usual one."""
        self.request = request
        self.answering: Adapter | None = None
        """The model that was asked last."""
        self.judges_calls = False
        """Whether a policy judges calls: the client gets none before that."""
        self._reply_headers: Mapping[str, str] = {}
        self._counts = self._changes_replies = False
        self._means = means
        self._path = path
        self._places = list(means.places())
        self._earlier: list[Usage] = []
        self._take(self._places.pop(0))
        self._direct = False
        """Whether the present place is asked without a session."""
        self._direct_usages: list[Usage] = []
        self._relays = False
        """Whether the last attempt went to a provider of the client's wire."""
        self.through = self._way_through()
        """Sends the client's bytes without a session; None if anything but the provider reads the messages."""
        if self.through is not None:
            return
        self._read()
        self._start(self.context.session_id)
        for name, details in request.wire.server_state.items():
            if request.fields.get(name) is not None:
                if not self.may_pass:
                    raise ServerStateError(name, details)
                self._places = [each for each in self._places if self._has_client_wire(each)]

    @cached_property
    def adapter(self) -> Adapter:
        """The adapter of the client's wire."""
        return self.request.wire.adapter(self.request.model)

    @cached_property
    def context(self) -> RequestContext:
        """What is known of the client's request and reply as its wire writes them."""
        caller, means = self.request.caller, self._means
        return RequestContext(
            model=means.deployments.model,
            request_id=self.request.request_id,
            tool_ids=ClientToolIds(),
            client_query=self.request.query,
            state_store=means.state_store,
            state_sealer=means.state_sealer,
            team_id=caller.team or caller.user or caller.key_id,
        )

    @cached_property
    def relay(self) -> Relay:
        """Passes the bytes on in a session. It refers to the turn, so it is made only if it is needed: a turn that
        refers to itself waits for the collector."""
        check = _refuse_losses if self._means.strict else None
        return Relay(self._body_for, self._read_messages, self._read_options, path=self._path, check=check)

    def _take(self, place: Deployment) -> None:
        """Turn to a place: it is asked from now on."""
        self._place = place
        self._client = self._means.client_for(place.client)
        self._target = get_adapter(place.model)

    def _way_through(self) -> PassThrough | None:
        request, means, client, adapter = self.request, self._means, self._client, self._target
        # An address of its own, and an access that admits nothing but the turns of sessions, need a session.
        if self._path is not None or must_read(request, self._place.model) or self._may_need_state():
            return None
        if not self._goes_without_session() or (body := request.body_for(adapter)) is None:
            return None
        self._note_asked(adapter)
        if means.admit is not None:
            self._counts = True
            body = ask_for_usage(body, request.fields) if self.hides_usage else body
        admit = self._admission(self._read_question)
        headers = request.wire.headers.to_provider(request.headers)
        return PassThrough(client.config, adapter, body, headers=headers, stream=request.stream, admit=admit)

    def _goes_without_session(self) -> bool:
        """Whether nothing reads what is asked and answered. A session refuses models that the caller may not ask."""
        means, model = self._means, str(self._target.model_id)
        return (
            (means.admit is None or _admits_bytes(means.admit, self.request))
            and PassThrough.is_possible(self._client.config, self._target)
            and (means.may_ask is None or means.may_ask(model))
        )

    def _admission(self, read: Callable[[], Question]) -> Callable[[], Awaitable[Admitted]] | None:
        """Return what admits each attempt that goes without a session; None if all may be sent."""
        admit = self._means.admit
        if not isinstance(admit, AttemptMiddleware):
            return None
        return partial(admit.admit, self._target, read, self._client.config.prices or price_table())

    def _read_question(self) -> Question:
        """Read a request that goes through, for an estimate of what it could use. Raises RequestError."""
        context = RequestContext(model=self._means.deployments.model, tool_ids=ClientToolIds())
        return self.adapter.from_wire_request(self.request.fields, context)

    def _may_need_state(self) -> bool:
        """Whether a later place has another wire, for which a reading of the request finds the state of its calls."""
        wire = f"{self.request.wire.provider}:"
        return self._means.state_store is not None and not all(each.model.startswith(wire) for each in self._places)

    def _read(self) -> None:
        """Read the messages, tools and options of the request. Raises ClientError and RequestError."""
        request = self.request
        messages, tools, options = self.adapter.from_wire_request(request.fields, self.context)
        self._tools: list[ToolDefinition] = [_mark_read(tool, request.wire.provider) for tool in tools]
        if not messages:
            raise ClientError("the request has no messages")
        unsigned = request.wire.signs_thinking and any(map(_has_unsigned_thinking, messages))
        self._passes = not (unsigned or holds_state(request.body))
        self._ask_with(messages, options)

    def _ask_with(self, messages: list[Message], options: AdapterOptions) -> None:
        request = self.request
        if passed := request.wire.headers.to_provider(request.headers):
            options = replace(options, headers={**options.headers, request.wire.provider: passed})
        self._schema = options.output_schema
        self._options = options if self._schema is None else replace(options, output_schema=None)
        self._read_messages, self._read_options = tuple(messages), options
        self.prompt = messages.pop() if messages[-1].role is Role.USER else None
        self._history = messages

    def _start(self, session_id: str | None = None) -> None:
        """Prepare to ask the present place. Each place has a session of its own, so that each can be stored."""
        means, config = self._means, self._client.config
        self._counts = means.admit is not None or bool(config.budgets) or config.limits is not None
        policy = config.policy
        self.judges_calls = policy is not None and policy.has_plugins(Hook.TOOL_PRE_INVOKE)
        self._changes_replies = policy is not None and policy.has_plugins(Hook.LLM_OUTPUT)
        self.context.prices = config.prices or price_table()
        self._direct = self._asks_directly()
        if not self._direct:
            self.session = self._start_session(session_id)

    def _start_session(self, session_id: str | None) -> AsyncSession:
        caller, admit = self.request.caller, self._means.admit
        return self._client.session(
            self._place.model,
            messages=self._history,
            tools=self._tools,
            options=self._options,
            tool_ids=self.context.tool_ids,
            session_id=session_id,
            max_rounds=1,
            middleware=(self._follow,) if admit is None else (self._follow, admit),
            user_id=caller.user,
            team_id=caller.team,
        )

    def _asks_directly(self) -> bool:
        """Whether a provider of another wire can be asked without a session."""
        request = self.request
        if request.stream or self._target.provider == request.wire.provider or not self._passes or self.prompt is None:
            return False
        asked = [*self._history, self.prompt]
        return is_plain(asked, self._tools, self._options) and self._goes_without_session()

    async def _ask_directly(self, prompt: Message) -> tuple[Message, tuple[Loss, ...]]:
        question = [*self._history, prompt], self._tools, self._options
        request = DirectRequest(
            self._client.config,
            self._target,
            partial(self._encode, self._target, *question),
            session_id=self.context.session_id,
            tool_ids=self.context.tool_ids,
            admit=self._admission(lambda: question),
        )
        try:
            self.reply = await request.send()
        finally:
            self._direct_usages = request.usages
        return self.reply, request.losses

    def _encode(
        self,
        adapter: Adapter,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        options: AdapterOptions,
        context: RequestContext,
    ) -> WireRequest:
        """Encode an attempt that goes without a session. Raises InvalidRequestError."""
        self._note_asked(adapter)
        adapter, messages, options = self._adapt(adapter, messages, tools, options)
        return adapter.to_wire(messages, tools, options.with_context(context))

    async def ask(self) -> tuple[Message, tuple[Loss, ...]]:
        """Return the whole reply of the present place, and what the request for it lost."""
        if self._direct and self.prompt is not None:
            return await self._ask_directly(self.prompt)
        try:
            reply = await self.session.ask(self.prompt)
        except TurnLimitError:  # the provider pauses, and the client goes on
            self.reply = self.session.messages[-1]
            return self.reply, ()
        self.reply = reply.message
        return self.reply, reply.losses

    @property
    def may_pass(self) -> bool:
        """Whether the first place is a provider of the client's wire, which may get the client's bytes."""
        return self._passes and self._has_client_wire(self._place)

    def _has_client_wire(self, place: Deployment) -> bool:
        return place.model.startswith(f"{self.request.wire.provider}:")

    def succeed(self) -> None:
        """Note that the place has answered."""
        self._means.report(self._place, None)

    def go_on(self, error: Exception) -> bool:
        """Turn to the next place after a failure. Return False if there is none, or if none would help."""
        self._means.report(self._place, error)
        if not self._places or not self._means.may_ask_again(error):
            return False
        if self.through is not None:
            self._read()
        self._earlier += self._usages()
        self.through = None
        self._take(self._places.pop(0))
        self._start()
        return True

    def forget_history(self) -> None:
        """Release the conversation of a request that goes through, if it is asked nowhere else: it may be long, and the
        reply may take minutes."""
        if not self._places and self._means.admit is None:
            self.request.forget_history()

    @cached_property
    def hides_usage(self) -> bool:
        """Whether the counts of a stream were asked for here, and not by the client."""
        return self._counts and self.request.wire.asks_for_usage and lacks_usage(self.request.fields)

    @property
    def passes_reply(self) -> bool:
        """Whether the bytes of the reply go to the client as they arrive."""
        if self.through is not None:
            return True
        changes = self._changes_replies or self.judges_calls or self.request.rewrites_reply
        return self._is_relayed and not changes

    @property
    def _is_relayed(self) -> bool:
        """Whether the last attempt sent the client's bytes."""
        return self._relays and self.relay.relayed

    @property
    def headers_to_client(self) -> Headers | None:
        """The headers of the provider's reply that go to the client; None if it has another wire."""
        if self.through is None and not self._is_relayed:
            return None
        headers = self._reply_headers if self.through is None else self.through.headers
        return self.request.wire.headers.to_client(headers)

    def begin_reply(self) -> None:
        """Prepare the context for writing the reply of the model that was asked last."""
        if self.through is not None:  # the writer repeats fields of the request
            with suppress(DragomanError):
                self.adapter.from_wire_request(self.request.fields, self.context)
        if self.answering is not None:
            self.context.model = str(self.answering.model_id)

    def note_end(self) -> None:
        """Note in the record what was used, also by a reply that the client left."""
        record = self.request.record
        record.model = str(self.answering.model_id) if self.answering is not None else ""
        record.usages = [*self._earlier, *self._usages()]
        self.__dict__.pop("session", None)  # it refers to the turn, which it asks to follow it

    def losses(self, asked: tuple[Loss, ...]) -> tuple[Loss, ...]:
        """Return all losses so far; ``asked`` are those of the request to the provider."""
        return (*self.context.losses, *asked)

    def _usages(self) -> list[Usage]:
        if self.through is not None:
            return self.through.usages
        if self._direct:
            return self._direct_usages
        last = self.session.messages[-1:]
        return [each.usage for each in (*last, *self.session.attempts) if each.usage is not None]

    def _body_for(self, adapter: Adapter) -> bytes | None:
        if adapter.provider != self.request.wire.provider or not self._passes:
            return None
        body = self.request.body_for(adapter)
        return ask_for_usage(body, self.request.fields) if body is not None and self.hides_usage else body

    def _follow(self, turn: Generator[Any, Any, None]) -> Generator[Any, Any, None]:
        return intercept(turn, self._handle)

    def _handle(self, effect: Any) -> Generator[Any, Any, Any]:
        if isinstance(effect, RunTools):
            return (yield from self._judge_calls(effect))
        if not isinstance(effect, Send):
            return (yield effect)
        adapter = effect.adapter
        if self._means.may_ask is not None and not self._means.may_ask(str(adapter.model_id)):
            return Failed(ModelDeniedError(str(adapter.model_id)))
        self._note_asked(adapter)
        try:
            adapter, messages, options = self._adapt(adapter, effect.messages, effect.tools, effect.options)
        except InvalidRequestError as error:
            return Failed(error)
        observers = (*effect.observers, self._note_headers)
        return (
            yield replace(
                effect, adapter=adapter, messages=messages, options=options, observers=observers, joins_text=True
            )
        )

    def _adapt(
        self, adapter: Adapter, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> tuple[Adapter, Sequence[Message], AdapterOptions]:
        """Return what is sent, and what writes it. Raises InvalidRequestError."""
        means, wire = self._means, self.request.wire
        self._relays = adapter.provider == wire.provider
        if self._relays:
            adapter = self.relay.adapter(adapter, tools)
        else:
            other = OtherWire(means.other_wire, wire, self.request.fields, self.context.losses)
            messages = other.messages(messages, adapter)
            options = other.options(options, adapter, tools, self.context.prices or price_table())
            if means.strict:
                adapter = self.relay.adapter(adapter, tools)
            self.context.estimated_input_tokens = other.start_tokens(options, adapter, tools, messages)
        if self._schema is not None:  # the client checks the answer: a session that knew the schema would ask again
            options = replace(options, output_schema=self._schema)
        return adapter, messages, options

    def _judge_calls(self, effect: RunTools) -> Generator[Any, Any, Any]:
        """Let the policy judge the calls. The client runs them, so the only results are refusals.

        Raises PolicyDeniedError for the first call that is refused: a client that gets some calls would run them.
        """
        if self.judges_calls:
            for run in (yield effect):
                texts = (part for result in run.message.tool_results for part in result.content)
                reason = " ".join(part.text for part in texts if isinstance(part, TextBlock))
                raise PolicyDeniedError(Hook.TOOL_PRE_INVOKE, "the policy", "call", f"{run.call.name}: {reason}")
        return ()

    def _note_asked(self, adapter: Adapter) -> None:
        self.answering = adapter
        self.request.record.asked = str(adapter.model_id)

    def _note_headers(self, headers: Mapping[str, str]) -> Perform:
        self._reply_headers = headers
        return _NOTHING


def _admits_bytes(admit: Middleware, request: ClientRequest) -> TypeGuard[AttemptMiddleware]:
    """Whether an access admits a request that goes through."""
    return isinstance(admit, AttemptMiddleware) and not (request.stream and admit.watches_streams)


def _mark_read(tool: ToolDefinition, provider: str) -> ToolDefinition:
    """Return a tool that says who declared it: a session takes such tools as they are."""
    return tool if tool.provider_raw is not None else tool.model_copy(update={"provider_raw": {"by": provider}})


def _has_unsigned_thinking(message: Message) -> bool:
    """Whether a message holds thinking without a signature, which every provider of the wire refuses."""
    if message.role is not Role.ASSISTANT:
        return False
    return any(isinstance(block, ThinkingBlock) and not block.signature for block in message.content)


def _refuse_losses(request: WireRequest) -> None:
    """Raise InvalidRequestError if content would be lost."""
    lost = [loss for loss in request.losses if loss.severity == "warning"]
    if lost:
        kinds = ", ".join(sorted({loss.kind.value for loss in lost}))
        raise InvalidRequestError(
            f"this model cannot take the whole request, which would lose: {kinds}; {lost[0].reason}"
        )


async def _do_nothing() -> None:
    """Wait for nothing."""


_NOTHING = Perform(lambda: None, _do_nothing)
