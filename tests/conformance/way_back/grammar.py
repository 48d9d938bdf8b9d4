"""The order and the required fields of the events of each client wire, checked on every stream that we write."""

import json
from collections.abc import Callable, Iterator
from typing import Any


def _events(body: bytes) -> list[tuple[str, Any]]:
    """The name and the data of each server-sent event."""
    found = []
    for frame in body.decode().replace("\r\n", "\n").split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.split("\n") if line)
        if lines:
            data = lines["data"]
            found.append((lines.get("event", ""), data if data == "[DONE]" else json.loads(data)))
    return found


_DELTAS = {
    "text": {"text_delta", "citations_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
    "tool_use": {"input_json_delta"},
}


def messages(body: bytes) -> Iterator[str]:
    """One message_start; blocks without gaps, one after the other; one message_delta; message_stop or an error last."""
    events = _events(body)
    kinds = [data["type"] for _, data in events]
    if any(name != data["type"] for name, data in events):
        yield "the name of an event is not its type"
    if kinds and kinds[-1] == "error":
        return
    if (
        kinds[0] != "message_start"
        or kinds.count("message_start") != 1
        or kinds[-2:] != ["message_delta", "message_stop"]
    ):
        yield f"start and end: {kinds[:1]} {kinds[-2:]}"
    yield from _message_blocks([data for _, data in events[1:-2]])
    start, end = events[0][1]["message"], events[-2][1]
    if start["content"] != [] or not isinstance(start["usage"]["input_tokens"], int):
        yield "message_start needs an empty content and counts"
    calls = any(data.get("content_block", {}).get("type") == "tool_use" for _, data in events)
    if end["delta"]["stop_reason"] == "tool_use" and not calls:
        yield "tool_use without a call"
    if {"input_tokens", "output_tokens"} - end["usage"].keys():
        yield "message_delta needs counts"


def _message_blocks(events: list[Any]) -> Iterator[str]:
    open_block: dict[str, Any] | None = None
    position, deltas, signed = 0, 0, 0
    for data in events:
        if data["index"] != position:
            yield f"index {data['index']}, not {position}"
        match data["type"]:
            case "content_block_start":
                if open_block is not None:
                    yield "two blocks are open"
                open_block, deltas, signed = data["content_block"], 0, 0
            case "content_block_delta":
                delta = data["delta"]["type"]
                if open_block is None or delta not in _DELTAS.get(open_block["type"], {delta}):
                    yield f"a {delta} in {open_block and open_block['type']}"
                if signed:
                    yield "a delta after the signature"
                deltas, signed = deltas + 1, signed + (delta == "signature_delta")
            case "content_block_stop":
                if open_block is None or (open_block == {"type": "text", "text": ""} and not deltas):
                    yield "an empty text, or the end of no block"
                open_block, position = None, position + 1
            case kind:
                yield f"an event of the type {kind}"
    if open_block is not None:
        yield "a block does not end"


def chat(body: bytes) -> Iterator[str]:
    """One id, role and finish reason; calls numbered from 0; counts only in a chunk without choices; [DONE] last."""
    events = [data for _, data in _events(body)]
    if isinstance(events[-1], dict) and "error" in events[-1]:
        return
    if events[-1] != "[DONE]" or "[DONE]" in events[:-1]:
        yield "[DONE] is not last"
    chunks = [data for data in events if isinstance(data, dict)]
    if len({(chunk["id"], chunk["created"], chunk["model"], chunk["object"]) for chunk in chunks}) != 1:
        yield "the chunks differ in id, time or model"
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    if sum("role" in choice["delta"] for choice in choices) != 1 or "role" not in choices[0]["delta"]:
        yield "the role is not in the first chunk alone"
    finished = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    if len(finished) != 1 or not choices[-1]["finish_reason"]:
        yield f"finish reasons: {finished}"
    if any(chunk.get("usage") and chunk["choices"] for chunk in chunks):
        yield "counts in a chunk with a choice"
    deltas = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    named = [call["index"] for call in deltas if "id" in call]
    if named != list(range(len(named))) or any(call["index"] >= len(named) for call in deltas):
        yield f"the numbers of calls: {named}"
    if finished == ["tool_calls"] and not named:
        yield "tool_calls without a call"


_ENDS = ("response.completed", "response.incomplete", "response.failed")


def responses(body: bytes) -> Iterator[str]:
    """Numbers from 0 without gaps; each item added first and done once; the terminal event holds the same items."""
    events = [data for _, data in _events(body)]
    if any(name != data["type"] for name, data in _events(body)):
        yield "the name of an event is not its type"
    if [data["sequence_number"] for data in events] != list(range(len(events))):
        yield "the numbers have gaps"
    if events[-1]["type"] not in _ENDS or sum(data["type"] in _ENDS for data in events) != 1:
        yield "it does not end with one terminal event"
    if events[-1]["type"] == "response.failed":
        return
    if len({data["response"]["id"] for data in events if "response" in data}) != 1:
        yield "two ids of the response"
    added, done, texts = set(), [], {}
    for data in events:
        place = data.get("output_index")
        match data["type"]:
            case "response.output_item.added":
                added.add(place)
            case "response.output_item.done":
                done.append(data["item"])
            case "response.output_text.delta":
                texts.setdefault((place, data["content_index"]), []).append(data["delta"])
            case "response.output_text.done" if "".join(texts[place, data["content_index"]]) != data["text"]:
                yield "the deltas are not the text"
            case _:
                pass
        if place is not None and place not in added:
            yield f"{data['type']} before its item"
    if done != events[-1]["response"]["output"] or len({item["id"] for item in done if "id" in item}) != len(done):
        yield "the terminal event does not hold the items that were done, each with an id of its own"


def generate_content(body: bytes) -> Iterator[str]:
    """Each chunk is a reply with one candidate; the last one has the finish reason; nothing but data lines."""
    chunks = [json.loads(frame.removeprefix("data: ")) for frame in body.decode().split("\r\n\r\n") if frame]
    reasons = ["finishReason" in chunk["candidates"][0] for chunk in chunks]
    if reasons != [False] * (len(chunks) - 1) + [True]:
        yield f"finish reasons: {reasons}"
    if len({(chunk["responseId"], chunk["modelVersion"]) for chunk in chunks}) != 1:
        yield "the chunks differ in id or model"


def ollama(body: bytes) -> Iterator[str]:
    """A line for each chunk; the last one is done, and has the counts; arguments are objects."""
    lines = [json.loads(line) for line in body.decode().split("\n") if line]
    if [line["done"] for line in lines] != [False] * (len(lines) - 1) + [True]:
        yield "the last line is not the only one that is done"
    calls = [call for line in lines for call in line["message"].get("tool_calls", ())]
    if not all(isinstance(call["function"]["arguments"], dict) for call in calls):
        yield "arguments that are not an object"


GRAMMARS: dict[str, Callable[[bytes], Iterator[str]]] = {
    "anthropic": messages,
    "openai-chat": chat,
    "openai": responses,
    "google": generate_content,
    "ollama": ollama,
}
