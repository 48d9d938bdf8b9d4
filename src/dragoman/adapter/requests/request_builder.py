"""Builds one request: the projected turns, the tool ids, and the losses so far. Every adapter uses it."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import ProjectionError
from dragoman.adapter.facts.capabilities import ABSENT
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.options import AdapterOptions, UsedOptions
from dragoman.adapter.requests import block_fields
from dragoman.adapter.requests.block_fields import MESSAGE_FIELDS, BlockField, field_losses
from dragoman.adapter.requests.history import prefix_ledger
from dragoman.adapter.requests.history.encode_cache import (
    EMPTY_PREFIX,
    EncodedHistory,
    EncodedPrefix,
    begins_stretch,
    count_instructions,
    encode_chunks,
    find_boundary,
    find_first_turn,
    is_worth_caching,
    iter_stretches,
)
from dragoman.adapter.requests.history.pairing import CallKeys
from dragoman.adapter.requests.projection import Target, project, refuse_critical
from dragoman.adapter.requests.turns import SYNTHETIC, Turn
from dragoman.adapter.server_tools.pairs import first_open_call
from dragoman.adapter.server_tools.requests import ToolsOfRequest, add_fields
from dragoman.adapter.wire import WireRequest
from dragoman.adapter.wire_diff import is_same_json, merge_fields
from dragoman.adapter.wirejson import lookup_path
from dragoman.canonical.ids import ModelId
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition

ABSENT_OPTION = "the wire has no such option"
_INSTRUCTION_ROLES = (Role.SYSTEM, Role.DEVELOPER)


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
    at_list_start: bool = True
    """Whether the turns that are being encoded begin the list."""
    encoder_state: dict[str, Any] = field(default_factory=dict)
    """The encoder's state between two stretches of turns; stored with the cached prefix."""
    provider: str = field(init=False)
    used: UsedOptions = field(init=False)
    """The options to take from: what is left at the end is a loss. ``options`` is for looking alone."""
    holds_budgets: bool = True
    """Whether a budget of thinking is held to the limits of the model. One that is being read is kept as an option,
    because only its headers may allow it, and a model that takes none may get the request."""
    own_defaults: set[str] = field(default_factory=set)
    """Fields of the body that the encoder fills if no option does."""
    lead_marks: dict[str, Any] = field(default_factory=dict, init=False)
    """The number of markers of a cache in the leading instructions; see `cache_breakpoints`."""
    tools: ToolsOfRequest | None = field(default=None, init=False)
    """The tools of the request, if it has any."""
    _void_found: bool | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.provider = self.target.provider
        self.used = UsedOptions(self.options)

    @classmethod
    def from_history(
        cls,
        target: Target,
        messages: Sequence[Message],
        options: AdapterOptions,
        *,
        server_state: bool = False,
        whole: bool = False,
    ) -> "RequestBuilder":
        """Project the history. Raises CriticalLossError if a critical block would be lost.

        ``whole``: do not use the cache, because the wire has rules that look at all turns.
        """
        context = options.context or RequestContext(model=str(ModelId(target.provider, target.model)))
        lead = count_instructions(messages)
        # Instructions that are sent as the user's may merge with the user's next message.
        whole = whole or server_state or (lead > 0 and target.capabilities.supports_system_prompt is ABSENT)
        prefix = EMPTY_PREFIX
        if not whole:
            if context.encode_cache.is_shared:  # the id map is new
                _remember_issued_ids(messages[lead:], target.provider, context, EMPTY_PREFIX.keys)
            found = context.encode_cache.find(target.cache_key, context.tool_ids, messages, lead)
            if found is not None and found.options == _encoding_options(options):
                prefix = found
        uncached = tuple(messages[lead + len(prefix.messages) :])
        sent = (*messages[:lead], *uncached)
        _remember_issued_ids(sent, target.provider, context, prefix.keys)
        projection = project(sent, target, keys=prefix.keys, server_state=server_state)
        instruction_turns = 0 if whole or not lead else _count_turns_of(sent[:lead], projection.turns)
        if prefix.messages and context.encode_cache.is_shared:
            # It ended before another message, which its last turn may not have been joined with.
            first = next(iter(projection.turns[instruction_turns:]), None)
            if first is None or first.message is not uncached[0] or not begins_stretch(first):
                prefix, uncached, sent = EMPTY_PREFIX, tuple(messages[lead:]), tuple(messages)
                projection = project(sent, target, keys=prefix.keys, server_state=server_state)
                instruction_turns = _count_turns_of(sent[:lead], projection.turns) if lead else 0
        return cls(
            target,
            options,
            context,
            turns=projection.turns,
            losses=[*prefix.losses, *projection.losses, *block_fields.find_lost_message_fields(sent, target.provider)],
            prefix=prefix,
            instruction_turns=instruction_turns,
            uncached=() if whole else uncached,
            encoder_state=deepcopy(dict(prefix.encoder_state)) if prefix.encoder_state else {},
        )

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
        cached_turns = self._extend_prefix(rest, encode) if is_worth_caching(rest) else 0
        items = encode(rest[cached_turns:])
        if not self.prefix.json_chunks:
            return EncodedHistory((), lead + items)
        return EncodedHistory((*encode_chunks(lead), *self.prefix.json_chunks), items)

    def _extend_prefix(self, turns: Sequence[Turn], encode: Callable[[Sequence[Turn]], list[Any]]) -> int:
        """Extend the cached prefix. Returns the index of the first turn that is not in it."""
        count = find_boundary(self.uncached)
        if count and (rules := self.target.server_tools.pairs) is not None:
            open_call = first_open_call(self.uncached[:count], rules, self.provider)
            # What becomes of an open call depends on what follows, so it is not cached.
            count = count if open_call is None else find_boundary(self.uncached[: open_call + 1])
        # A shared cache also keeps a prefix without the newest messages, which the client may change.
        earlier = find_boundary(self.uncached[:count]) if count and self.context.encode_cache.is_shared else 0
        cached_turns = first_message = 0
        known_losses = len(self.prefix.losses)
        for end in (earlier, count):
            last_turn = find_first_turn(self.uncached[end], turns) if end else 0
            if last_turn > cached_turns:
                stretch = turns[cached_turns:last_turn]
                self._cache(self.uncached[first_message:end], stretch, encode, self.losses[known_losses:])
                cached_turns, first_message = last_turn, end
        return cached_turns

    def _cache(
        self,
        messages: Sequence[Message],
        turns: Sequence[Turn],
        encode: Callable[[Sequence[Turn]], list[Any]],
        new_losses: list[Loss],
    ) -> None:
        """Add these messages to the cached prefix, with their turns. ``new_losses`` are all losses that it lacks."""
        if new_losses:
            ids = {message.id for message in messages}
            new_losses = [loss for loss in new_losses if loss.message_id in ids]
        mark = len(self.losses)
        chunks = self._encode_chunks(turns, encode)
        context, shorter = self.context, self.prefix
        self.prefix = self.prefix.extend(
            context.tool_ids,
            _encoding_options(self.options),
            messages,
            chunks,
            [*new_losses, *self.losses[mark:]],
            self.encoder_state,
        )
        if context.encode_cache.is_shared:
            self.prefix = replace(
                self.prefix,
                provider=self.provider,
                sent_ids=context.tool_ids.sent_to(self.provider),
                shorter=shorter if shorter.messages else None,
            )
        context.encode_cache.store(self.target.cache_key, self.prefix)

    def _encode_chunks(self, turns: Sequence[Turn], encode: Callable[[Sequence[Turn]], list[Any]]) -> list[bytes]:
        """Encode the turns in stretches: the items of a long history would take more memory than their JSON."""
        chunks: list[bytes] = []
        for stretch in iter_stretches(turns):
            chunks += encode_chunks(encode(stretch))
            self.at_list_start = False
        return chunks

    def tool_id(self, key: str) -> str:
        """Return the provider's id of a call."""
        return self.context.tool_ids.id_for(key, self.provider, self.target.capabilities.tool_id_rule)

    def restore_block(self, turn: Turn, index: int, encoded: Mapping[str, Any]) -> dict[str, Any]:
        """Restore what the provider's own block held beyond our encoding."""
        return turn.restore_block(index, encoded, self.provider)

    def message_fields(self, turn: Turn) -> Mapping[str, Any]:
        """Return the fields to send with the provider's own message (see `message_fields`); empty for most messages.

        A message that is sent in another role may not have them: a loss.
        """
        fields: Mapping[str, Any] = turn.raw(self.provider).get(MESSAGE_FIELDS, {})
        if fields and turn.role is not turn.message.role:
            if turn.message.role in _INSTRUCTION_ROLES:
                self.losses += field_losses(turn.message, f"the {turn.message.role} role")
            return {}
        return fields

    def usable_tools(self, tools: Sequence[ToolDefinition]) -> list[ToolDefinition]:
        """Return the tools that this provider can use; see `ToolsOfRequest`. Raises UnsupportedToolError."""
        if not tools:
            return []
        target = self.target
        calls_functions = bool(target.capabilities.supports_tools)
        self.tools = ToolsOfRequest(
            target.server_tools, target.provider, target.model, self.record_loss, calls_functions
        )
        chosen = self.tools.choose(tools)
        self.context.native_calls = self.tools.native_calls
        return chosen

    def finish_function(self, tool: ToolDefinition, encoded: dict[str, Any]) -> dict[str, Any]:
        """Add the fields of a function that the adapter's encoder does not write."""
        if self.tools is None or (tool.strict is None and not tool.defer_loading and not tool.extra):
            return encoded
        return self.tools.finish_function(tool, encoded)

    def record_block_loss(
        self, turn: Turn, index: int, kind: LossKind, reason: str, severity: Severity = Severity.WARNING
    ) -> None:
        """Record the loss of a block. Raises CriticalLossError if it is marked critical."""
        loss = Loss(kind, turn.message.id, turn.origins[index], reason, severity, turn.blocks[index].type)
        refuse_critical([turn.message], [loss])
        self.losses.append(loss)

    def record_message_loss(self, turn: Turn, kind: LossKind, reason: str) -> None:
        """Record a message that is sent in another form."""
        self.losses.append(Loss(kind, turn.message.id, SYNTHETIC, reason, Severity.INFO))

    def record_field_losses(self, turn: Turn, index: int, *unsupported: BlockField) -> None:
        """Record the fields of a block that the wire does not support."""
        if block_fields.has_all_fields_everywhere(turn.blocks[index]):
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
        if not self.target.capabilities.thinking_policy.prefix_bound:
            return False
        if self._void_found is None:
            history = next((value for value in body.values() if isinstance(value, EncodedHistory)), None)
            if history is None:
                return False
            items = b",".join(history.json_chunks())
            self.context.prefix_note = prefix_ledger.prefix_note(body, items)
            self._void_found = self._record_void_thinking(body, items)
        return self._void_found

    def _record_void_thinking(self, body: Mapping[str, Any], items: bytes) -> bool:
        policy = self.target.capabilities.thinking_policy
        candidates = (*self.prefix.with_prefix_note, *filter(prefix_ledger.has_prefix_note, self.uncached))
        signed = [
            message
            for message in {id(message): message for message in candidates}.values()
            if (message.metadata.provider_raw or {})["by"] == self.provider and policy.can_read(message.metadata.model)
        ]
        void_messages = prefix_ledger.find_void_messages(signed, body, items) if signed else []
        reason = f"what stood before it has changed since {self.target.model} signed it: the signature is void"
        if void_messages and self.options.strict_prefix:
            raise ProjectionError(f"message {void_messages[0].id}: {reason}; without strict_prefix it would be a loss")
        for message in void_messages:
            for index, block in enumerate(message.content):
                if prefix_ledger.is_signed(block):
                    loss = Loss(LossKind.THINKING, message.id, index, reason, Severity.WARNING, block.type)
                    refuse_critical([message], [loss])
                    self.losses.append(loss)
        return bool(void_messages)

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
            for added_fields in self.tools.fields:
                body = add_fields(body, added_fields)
            for name, value in self.tools.headers:
                known = headers.get(name)
                headers[name] = f"{known},{value}" if known else self.merge_list_header(name, value)[name]
        extra = self.options.extra.get(self.provider)
        merged_body = merge_fields(body, extra, self._record_override) if extra else body
        self.has_void_thinking(merged_body)
        if self.options.headers:  # read only now: `merge_list_header` may have changed them
            headers.update(self.options.headers.get(self.provider, {}))
        terms = self.context.terms
        for name, (path_in_body, default) in self.target.priced_fields.items():
            value = lookup_path(merged_body, path_in_body)
            if isinstance(value, str) and value != default:
                terms[name] = value
        stream = self.options.stream if stream is None else stream
        return WireRequest("POST", path, _dump_body(merged_body), headers, stream, tuple(self.losses), terms)

    def _record_override(self, path: tuple[str, ...], value: Any) -> None:
        """Record a value that ``extra`` overrides, unless it is a default, or the client's own body is restored."""
        client: Any = self.context.client_fields
        for name in path:
            client = client.get(name, ...) if isinstance(client, Mapping) else ...
        if path[0] not in self.own_defaults and not (self.context.client_fields and is_same_json(client, value)):
            self.record_option_loss("extra", f"{'.'.join(path)} is set there, too: the value of extra is sent")


