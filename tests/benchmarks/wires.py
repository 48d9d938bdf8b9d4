"""The mock provider's replies on each wire, as bytes, and streams as lists of frames. Written by hand."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

SENTENCE = "The capital of France is Paris."
FRAGMENT = 4
"""Characters of a piece of a call's arguments."""

Json = dict[str, Any]


@dataclass(frozen=True)
class MockWire:
    """``said`` is a whole reply of one text, ``spoken`` its stream, ``called`` a stream of calls with arguments."""

    model: str
    path: str
    kind: str
    text_reply: Callable[[str], Json]
    text_stream: Callable[[list[str]], Iterator[bytes]]
    call_stream: Callable[[list[str]], Iterator[bytes]]


def words(count: int) -> list[str]:
    """The deltas of a text."""
    return [f"word{number} " for number in range(count)]


def arguments(size: int) -> str:
    """A call's arguments, of about that many characters."""
    return json.dumps({"text": "x" * (size - 12)})


def fragments(text: str) -> list[str]:
    return [text[place : place + FRAGMENT] for place in range(0, len(text), FRAGMENT)]


def _event(data: Json) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def _data(data: Json) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def _line(data: Json) -> bytes:
    return json.dumps(data).encode() + b"\n"


_CLAUDE, _GPT, _LLAMA = "claude-sonnet-4-6", "gpt-5.2", "llama3.2"


def _messages_text_reply(text: str) -> Json:
    return {
        "id": "msg_01", "type": "message", "role": "assistant", "model": _CLAUDE,
        "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 20, "output_tokens": 9, "service_tier": "standard"},
    }  # fmt: skip


def _messages_start() -> bytes:
    opened = _messages_text_reply("") | {"content": [], "stop_reason": None}
    return _event({"type": "message_start", "message": opened})


def _messages_end(reason: str) -> Iterator[bytes]:
    yield _event({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 500}})
    yield _event({"type": "message_stop"})


def _messages_text_stream(deltas: list[str]) -> Iterator[bytes]:
    yield _messages_start()
    yield _event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    for text in deltas:
        yield _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
    yield _event({"type": "content_block_stop", "index": 0})
    yield from _messages_end("end_turn")


def _messages_call_stream(calls: list[str]) -> Iterator[bytes]:
    yield _messages_start()
    for index, text in enumerate(calls):
        block = {"type": "tool_use", "id": f"toolu_{index}", "name": "write", "input": {}}
        yield _event({"type": "content_block_start", "index": index, "content_block": block})
        for piece in fragments(text):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    yield from _messages_end("tool_use")


def _chat(choice: Json, **more: Any) -> Json:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1767225600, "model": _GPT}
    return {**head, "choices": [{"index": 0, "finish_reason": None, **choice}], **more}


_CHAT_USAGE = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}


def _chat_text_reply(text: str) -> Json:
    choice = {"message": {"role": "assistant", "content": text, "refusal": None}, "finish_reason": "stop"}
    return _chat(choice, object="chat.completion", usage=_CHAT_USAGE)


def _chat_end(reason: str) -> Iterator[bytes]:
    yield _data(_chat({"delta": {}, "finish_reason": reason}))
    yield _data({**_chat({}), "choices": [], "usage": _CHAT_USAGE})
    yield b"data: [DONE]\n\n"


def _chat_text_stream(deltas: list[str]) -> Iterator[bytes]:
    yield _data(_chat({"delta": {"role": "assistant", "content": ""}}))
    for text in deltas:
        yield _data(_chat({"delta": {"content": text}}))
    yield from _chat_end("stop")


def _chat_call_stream(calls: list[str]) -> Iterator[bytes]:
    yield _data(_chat({"delta": {"role": "assistant", "content": None}}))
    for index, text in enumerate(calls):
        function = {"name": "write", "arguments": ""}
        opened = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        yield _data(_chat({"delta": {"tool_calls": [opened]}}))
        for piece in fragments(text):
            yield _data(_chat({"delta": {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}}))
    yield from _chat_end("tool_calls")


def _response(items: list[Json], status: str = "completed") -> Json:
    details: Json = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 20, "output_tokens": 9, "total_tokens": 29, **details}
    return {
        "id": "resp_1", "object": "response", "created_at": 1767225600, "status": status, "error": None,
        "incomplete_details": None, "model": _GPT, "output": items, "parallel_tool_calls": True,
        "instructions": None, "metadata": {}, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "usage": usage if status == "completed" else None,
    }  # fmt: skip


