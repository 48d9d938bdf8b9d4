"""Compacting: the older part of a history, told by a summary, so that the rest fits a window again.

Without I/O, as a turn is: the session's drivers send what `run_compaction` yields. See `summaries` for how a summary
takes the place of what it stands for, and `cut` for what may not be parted.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import CompactionError, ConfigurationError
from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.session.turn import Keep, Turn, TurnPlan, request_reply

Size = Callable[[Sequence[Message]], int]
"""Estimated tokens of some messages."""

_LINKS = ("prompt_request_id", "resource_request_id")
"""Fields by which other blocks name their request."""

MAX_SUMMARY_TOKENS = 8192
"""The most that one summary may take, however much room there is."""
_SHORT_SUMMARY_TOKENS = 2048
"""What a summary may take even of a shorter history: some models reason first, which counts."""
_MIN_SUMMARY_TOKENS = 64
"""With less, no summary is worth its name."""

SUMMARY_PREFIX = "Summary of the conversation so far:\n\n"
"""What stands in front of a summary, so that the next model knows what it reads."""

SUMMARY_PROMPT = (
    "Summarize the conversation above, so that it can go on from your summary alone. Keep what was asked, what was"
    " decided and why, facts, names, numbers, paths and tool results that may still matter, and what is still open."
    " Write the summary only; answer nothing and call no tool."
)


@dataclass(frozen=True, slots=True)
class HistorySplit:
    """A history in three parts; each message is in one of them, and each keeps the history's order."""

    lead: tuple[Message, ...]
    """The system's and developer's messages in front."""
    summarized: tuple[Message, ...]
    """What a summary is to stand for."""
    kept: tuple[Message, ...]
    """What stays whole: the newest messages, critical ones, and whatever belongs to these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What is to be compacted, by whom and for whom. ``plan`` is that of a turn of the model that writes."""

    plan: TurnPlan
    target: Adapter
    keep_last: int | None
    instructions: str | None
    new_prompt: Callable[[str], Message]

    def __post_init__(self) -> None:
        if self.keep_last is not None and self.keep_last < 0:
            raise ConfigurationError("keep_last is at least 0")


def run_compaction(compaction: Compaction) -> Turn:
    """Asks for a summary of the older part of the history, and keeps it. An older part that is too long for the model
    that writes is told piece by piece: each summary is kept, and the next one stands for it and for one piece more.

    Raises ProviderError as the driver reports it, and CompactionError where the history cannot be made to fit.
    """
    plan, target = compaction.plan, compaction.target
    split = _split_history(compaction, plan.history())
    summary_limit = _free_tokens(target, plan, [*split.lead, *split.kept])
    if summary_limit < _MIN_SUMMARY_TOKENS:
        raise CompactionError(_too_large_message(compaction, split))
    useful_limit = max(_SHORT_SUMMARY_TOKENS, min(_token_counter(plan.adapter)(split.summarized), MAX_SUMMARY_TOKENS))
    summary_limit = min(summary_limit, useful_limit, _max_summary_tokens(plan.adapter))
    prompt = compaction.new_prompt(_summary_prompt(compaction.instructions))
    options = _summary_options(plan, summary_limit)
    free_tokens = _free_tokens(plan.adapter, replace(plan, options=options), [*split.lead, prompt])
    earlier: tuple[Message, ...] = ()
    for chunk in chunk_messages(split.summarized, free_tokens - summary_limit, _token_counter(plan.adapter)):
        summarized = (*earlier, *chunk)
        if _token_counter(plan.adapter)(summarized) > free_tokens:
            raise CompactionError(
                f"a part of the history that belongs together is too long for {plan.adapter.model_id} to summarise:"
                " swap to a model with a larger window first"
            )
        history = [*split.lead, *summarized, prompt]
        reply = yield from request_reply(plan, history, None, options)
        summary = _to_summary(reply, summarized)
        yield Keep((summary,), ())
        earlier = (summary,)
    if _free_tokens(target, plan, [*split.lead, *earlier, *split.kept]) < 0:
        raise CompactionError(_too_large_message(compaction, split), earlier[0])


