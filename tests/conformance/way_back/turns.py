"""The second turn: the client sends our reply back in its own form, with results for its calls.

Read by another process, the history is the same again: the content, the calls' canonical ids, the provider's own state.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dragoman import AdapterOptions, DragomanError, Message, get_adapter
from dragoman.adapter.answers.client_ids import ClientToolIds
from dragoman.adapter.answers.reply_writer import FAILED
from dragoman.adapter.answers.state_keys import StateMemory
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import TextBlock, ThinkingBlock, ToolUseBlock
from tests.conformance.adapters import create_context
from tests.conformance.outcomes import Difference, shorten
from tests.conformance.way_back.clients import STREAM, WHOLE, Seen
from tests.conformance.way_back.pairs import KEYS, events_of
from tests.conformance.way_back.subjects import CLIENT_MODEL, Recorded, has_numbers_for_names

_HAS_OPAQUE_FIELDS = frozenset({"anthropic", "openai", "google"})


@dataclass(slots=True)
class SecondTurn:
    recorded: Recorded
    wire: str
    form: str
    differences: list[Difference]


def compare(recorded: Recorded, wire: str) -> Iterator[SecondTurn]:
    """The second turn after a whole reply and after a stream."""
    message = recorded.reply
    if not isinstance(message, Message) or message.metadata.status != "complete" or not recorded.exchange.is_genuine:
        return
    if message.metadata.provider == wire and has_numbers_for_names(recorded.exchange):
        return  # written as it came, and no client of REST reads that
    if message.stop_reason in FAILED and message.metadata.provider != wire:
        return
    for form in ("whole", "stream"):
        turn = SecondTurn(recorded, wire, form, [])
        try:
            turn.differences += _differences(recorded, message, wire, form)
        except Exception as error:
            turn.differences.append(Difference(f"raised {type(error).__name__}", str(error)))
        yield turn


def request_body(wire: str, items: list[Any], results: list[Any]) -> dict[str, Any]:
    """A request with a question, the reply as the client echoes it, and results."""
    question: Any = {"role": "user", "content": "Question"}
    match wire:
        case "anthropic":
            history = [question, *items, *results]
            return {"model": CLIENT_MODEL, "max_tokens": 9, "messages": history}
        case "openai":
            return {"model": CLIENT_MODEL, "input": [question, *items, *results]}
        case "google":
            return {"contents": [{"role": "user", "parts": [{"text": "Question"}]}, *items, *results]}
        case _:
            return {"model": CLIENT_MODEL, "messages": [question, *items, *results]}


def results_of(wire: str, seen: Seen) -> list[Any]:
    """A result for each call, in the form of the client."""
    match wire:
        case "anthropic":
            content = [
                {"type": "tool_result", "tool_use_id": call_id, "content": f"result {number}"}
                for number, (call_id, _, _) in enumerate(seen.calls)
            ]
            return [{"role": "user", "content": content}] if content else []
        case "openai":
            return [
                {"type": "function_call_output", "call_id": call_id, "output": f"result {number}"}
                for number, (call_id, _, _) in enumerate(seen.calls)
            ]
        case "google":
            parts = [
                {"functionResponse": {**({"id": call_id} if call_id else {}), "name": name,
                                      "response": {"output": f"result {number}"}}}
                for number, (call_id, name, _) in enumerate(seen.calls)
            ]  # fmt: skip
            return [{"role": "user", "parts": parts}] if parts else []
        case "ollama":
            return [
                {"role": "tool", "content": f"result {number}", "tool_name": name}
                for number, (_, name, _) in enumerate(seen.calls)
            ]
        case _:
            return [
                {"role": "tool", "tool_call_id": call_id, "content": f"result {number}"}
                if call_id
                else {"role": "function", "name": name, "content": f"result {number}"}
                for number, (call_id, name, _) in enumerate(seen.calls)
            ]


def _differences(recorded: Recorded, message: Message, wire: str, form: str) -> Iterator[Difference]:
    adapter = get_adapter(f"{wire}:{CLIENT_MODEL}")
    store = StateMemory()
    first = create_context(recorded.context.model, state_sealer=KEYS, state_store=store, team_id="team")
    adapter.from_wire_request(request_body(wire, [], []), first)
    first.tool_ids = recorded.context.tool_ids
    if form == "whole":
        seen = WHOLE[wire](adapter.to_wire_response(message, first).body)
    else:
        seen = STREAM[wire](b"".join(adapter.iter_encoded(events_of(recorded, message), first)))
    second = create_context(recorded.context.model, state_sealer=KEYS, state_store=store, team_id="team")
    second.tool_ids = ClientToolIds()
    body = request_body(wire, list(seen.echo), results_of(wire, seen))
    messages, _, _ = adapter.from_wire_request(body, second)
    replies = [each for each in messages if each.role == "assistant"]
    calls = [block for block in message.content if isinstance(block, ToolUseBlock)]
    shown = [call for call in calls if call.raw_input is None]
    content = [block for reply in replies for block in reply.content]
    text = "".join(block.text for block in content if isinstance(block, TextBlock))
    if text != (seen.text or seen.refusal):
        yield Difference("text", f"{shorten(seen.text)} -> {shorten(text)}")
    got = [block for block in content if isinstance(block, ToolUseBlock)]
    own = message.metadata.provider == wire
    if len(shown) == len(calls):
        if [(call.name, call.input) for call in got] != [(call.name, call.input) for call in calls]:
            yield Difference("calls", f"{shorten(calls)} -> {shorten(got)}")
        has_ids = all(call_id for call_id, _, _ in seen.calls)
        if not own and has_ids and wire != "ollama" and [call.id for call in got] != [call.id for call in calls]:
            yield Difference("ids", f"{[call.id for call in calls]} -> {[call.id for call in got]}")
    results = [each.content[0].tool_use_id for each in messages if each.role == "tool"]
    if results != [call.id for call in got]:
        yield Difference("results", f"{[call.id for call in got]} -> {results}")
    if not own and not any(loss.kind in ("media", "invalid_input") for loss in first.losses):
        yield from _state_differences(message, replies, wire, first.losses, second.losses)
        if not first.losses and not second.losses:
            yield from _request_differences(recorded, message, messages, second.tool_ids)


def _state_differences(
    message: Message, replies: list[Message], wire: str, lost: list[Any], unread: list[Any]
) -> Iterator[Difference]:
    """The provider's state: signatures, sealed thinking, native blocks."""
    if unread:
        yield Difference("losses in reading", str([loss.reason for loss in unread])[:200])
    if any(loss.kind == "state" for loss in lost):
        return
    hidden = [block for block in message.content if block.type in ("redacted_thinking", "provider")]
    signed = [block for block in message.content if isinstance(block, ThinkingBlock) and block.signature]
    if not hidden and not signed:
        return
    if len(replies) != 1:
        yield Difference("replies", f"{len(replies)} messages")
        return
    reply = replies[0]
    want, have = _without_texts(message, wire), _without_texts(reply, wire)
    if want != have:
        yield Difference("state", f"{shorten(want, 200)} -> {shorten(have, 200)}")
    if reply.metadata.provider != message.metadata.provider:
        yield Difference("provider", f"{message.metadata.provider} -> {reply.metadata.provider}")