def _encoding_options(options: AdapterOptions) -> tuple[Any, ...]:
    """Return the options that decide how messages are encoded. A copy without the others would take longer."""
    kind = type(options)
    if kind not in _ENCODING_FIELDS:
        names = (each.name for each in fields(kind) if each.name not in ("context", "stream"))
        _ENCODING_FIELDS[kind] = attrgetter(*names)
    values: tuple[Any, ...] = _ENCODING_FIELDS[kind](options)
    return values


_ENCODING_FIELDS: dict[type[AdapterOptions], "attrgetter[Any]"] = {}


def _count_turns_of(messages: Sequence[Message], turns: Sequence[Turn]) -> int:
    """Count the leading turns that belong to those messages."""
    count = 0
    for turn in turns[: len(messages)]:
        for message in messages:
            if turn.message is message:
                count += 1
                break
    return count


def _dump_body(body: Mapping[str, Any]) -> bytes:
    """Encode the body as JSON. Cached chunks of the history are inserted unchanged."""
    for name, value in body.items():
        if isinstance(value, EncodedHistory):
            if value.prefix_chunks:
                return _dump_around(body, name, value)
            return wirejson.dumps({**body, name: value.new_items})
    return wirejson.dumps(body)


def _dump_around(body: Mapping[str, Any], history_field: str, history: EncodedHistory) -> bytes:
    """Encode the fields before the history and those after it, and insert its chunks."""
    names = list(body)
    place = names.index(history_field)
    fields_before = {name: body[name] for name in names[:place]}
    fields_after = {name: body[name] for name in names[place + 1 :]}
    parts = [wirejson.dumps(fields_before)[:-1], b"," if fields_before else b"", wirejson.dumps(history_field), b":["]
    for chunk in history.json_chunks():
        parts += (chunk, b",")
    parts[-1] = b"]"  # for the last comma
    return b"".join((*parts, b"," if fields_after else b"", wirejson.dumps(fields_after)[1:]))


def _remember_issued_ids(
    messages: Sequence[Message], provider: str, context: RequestContext, known_keys: CallKeys
) -> None:
    """Store the provider's own ids of calls, each under the key of its call."""
    ids_by_message: dict[str, Mapping[str, str]] = {}
    for message in messages:  # a plain loop, because it reads the whole history
        raw = message.metadata.provider_raw
        if raw and "tool_ids" in raw and raw.get("by") == provider:
            ids_by_message[message.id] = raw["tool_ids"]
    if not ids_by_message:
        return
    keys = known_keys.with_calls(())
    for message in messages:
        ids = ids_by_message.get(message.id, {})
        new_keys = (
            {call.id: keys.next_key(call.id) for call in message.tool_uses} if message.role is Role.ASSISTANT else {}
        )
        for canonical, native in ids.items():
            context.tool_ids.remember(new_keys.get(canonical, canonical), provider, native)