def _split_history(compaction: Compaction, history: Sequence[Message]) -> HistorySplit:
    plan, target = compaction.plan, compaction.target
    if compaction.keep_last is not None:
        split = split_keeping_last(history, compaction.keep_last)
    else:
        split = split_at_share(history, _free_tokens(target, plan, ()), _token_counter(target))
    if not split.summarized:
        raise CompactionError(
            "there is nothing to compact: beside what is kept (the messages of the system in front, critical ones, and"
            " the newest) the history is empty"
        )
    return split


def _free_tokens(adapter: Adapter, plan: TurnPlan, messages: Sequence[Message]) -> int:
    """Tokens that the model's window still holds beside these messages, the tools, and the answer that is asked for."""
    output_tokens = plan.options.max_output_tokens or 0
    return adapter.capabilities.max_context_tokens - output_tokens - adapter.estimate_input_tokens(messages, plan.tools)


def _token_counter(adapter: Adapter) -> Callable[[Sequence[Message]], int]:
    """The messages alone, without what any request begins with: so that sizes add up."""
    overhead = adapter.estimate_input_tokens((), ())
    return lambda messages: adapter.estimate_input_tokens(messages, ()) - overhead


def _max_summary_tokens(adapter: Adapter) -> int:
    """How long a summary by this model may be: half its window is for what it reads."""
    return min(adapter.capabilities.max_output_tokens, adapter.capabilities.max_context_tokens // 4)


def _summary_options(plan: TurnPlan, limit: int) -> AdapterOptions:
    """The session's options, without those that shape or end an answer. Reasoning is left to the provider, as a budget
    for it might be larger than the summary may be."""
    return replace(
        plan.options,
        max_output_tokens=limit,
        stop_sequences=(),
        tool_choice="none" if plan.tools else None,
        parallel_tool_calls=None,
        output_schema=None,
        effort=None,
        thinking=None,
        thinking_budget=None,
        strict_prefix=False,  # a piece of a history is no prefix of it
    )


def _summary_prompt(instructions: str | None) -> str:
    return SUMMARY_PROMPT if instructions is None else f"{SUMMARY_PROMPT}\n\n{instructions}"


def _to_summary(reply: Message, summarized: Sequence[Message]) -> Message:
    """The reply as the user's message that stands for ``told``, with the model, the usage and the cost of the reply.

    Raises CompactionError where the reply is no summary.
    """
    refused = reply.stop_reason in (StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW)
    if refused or not reply.text.strip() or reply.metadata.status is not MessageStatus.COMPLETE:
        raise CompactionError(
            f"{reply.metadata.model} wrote no summary (it stopped with {reply.stop_reason or 'no reason'}):"
            " try again, with other instructions, or swap to another model first",
            reply,
        )
    metadata = reply.metadata.model_copy(
        update={"summary_of": tuple(dict.fromkeys(message.id for message in summarized))}
    )
    content = (TextBlock(text=SUMMARY_PREFIX + reply.text.strip()),)
    return reply.model_copy(update={"role": Role.USER, "content": content, "channel": None, "metadata": metadata})


def _too_large_message(compaction: Compaction, split: HistorySplit) -> str:
    target, plan = compaction.target, compaction.plan
    size = target.estimate_input_tokens([*split.lead, *split.kept], plan.tools)
    ways = []
    if split.kept and compaction.keep_last:
        ways.append(f"keep fewer messages than keep_last={compaction.keep_last}")
    if any(message.metadata.critical for message in split.kept):
        ways.append("mark fewer messages critical")
    if plan.options.max_output_tokens:
        ways.append(f"ask for fewer output tokens than {plan.options.max_output_tokens:,}")
    ways.append("shorten the system prompt, or choose a model with a larger window")
    return (
        f"what a summary does not stand for is about {size:,} tokens, and the window of {target.model_id} is"
        f" {target.capabilities.max_context_tokens:,}: {'; or '.join(ways)}"
    )


def apply_summaries(history: Sequence[Message]) -> list[Message]:
    """The messages that a request holds. A summary covers only what is recorded before it, and stands where the first
    of that stood."""
    visible: list[Message] = []
    for message in history:
        covered = set(message.metadata.summary_of or ())
        positions = [position for position, earlier in enumerate(visible) if earlier.id in covered] if covered else []
        if positions:
            first = positions[0]
            visible[first:] = [message, *(earlier for earlier in visible[first:] if earlier.id not in covered)]
        else:
            visible.append(message)
    return visible


def split_keeping_last(history: Sequence[Message], keep_last: int) -> HistorySplit:
    """Keeps that many messages at the end, and more where a call and its result would be parted."""
    lead, body = _split_lead(history)
    return _split_at(lead, body, group_linked(body), max(0, len(body) - keep_last))


def split_at_share(history: Sequence[Message], max_tokens: int, size: Size) -> HistorySplit:
    """Keeps the newer half of the history, or as much of it as takes half of ``room`` tokens; whole turns of the user
    where one fits, else whole rounds of tools.
    """
    lead, body = _split_lead(history)
    groups = group_linked(body)
    kept_tokens = min(max_tokens, size(body)) // 2
    turns = [start for start, message in enumerate(body) if start and message.role is Role.USER]
    for starts in (turns, range(1, len(body))):
        first = bisect_left(
            starts, True, key=lambda start: size(_split_at(lead, body, groups, start).kept) <= kept_tokens
        )
        if first < len(starts):
            return _split_at(lead, body, groups, starts[first])
    return _split_at(lead, body, groups, len(body))


def chunk_messages(summarized: Sequence[Message], max_tokens: int, size: Size) -> Iterator[tuple[Message, ...]]:
    """The messages in runs of at most ``room`` tokens, as long as can be, that part no call from its result. A run
    that cannot be made so short is longer."""
    ends, start = _group_ends(group_linked(summarized)), 0
    while ends:
        fitting_count = bisect_left(ends, True, key=lambda end: size(summarized[start:end]) > max_tokens)
        chunk_count = max(1, fitting_count)
        yield tuple(summarized[start : ends[chunk_count - 1]])
        start, ends = ends[chunk_count - 1], ends[chunk_count:]


def _split_lead(history: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    lead = tuple(takewhile(lambda message: message.role in (Role.SYSTEM, Role.DEVELOPER), history))
    return lead, tuple(history[len(lead) :])


def _split_at(lead: tuple[Message, ...], body: tuple[Message, ...], groups: Sequence[int], start: int) -> HistorySplit:
    """The cut in front of that message, with all that hangs together on one side of it."""
    kept_groups = {
        group
        for index, (group, message) in enumerate(zip(groups, body, strict=True))
        if index >= start or message.metadata.critical
    }
    is_kept = [group in kept_groups for group in groups]
    summarized = tuple(message for message, keep in zip(body, is_kept, strict=True) if not keep)
    return HistorySplit(lead, summarized, tuple(message for message, keep in zip(body, is_kept, strict=True) if keep))


def _group_ends(groups: Sequence[int]) -> list[int]:
    """The places behind which nothing belongs to what is in front of them; the end is the last one."""
    last = {group: index for index, group in enumerate(groups)}
    group_ends, reach = [], 0
    for index, group in enumerate(groups):
        reach = max(reach, last[group])
        if reach == index:
            group_ends.append(index + 1)
    return group_ends


def group_linked(messages: Sequence[Message]) -> list[int]:
    """A number for each message, the same for those that must stay together: calls and their results, the messages
    that one paused reply is made of, and what bears the same id.
    """
    parents = list(range(len(messages)))

    def find_root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    open_calls: dict[str, list[int]] = {}
    answered: set[str] = set()
    first_with: dict[tuple[str, str], int] = {}
    for index, message in enumerate(messages):
        linked = [first_with.setdefault(key, index) for key in _link_keys(message)]
        if index and messages[index - 1].stop_reason is StopReason.PAUSE:
            linked.append(index - 1)
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                # An id that is used again after its result means another call.
                if block.id in answered:
                    answered.remove(block.id)
                    open_calls[block.id] = []
                open_calls.setdefault(block.id, []).append(index)
            elif isinstance(block, ToolResultBlock):
                linked += open_calls.get(block.tool_use_id, ())
                answered.add(block.tool_use_id)
        for other in linked:
            parents[find_root(index)] = find_root(other)
    return [find_root(index) for index in range(len(messages))]


def _link_keys(message: Message) -> Iterator[tuple[str, str]]:
    """What a message shares with those that it belongs to, the calls of tools aside."""
    yield "id", message.id
    for block in message.content:
        yield from _links(block)


def _links(block: ContentBlock) -> Iterator[tuple[str, str]]:
    for name in _LINKS:
        value = getattr(block, name, None)
        if isinstance(value, str) and value:
            yield name, value
