"""One request of a client, and the session that answers it."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman import Adapter, AsyncClient, AsyncSession, Loss, Message, RequestContext
from dragoman.answers import ClientToolIds
from dragoman.messages import Role
from dragoman.session.effects import RunTools, Send, intercept
from dragoman_gateway.access import Caller
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

    @property
    def model(self) -> str:
        """The name that the client asked for."""
        name: str = self.fields["model"]
        return name

    @property
    def stream(self) -> bool:
        return self.fields.get("stream") is True


class Turn:
    """A request as one turn of a session: the tools are the client's, so their calls go to it."""

    def __init__(self, request: ClientRequest, client: AsyncClient) -> None:
        self.request = request
        self.answering: Adapter | None = None
        self.adapter = request.wire.adapter(request.model)
        self.context = RequestContext(model=request.target, tool_ids=ClientToolIds())
        messages, tools, options = self.adapter.from_wire_request(request.fields, self.context)
        self.prompt = messages.pop() if messages and messages[-1].role is Role.USER else None
        self.session: AsyncSession = client.session(
            request.target,
            messages=messages,
            tools=tools,
            options=options,
            tool_ids=self.context.tool_ids,
            session_id=self.context.session_id,
            max_rounds=1,
            middleware=(self._follow,),
            user_id=request.caller.user,
            team_id=request.caller.team,
        )
        self.context.prices = self.session.prices

    def answered(self, message: Message | None) -> None:
        """Note the model that answered, before its reply is written."""
        if self.answering is not None:
            self.context.model = str(self.answering.model_id)

    def losses(self, asked: tuple[Loss, ...]) -> tuple[Loss, ...]:
        """Return all losses so far; ``asked`` are those of the request to the provider."""
        return (*self.context.losses, *asked)

    def _follow(self, turn: Generator[Any, Any, None]) -> Generator[Any, Any, None]:
        return intercept(turn, self._handle)

    def _handle(self, effect: Any) -> Generator[Any, Any, Any]:
        if isinstance(effect, RunTools):
            return ()  # the client runs its tools
        if isinstance(effect, Send):
            self.answering = effect.adapter
        return (yield effect)
