"""Every pair of wires: what the client of one wire reads of the recorded replies of another."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dragoman import Message, RequestContext, get_adapter
from dragoman.adapter.answers.client_ids import ClientToolIds
from dragoman.adapter.answers.reply_writer import FAILED
from dragoman.adapter.answers.state_keys import StateKeys, StateMemory
from dragoman.canonical.blocks import TextBlock, ToolUseBlock
from dragoman.canonical.events import MessageComplete, MessageStart, StreamEvent
from tests.conformance.adapters import create_context
from tests.conformance.outcomes import Difference, shorten
from tests.conformance.scope import ADAPTERS
from tests.conformance.way_back.clients import STREAM, WHOLE, Seen, Usage
from tests.conformance.way_back.grammar import GRAMMARS
from tests.conformance.way_back.subjects import CLIENT_MODEL, Recorded, has_numbers_for_names

PROVIDERS = tuple(ADAPTERS)
"""The recorded providers."""

KEYS = StateKeys({"test": bytes(range(64))})

_STOPS = {
    "anthropic": {
        "end_turn": "end_turn", "tool_use": "tool_use", "max_tokens": "max_tokens", "stop_sequence": "stop_sequence",
        "refusal": "refusal", "pause": "pause_turn", "context_overflow": "model_context_window_exceeded",
    },
    "openai-chat": {
        "end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "stop_sequence": "stop",
        "refusal": "content_filter", "pause": "stop", "context_overflow": "length",
    },
    "openai": {
        "end_turn": "completed", "tool_use": "completed", "max_tokens": "max_output_tokens",
        "stop_sequence": "completed", "refusal": "content_filter", "pause": "completed",
        "context_overflow": "max_output_tokens",
    },
    "google": {
        "end_turn": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS", "stop_sequence": "STOP",
        "refusal": "SAFETY", "pause": "STOP", "context_overflow": "MAX_TOKENS",
    },
    "ollama": {
        "end_turn": "stop", "tool_use": "stop", "max_tokens": "length", "stop_sequence": "stop", "refusal": "stop",
        "pause": "stop", "context_overflow": "length",
    },
}  # fmt: skip


@dataclass(slots=True)
class Pair:
    """One recorded reply for one client. ``form`` is whole or stream."""

    recorded: Recorded
    wire: str
    form: str
    differences: list[Difference]
    losses: int = 0


def context_for(recorded: Recorded, wire: str, store: StateMemory | None = None) -> RequestContext:
    """The context of a client's request that the recorded provider answered."""
    context = create_context(
        recorded.context.model, state_sealer=KEYS, state_store=store, team_id="team", history_digest=b"start"
    )
    context.tool_ids = recorded.context.tool_ids
    context.client_fields = {"stream_options": {"include_usage": True}} if wire == "openai-chat" else {}
    return context


def compare(recorded: Recorded, wire: str) -> Iterator[Pair]:
    """The reply whole, and as a stream: of its events, or of its message if it was recorded whole."""
    message = recorded.reply
    if not isinstance(message, Message) or message.metadata.status != "complete" or not recorded.exchange.is_genuine:
        return
    if message.metadata.provider == wire and has_numbers_for_names(recorded.exchange):
        return  # written as it came, and no client of REST reads that
    yield _compare_whole(recorded, message, wire)
    yield _compare_stream(recorded, message, wire)


def events_of(recorded: Recorded, message: Message) -> tuple[StreamEvent, ...]:
    if recorded.events:
        return recorded.events
    return (MessageStart(message.id, message.metadata.model or ""), MessageComplete(message))


def _compare_whole(recorded: Recorded, message: Message, wire: str) -> Pair:
    pair = Pair(recorded, wire, "whole", [])
    context = context_for(recorded, wire)
    adapter = get_adapter(f"{wire}:{CLIENT_MODEL}")
    try:
        written = adapter.to_wire_response(message, context)
        if message.stop_reason in FAILED and message.metadata.provider != wire:
            pair.differences += [Difference("a failed reply is complete")] * (written.status < 500)
            return pair
        seen = WHOLE[wire](written.body)
    except Exception as error:
        pair.differences.append(Difference(f"raised {type(error).__name__}", str(error)))
        return pair
    pair.losses = len(written.losses)
    pair.differences += _differences(message, seen, wire, context, streamed=False)
    return pair


