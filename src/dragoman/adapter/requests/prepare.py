"""Prepares a request: legal tool names, a supported form of the output schema, the projected history.

Records in the context what is sent differently, so that the reply can be mapped back. The rare cases are in modules of
their own, which are imported when the first request needs them: most conversations are as every wire takes them.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from dragoman.adapter.context import RequestContext
from dragoman.adapter.facts.capabilities import ABSENT
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.options import AdapterOptions, NamedTool, encoding_options
from dragoman.adapter.requests.block_fields import MESSAGE_FIELDS, find_lost_message_fields
from dragoman.adapter.requests.encode_cache import EMPTY_PREFIX, CallKeys, EncodedPrefix, begins_stretch
from dragoman.adapter.requests.request_builder import RequestBuilder, Target
from dragoman.adapter.requests.turns import CONVERSATION_ROLES, INSTRUCTION_ROLES, Turn
from dragoman.canonical.blocks import TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.ids import ModelId
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ServerTool, ToolDefinition

Tools = Sequence[ToolDefinition]


def prepare_request(
    target: Target,
    messages: Sequence[Message],
    tools: Tools,
    options: AdapterOptions,
    *,
    server_state: bool = False,
    refers_to_state: Callable[[Sequence[Message]], bool] | None = None,
    whole: bool = False,
) -> tuple[RequestBuilder, Tools]:
    """Return the request and its tools.

    ``server_state``: the provider stores earlier turns, so results may belong to calls that are not in the messages.
    ``refers_to_state``: whether messages have blocks that say so; only unusual histories are asked.
    ``whole``: do not use the cache, because the wire has rules that look at all turns.

    Raises CriticalLossError if a critical block would be lost, ProjectionError and RequestError.
    """
    context, capabilities = options.context, target.capabilities
    if context is not None:
        context.tool_names = context.answer_tool = context.reply_note = context.action_calls = None
        context.ends_turn = context.replies_whole = False
    losses: list[Loss] = []
    if options.stream and not (
        capabilities.supports_streaming and (not tools or capabilities.supports_streaming_tool_calls)
    ):
        options = replace(options, stream=False)
        if context is not None:
            context.replies_whole = True
    if options.parallel_tool_calls and not capabilities.supports_parallel_tool_calls:
        options = replace(options, parallel_tool_calls=None)
        reason = f"parallel_tool_calls: {target.model} calls one tool at a time"
        losses.append(Loss(LossKind.OPTION, "", -1, reason))
    plain_tools: Tools | None = None
    if tools:
        from dragoman.adapter.server_tools.encode import are_plain  # imported late: many requests have no tools

        if are_plain(tools, capabilities):
            plain_tools = tools
        else:
            tools, options = _rename_tools(target, tools, options, losses)
    if options.output_schema is not None:
        from dragoman.adapter.requests.structured_output import emulate_schema

        messages, tools, options = emulate_schema(target, messages, tools, options, losses)
    context = context or RequestContext(model=str(ModelId(target.provider, target.model)))
    request = _project_history(
        target, messages, options, context, server_state=server_state, refers_to_state=refers_to_state, whole=whole
    )
    request.losses += losses
    request.plain_tools = plain_tools
    return request, tools


def _rename_tools(
    target: Target, tools: Tools, options: AdapterOptions, losses: list[Loss]
) -> tuple[Tools, AdapterOptions]:
    """Give each tool a name that the provider takes, and record it as a loss of form."""
    rule = target.capabilities.tool_name_rule
    if all(rule.accepts(tool.name) for tool in tools):
        return tools, options
    from dragoman.adapter.requests.call_translators import ToolNames

    legal_names = {
        tool.name: rule.make_legal(tool.name)
        for tool in tools
        if not rule.accepts(tool.name)
        and not isinstance(tool, ServerTool)
        and (tool.provider_raw or {}).get("by") != target.provider  # its own tools keep their names
    }
    for own, name in legal_names.items():
        reason = f"the tool {own} is offered under the name {name}, which the wire takes"
        losses.append(Loss(LossKind.TOOLS, "", -1, reason, Severity.INFO))
    if options.context is not None:
        options.context.tool_names = ToolNames({name: own for own, name in legal_names.items()})
    if isinstance(choice := options.tool_choice, NamedTool):
        options = replace(options, tool_choice=NamedTool(legal_names.get(choice.name, choice.name)))
    renamed_tools = [
        tool.model_copy(update={"name": legal_names[tool.name]}) if tool.name in legal_names else tool for tool in tools
    ]
    return renamed_tools, options


def _project_history(
    target: Target,
    messages: Sequence[Message],
    options: AdapterOptions,
    context: RequestContext,
    *,
    server_state: bool,
    refers_to_state: Callable[[Sequence[Message]], bool] | None,
    whole: bool,
) -> RequestBuilder:
    """Return the request with the turns that follow what an earlier request of the conversation encoded."""
    lead = 0
    while lead < len(messages) and messages[lead].role in INSTRUCTION_ROLES:
        lead += 1
    # Instructions that are sent as the user's may merge with the user's next message.
    # What a provider stores of a conversation is compared with all of it.
    whole = whole or server_state or options.server_state is not None
    whole = whole or (lead > 0 and target.capabilities.supports_system_prompt is ABSENT)
    prefix = EMPTY_PREFIX
    if context.encode_cache.prefixes and not whole:
        prefix = _find_prefix(target, messages, options, context, lead)
    while True:
        uncached = tuple(messages[lead + len(prefix.messages) :])
        sent = (*messages[:lead], *uncached) if prefix.messages else tuple(messages)
        turns = tuple([Turn.of(message) for message in sent])
        notes = [turn.notes for turn in turns if turn.notes]
        if any("tool_ids" in raw for raw in notes):
            _remember_issued_ids(sent, target.provider, context, prefix.keys)
        instruction_turns = lead
        projection_losses: Sequence[Loss] = ()
        if not (usual := is_usual(turns, target, prefix.keys)):
            if refers_to_state is not None and not server_state and refers_to_state(sent):
                server_state, whole, prefix = True, True, EMPTY_PREFIX  # a cached prefix has no such block
                continue
            from dragoman.adapter.requests.projection import project

            projection = project(sent, target, keys=prefix.keys, server_state=server_state)
            turns, projection_losses = projection.turns, projection.losses
            leading = {id(message) for message in sent[:lead]}
            instruction_turns = sum(id(turn.message) in leading for turn in turns[:lead])
        if not (prefix.messages and context.encode_cache.is_shared):
            break
        # It ended before another message, which its last turn may not have been joined with.
        first = next(iter(turns[instruction_turns:]), None)
        if first is not None and first.message is uncached[0] and begins_stretch(first):
            break
        prefix = EMPTY_PREFIX
    losses = [*prefix.losses, *projection_losses]
    if any(MESSAGE_FIELDS in raw for raw in notes):
        losses += find_lost_message_fields(sent, target.provider)
    return RequestBuilder(
        target,
        options,
        context,
        turns,
        losses,
        prefix=prefix,
        instruction_turns=0 if whole else instruction_turns,
        uncached=() if whole else uncached,
        usual=usual,
        encoder_state=deepcopy(dict(prefix.encoder_state)) if prefix.encoder_state else {},
    )


def _find_prefix(
    target: Target, messages: Sequence[Message], options: AdapterOptions, context: RequestContext, lead: int
) -> EncodedPrefix:
    """Return what is cached of the messages after the leading instructions for this target and these options."""
    if context.encode_cache.is_shared:  # the id map is new
        _remember_issued_ids(messages[lead:], target.provider, context, EMPTY_PREFIX.keys)
    found = context.encode_cache.find(target.cache_key, context.tool_ids, messages, lead)
    return found if found is not None and found.options == encoding_options(options) else EMPTY_PREFIX


def is_usual(turns: Sequence[Turn], target: Target, keys: CallKeys) -> bool:
    """Whether the turns are a usual conversation, which no step of the projection changes on any wire.

    It has texts of user and model, and calls of tools whose results directly follow, after a system prompt, if any, and
    the model comes next. ``keys`` are those of earlier calls.
    """
    if not turns or turns[-1].role not in (Role.USER, Role.TOOL):
        return False
    rounds = _ToolRounds(target, keys)
    open_calls = rounds.open_calls
    for turn in turns:
        role = turn.role
        if turn.text is None:
            if not rounds.follow(turn):
                return False
        elif open_calls or not (
            role is Role.USER
            or role is Role.ASSISTANT
            or (turn is turns[0] and role is Role.SYSTEM and target.capabilities.supports_system_prompt is not ABSENT)
        ):
            return False
    return not open_calls


@dataclass(slots=True)
class _ToolRounds:
    """The calls of a history so far that are as every wire takes them. ``keys`` are those of earlier calls."""

    target: Target
    keys: CallKeys
    open_calls: set[str] = field(default_factory=set)
    """The ids of the calls whose results must follow."""
    seen: set[str] = field(default_factory=set)
    """The ids of all calls."""
    names: set[str] = field(default_factory=set)
    """The names of tools that the model accepts."""

    def follow(self, turn: Turn) -> bool:
        """Whether a turn of several blocks, or of a call or result, is usual at its place.

        Its calls are of ids and tools that need no change, and not more than the model makes; results answer open
        calls.
        """
        open_calls, role, blocks = self.open_calls, turn.role, turn.blocks
        if not turn.ordinary or not blocks:
            return False
        if role is Role.TOOL:
            for block in blocks:
                if type(block) is not ToolResultBlock or (key := block.tool_use_id) not in open_calls:
                    return False
                open_calls.remove(key)
            return True
        if open_calls or role not in CONVERSATION_ROLES:
            return False
        for block in blocks:
            if type(block) is TextBlock:
                continue
            if type(block) is not ToolUseBlock or role is not Role.ASSISTANT:
                return False
            key, name = block.id, block.name
            if key in self.seen or key in self.keys or (name not in self.names and not self._accept(name)):
                return False
            self.seen.add(key)
            open_calls.add(key)
        return len(open_calls) < 2 or bool(self.target.capabilities.supports_parallel_tool_calls)

    def _accept(self, name: str) -> bool:
        """Note a tool's name, and say whether the model takes it."""
        capabilities = self.target.capabilities
        if not (capabilities.supports_tools and capabilities.tool_name_rule.accepts(name)):
            return False
        self.names.add(name)
        return True


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
