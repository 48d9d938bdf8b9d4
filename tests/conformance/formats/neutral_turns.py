"""Conversations in neutral terms: who said what, which tools were called, and what they answered.

Adjacent turns of one speaker count as one, and turns without content do not count, because libraries differ in both.
Instructions between a call and its result follow the result. Results that a library made up for an interrupted call do
not count.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from dragoman import Message
from dragoman.canonical.blocks import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    RedactedThinkingBlock,
    ResourceBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

Turn = dict[str, Any]

_LISTS = ("texts", "thinking_texts", "tool_calls", "results", "citations", "usage", "native", "unsure")
_COUNTS = ("images", "documents", "redacted_thinking")


def turns_of(messages: Sequence[Message]) -> list[Turn]:
    """Return canonical messages as turns. A result has the position of its call in place of an id."""
    positions: dict[str, int] = {}
    turns: list[Turn] = []
    for message in messages:
        turn = _new_turn("system" if message.role == "developer" else str(message.role))
        for block in message.content:
            _add(turn, block, positions)
        if message.usage is not None:
            turn["usage"].append(message.usage)
        turns.append(turn)
    return _merge(_results_first(turns))


def _results_first(turns: list[Turn]) -> list[Turn]:
    for index in range(len(turns) - 1):
        if turns[index]["role"] == "system" and turns[index + 1]["role"] == "tool":
            turns[index], turns[index + 1] = turns[index + 1], turns[index]
    return turns


def _add(turn: Turn, block: ContentBlock, positions: dict[str, int]) -> None:
    match block:
        case TextBlock():
            turn["texts"].append(block.text)
            turn["citations"] += [citation.model_dump() for citation in block.citations]
        case ToolUseBlock():
            positions[block.id] = len(positions)
            turn["tool_calls"].append({"name": block.name, "arguments": block.input, "raw": block.raw_input})
        case ToolResultBlock():
            texts = [part.text for part in block.content if isinstance(part, TextBlock)]
            images = sum(isinstance(part, ImageBlock) for part in block.content)
            turn["results"].append(
                {"call": positions.get(block.tool_use_id), "text": "".join(texts), "error": block.is_error,
                 "images": images}
            )  # fmt: skip
        case ThinkingBlock(text="", signature=str()):  # as OpenAI has it
            turn["redacted_thinking"] += 1
        case ThinkingBlock():
            turn["thinking_texts"].append(block.text)
        case RedactedThinkingBlock():
            turn["redacted_thinking"] += 1
        case ImageBlock():
            turn["images"] += 1
        case DocumentBlock() | ResourceBlock(blob=str()):
            turn["documents"] += 1
        case _:
            turn["native"].append(block.model_dump_json())


def _expected(turns: Sequence[Turn], absent: set[str], *, kept: bool = False) -> list[Turn]:
    """Return the manifest's turns in the same terms, without what the library did not store.

    ``kept``: a turn whose text was not stored as it was is still a turn.
    """
    latest: dict[str, int] = {}
    unnamed: dict[str, list[int]] = {}
    """Calls without an id are answered in their order."""
    count = 0
    found = []
    for index, turn in enumerate(turns):
        missing = {path.partition(".")[2] for path in absent if path.partition(".")[0] == str(index)}
        if turn["role"] == "error":
            continue
        fields = {name: value for name, value in turn.items() if name not in missing}
        built = _new_turn(turn["role"])
        built["unsure"] = [name for name in (*_COUNTS, *(("texts",) if kept else ())) if name in missing]
        built["texts"] = list(fields.get("texts", []))
        if fields.get("refusal"):
            built["texts"].append(fields["refusal"])
        for call in fields.get("tool_calls", []):
            if call["id"] is None or "tool_calls.id" in missing:
                unnamed.setdefault(call["name"], []).append(count)
            else:
                latest[call["id"]] = count
            count += 1
            built["tool_calls"].append(
                {"name": call["name"], "arguments": call["arguments"], "raw": call.get("raw_arguments")}
            )
        for result in fields.get("results", []):
            open_calls = unnamed.get(result["name"])
            position = latest.get(result["id"]) if result["id"] in latest else open_calls.pop(0) if open_calls else None
            images = 0 if "results.images" in missing else result["images"]
            built["results"].append(
                {"call": position, "text": result["text"], "error": result["error"], "images": images}
            )
        for name in ("thinking_texts", "citations"):
            built[name] = list(fields.get(name, []))
        for name in _COUNTS:
            built[name] = fields.get(name, 0)
        if "usage" in fields:
            built["usage"].append(fields["usage"])
        if "server_search" in fields:
            built["native"].append(fields["server_search"]["query"])
        found.append(built)
    return _merge(_results_first(found))


def differences(
    expected: Sequence[Turn], read: Sequence[Turn], absent: set[str], *, counts_cached: bool = True
) -> Iterator[str]:
    """Yield how the read turns differ from those of the manifest.

    ``absent`` has what the library did not store as it was: a text may be stored in part, and media in another form.
    ``counts_cached``: the library has a word for tokens from a cache.
    """
    found = list(_differences(_expected(expected, absent), read, counts_cached=counts_cached))
    if found:
        kept = _expected(expected, absent, kept=True)
        found = list(_differences(kept, read, counts_cached=counts_cached)) and found
    yield from found


def _differences(wanted: Sequence[Turn], read: Sequence[Turn], *, counts_cached: bool) -> Iterator[str]:
    read = _without_made_up_results(wanted, read)
    roles = [turn["role"] for turn in wanted], [turn["role"] for turn in read]
    if roles[0] != roles[1]:
        yield f"roles {' '.join(roles[1])}, not {' '.join(roles[0])}"
        return
    for index, (want, got) in enumerate(zip(wanted, read, strict=True)):
        for name in ("texts", "thinking_texts"):
            if name not in want["unsure"] and _squeeze(want[name]) != _squeeze(got[name]):
                yield f"{index}.{name}: {_squeeze(got[name])[:80]!r}, not {_squeeze(want[name])[:80]!r}"
        for name in _COUNTS:
            if name not in want["unsure"] and want[name] != got[name]:
                yield f"{index}.{name}: {got[name]}, not {want[name]}"
        yield from _call_differences(index, want["tool_calls"], got["tool_calls"])
        yield from _result_differences(index, want["results"], got["results"])
        if len(got["citations"]) < len(want["citations"]):
            yield f"{index}.citations: {len(got['citations'])}, not {len(want['citations'])}"
        for citation in want["citations"]:
            if not any(citation["url"] in json.dumps(each, ensure_ascii=False) for each in got["citations"]):
                yield f"{index}.citations: {citation['url']} is missing"
        for query in want["native"]:
            if not any(query in each for each in got["native"]):
                yield f"{index}.server_search: {query!r} is missing"
        yield from _usage_differences(index, want["usage"], got["usage"], counts_cached=counts_cached)


def _without_made_up_results(wanted: Sequence[Turn], read: Sequence[Turn]) -> list[Turn]:
    answered = {result["call"] for turn in wanted for result in turn["results"]}
    return _merge(
        [{**turn, "results": [each for each in turn["results"] if each["call"] in answered]} for turn in read]
    )


def _call_differences(index: int, wanted: list[Turn], got: list[Turn]) -> Iterator[str]:
    if len(wanted) != len(got):
        yield f"{index}.tool_calls: {len(got)}, not {len(wanted)}"
        return
    for want, call in zip(wanted, got, strict=True):
        if want["name"] != call["name"]:
            yield f"{index}.tool_calls: {call['name']}, not {want['name']}"
        if want["raw"] is not None:
            if want["raw"] != call["raw"]:
                yield f"{index}.tool_calls: raw {call['raw']!r}, not {want['raw']!r}"
        elif _as_numbers(want["arguments"] or {}) != _as_numbers(call["arguments"]):
            yield f"{index}.tool_calls: {json.dumps(call['arguments'])[:90]}, not {json.dumps(want['arguments'])[:90]}"


def _result_differences(index: int, wanted: list[Turn], got: list[Turn]) -> Iterator[str]:
    if len(wanted) != len(got):
        yield f"{index}.results: {len(got)}, not {len(wanted)}"
        return
    for want, result in zip(wanted, got, strict=True):
        if _plain(want["text"]) != _plain(result["text"]):
            yield f"{index}.results: {result['text'][:80]!r}, not {want['text'][:80]!r}"
        for name in ("call", "images"):
            if want[name] != result[name]:
                yield f"{index}.results.{name}: {result[name]}, not {want[name]}"
        if result["error"] and not want["error"]:
            yield f"{index}.results.error: true"


def _usage_differences(index: int, wanted: list[Turn], got: list[Any], *, counts_cached: bool) -> Iterator[str]:
    """Compare the counts where the file has some: not every library stores them."""
    if not got or not wanted:
        return
    prompt = sum(each.prompt_tokens for each in got)
    output = sum(each.output_tokens for each in got)
    cached = sum(each.cached_input_tokens for each in got)
    if len(got) != len(wanted):
        return
    want = {name: sum(each[name] for each in wanted) for name in wanted[0]}
    if cached == 0 and (prompt, output) == (want["input"], want["output"]):
        return  # the library stores no count of cached tokens
    if prompt != want["input"] + want["cache_read"] + want["cache_write"]:
        yield f"{index}.usage: {prompt} input tokens, not {want['input'] + want['cache_read'] + want['cache_write']}"
    if output != want["output"]:
        yield f"{index}.usage: {output} output tokens, not {want['output']}"
    if cached != want["cache_read"] and counts_cached:
        yield f"{index}.usage: {cached} tokens from a cache, not {want['cache_read']}"


def _merge(turns: Sequence[Turn]) -> list[Turn]:
    merged: list[Turn] = []
    for turn in turns:
        if not any("".join(turn["texts"]).strip() if name == "texts" else turn[name] for name in (*_LISTS, *_COUNTS)
                   if name != "usage"):  # fmt: skip
            continue
        if merged and merged[-1]["role"] == turn["role"]:
            for name in (*_LISTS, *_COUNTS):
                merged[-1][name] = merged[-1][name] + turn[name]
        else:
            merged.append(turn)
    return merged


def _new_turn(role: str) -> Turn:
    return {"role": role, **{name: [] for name in _LISTS}, **dict.fromkeys(_COUNTS, 0)}


def _squeeze(texts: Sequence[str]) -> str:
    return "".join("".join(texts).split())


def _as_numbers(value: Any) -> Any:
    """Return a value with its integers as JavaScript has them."""
    if isinstance(value, dict):
        return {name: _as_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_numbers(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _plain(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
