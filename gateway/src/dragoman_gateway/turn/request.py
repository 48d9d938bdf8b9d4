"""One request of a client: as it came, as its wire reads it, and what it is asked with."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from dragoman import (
    Adapter,
    AdapterOptions,
    AsyncClient,
    Message,
    RequestContext,
    ToolDefinition,
    WireRequest,
    WireResponse,
)
from dragoman.answers import ClientToolIds, StateSealer, StateStore, holds_state
from dragoman.blocks import ThinkingBlock
from dragoman.errors import DragomanError, InvalidRequestError
from dragoman.limits import Governor, MaxUsage, MeasureUsage, max_usage
from dragoman.messages import Role
from dragoman_gateway.access import Caller, Prices
from dragoman_gateway.bodies.model_name import rename_fields, replace_model
from dragoman_gateway.bodies.repeated import HISTORIES, KeptBody
from dragoman_gateway.errors import ClientError
from dragoman_gateway.models import Deployment, Deployments, FallbackQuota
from dragoman_gateway.running.metrics import RequestRecord
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.turn import other_wire
from dragoman_gateway.turn.recall import LabelStore
from dragoman_gateway.turn.usage_chunk import ask_for_usage
from dragoman_gateway.wires import Wire


@dataclass(slots=True, kw_only=True)
class RequestResources:
    """``client_for`` returns the client of a deployment under which the caller asks. ``may_ask`` says whether the
    caller may use a model; None allows all. ``governors`` let each attempt start, and ``check`` raises what they would
    refuse now."""

    settings: GatewaySettings
    deployments: Deployments
    client_for: Callable[[AsyncClient], AsyncClient]
    quota: FallbackQuota
    prices: Prices
    check: Callable[[MeasureUsage], Awaitable[None]]
    may_ask: Callable[[str], bool] | None = None
    governors: Sequence[Governor] = ()
    state_store: StateStore | None = None
    state_sealer: StateSealer | None = None
    is_bounded: bool = False
    """Whether a budget or a policy needs to know what the request costs and holds."""
    labels: LabelStore | None = None
    """Has the labels of conversations in earlier turns; None if nothing reads labels."""

    def in_order(self) -> Sequence[Deployment]:
        """Return the deployments in the order in which to ask them."""
        self.quota.requests += 1
        found = self.deployments.in_order()
        if self.may_ask is None:
            return found
        return [each for each in found if self.may_ask(each.model)]


_LONG, _LARGE = 2_000, 1024 * 1024
"""Messages and tools, and bytes: pictures are checked byte by byte."""
_RENAMED = "renamed_fields"
"""The fact of a model about fields that it takes by another name alone."""


@dataclass(slots=True, kw_only=True)
class ClientRequest:
    """What is known of a request before it is asked."""

    wire: Wire
    model: str
    """The name that the client asked for."""
    requested_model: str | None = None
    """The name as the settings have it, if it is another."""
    stream: bool
    query: Mapping[str, str] = field(default_factory=dict)
    """The part of the address that decides the form of the reply. If there is one, the client wants another form than
    a provider of its wire sends."""
    caller: Caller
    request_id: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    fields: dict[str, Any] = field(repr=False)
    record: RequestRecord
    kept: KeptBody | None = field(default=None, repr=False)
    """The parts of the body, which earlier requests may have had; None if it was read as a whole."""

    def forget_history(self) -> None:
        """Release the conversation of a stream that has begun: it may be long, and is asked nowhere else."""
        self.body = b""
        self.kept = None
        self.fields = {name: [] if name in HISTORIES else value for name, value in self.fields.items()}

    def add_kept(self, context: RequestContext) -> None:
        """Give the context what the caller has sent before: it is not decoded again."""
        if self.kept is not None:
            context.kept_history, context.kept_tools = self.kept.decoded, self.kept.field("tools")

    def body_for(self, adapter: Adapter, *, asks_for_usage: bool, exact: bool) -> bytes | None:
        """Return the bytes for a model of the same provider, with the changes that it needs; None if the request has to
        be encoded. ``asks_for_usage``: of a stream, the counts are wanted here. ``exact``: no field is renamed."""
        body = replace_model(self.body, self.fields, adapter.model)
        if self.wire.renames_fields and not exact:
            body = rename_fields(body, self.fields, adapter.capabilities.wire.get(_RENAMED, {}))
        return ask_for_usage(body, self.fields) if asks_for_usage else body


@dataclass(kw_only=True)
class ReadRequest:
    """A request with the resources that answer it. It is read when that is first needed."""

    request: ClientRequest
    resources: RequestResources
    is_read: bool = field(default=False, init=False)
    messages: tuple[Message, ...] = field(init=False)
    """The whole conversation, as it was read."""
    read_options: AdapterOptions = field(init=False)
    tools: list[ToolDefinition] = field(init=False)
    options: AdapterOptions = field(init=False)
    """Those of a session: without the schema of the answer."""
    kinds: set[type] = field(init=False)
    """The classes of all blocks."""
    may_pass: bool = field(init=False)
    """Whether the client's bytes may go to a provider of its wire."""

    @cached_property
    def adapter(self) -> Adapter:
        """The adapter of the client's wire."""
        return self.request.wire.adapter(self.request.model)

    @cached_property
    def context(self) -> RequestContext:
        """What is known of the client's request and reply as its wire writes them."""
        caller, resources = self.request.caller, self.resources
        return RequestContext(
            model=resources.deployments.model,
            request_id=self.request.request_id,
            tool_ids=ClientToolIds(),
            client_query=self.request.query,
            state_store=resources.state_store,
            state_sealer=resources.state_sealer,
            prices=resources.prices,
            team_id=caller.team or caller.user or caller.key_id,
        )

    def read(self) -> None:
        """Read the messages, tools and options. Raises ClientError and RequestError."""
        if self.is_read:
            return
        request, wire = self.request, self.request.wire
        request.add_kept(self.context)
        messages, tools, options = self.adapter.from_wire_request(request.fields, self.context)
        if not messages:
            raise ClientError("the request has no messages")
        if len({tool.name for tool in tools}) < len(tools):
            raise ClientError("tools: two of them have the same name")
        if options.stream is not request.stream:  # Google's wire has it in the address
            options = replace(options, stream=request.stream)
        if passed := wire.headers.to_provider(request.headers):
            options = replace(options, headers={**options.headers, wire.provider: passed})
        self.kinds = {type(block) for message in messages for block in message.content}
        # Every provider of such a wire refuses thinking without a signature.
        unsigned = (
            wire.signs_thinking
            and ThinkingBlock in self.kinds
            and any(
                isinstance(block, ThinkingBlock) and not block.signature
                for message in messages
                if message.role is Role.ASSISTANT
                for block in message.content
            )
        )
        self.may_pass = not (unsigned or holds_state(request.body))
        self.messages, self.tools, self.read_options = tuple(messages), tools, options
        # The client checks the answer: a session that knew the schema would ask again.
        self.options = options if options.output_schema is None else replace(options, output_schema=None)
        self.is_read = True

    @property
    def is_long(self) -> bool:
        """Whether to look through the messages and the tools would hold up the requests of others."""
        return len(self.messages) + len(self.tools) >= _LONG or len(self.request.body) >= _LARGE

    @property
    def prompt(self) -> Message | None:
        """The message that a session asks; None if the conversation does not end with one of the user."""
        return self.messages[-1] if self.messages[-1].role is Role.USER else None

    def measure(self, target: Adapter) -> MaxUsage:
        """Estimate what a model could use. A request that was not read is read for that, and nothing of it is kept.

        Raises RequestError.
        """
        if self.is_read:
            return max_usage(target, self.messages, self.tools, self.read_options)
        context = RequestContext(model=self.resources.deployments.model, tool_ids=ClientToolIds())
        self.request.add_kept(context)
        return max_usage(target, *self.adapter.from_wire_request(self.request.fields, context))

    def for_other_wire(
        self, adapter: Adapter, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> tuple[Sequence[Message], AdapterOptions]:
        """Return the messages and the options as a provider of another wire gets them. Raises InvalidRequestError."""
        wire, settings, losses = self.request.wire, self.resources.settings.other_wire, self.context.losses
        messages = other_wire.messages_for(adapter, messages, wire, settings, losses)
        options = other_wire.options_for(adapter, options, tools, wire, self.request.fields, losses)
        if settings.cap_output:
            options = other_wire.cap_output(adapter, options, self.resources.prices, losses)
        if settings.estimate_start and wire.announces_tokens and options.stream:
            self.context.estimated_input_tokens = adapter.estimate_input_tokens(messages, tools)
        return messages, options

    def write(self, message: Message) -> WireResponse:
        """Return a whole reply in the client's wire."""
        self._begin_reply()
        return self.adapter.to_wire_response(message, self.context)

    @cached_property
    def encoder(self) -> Any:
        """Writes a stream in the client's wire. It is first needed when the model that answers is known."""
        self._begin_reply()
        return self.adapter.reply_encoder(self.context)

    def _begin_reply(self) -> None:
        """Prepare the context for writing the reply of the model that was asked, if one was."""
        if not self.is_read:  # the writer repeats fields of the request
            with suppress(DragomanError):
                self.adapter.from_wire_request(self.request.fields, self.context)
        if asked := self.request.record.asked:
            self.context.model = asked


def refuse_losses(request: WireRequest) -> None:
    """Raise InvalidRequestError if content would be lost."""
    lost = [loss for loss in request.losses if loss.severity == "warning"]
    if lost:
        kinds = ", ".join(sorted({loss.kind.value for loss in lost}))
        raise InvalidRequestError(
            f"this model cannot take the whole request, which would lose: {kinds}; {lost[0].reason}"
        )
