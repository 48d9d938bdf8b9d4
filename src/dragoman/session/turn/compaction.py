"""Compaction: a summary replaces the older part of a history, so that it fits a context window again.

The history itself is never changed. A summary is one more message at its end, and ``metadata.summary_of`` names the
messages that it replaces in requests; so every later program that loads the session sends the same. There is no I/O
here: the session's drivers carry out what `run_compaction` yields.

Messages that are kept then follow a different beginning. Their signed thinking is sent unchanged; if a provider binds
signatures to what precedes them, the adapter's prefix ledger names each void one as a loss.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import CompactionError, ConfigurationError
from dragoman.canonical.blocks import ProviderBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.session.effects import Admit, Choose, Keep, Turn
from dragoman.session.turn.loop import Requests, request_reply
from dragoman.session.turn.routes import Route

Size = Callable[[Sequence[Message]], int]
"""Estimates the tokens of some messages."""

_LINKS = ("prompt_request_id", "resource_request_id")
"""Fields in which blocks other than tool blocks name their request."""


@dataclass(frozen=True, slots=True)
class HistorySplit:
    """A history in three parts. Each message is in one of them; the order stays."""

    lead: tuple[Message, ...]
    """The system and developer messages at the start."""
    summarized: tuple[Message, ...]
    """The messages that a summary replaces."""
    kept: tuple[Message, ...]
    """The messages that stay: the newest, the critical, and those linked to either."""


def split_keeping_last(history: Sequence[Message], keep_last: int) -> HistorySplit:
    """Keep that many messages at the end, and more if a call would be separated from its result."""
    lead, body = _split_lead(history)
    return _split_at(lead, body, group_linked(body), max(0, len(body) - keep_last))


def split_at_share(history: Sequence[Message], max_tokens: int, size: Size) -> HistorySplit:
    """Keep the newer half of the history, at most half of ``max_tokens``: whole turns of the user if one fits, else
    whole rounds of tools.
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
    """Yield the messages in the longest chunks of at most ``max_tokens``, without separating a call from its result.
    A chunk that cannot be split is longer."""
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
    """Split before that message; linked messages stay together."""
    kept_groups = {
        group
        for index, (group, message) in enumerate(zip(groups, body, strict=True))
        if index >= start or message.metadata.critical
    }
    is_kept = [group in kept_groups for group in groups]
    summarized = tuple(message for message, keep in zip(body, is_kept, strict=True) if not keep)
    return HistorySplit(lead, summarized, tuple(message for message, keep in zip(body, is_kept, strict=True) if keep))


def _group_ends(groups: Sequence[int]) -> list[int]:
    """Return the positions at which the messages can be split without separating linked ones; the last is the end."""
    last = {group: index for index, group in enumerate(groups)}
    group_ends, reach = [], 0
    for index, group in enumerate(groups):
        reach = max(reach, last[group])
        if reach == index:
            group_ends.append(index + 1)
    return group_ends


def group_linked(messages: Sequence[Message]) -> list[int]:
    """Return a group number for each message. Linked messages share one: calls and their results, the parts of a paused
    reply, and messages with the same id.
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
                # An id that is reused after its result belongs to another call.
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
    """Yield the keys that link a message to others, apart from tool calls."""
    yield "id", message.id
    for block in message.content:
        for name in _LINKS:
            value = getattr(block, name, None)
            if isinstance(value, str) and value:
                yield name, value


CompactionPlace = Literal["model", "provider"]
"""What writes the summary: a model, from a prompt, or the provider, in its own way."""

MAX_SUMMARY_TOKENS = 8192
"""Upper limit of one summary, in tokens."""
_SHORT_SUMMARY_TOKENS = 2048
"""Tokens that a summary may take even if the history is shorter: some models reason first, which counts."""
_MIN_SUMMARY_TOKENS = 64
"""Tokens. A shorter summary would be useless."""

SUMMARY_PREFIX = "Summary of the conversation so far:\n\n"
"""Precedes each summary, so that the next model knows what it reads."""

SUMMARY_PROMPT = (
    "Summarize the conversation above, so that it can go on from your summary alone. Keep what was asked, what was"
    " decided and why, facts, names, numbers, paths and tool results that may still matter, and what is still open."
    " Write the summary only; answer nothing and call no tool."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The inputs of a compaction."""

    known_adapter: Adapter | None
    """The model that writes the summary, if no router chooses it."""
    choose: Callable[[], Route]
    """Chooses the model that writes the summary."""
    target: Adapter | None
    """The model that must fit the result; None is the one that writes it."""
    history: Callable[[], Sequence[Message]]
    requests: Requests
    keep_last: int | None
    instructions: str | None
    new_prompt: Callable[[str], Message]

    def __post_init__(self) -> None:
        if self.keep_last is not None and self.keep_last < 0:
            raise ConfigurationError("keep_last is at least 0")