def _without_texts(message: Message, wire: str) -> list[Any]:
    """The blocks that are not texts; Ollama's clients return no ids of calls."""
    blocks = (block for block in message.content if not isinstance(block, TextBlock))
    if wire != "ollama":
        return list(blocks)
    return [block.model_copy(update={"id": ""}) if isinstance(block, ToolUseBlock) else block for block in blocks]


def _request_differences(
    recorded: Recorded, message: Message, messages: list[Message], tool_ids: ToolIdMap
) -> Iterator[Difference]:
    """The next request to the provider behind is the same as without a client in between."""
    if any(each.metadata.provider != message.metadata.provider for each in messages if each.role == "assistant"):
        return  # nothing in the reply was opaque, so the client's copy is enough
    adapter = get_adapter(recorded.context.model)
    calls = [block.id for block in message.content if isinstance(block, ToolUseBlock)]
    if calls and calls != [block.id for each in messages for block in each.content if isinstance(block, ToolUseBlock)]:
        return  # a client without ids
    direct = [each if each.role != "assistant" else message for each in messages]
    bodies = []
    for history, ids in ((direct, recorded.context.tool_ids), (messages, tool_ids)):
        context = create_context(recorded.context.model)
        context.tool_ids = ids
        try:
            bodies.append(adapter.to_wire(history, [], AdapterOptions(context=context)).body)
        except DragomanError as error:
            bodies.append(str(error).encode())
    if bodies[0] != bodies[1]:
        yield Difference("request", f"{shorten(bodies[0], 900)} -> {shorten(bodies[1], 900)}")
