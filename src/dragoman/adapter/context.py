"""RequestContext: the identity, ids, clock and prices of one request."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol, Self
from weakref import ref

from dragoman.adapter.errors import UnknownProviderError
from dragoman.adapter.losses import Loss
from dragoman.adapter.names import full_name
from dragoman.adapter.requests.encode_cache import EncodeCache
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.adapter.wire import DEFAULT_BODY_CAP, DEFAULT_FRAME_CAP
from dragoman.canonical.ids import ModelId, new_message_id, new_session_id, utc_now
from dragoman.canonical.message import Message
from dragoman.canonical.message_fields import RoutingDecisionRecord
from dragoman.canonical.usage import TokenUsage, Usage

if TYPE_CHECKING:
    from dragoman.adapter.requests.call_translators import ActionCalls, AnswerTool, ToolNames


class Prices(Protocol):
    """A price table, as adapters see it."""

    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage:
        """Return the usage with its cost; ``cost_usd`` is None if the table has no price."""
        ...


class StateSealer(Protocol):
    """Encrypts state of a provider for its way through a client. The binding is authenticated, and not part of the
    result."""

    def seal(self, state: bytes, binding: bytes) -> bytes:
        """Return the encrypted state, which `open` reads with the same binding."""

    def open(self, sealed: bytes, binding: bytes) -> bytes:
        """Return the state. Raises ValueError, with the reason, if it was not sealed by this program for that
        binding."""
        ...


class StateStore(Protocol):
    """Keeps state of a provider by the id of a tool call."""

    def put(self, key: str, state: bytes) -> None:
        """Keep the state under the id of a call, in place of what was kept before."""

    def get(self, key: str) -> bytes | None:
        """Return the state that was kept under the id of a call, or None."""


def bundled_prices() -> Prices:
    """Return the table registered as ``bundled`` under the entry-point group ``dragoman.prices``."""
    table: Prices = _load_bundled_prices()()
    return table


@cache
def _load_bundled_prices() -> Callable[[], Any]:
    (entry,) = entry_points(group="dragoman.prices", name="bundled")
    load: Callable[[], Any] = entry.load()
    return load


@dataclass(slots=True, eq=False)
class KeptPart:
    """A part of a client's request that a server keeps: a value of its JSON, and what was decoded from it.

    Both are shared by all requests that repeat the part, so nothing may change them.
    """

    value: Any
    """The value as `json.loads` gives it."""
    decoded: Any = None
    """What the reader of requests made of the value; None before it has read it."""


@dataclass(slots=True, eq=False)
class KeptHistory:
    """What was decoded of a conversation that a client sends whole with each request.

    The next request of the conversation repeats what its items share with those of the request before: an item counts
    as repeated if it is the very object, so nothing may change it.
    """

    decoded: Any = None
    """For the reader of requests; None before it has read one."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class HistoryMeasures:
    """What was measured last of a conversation that grows, for its next estimate (`measure_messages`)."""

    last: tuple[list[Message], Any] | None = None
    """The messages and their measures; None before the first estimate."""