def run_compaction(compaction: Compaction) -> Turn:
    """Request a summary of the older part of the history and keep it.

    If the older part exceeds the writer's window, it is summarized in chunks; each summary replaces the one before it
    and covers one more chunk. Raises ProviderError as the driver reports it, and CompactionError if the history cannot
    be made to fit.
    """
    yield Admit((), compaction.known_adapter)
    route: Route = yield Choose(compaction.choose)
    writer, target, requests = route.adapter, compaction.target or route.adapter, compaction.requests
    split = _split_history(compaction, target)
    summary_limit = _free_tokens(target, requests, [*split.lead, *split.kept])
    if summary_limit < _MIN_SUMMARY_TOKENS:
        raise CompactionError(_too_large_message(compaction, target, split))
    useful_limit = max(_SHORT_SUMMARY_TOKENS, min(_token_counter(writer)(split.summarized), MAX_SUMMARY_TOKENS))
    facts = writer.capabilities
    # Most of the writer's window is for the input.
    summary_limit = min(summary_limit, useful_limit, facts.max_output_tokens, facts.max_context_tokens // 4)
    asked = [SUMMARY_PROMPT] if compaction.instructions is None else [SUMMARY_PROMPT, compaction.instructions]
    prompt = compaction.new_prompt("\n\n".join(asked))
    asking = replace(requests, options=_summary_options(requests, summary_limit))
    free_tokens = _free_tokens(writer, asking, [*split.lead, prompt])
    earlier: tuple[Message, ...] = ()
    for chunk in chunk_messages(split.summarized, free_tokens - summary_limit, _token_counter(writer)):
        summarized = (*earlier, *chunk)
        if _token_counter(writer)(summarized) > free_tokens:
            raise CompactionError(
                f"a part of the history that belongs together is too long for {writer.model_id} to summarise:"
                " swap to a model with a larger window first"
            )
        reply = yield from request_reply(asking, route, [*split.lead, *summarized, prompt], None)
        summary = _to_summary(reply, summarized)
        yield Keep((summary,))
        earlier = (summary,)
    if _free_tokens(target, requests, [*split.lead, *earlier, *split.kept]) < 0:
        raise CompactionError(_too_large_message(compaction, target, split), earlier[0])


def run_provider_compaction(compaction: Compaction) -> Turn:
    """Request the provider's own block for the whole history, and keep it: requests contain it in place of the history.

    Raises ProviderError as the driver reports it, and CompactionError if the provider writes no such block.
    """
    yield Admit((), compaction.known_adapter)
    route: Route = yield Choose(compaction.choose)
    requests, split = compaction.requests, split_keeping_last(compaction.history(), 0)
    options = replace(_summary_options(requests, requests.options.max_output_tokens), tool_choice=None)
    asking = route.adapter.compaction_options(options, compaction.instructions)
    if asking is None:
        raise CompactionError(f"{route.adapter.provider} writes no summary of its own: compact on the model")
    if not split.summarized:
        raise CompactionError("there is nothing to compact: the history is empty")
    history = [*split.lead, *split.summarized, *split.kept]
    reply = yield from request_reply(replace(requests, options=asking), route, history, None)
    blocks = [block for block in reply.content if isinstance(block, ProviderBlock)]
    if len(blocks) != 1 or len(reply.content) != 1 or not blocks[0].data.get("content"):
        raise CompactionError(f"{reply.metadata.model} wrote no summary: try again, or compact on the model", reply)
    replaced = tuple(dict.fromkeys(message.id for message in (*split.summarized, *split.kept)))
    metadata = reply.metadata.model_copy(update={"summary_of": replaced})
    yield Keep((reply.model_copy(update={"metadata": metadata}),))


def _split_history(compaction: Compaction, target: Adapter) -> HistorySplit:
    history = compaction.history()
    if compaction.keep_last is not None:
        split = split_keeping_last(history, compaction.keep_last)
    else:
        split = split_at_share(history, _free_tokens(target, compaction.requests, ()), _token_counter(target))
    if not split.summarized:
        raise CompactionError(
            "there is nothing to compact: except what is kept (the messages of the system in front, critical ones, and"
            " the newest) the history is empty"
        )
    return split


def _free_tokens(adapter: Adapter, requests: Requests, messages: Sequence[Message]) -> int:
    """Return the tokens left in the model's window after these messages, the tools and the requested output."""
    output_tokens = requests.options.max_output_tokens or 0
    input_tokens = adapter.estimate_input_tokens(messages, requests.tools)
    return adapter.capabilities.max_context_tokens - output_tokens - input_tokens


def _token_counter(adapter: Adapter) -> Size:
    """Return a counter of messages alone, without the fixed overhead of a request, so that sizes add up."""
    overhead = adapter.estimate_input_tokens((), ())
    return lambda messages: adapter.estimate_input_tokens(messages, ()) - overhead


def _summary_options(requests: Requests, limit: int | None) -> AdapterOptions:
    """Return the session's options without those that shape or end an answer. The provider chooses the reasoning,
    because a budget for it might be larger than the summary."""
    return replace(
        requests.options,
        max_output_tokens=limit,
        stop_sequences=(),
        tool_choice="none" if requests.tools else None,
        parallel_tool_calls=None,
        output_schema=None,
        effort=None,
        thinking=None,
        thinking_budget=None,
        strict_prefix=False,  # a chunk of a history is not a prefix of it
    )


def _to_summary(reply: Message, summarized: Sequence[Message]) -> Message:
    """Return the reply as a user message that replaces ``summarized``, with the reply's model, usage and cost.

    Raises CompactionError if the reply is not a summary.
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


def _too_large_message(compaction: Compaction, target: Adapter, split: HistorySplit) -> str:
    requests = compaction.requests
    size = target.estimate_input_tokens([*split.lead, *split.kept], requests.tools)
    suggestions = []
    if split.kept and compaction.keep_last:
        suggestions.append(f"keep fewer messages than keep_last={compaction.keep_last}")
    if any(message.metadata.critical for message in split.kept):
        suggestions.append("mark fewer messages critical")
    if requests.options.max_output_tokens:
        suggestions.append(f"ask for fewer output tokens than {requests.options.max_output_tokens:,}")
    suggestions.append("shorten the system prompt, or choose a model with a larger window")
    return (
        f"the messages that a summary cannot replace have about {size:,} tokens, and the window of {target.model_id} is"
        f" {target.capabilities.max_context_tokens:,}: {'; or '.join(suggestions)}"
    )
