"""The adapter contract: from the canonical form to one provider's wire and back (docs/reference/contract.md).

An adapter is bound to one model and pure: it does no I/O and has no clock and no randomness of its own. Ids, time
and prices come from the `RequestContext`.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, Self

from dragoman.adapter.errors import ProviderError, UnknownProviderError
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.facts.token_estimate import estimate_tokens
from dragoman.adapter.replies.framing import DEFAULT_BODY_CAP, DEFAULT_FRAME_CAP
from dragoman.adapter.replies.stream_decoder import StreamDecoder, decode_stream, decode_stream_async
from dragoman.adapter.requests.answer_tool import AnswerTool
from dragoman.adapter.requests.encode_cache import EncodeCache
from dragoman.adapter.requests.projection import Target
from dragoman.adapter.requests.tool_ids import ToolIdMap
from dragoman.adapter.requests.tool_names import ToolNames
from dragoman.adapter.wire import WireChunk, WireRequest, WireResponse
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.ids import ModelId, new_message_id, new_session_id
from dragoman.canonical.message import Message
from dragoman.canonical.routing import RoutingDecisionRecord
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import TokenUsage, Usage

if TYPE_CHECKING:
    from dragoman.adapter.batch_api import BatchApi


class Prices(Protocol):
    """A price table, as adapters see it."""

    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage:
        """The usage with its cost; ``cost_usd`` is None if the table has no price."""
        ...


@cache
def bundled_prices() -> Prices:
    """The table registered as ``bundled`` under the entry-point group ``dragoman.prices``."""
    (entry,) = entry_points(group="dragoman.prices", name="bundled")
    table: Prices = entry.load()()
    return table


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """The identity, ids, clock and prices that a request is made with.

    ``tool_ids`` and ``encode_cache`` live as long as the session; the cache keeps what earlier requests encoded.
    Everything else may change with each request.
    """

    model: str
    session_id: str = field(default_factory=new_session_id)
    request_id: str = field(default_factory=new_message_id)
    tool_ids: ToolIdMap = field(default_factory=ToolIdMap)
    encode_cache: EncodeCache = field(default_factory=EncodeCache)
    tool_names: ToolNames | None = None
    """Set by `Adapter.to_wire` if tools were sent under other names than their own."""
    answer_tool: AnswerTool | None = None
    """Set by `Adapter.to_wire` if the reply's text comes as the input of a tool."""
    prefix_note: Mapping[str, Any] | None = None
    """The prefix ledger's note for the reply, if it holds signed thinking; set by `Adapter.to_wire`."""
    prices: Prices | None = None
    new_id: Callable[[], str] = new_message_id
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    started_at: datetime | None = None
    """When the request was sent; the reply's latency is measured from it."""
    routing: RoutingDecisionRecord | None = None
    user_id: str | None = None
    team_id: str | None = None
    frame_cap: int = DEFAULT_FRAME_CAP
    body_cap: int = DEFAULT_BODY_CAP

    @classmethod
    def for_model(cls, model: str, **fields: Any) -> Self:
        """A fresh session with an empty id map and the bundled prices. Raises UnknownProviderError on a malformed
        model id, as `get_adapter` does."""
        try:
            ModelId.parse(model)
        except ValueError as error:
            raise UnknownProviderError(str(error)) from None
        if "prices" not in fields:
            fields["prices"] = bundled_prices()
        return cls(model=model, **fields)