def _compare_stream(recorded: Recorded, message: Message, wire: str) -> Pair:
    pair = Pair(recorded, wire, "stream", [])
    context = context_for(recorded, wire)
    adapter = get_adapter(f"{wire}:{CLIENT_MODEL}")
    try:
        body = b"".join(adapter.iter_encoded(events_of(recorded, message), context))
        if message.stop_reason in FAILED and message.metadata.provider != wire:
            pair.differences += [Difference("a failed reply is complete")] * (b"error" not in body)
            return pair
        pair.differences += [Difference("grammar", fault) for fault in GRAMMARS[wire](body)]
        seen = STREAM[wire](body)
    except Exception as error:
        pair.differences.append(Difference(f"raised {type(error).__name__}", str(error)))
        return pair
    pair.losses = len(context.losses)
    pair.differences += _differences(message, seen, wire, context, streamed=True)
    return pair


def _differences(
    message: Message, seen: Seen, wire: str, context: RequestContext, *, streamed: bool
) -> Iterator[Difference]:
    own = message.metadata.provider == wire
    kinds = {loss.kind for loss in context.losses}
    if (seen.text or seen.refusal) != message.text:
        yield Difference("text", f"{shorten(message.text)} -> {shorten(seen.text)}")
    if "".join(seen.thinking.split()) != "".join(message.thinking.split()):
        yield Difference("thinking", f"{shorten(message.thinking)} -> {shorten(seen.thinking)}")
    yield from _call_differences(message, seen, wire, kinds, streamed=streamed, own=own)
    reason = str(message.stop_reason or "end_turn")
    stop = _STOPS[wire].get("end_turn" if reason == "tool_use" and not seen.calls else reason)
    if not own and seen.stop != stop:
        yield Difference("stop", f"{message.stop_reason} -> {seen.stop}")
    if message.usage is not None and not own and seen.usage != _usage(message, wire):
        yield Difference("usage", f"{_usage(message, wire)} -> {seen.usage}")
    yield from _unsaid(message, seen, wire, kinds, own=own)


def _call_differences(
    message: Message, seen: Seen, wire: str, kinds: set[Any], *, streamed: bool, own: bool
) -> Iterator[Difference]:
    calls = [block for block in message.content if isinstance(block, ToolUseBlock)]
    runnable = [(call.name, call.input) for call in calls if call.raw_input is None]
    shown = [(name, arguments) for _, name, arguments in seen.calls]
    if len(runnable) == len(calls):
        if shown != runnable:
            yield Difference("calls", f"{shorten(runnable)} -> {shorten(shown)}")
    elif len(seen.calls) < len(calls) and "invalid_input" not in kinds and not own:
        yield Difference("a call is lost silently", shorten(calls))
    ids = [call_id for call_id, _, _ in seen.calls if call_id]
    if len(set(ids)) != len(ids):
        yield Difference("ids", "two calls have one id")
    prefix = "toolu_" if wire == "anthropic" else "call_"
    if not own and not all(call_id.startswith(prefix) for call_id in ids):
        yield Difference("ids", f"not in the form of the wire: {ids}")


def _usage(message: Message, wire: str) -> Usage:
    usage = message.usage
    assert usage is not None
    cached = 0 if wire == "ollama" else usage.cached_input_tokens
    reasoning = 0 if wire == "ollama" else usage.reasoning_tokens or 0
    if wire == "google":  # the counts of thinking and of the rest have a sum, so more than all cannot be said
        reasoning = min(reasoning, usage.output_tokens)
    return Usage(usage.prompt_tokens, cached, usage.output_tokens, reasoning)


def _unsaid(message: Message, seen: Seen, wire: str, kinds: set[Any], *, own: bool) -> Iterator[Difference]:
    """What the client does not see, and no loss names."""
    links = [source.url for block in message.content if isinstance(block, TextBlock)
             for source in block.citations if source.url]  # fmt: skip
    if not own and len(seen.links) < len(links) and "citations" not in kinds:
        yield Difference("citations are lost silently", f"{len(links)} -> {len(seen.links)}")
    images = sum(block.type == "image" for block in message.content)
    if seen.images < images and "media" not in kinds and not own:
        yield Difference("images are lost silently", f"{images} -> {seen.images}")
    if any(block.type == "provider" for block in message.content) and "native_block" not in kinds and not own:
        yield Difference("native blocks are lost silently", "")


def with_ids(context: RequestContext) -> RequestContext:
    """The context of the client's next request, in another process."""
    return replace(context, tool_ids=ClientToolIds(), losses=[], client_fields=None)
