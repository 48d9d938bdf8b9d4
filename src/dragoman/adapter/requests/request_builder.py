"""Builds one request: the projected turns, the tool ids, and the losses so far. Every adapter uses it."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dragoman.adapter import wirejson
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import CriticalLossError, ProjectionError
from dragoman.adapter.facts.capabilities import AdapterCapabilities, ToolIdRule
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.options import AdapterOptions, UsedOptions, encoding_options
from dragoman.adapter.requests import block_fields
from dragoman.adapter.requests.block_fields import MESSAGE_FIELDS, BlockField, field_losses
from dragoman.adapter.requests.encode_cache import (
    EMPTY_PREFIX,
    EncodedHistory,
    EncodedPrefix,
    encode_chunks,
    find_boundary,
    find_first_turn,
    iter_stretches,
)
from dragoman.adapter.requests.turns import INSTRUCTION_ROLES, SYNTHETIC, Turn
from dragoman.adapter.server_tools.table import EMPTY_TABLE, ServerToolTable
from dragoman.adapter.wire import WireRequest
from dragoman.adapter.wire_diff import is_same_json, merge_fields
from dragoman.adapter.wirejson import lookup_path
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition

if TYPE_CHECKING:
    from dragoman.adapter.requests.encoded_tools import EncodeTool
    from dragoman.adapter.requests.schemas import FittedSchema
    from dragoman.adapter.server_tools.encode import ToolsOfRequest

ABSENT_OPTION = "the wire has no such option"
_FEW, _SHORT = 8, 2048
"""Turns, and characters of each, up to which nothing is cached."""
HAS_MARKER = ""
"""The problem of a block whose own note already has a marker of a cache: it counts, and nothing is lost."""
_MOST_MARKERS = 3
"""Markers of our own in the list of messages. Providers take four in a request; one is for the instructions."""
_MARKERS = "cache_breakpoints"
"""The key of the encoder's state for the number of markers so far."""


