"""Hand-written streams, small, in the provider's form and in that of its dialects."""

from typing import Any

from tests.unit.adapters.openai_responses.wire import MODEL, Item, response

Event = dict[str, Any]

STARTED: Event = {"type": "response.created", "response": response([], status="in_progress")}


def event(kind: str, index: int, **fields: Any) -> Event:
    return {"type": f"response.{kind}", "output_index": index, "sequence_number": 0, **fields}


def added(index: int, item: Item) -> Event:
    return event("output_item.added", index, item=item)


def done(index: int, item: Item) -> Event:
    return event("output_item.done", index, item=item)


def completed(output: list[Item], **fields: Any) -> Event:
    return {"type": "response.completed", "response": response(output, **fields)}


REASONING: Item = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "First"}, {"type": "summary_text", "text": "then"}],
    "encrypted_content": "gAAA-done",
}
PARTS: list[Item] = [
    {"type": "output_text", "text": "Hello", "annotations": [{"type": "url_citation", "url": "https://a.test"}]},
    {"type": "refusal", "refusal": "No."},
]
MESSAGE: Item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": PARTS}
SEARCH: Item = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
CALL: Item = {
    "id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "weather",
    "arguments": '{"city":"Paris"}',
}  # fmt: skip
USAGE: Item = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}

handwritten_whole: list[Event] = [
    STARTED,
    {"type": "response.in_progress", "response": response([], status="in_progress")},
    added(0, {**REASONING, "summary": [], "encrypted_content": "gAAA-added"}),
    event("reasoning_summary_part.added", 0, item_id="rs_1", summary_index=0, part={}),
    event("reasoning_summary_text.delta", 0, item_id="rs_1", summary_index=0, delta="Fi", obfuscation="x"),
    event("reasoning_summary_text.delta", 0, item_id="rs_1", summary_index=0, delta="rst"),
    event("reasoning_summary_text.delta", 0, item_id="rs_1", summary_index=1, delta="then"),
    done(0, REASONING),
    added(1, {**SEARCH, "status": "in_progress"}),
    event("web_search_call.searching", 1, item_id="ws_1"),
    done(1, SEARCH),
    {"type": "keepalive", "sequence_number": 9},
    added(2, {**MESSAGE, "status": "in_progress", "content": []}),
    event("content_part.added", 2, item_id="msg_1", content_index=0, part={"type": "output_text", "text": ""}),
    event("output_text.delta", 2, item_id="msg_1", content_index=0, delta="Hel"),
    event("output_text.delta", 2, item_id="msg_1", content_index=0, delta="lo"),
    event("output_text.annotation.added", 2, item_id="msg_1", content_index=0, annotation=PARTS[0]["annotations"][0]),
    event("content_part.added", 2, item_id="msg_1", content_index=1, part={"type": "refusal", "refusal": ""}),
    event("refusal.delta", 2, item_id="msg_1", content_index=1, delta="No."),
    done(2, MESSAGE),
    added(3, {**CALL, "arguments": "", "status": "in_progress"}),
    event("function_call_arguments.delta", 3, item_id="fc_1", delta='{"city":'),
    event("function_call_arguments.delta", 3, item_id="fc_1", delta='"Paris"}'),
    event("function_call_arguments.done", 3, item_id="fc_1", arguments=CALL["arguments"]),
    done(3, CALL),
    completed([{**REASONING, "encrypted_content": "gAAA-final"}, SEARCH, MESSAGE, CALL], usage=USAGE),
]
"""Every kind of block, as the provider streams it; the final object has another encryption of the reasoning."""

_SECOND: Item = {**CALL, "id": "fc_2", "call_id": "call_2", "arguments": '{"city":"Rome"}'}
_LLAMA_REASONING: Item = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "Hm."}],
    "encrypted_content": "",
}
_LLAMA_MESSAGE: Item = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
}

handwritten_llama: list[Event] = [
    {"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress"}},
    {"type": "response.output_item.added", "item": {**_LLAMA_REASONING, "content": []}},
    {"type": "response.reasoning_text.delta", "item_id": "rs_1", "delta": "Hm."},
    {"type": "response.output_item.added", "item": {**_LLAMA_MESSAGE, "content": []}},
    {
        "type": "response.content_part.added",
        "item_id": "msg_1",
        "part": {"type": "output_text", "text": ""},
    },
    {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "Hello"},
    {"type": "response.output_item.added", "item": {**CALL, "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": CALL["arguments"]},
    {"type": "response.output_item.added", "item": {**_SECOND, "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "item_id": "fc_2", "delta": _SECOND["arguments"]},
    {"type": "response.output_item.done", "item": _LLAMA_REASONING},
    {"type": "response.output_text.done", "item_id": "msg_1", "text": "Hello"},
    {"type": "response.output_item.done", "item": _LLAMA_MESSAGE},
    {"type": "response.output_item.done", "item": CALL},
    {"type": "response.output_item.done", "item": _SECOND},
    {
        "type": "response.completed",
        "response": response([_LLAMA_REASONING, _LLAMA_MESSAGE, CALL, _SECOND]),
        "timings": {},
    },
]
"""llama.cpp's dialect: no indexes, and all items are done only at the end."""

handwritten_nameless: list[Event] = [
    {key: value for key, value in event.items() if key != "item_id"}
    | ({"item": {k: v for k, v in event["item"].items() if k != "id"}} if "item" in event else {})
    for event in handwritten_llama[:-1]
] + [
    completed(
        [{k: v for k, v in item.items() if k != "id"} for item in (_LLAMA_REASONING, _LLAMA_MESSAGE, CALL, _SECOND)]
    )
]
"""The same without ids: only kinds and order connect the events."""

handwritten_only_the_end: list[Event] = [completed([REASONING, MESSAGE, CALL], model=MODEL)]
"""Only the terminal event."""

handwritten_only_whole_items: list[Event] = [
    STARTED,
    done(0, REASONING),
    done(1, MESSAGE),
    done(2, CALL),
    completed([]),
]
"""Items that no delta announced, and a final object without them."""

handwritten_never_done: list[Event] = [
    *(event for event in handwritten_whole[:-1] if event["type"] != "response.output_item.done"),
    completed([]),
]
"""Items that are never done, and a final object without them."""
