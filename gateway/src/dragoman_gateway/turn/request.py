"""One request of a client, and the session that answers it."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman import Adapter, AsyncClient, AsyncSession, Loss, RequestContext
from dragoman.answers import ClientToolIds, Relay, StateStore
from dragoman.messages import Role
from dragoman.policy import Hook
from dragoman.session.effects import Perform, RunTools, Send, intercept
from dragoman_gateway.access import Caller, Middleware
from dragoman_gateway.metrics import RequestRecord
from dragoman_gateway.turn.model_name import replace_model
from dragoman_gateway.wires import Wire


@dataclass(slots=True, kw_only=True)
class ClientRequest:
    """What is known of a request before it is asked."""

    wire: Wire
    caller: Caller
    request_id: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    fields: dict[str, Any] = field(repr=False)
    target: str
    """The model that answers, as ``provider:model`` or as an alias."""
    record: RequestRecord

    @property
    def model(self) -> str:
        """The name that the client asked for."""
        name: str = self.fields["model"]
        return name

    @property
    def stream(self) -> bool:
        return self.fields.get("stream") is True


class Turn:
    """A request as one turn of a session. The tools are the client's, so their calls go to it.

    If the model's provider has the wire of the client, the bytes of the request and of the reply go through.
    """

    def __init__(
        self,
        request: ClientRequest,
        client: AsyncClient,
        *,
        admit: Middleware | None = None,
        state_store: StateStore | None = None,
    ) -> None:
        self.request = request
        self.answering: Adapter | None = None
        """The model that was asked last."""
        self.reply_headers: Mapping[str, str] = {}
        """The headers of the provider's last reply."""
        self.adapter = request.wire.adapter(request.model)
        self.context = RequestContext(model=request.target, tool_ids=ClientToolIds(), state_store=state_store)
        messages, tools, options = self.adapter.from_wire_request(request.fields, self.context)
        if passed := request.wire.headers.to_provider(request.headers):
            options = replace(options, headers={**options.headers, request.wire.provider: passed})
        self.relay = Relay(self._body_for, messages, options)
        self.prompt = messages.pop() if messages and messages[-1].role is Role.USER else None
        self.session: AsyncSession = client.session(
            request.target,
            messages=messages,
            tools=tools,
            options=options,
            tool_ids=self.context.tool_ids,
            session_id=self.context.session_id,
            max_rounds=1,
            middleware=(self._follow,) if admit is None else (self._follow, admit),
            user_id=request.caller.user,
            team_id=request.caller.team,
        )
        self.context.prices = self.session.prices
        policy = client.config.policy
        self._judges_calls = policy is not None
        self._changes_replies = policy is not None and policy.has_plugins(Hook.LLM_OUTPUT)

    @property
    def passes_reply(self) -> bool:
        """Whether the bytes of the reply go to the client as they arrive."""
        return self.relay.relayed and not self._changes_replies

    def begin_reply(self) -> None:
        """Prepare the context for the reply of the model that was asked last."""
        if self.answering is not None:
            self.context.model = str(self.answering.model_id)

    def note_end(self) -> None:
        """Note in the record what was used, also by a reply that the client left."""
        record = self.request.record
        record.model = str(self.answering.model_id) if self.answering is not None else ""
        last = self.session.messages[-1:]
        record.usages = [each.usage for each in (*last, *self.session.attempts) if each.usage is not None]

    def losses(self, asked: tuple[Loss, ...]) -> tuple[Loss, ...]:
        """Return all losses so far; ``asked`` are those of the request to the provider."""
        return (*self.context.losses, *asked)

    def _body_for(self, adapter: Adapter) -> bytes | None:
        request = self.request
        if adapter.provider != request.wire.provider:
            return None
        return replace_model(request.body, request.fields, adapter.model)

    def _follow(self, turn: Generator[Any, Any, None]) -> Generator[Any, Any, None]:
        return intercept(turn, self._handle)

    def _handle(self, effect: Any) -> Generator[Any, Any, Any]:
        if isinstance(effect, RunTools):
            return (yield from self._judge_calls(effect))
        if not isinstance(effect, Send):
            return (yield effect)
        self.answering = adapter = effect.adapter
        wire = self.request.wire
        if adapter.provider == wire.provider:
            adapter = self.relay.adapter(adapter, effect.tools)
        elif wire.announces_tokens and effect.options.stream:
            self.context.estimated_input_tokens = adapter.estimate_input_tokens(effect.messages, effect.tools)
        return (yield replace(effect, adapter=adapter, observers=(*effect.observers, self._note_headers)))

    def _judge_calls(self, effect: RunTools) -> Generator[Any, Any, Any]:
        """Let the policy judge the calls. The client runs them, so no call has a result here."""
        if self._judges_calls and {call.name for call in effect.calls} <= {
            tool.name for tool in self.session.toolbox.definitions
        }:
            yield effect
        return ()

    def _note_headers(self, headers: Mapping[str, str]) -> Perform:
        self.reply_headers = headers
        return _NOTHING


async def _do_nothing() -> None:
    """Wait for nothing."""


_NOTHING = Perform(lambda: None, _do_nothing)