class NamedTool(NamedTuple):
    """A tool choice: this tool must be called."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | NamedTool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterOptions:
    """The options of a request. None leaves an option to the provider; Dragoman sends no defaults of its own."""

    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop_sequences: tuple[str, ...] = ()
    """A plain string counts as one sequence."""
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    output_schema: Mapping[str, Any] | None = None
    """A JSON Schema that the answer's text obeys."""
    effort: str | None = None
    """Reasoning effort: none, minimal, low, medium, high, xhigh or max. The adapter maps it to the model's levels."""
    thinking: bool | None = None
    """Whether to reason, and to return the reasoning if the model hides it by default."""
    thinking_budget: int | None = None
    """The limit of reasoning tokens, for models that accept a budget."""
    prompt_cache: Literal["5m", "1h"] | None = None
    """Request prompt caching with that lifetime, if caching is not automatic."""
    strict_prefix: bool = False
    """Raise ProjectionError for a request that would void signed thinking of earlier turns."""
    stream: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Body fields by provider name. They override that provider's body and are ignored by all others. The value ``...``
    removes a field from the body."""
    context: RequestContext | None = None

    def __post_init__(self) -> None:
        if isinstance(self.stop_sequences, str):
            object.__setattr__(self, "stop_sequences", (self.stop_sequences,))

    def with_context(self, context: RequestContext) -> "AdapterOptions":
        return replace(self, context=context)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a provider and the way it authenticates callers.

    ``key_variables`` are environment variables; the first one that is set counts. The key is sent in ``key_header``
    after ``key_prefix``. ``base_url_variable`` overrides ``base_url``, which may hold names of environment variables in
    braces, e.g. ``{AZURE_OPENAI_ENDPOINT}/openai/v1``.
    """

    base_url: str
    key_variables: tuple[str, ...] = ()
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    key_required: bool = True
    base_url_variable: str | None = None


class Adapter(ABC):
    """One model behind one wire. Subclasses declare ``provider`` and ``endpoint`` and implement the abstract methods.

    ``transport`` names the transport of the requests: ``http``, or ``local`` for a model in this process.
    """

    provider: ClassVar[str]
    endpoint: ClassVar[Endpoint]
    transport: ClassVar[str] = "http"
    listed_models: ClassVar[tuple[str, ...]] = ()

    def __init__(self, model: str) -> None:
        self.model = model

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.model_id)!r})"

    @property
    def model_id(self) -> ModelId:
        return ModelId(self.provider, self.model)

    @property
    def target(self) -> Target:
        """The model as the target of a request."""
        return Target(self.provider, self.model, self.capabilities, cache_key=(type(self), self.model))

    @property
    @abstractmethod
    def capabilities(self) -> AdapterCapabilities:
        """What the model can do."""

    @abstractmethod
    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        """Encode a request. The same input gives the same bytes and losses in every process.

        Raises CriticalLossError if a critical block would be lost, and RequestError if an option cannot be encoded.
        """

    @abstractmethod
    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        """Decode the assistant's message. Raises the provider's error for a status of 400 and over."""

    @abstractmethod
    def decoder(self, context: RequestContext) -> StreamDecoder:
        """Return a new decoder for one streamed reply."""

    @abstractmethod
    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        """Decode a request in the provider's format. The options carry the given context.

        Raises RequestError if the body is not such a request.
        """

    @abstractmethod
    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        """Return the error of a failed reply. Never raises, whatever the body is."""

    @property
    def batch_api(self) -> "BatchApi | None":
        """The provider's batch API for this model; None if it has none or the adapter does not support it."""
        return None

    @property
    def default_output_tokens(self) -> int:
        """The output limit that applies if the options set none."""
        limit = self.capabilities.max_output_tokens
        return min(limit, int(self.capabilities.wire.get("default_max_tokens", limit)))

    def estimate_input_tokens(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> int:
        """Estimate the input tokens locally, at least 1 (docs/reference/contract.md#estimates).

        Options are not counted: an output schema, or reasoning, makes some providers add to the prompt.
        """
        return estimate_tokens(str(self.model_id), messages, tools, self.capabilities.token_estimate)

    def reply_decoder(self, context: RequestContext) -> StreamDecoder:
        """Return the decoder for the reply to the request that was made with this context."""
        decoder = self.decoder(context)
        translations = (context.tool_names, context.answer_tool)
        decoder.translators = tuple(each.translate for each in translations if each is not None)
        return decoder

    def stream_response(self, chunks: AsyncIterator[WireChunk], context: RequestContext) -> AsyncIterator[StreamEvent]:
        """Yield the events of a streamed reply. The last one is message_complete or error."""
        return decode_stream_async(chunks, self.reply_decoder(context))

    def iter_stream(self, chunks: Iterable[WireChunk], context: RequestContext) -> Iterator[StreamEvent]:
        """The sync twin of `stream_response`."""
        return decode_stream(chunks, self.reply_decoder(context))