class GrowingMessages(list[Message]):
    """The messages of one request of a conversation. ``measures`` are those of the conversation, as long as it lives.
    They grow with it, so that no message is measured twice. A list with other messages is another list."""

    measures: "ref[HistoryMeasures]"
    continues: "GrowingMessages | None" = None
    """The list of the request before, which this one begins with, if that is known."""
    is_large: bool = False
    """Whether it holds large media, which take long to write."""


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """The identity, ids, clock and prices that a request is made with.

    ``tool_ids`` and ``encode_cache`` live as long as the session; the cache keeps what earlier requests encoded.
    Everything else may change with each request.
    """

    model: str
    """The full id of the model, ``provider:name``."""
    session_id: str = field(default_factory=new_session_id)
    """The session that the reply belongs to; empty outside of one."""
    request_id: str = field(default_factory=new_message_id)
    """The id of this request, for logs."""
    tool_ids: ToolIdMap = field(default_factory=ToolIdMap)
    """The ids of calls, by provider."""
    encode_cache: EncodeCache = field(default_factory=EncodeCache)
    """What is encoded of the history already."""
    tool_names: "ToolNames | None" = None
    """Set by `Adapter.to_wire` if tools were sent under other names than their own."""
    answer_tool: "AnswerTool | None" = None
    """Set by `Adapter.to_wire` if the reply's text comes as the input of a tool."""
    action_calls: "ActionCalls | None" = None
    """Set by `Adapter.to_wire` if one tool of the program runs calls that no tool is declared for."""
    native_calls: Mapping[str, str] = field(default_factory=dict)
    """The names of the program's tools whose calls are items of their own, by the type of the item; set by
    `Adapter.to_wire`."""
    prefix_note: Mapping[str, Any] | None = None
    """The prefix ledger's note for the reply, if it holds signed thinking; set by `Adapter.to_wire`."""
    reply_note: Mapping[str, Any] | None = None
    """What the adapter notes on the reply, in its provider_raw; set by `Adapter.to_wire`."""
    ends_turn: bool = False
    """Whether nothing can follow the reply, even if the provider's word for its end is one for a pause; set by
    `Adapter.to_wire`."""
    replies_whole: bool = False
    """Whether the reply to a streamed request is one document, since the model does not stream it; set by
    `Adapter.to_wire`."""
    prices: Prices | None = None
    """What the usage is priced with; None leaves its cost unknown."""
    new_id: Callable[[], str] = new_message_id
    """Returns the id of a new message."""
    clock: Callable[[], datetime] = utc_now
    """Returns the present time, with a time zone."""
    started_at: datetime | None = None
    """When the request was sent; the reply's latency is measured from it."""
    terms: dict[str, str] = field(default_factory=dict)
    """What of the request changes its price; see `TokenUsage.terms`. `Adapter.to_wire` and the transport add to it."""
    routing: RoutingDecisionRecord | None = None
    """How the model was chosen; it is copied to the reply."""
    user_id: str | None = None
    """The id of the user who asks. It is copied to the reply."""
    team_id: str | None = None
    """The id of the user's team. It is copied to the reply."""
    client_fields: Mapping[str, Any] | None = None
    """The fields of a client's request that are not its history; set by `Adapter.from_wire_request`."""
    kept_history: KeptHistory | None = None
    """What was decoded of the earlier requests of a client's conversation, and gets what is decoded of this one; set by
    the caller."""
    kept_tools: KeptPart | None = None
    """The list of tools of a client's request, which was read before; set by the caller."""
    client_query: Mapping[str, str] = field(default_factory=dict)
    """The query of a client's request, such as ``alt`` of a stream of generateContent; set by the caller."""
    estimated_input_tokens: int | None = None
    """The input tokens to announce to a client whose wire asks for them before the provider counted them."""
    state_sealer: StateSealer | None = None
    """Seals what only the provider can read for its way through a client, and opens it again; see `StateKeys`."""
    state_store: StateStore | None = None
    """Keeps what only the provider can read by tool call, for wires without a field for it; see `StateMemory`."""
    history_digest: bytes = b""
    """The digest of the conversation before the reply, to which sealed state is bound; set by
    `Adapter.from_wire_request`."""
    losses: list[Loss] = field(default_factory=list)
    """What was lost in reading a client's request and in writing its reply, in order."""
    frame_cap: int = DEFAULT_FRAME_CAP
    """The most bytes of one event of a stream."""
    body_cap: int = DEFAULT_BODY_CAP
    """The most bytes of a whole reply."""

    @classmethod
    def for_model(cls, model: str, **fields: Any) -> Self:
        """Return the context of a fresh session, with an empty id map and the bundled prices. The model may be a
        bundled alias. Raises UnknownProviderError on a malformed model id, as `get_adapter` does."""
        if isinstance(model, str):
            model = full_name(model)
        try:
            ModelId.parse(model)
        except ValueError as error:
            raise UnknownProviderError(str(error)) from None
        if "prices" not in fields:
            fields["prices"] = bundled_prices()
        return cls(model=model, **fields)