def _text_item(text: str, status: str = "completed") -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    content = [part] if status == "completed" else []
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content}


def _responses(events: Iterator[Json]) -> Iterator[bytes]:
    for number, event in enumerate(events):
        yield _event({**event, "sequence_number": number})


def _responses_text_stream(deltas: list[str]) -> Iterator[bytes]:
    def events() -> Iterator[Json]:
        text, where = "".join(deltas), {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        whole, done = {**empty, "text": text}, _text_item(text)
        yield {"type": "response.created", "response": _response([], "in_progress")}
        yield {"type": "response.output_item.added", "output_index": 0, "item": _text_item("", "in_progress")}
        yield {"type": "response.content_part.added", **where, "part": empty}
        for delta in deltas:
            yield {"type": "response.output_text.delta", **where, "delta": delta, "logprobs": []}
        yield {"type": "response.output_text.done", **where, "text": text, "logprobs": []}
        yield {"type": "response.content_part.done", **where, "part": whole}
        yield {"type": "response.output_item.done", "output_index": 0, "item": done}
        yield {"type": "response.completed", "response": _response([done])}

    return _responses(events())


def _responses_call_stream(calls: list[str]) -> Iterator[bytes]:
    def item(index: int, text: str, status: str) -> Json:
        named = {"type": "function_call", "id": f"fc_{index}", "call_id": f"call_{index}", "name": "write"}
        return {**named, "arguments": text, "status": status}

    def events() -> Iterator[Json]:
        yield {"type": "response.created", "response": _response([], "in_progress")}
        for index, text in enumerate(calls):
            where = {"item_id": f"fc_{index}", "output_index": index}
            opened = item(index, "", "in_progress")
            yield {"type": "response.output_item.added", "output_index": index, "item": opened}
            for piece in fragments(text):
                yield {"type": "response.function_call_arguments.delta", **where, "delta": piece}
            yield {"type": "response.function_call_arguments.done", **where, "name": "write", "arguments": text}
            done = item(index, text, "completed")
            yield {"type": "response.output_item.done", "output_index": index, "item": done}
        items = [item(index, text, "completed") for index, text in enumerate(calls)]
        yield {"type": "response.completed", "response": _response(items)}

    return _responses(events())


def _ollama(message: Json, *, done: bool = False) -> Json:
    chunk: Json = {"model": _LLAMA, "created_at": "2026-11-01T00:00:00Z", "message": {"role": "assistant", **message}}
    counts = {"done_reason": "stop", "total_duration": 9, "prompt_eval_count": 20, "eval_count": 9}
    return {**chunk, "done": done, **(counts if done else {})}


def _ollama_text_stream(deltas: list[str]) -> Iterator[bytes]:
    for text in deltas:
        yield _line(_ollama({"content": text}))
    yield _line(_ollama({"content": ""}, done=True))


def _ollama_call_stream(calls: list[str]) -> Iterator[bytes]:
    """Calls come whole on this wire."""
    for text in calls:
        function = {"name": "write", "arguments": json.loads(text)}
        yield _line(_ollama({"content": "", "tool_calls": [{"function": function}]}))
    yield _line(_ollama({"content": ""}, done=True))


WIRES = {
    "messages": MockWire(
        f"anthropic:{_CLAUDE}", "/v1/messages", "text/event-stream",
        _messages_text_reply, _messages_text_stream, _messages_call_stream,
    ),
    "responses": MockWire(
        f"openai:{_GPT}", "/v1/responses", "text/event-stream",
        lambda text: _response([_text_item(text)]), _responses_text_stream, _responses_call_stream,
    ),
    "chat": MockWire(
        f"openai-chat:{_GPT}", "/v1/chat/completions", "text/event-stream",
        _chat_text_reply, _chat_text_stream, _chat_call_stream,
    ),
    "ollama": MockWire(
        f"ollama:{_LLAMA}", "/api/chat", "application/x-ndjson",
        lambda text: _ollama({"content": text}, done=True), _ollama_text_stream, _ollama_call_stream,
    ),
}  # fmt: skip