@dataclass(slots=True)
class Target:
    """The ``model`` of a ``provider`` that a request is for, as its adapter describes it. Targets are immutable.

    ``capabilities`` and ``server_tools`` are those that the adapter declares.
    """

    provider: str
    model: str
    capabilities: AdapterCapabilities
    cache_key: Hashable = field(default_factory=object)
    """Targets with equal keys encode a history to the same bytes. By default, no two targets are equal."""
    server_tools: ServerToolTable = EMPTY_TABLE
    marks_cache: bool = False
    """Whether requests mark places up to which the prompt is cached."""
    cites_documents: bool = False
    """Whether requests say which documents the answer cites."""
    priced_fields: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The same as `Adapter.priced_fields`."""


@dataclass(slots=True)
class RequestBuilder:
    """One request on its way to the wire.

    ``turns`` are the leading instructions and all turns that are not in the cached ``prefix`` (see `encode_cache`).
    ``target`` is the model of a ``provider``; ``options`` and ``context`` are the caller's; ``losses`` are those so
    far.
    """

    target: Target
    options: AdapterOptions
    context: RequestContext
    turns: tuple[Turn, ...]
    losses: list[Loss]
    prefix: EncodedPrefix = EMPTY_PREFIX
    instruction_turns: int = 0
    """The number of turns that are leading instructions."""
    uncached: tuple[Message, ...] = ()
    """The messages that this request may add to the cached prefix."""
    usual: bool = False
    """Whether the turns are a usual conversation, which no step of the projection changes; see `prepare`."""
    at_list_start: bool = True
    """Whether the turns that are being encoded begin the list."""
    encoder_state: dict[str, Any] = field(default_factory=dict)
    """The encoder's state between two stretches of turns; stored with the cached prefix."""
    provider: str = field(init=False)
    tool_id_rule: ToolIdRule = field(init=False)
    """How the target writes the ids of calls."""
    used: UsedOptions = field(init=False)
    """The options to take from: what is left at the end is a loss. ``options`` is for looking alone."""
    holds_budgets: bool = True
    """Whether a budget of thinking is held to the limits of the model. One that is being read is kept as an option,
    because only its headers may allow it, and a model that takes none may get the request."""
    own_defaults: set[str] = field(default_factory=set)
    """Fields of the body that the encoder fills if no option does."""
    lead_marks: dict[str, Any] = field(default_factory=dict, init=False)
    """The number of markers of a cache in the leading instructions; see `place_breakpoints`."""
    tools: "ToolsOfRequest | None" = field(default=None, init=False)
    """The tools of the request, if it has any that are not plain."""
    plain_tools: Sequence[ToolDefinition] | None = field(default=None, init=False)
    """The tools of the request if the model takes all of them as they are; see `are_plain`."""
    _void_found: bool | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.provider = self.target.provider
        self.used = UsedOptions(self.options)
        self.tool_id_rule = self.target.capabilities.tool_id_rule

    def split_instructions(self) -> tuple[Sequence[Turn], Sequence[Turn]]:
        """Split off the leading instructions. A message that was read from inside the list stays there."""
        for position, turn in enumerate(self.turns):
            if turn.role not in INSTRUCTION_ROLES or turn.raw(self.provider).get("in_list"):
                return self.turns[:position], self.turns[position:]
        return self.turns, ()

    def encode_history(self, turns: Sequence[Turn], encode: Callable[[Sequence[Turn]], list[Any]]) -> EncodedHistory:
        """Encode the message list: the cached prefix, followed by ``turns``, the last ones of this request.

        ``encode`` is called for each stretch in order; `at_list_start` is set for the one that begins the list.
        """
        lead_count = self.instruction_turns - (len(self.turns) - len(turns))  # the wire may have hoisted leading turns
        if lead_count < 0:
            return EncodedHistory((), encode(turns))
        lead = encode(turns[:lead_count]) if lead_count else []
        rest = turns[lead_count:]
        self.at_list_start = not (lead_count or self.prefix.messages)
        # A few short texts are encoded again with each request: that costs less than a longer prefix, another object.
        few = len(rest) <= _FEW and all(turn.text is not None and len(turn.text) <= _SHORT for turn in rest)
        cached_turns = 0 if few else self._extend_prefix(rest, encode)
        items = encode(rest[cached_turns:])
        if not self.prefix.json_chunks:
            return EncodedHistory((), lead + items)
        return EncodedHistory((*encode_chunks(lead), *self.prefix.json_chunks), items)

    def _extend_prefix(self, turns: Sequence[Turn], encode: Callable[[Sequence[Turn]], list[Any]]) -> int:
        """Extend the cached prefix. Returns the index of the first turn that is not in it."""
        count = find_boundary(self.uncached)
        if count and not self.usual and (rules := self.target.server_tools.pairs) is not None:
            from dragoman.adapter.server_tools.native_calls import first_open_call  # imported late: see `usual`

            open_call = first_open_call(self.uncached[:count], rules, self.provider)
            # What becomes of an open call depends on what follows, so it is not cached.
            count = count if open_call is None else find_boundary(self.uncached[: open_call + 1])
        # A shared cache also keeps a prefix without the newest messages, which the client may change.
        earlier = find_boundary(self.uncached[:count]) if count and self.context.encode_cache.is_shared else 0
        cached_turns = first_message = 0
        known_losses, context = len(self.prefix.losses), self.context
        for end in (earlier, count):
            last_turn = find_first_turn(self.uncached[end], turns) if end else 0
            if last_turn <= cached_turns:
                continue
            messages, new_turns = self.uncached[first_message:end], turns[cached_turns:last_turn]
            cached_turns, first_message, mark = last_turn, end, len(self.losses)
            ids = {message.id for message in messages} if mark > known_losses else ()
            new_losses = [loss for loss in self.losses[known_losses:] if loss.message_id in ids]
            chunks: list[bytes] = []
            for stretch in iter_stretches(new_turns):  # the items of a long history take more memory than their JSON
                chunks += encode_chunks(encode(stretch))
                self.at_list_start = False
            shorter = self.prefix
            self.prefix = shorter.extend(
                context.tool_ids,
                encoding_options(self.options),
                new_turns if self.usual else [Turn.of(message) for message in messages],
                chunks,
                [*new_losses, *self.losses[mark:]],
                self.encoder_state,
                self.provider if context.encode_cache.is_shared else "",
            )
            policy = self.target.capabilities.thinking_policy
            if policy.prefix_bound:
                from dragoman.adapter.requests.prefix_ledger import extend_ledger  # as below

                ledger = extend_ledger(shorter, self.prefix, chunks, self.provider, policy)
                self.prefix = replace(self.prefix, ledger=ledger)
            context.encode_cache.store(self.target.cache_key, self.prefix)
        self.uncached = self.uncached[first_message:]
        return cached_turns

    def tool_id(self, key: str) -> str:
        """Return the provider's id of a call."""
        return self.context.tool_ids.id_for(key, self.provider, self.tool_id_rule)

    def restore_block(self, turn: Turn, index: int, encoded: Mapping[str, Any]) -> dict[str, Any]:
        """Restore what the provider's own block held beyond our encoding."""
        return turn.restore_block(index, encoded, self.provider)

    def message_fields(self, turn: Turn) -> Mapping[str, Any]:
        """Return the fields to send with the provider's own message (see `message_fields`); empty for most messages.

        A message that is sent in another role may not have them: a loss.
        """
        fields: Mapping[str, Any] = turn.raw(self.provider).get(MESSAGE_FIELDS, {})
        if fields and turn.role is not turn.message.role:
            if turn.message.role in INSTRUCTION_ROLES:
                self.losses += field_losses(turn.message, f"the {turn.message.role} role")
            return {}
        return fields

    def place_breakpoints(self, turn: Turn, problems: Iterable[str | None]) -> set[int]:
        """Return the indexes of the blocks of a turn that get a marker, up to which the provider is asked to cache the
        prompt (`MessageMetadata.cache_breakpoints`), and record the others as losses.

        ``problems`` has, for each block, why no marker may follow it, or None.
        """
        wanted = turn.message.metadata.cache_breakpoints
        if not wanted:
            return set()
        is_lead = turn in self.turns[: self.instruction_turns]
        marks = self.lead_marks if is_lead else self.encoder_state
        # The option sets a marker in the instructions and one in the last message.
        most = (0 if is_lead else 1) if self.options.prompt_cache else (1 if is_lead else _MOST_MARKERS)
        placed: set[int] = set()
        lost = set(wanted) - set(turn.origins)
        for index, (origin, problem) in enumerate(zip(turn.origins, problems, strict=True)):
            if origin not in wanted:
                continue
            if problem == HAS_MARKER:
                marks[_MARKERS] = marks.get(_MARKERS, 0) + 1
            elif problem is None and marks.get(_MARKERS, 0) < most:
                marks[_MARKERS] = marks.get(_MARKERS, 0) + 1
                placed.add(index)
            else:
                reason = problem or "the request has as many markers as the provider takes"
                self.losses.append(_breakpoint_loss(turn.message, origin, reason))
        self.losses += [
            _breakpoint_loss(turn.message, origin, "its block is not sent as it is") for origin in sorted(lost)
        ]
        return placed

    def usable_tools(self, tools: Sequence[ToolDefinition]) -> list[ToolDefinition]:
        """Return the tools that this provider can use; see `ToolsOfRequest`. Raises UnsupportedToolError."""
        if not tools:
            return []
        if tools is self.plain_tools:
            self.context.native_calls = {}
            return list(tools)
        from dragoman.adapter.server_tools.encode import ToolsOfRequest  # imported late: most tools are plain

        target = self.target
        calls_functions = bool(target.capabilities.supports_tools)
        # It gets the list, not a method: a request that refers to itself waits for the collector.
        self.tools = ToolsOfRequest(target.server_tools, target.provider, target.model, self.losses, calls_functions)
        chosen = self.tools.choose(tools)
        self.context.native_calls = self.tools.native_calls
        return chosen

    def fit_tools(self, tools: Sequence[ToolDefinition]) -> list[ToolDefinition]:
        """Return the tools that this provider can use, with schemas in its form. Raises UnsupportedToolError."""
        usable = self.usable_tools(tools)
        return usable if tools is self.plain_tools else fit_tool_schemas(self, usable)

    def fit_output_schema(self) -> dict[str, Any]:
        """Return the output schema in the target's form."""
        from dragoman.adapter.requests.schemas import fit_schema  # imported late: few requests have one

        fitted = fit_schema(self.options.output_schema or {}, self.target.capabilities.output_schemas)
        self.record_schema_losses(LossKind.OPTION, "output_schema", fitted)
        return fitted.schema

    def record_schema_losses(self, kind: LossKind, what: str, fitted: "FittedSchema") -> None:
        """Record the constraints of a schema that are gone, and those in another form."""
        model = self.target.model
        if fitted.dropped:
            paths = ", ".join(dict.fromkeys(fitted.dropped))
            self.record_loss(kind, f"{what}: {model} is not held to {paths}: the description says it")
        if fitted.changed:
            paths = ", ".join(dict.fromkeys(fitted.changed))
            self.record_loss(kind, f"{what}: in another form for {model}: {paths}", Severity.INFO)

    def encode_tools(self, tools: Sequence[ToolDefinition], encode: "EncodeTool") -> list[dict[str, Any]]:
        """Encode tools from `fit_tools`: ``encode`` gets each with the provider's name. Then their fields that it does
        not write are added."""
        if self.tools is None:
            from dragoman.adapter.requests.encoded_tools import EncodedTools  # imported late, as `are_plain`

            return EncodedTools(tools, encode, self.provider)
        return [self.tools.finish_function(tool, encode(tool, self.provider)) for tool in tools]

    def finish_function(self, tool: ToolDefinition, encoded: dict[str, Any]) -> dict[str, Any]:
        """Add the fields of a function that the adapter's encoder does not write."""
        return encoded if self.tools is None else self.tools.finish_function(tool, encoded)

    def record_block_loss(
        self, turn: Turn, index: int, kind: LossKind, reason: str, severity: Severity = Severity.WARNING
    ) -> None:
        """Record the loss of a block. Raises CriticalLossError if it is marked critical."""
        loss = Loss(kind, turn.message.id, turn.origins[index], reason, severity, turn.blocks[index].type)
        if turn.message.metadata.critical:
            refuse_critical([turn.message], [loss])
        self.losses.append(loss)

    def record_moved_texts(self, turn: Turn, *, thinking_first: bool = False) -> None:
        """Record the texts behind a call, on a wire on which all text of a message comes before its calls; and with
        ``thinking_first`` the thinking that is not at the start, on a wire that has a field for it."""
        for index in turn.texts_after_calls():
            self.record_block_loss(turn, index, LossKind.FLATTENED, "words behind a call go before it", Severity.INFO)
        for index in turn.late_thinking() if thinking_first else ():
            self.record_block_loss(turn, index, LossKind.FLATTENED, "thinking goes first, as one text", Severity.INFO)

    def record_message_loss(self, turn: Turn, kind: LossKind, reason: str) -> None:
        """Record a message that is sent in another form."""
        self.losses.append(Loss(kind, turn.message.id, SYNTHETIC, reason, Severity.INFO))

    def record_field_losses(self, turn: Turn, index: int, *unsupported: BlockField) -> None:
        """Record the fields of a block that the wire does not support."""
        if turn.portable:
            return
        synthetic, from_same_wire = turn.origins[index] == SYNTHETIC, bool(turn.raw(self.provider))
        for kind, reason, severity in block_fields.find_lost_fields(
            turn.blocks[index], unsupported, synthetic=synthetic, from_same_wire=from_same_wire
        ):
            self.record_block_loss(turn, index, kind, reason, severity)

    def record_loss(self, kind: LossKind, reason: str, severity: Severity = Severity.WARNING) -> None:
        """Record a loss of the whole request."""
        self.losses.append(Loss(kind, "", -1, reason, severity))

    def record_option_loss(self, name: str, reason: str) -> None:
        """Record an option that the model does not support."""
        self.record_loss(LossKind.OPTION, f"{name}: {reason}")

    def record_unused_options(self, reason: str = ABSENT_OPTION) -> None:
        """Record every option that is set and was not taken. `WireAdapter` calls this after the body is encoded; an
        encoder that knows a better reason calls it before."""
        if self.used.left:
            for name in self.used.take_rest():
                self.record_option_loss(name, reason)

    def has_void_thinking(self, body: Mapping[str, Any]) -> bool:
        """Whether signed thinking in the history is void because its prefix has changed since.

        Each such block is a loss. Raises ProjectionError if the options say ``strict_prefix``.
        """
        policy = self.target.capabilities.thinking_policy
        if self._void_found is not None or not policy.prefix_bound:
            return bool(self._void_found)
        history = next((value for value in body.values() if isinstance(value, EncodedHistory)), None)
        if history is None:
            return False
        # Imported late: few models bind signatures to what precedes them.
        from dragoman.adapter.requests.prefix_ledger import digest_frame, find_void_messages, is_signed

        frame = digest_frame(body)
        ledger, void_messages = find_void_messages(frame, self.prefix, history, self.uncached, self.provider, policy)
        self.context.prefix_note = ledger.note(frame)
        reason = f"what stood before it has changed since {self.target.model} signed it: the signature is void"
        if void_messages and self.options.strict_prefix:
            raise ProjectionError(f"message {void_messages[0].id}: {reason}; without strict_prefix it would be a loss")
        for message in void_messages:
            for index, block in enumerate(message.content):
                if is_signed(block):
                    loss = Loss(LossKind.THINKING, message.id, index, reason, Severity.WARNING, block.type)
                    refuse_critical([message], [loss])
                    self.losses.append(loss)
        self._void_found = bool(void_messages)
        return self._void_found

    def merge_list_header(self, name: str, value: str) -> dict[str, str]:
        """Return a header with our value appended to the caller's own list."""
        own = self.options.headers.get(self.provider, {})
        matching = {key: text for key, text in own.items() if key.lower() == name}
        others = {key: text for key, text in own.items() if key not in matching}
        self.options = replace(self.options, headers={**self.options.headers, self.provider: others})
        return {name: ",".join((*matching.values(), value))}

    def drop_extra(self, *names: str) -> None:
        """Drop the caller's extra fields that would override the conversation or an option."""
        own = self.options.extra.get(self.provider, {})
        if own.keys().isdisjoint(names):
            return
        kept = {name: value for name, value in own.items() if name not in names}
        self.options = replace(self.options, extra={**self.options.extra, self.provider: kept})

    def build(
        self,
        path: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        *,
        stream: bool | None = None,
    ) -> WireRequest:
        """Return the finished request. The caller's extra fields for this provider are merged into the body, at any
        depth; an option that one of them overrides is a loss. ``stream``: whether the reply is read as it arrives; by
        default, what the options say."""
        headers = {"content-type": "application/json", **(headers or {})}
        if self.tools is not None:
            from dragoman.adapter.server_tools.encode import add_fields

            for added_fields in self.tools.fields:
                body = add_fields(body, added_fields)
            for name, value in self.tools.headers:
                known = headers.get(name)
                headers[name] = f"{known},{value}" if known else self.merge_list_header(name, value)[name]
        extra = self.options.extra.get(self.provider)
        merged_body = merge_fields(body, extra, self._record_override) if extra else body
        if self.target.capabilities.thinking_policy.prefix_bound:
            self.has_void_thinking(merged_body)
        if self.options.headers:  # read only now: `merge_list_header` may have changed them
            headers.update(self.options.headers.get(self.provider, {}))
        terms = self.context.terms
        for name, (path_in_body, default) in self.target.priced_fields.items():
            value = lookup_path(merged_body, path_in_body)
            if isinstance(value, str) and value != default:
                terms[name] = value
        stream = self.options.stream if stream is None else stream
        return WireRequest("POST", path, dump_body(merged_body), headers, stream, tuple(self.losses), terms)

    def _record_override(self, path: tuple[str, ...], value: Any) -> None:
        """Record a value that ``extra`` overrides, unless it is a default, or the client's own body is restored."""
        client: Any = self.context.client_fields
        for name in path:
            client = client.get(name, ...) if isinstance(client, Mapping) else ...
        if path[0] not in self.own_defaults and not (self.context.client_fields and is_same_json(client, value)):
            self.record_option_loss("extra", f"{'.'.join(path)} is set there, too: the value of extra is sent")


