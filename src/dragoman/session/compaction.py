"""Compacting: the older part of a history, told by a summary, so that the rest fits a window again.

Without I/O, as a turn is: the session's drivers send what `run_compaction` yields. See `summaries` for how a summary
takes the place of what it stands for, and `cut` for what may not be parted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import CompactionError, ConfigurationError
from dragoman.canonical.blocks import TextBlock
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.session.cut import Cut, cut_to_last, cut_to_share, pieces
from dragoman.session.turn import Keep, Plan, Turn, reply_to

MAX_SUMMARY_TOKENS = 8192
"""The most that one summary may take, however much room there is."""
_SHORT_SUMMARY_TOKENS = 2048
"""What a summary may take even of a shorter history: some models reason first, which counts."""
_LEAST_SUMMARY_TOKENS = 64
"""With less, no summary is worth its name."""

LABEL = "Summary of the conversation so far:\n\n"
"""What stands in front of a summary, so that the next model knows what it reads."""

PROMPT = (
    "Summarize the conversation above, so that it can go on from your summary alone. Keep what was asked, what was"
    " decided and why, facts, names, numbers, paths and tool results that may still matter, and what is still open."
    " Write the summary only; answer nothing and call no tool."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What is to be compacted, by whom and for whom. ``plan`` is that of a turn of the model that writes."""

    plan: Plan
    target: Adapter
    keep_last: int | None
    instructions: str | None
    new_question: Callable[[str], Message]

    def __post_init__(self) -> None:
        if self.keep_last is not None and self.keep_last < 0:
            raise ConfigurationError("keep_last is at least 0")


def run_compaction(compaction: Compaction) -> Turn:
    """Asks for a summary of the older part of the history, and keeps it. An older part that is too long for the model
    that writes is told piece by piece: each summary is kept, and the next one stands for it and for one piece more.

    Raises ProviderError as the driver reports it, and CompactionError where the history cannot be made to fit.
    """
    plan, target = compaction.plan, compaction.target
    cut = _cut(compaction, plan.history())
    summary_limit = _room(target, plan, [*cut.lead, *cut.kept])
    if summary_limit < _LEAST_SUMMARY_TOKENS:
        raise CompactionError(_too_large(compaction, cut))
    sensible = max(_SHORT_SUMMARY_TOKENS, min(_size(plan.adapter)(cut.told), MAX_SUMMARY_TOKENS))
    summary_limit = min(summary_limit, sensible, _limit(plan.adapter))
    question = compaction.new_question(_prompt(compaction.instructions))
    options = _options(plan, summary_limit)
    room = _room(plan.adapter, replace(plan, options=options), [*cut.lead, question])
    earlier: tuple[Message, ...] = ()
    for piece in pieces(cut.told, room - summary_limit, _size(plan.adapter)):
        told = (*earlier, *piece)
        if _size(plan.adapter)(told) > room:
            raise CompactionError(
                f"a part of the history that belongs together is too long for {plan.adapter.model_id} to summarise:"
                " swap to a model with a larger window first"
            )
        history = [*cut.lead, *told, question]
        reply = yield from reply_to(plan, history, None, options)
        summary = _summary(reply, told)
        yield Keep((summary,), ())
        earlier = (summary,)
    if _room(target, plan, [*cut.lead, *earlier, *cut.kept]) < 0:
        raise CompactionError(_too_large(compaction, cut), earlier[0])


def _cut(compaction: Compaction, history: Sequence[Message]) -> Cut:
    plan, target = compaction.plan, compaction.target
    if compaction.keep_last is not None:
        cut = cut_to_last(history, compaction.keep_last)
    else:
        cut = cut_to_share(history, _room(target, plan, ()), _size(target))
    if not cut.told:
        raise CompactionError(
            "there is nothing to compact: beside what is kept (the messages of the system in front, critical ones, and"
            " the newest) the history is empty"
        )
    return cut


def _room(adapter: Adapter, plan: Plan, messages: Sequence[Message]) -> int:
    """Tokens that the model's window still holds beside these messages, the tools, and the answer that is asked for."""
    asked = plan.options.max_output_tokens or 0
    return adapter.capabilities.max_context_tokens - asked - adapter.estimate_input_tokens(messages, plan.tools)


def _size(adapter: Adapter) -> Callable[[Sequence[Message]], int]:
    """The messages alone, without what any request begins with: so that sizes add up."""
    beginning = adapter.estimate_input_tokens((), ())
    return lambda messages: adapter.estimate_input_tokens(messages, ()) - beginning


def _limit(adapter: Adapter) -> int:
    """How long a summary by this model may be: half its window is for what it reads."""
    return min(adapter.capabilities.max_output_tokens, adapter.capabilities.max_context_tokens // 4)


def _options(plan: Plan, limit: int) -> AdapterOptions:
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


def _prompt(instructions: str | None) -> str:
    return PROMPT if instructions is None else f"{PROMPT}\n\n{instructions}"


def _summary(reply: Message, told: Sequence[Message]) -> Message:
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
    metadata = reply.metadata.model_copy(update={"summary_of": tuple(dict.fromkeys(message.id for message in told))})
    content = (TextBlock(text=LABEL + reply.text.strip()),)
    return reply.model_copy(update={"role": Role.USER, "content": content, "channel": None, "metadata": metadata})


def _too_large(compaction: Compaction, cut: Cut) -> str:
    target, plan = compaction.target, compaction.plan
    size = target.estimate_input_tokens([*cut.lead, *cut.kept], plan.tools)
    ways = []
    if cut.kept and compaction.keep_last:
        ways.append(f"keep fewer messages than keep_last={compaction.keep_last}")
    if any(message.metadata.critical for message in cut.kept):
        ways.append("mark fewer messages critical")
    if plan.options.max_output_tokens:
        ways.append(f"ask for fewer output tokens than {plan.options.max_output_tokens:,}")
    ways.append("shorten the system prompt, or choose a model with a larger window")
    return (
        f"what a summary does not stand for is about {size:,} tokens, and the window of {target.model_id} is"
        f" {target.capabilities.max_context_tokens:,}: {'; or '.join(ways)}"
    )