def dump_body(body: Mapping[str, Any]) -> bytes:
    """Return the JSON of a body. The history and the tools know what was written before: it stands as it is."""
    pieces: list[bytes] = []
    rest: dict[str, Any] = {}
    for name, value in body.items():
        if isinstance(value, EncodedHistory) and not value.prefix_chunks:
            rest[name] = value.new_items
        elif known := getattr(value, "pieces", ()):
            if rest:
                pieces += (b",", wirejson.dumps(rest)[1:-1])
                rest = {}
            pieces += (b",", wirejson.dumps(name), b":", *known)
        else:
            rest[name] = value
    if not pieces:
        return wirejson.dumps(rest)
    if rest:
        pieces += (b",", wirejson.dumps(rest)[1:-1])
    return b"".join((b"{", *pieces[1:], b"}"))


def refuse_critical(messages: Sequence[Message], losses: Iterable[Loss]) -> None:
    """Raise CriticalLossError if one of the losses concerns a block marked critical."""
    critical = {message.id: message.metadata.critical for message in messages if message.metadata.critical}
    for loss in losses:
        marked = critical.get(loss.message_id, False)
        # A block that an earlier step replaced has no index any more: it may be the marked one.
        is_critical = marked is True or (marked and loss.block_index in (*marked, SYNTHETIC))
        if is_critical and loss.severity is Severity.WARNING:
            what = f"block {loss.block_index} of message {loss.message_id}"
            raise CriticalLossError(f"{what} is marked critical and would be lost: {loss.reason}")


def _breakpoint_loss(message: Message, index: int, why: str) -> Loss:
    block_type = message.content[index].type if index < len(message.content) else ""
    return Loss(LossKind.OPTION, message.id, index, f"cache_breakpoints: {why}", Severity.INFO, block_type)


def fit_tool_schemas(request: RequestBuilder, tools: Sequence[ToolDefinition]) -> list[ToolDefinition]:
    """Return the tools with schemas in the target's form; tools that came from its own wire go back unchanged."""
    if not tools:
        return []
    from dragoman.adapter.requests.schemas import Room, fit_schema, form_check  # imported late: see `usable_tools`

    rule = request.target.capabilities.tool_schemas
    fits, room = form_check(rule), Room()
    fitted_tools: list[ToolDefinition] = []
    for tool in tools:
        if not (fits(tool.input_schema) or (tool.provider_raw or {}).get("by") == request.provider):
            fitted = fit_schema(tool.input_schema, rule, room)
            request.record_schema_losses(LossKind.TOOLS, f"the tool {tool.name}", fitted)
            if fitted.schema != tool.input_schema:
                tool = tool.model_copy(update={"input_schema": fitted.schema})
        fitted_tools.append(tool)
    return fitted_tools
