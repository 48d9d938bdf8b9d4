"""Decodes replies, and requests in Google's format (docs/reference/wires/google.md)."""

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.adapter.replies.drift import known_names
from dragoman.adapter.replies.reply_builder import ReplyBuilder, UsageReader
from dragoman.canonical.blocks import Citation, ContentBlock, TextBlock, text_block
from dragoman.canonical.message import Alternative, Message, MessageStatus, StopReason
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.google import decode_blocks, encode_blocks
from dragoman_adapters.google.values.spelling import camel_case_fields

_COVERED_FIELDS = {"candidates", "modelVersion", "usageMetadata"}

STOP_REASONS = {
    "STOP": StopReason.END_TURN,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "CONTINUATION": StopReason.PAUSE,
    **dict.fromkeys((
        "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "ESCALATION", "PUP_LIMITED_DISABLED",
    ), StopReason.REFUSAL),
}  # fmt: skip
"""All other reasons mean an error, such as a malformed call or a missing signature."""
ERROR_REASONS = {
    "FINISH_REASON_UNSPECIFIED", "LANGUAGE", "OTHER", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE", "IMAGE_OTHER", "NO_IMAGE",
}  # fmt: skip
"""Those that this version knows."""
_PLAIN_FIELDS = {"text"}
_UNSPECIFIED = ("", "FINISH_REASON_UNSPECIFIED")

_MEDIA_LISTS = ("promptTokensDetails", "toolUsePromptTokensDetails", "cacheTokensDetails", "candidatesTokensDetails")
"""The lists of tokens by medium."""
_MODALITIES = ("", "TEXT", "IMAGE", "VIDEO", "AUDIO", "DOCUMENT")
_TRAFFIC = ("", "ON_DEMAND", "PROVISIONED_THROUGHPUT")
"""Media and kinds of traffic by their numbers in Google's protocol buffers."""


def decode_message(
    native: dict[str, Any],
    reply: ReplyBuilder,
    facts: Mapping[str, Any],
    status: MessageStatus = MessageStatus.COMPLETE,
) -> Message:
    """Decode a whole reply, or the one that a stream has accumulated. The first candidate is the message.

    ``facts`` are the model's ``wire`` facts (``models.toml``).
    """
    fields = camel_case_fields(native)
    candidates = native.get("candidates") or []
    is_blocked = "blockReason" in (fields.get("promptFeedback") or {})
    if not candidates and not is_blocked and status is MessageStatus.COMPLETE:
        raise ValueError("there is neither a candidate nor a reason why the prompt was blocked")
    content, stop, candidate, notes = _decode_candidate(candidates[0] if candidates else {}, reply, facts, 0)
    others = [_decode_candidate(other, reply, facts, place)[:2] for place, other in enumerate(candidates[1:], 1)]
    reason = finish_reason_name(candidate.get("finishReason"), facts)
    usage_counts = decode_usage(fields.get("usageMetadata"), count_searches(candidate, facts["search_unit"]))
    covered = _COVERED_FIELDS if usage_counts else _COVERED_FIELDS - {"usageMetadata"}
    raw: dict[str, Any] = {key: value for key, value in fields.items() if key not in covered}
    known = known_names("dragoman_adapters.google")
    reply.note_unknown("field", fields.keys(), known.reply)
    if reason is not None and reason not in STOP_REASONS and reason not in ERROR_REASONS:
        reply.note_drift("stop_reason", [reason])
    raw |= {"candidate": candidate} if candidate else {}
    raw |= {"candidates": candidates[1:]} if candidates[1:] else {}
    raw |= {"blocks": notes} if notes else {}
    return reply.build(
        content,
        model=fields.get("modelVersion"),
        stop_reason=StopReason.REFUSAL if is_blocked and not candidates else stop,
        usage=usage_counts,
        raw=raw,
        status=status,
        alternatives=[Alternative(content=tuple(blocks), stop_reason=reason) for blocks, reason in others],
        known=known,
    )


def _decode_candidate(
    native: Mapping[str, Any], reply: ReplyBuilder, facts: Mapping[str, Any], place: int
) -> tuple[list[ContentBlock], StopReason, dict[str, Any], dict[str, Any]]:
    """Return the content of an answer, its stop reason, its other fields, and the notes on its parts.

    Calls finish with STOP as well, so the blocks decide.
    """
    candidate = camel_case_fields(native, without=("content",))
    content, notes = _decode_content(native.get("content") or {}, reply, place)
    reason = finish_reason_name(candidate.get("finishReason"), facts)
    stop = StopReason.END_TURN if reason is None else STOP_REASONS.get(reason, StopReason.ERROR)
    if stop is StopReason.END_TURN and any(block.type == "tool_use" for block in content):
        stop = StopReason.TOOL_USE
    return attach_citations(content, candidate), stop, candidate, notes


def _decode_content(
    native: Mapping[str, Any], reply: ReplyBuilder, candidate: int
) -> tuple[list[ContentBlock], dict[str, Any]]:
    blocks: list[ContentBlock] = []
    notes: dict[str, Any] = {}
    for index, (part, cuts) in enumerate(_join_texts(native.get("parts") or ())):
        if cuts:
            notes[str(index)] = {encode_blocks.CUTS: cuts}
        if type(part) is dict and part.keys() == _PLAIN_FIELDS:
            blocks.append(text_block(part["text"]))  # as below: a plain text leaves nothing else to note
            continue
        call = part.get("functionCall") or part.get("function_call")
        call = call if isinstance(call, dict) else None
        wire_id = call.get("id") if call else None
        place = index if candidate == 0 else (candidate, index)
        block = decode_blocks.decode_block(part, reply.call_id(place, wire_id) if call else "", reply.provider)
        blocks.append(block)
        if call and decode_blocks.RAW_INPUT in call:
            part = {**part, "functionCall": {key: call[key] for key in call if key != decode_blocks.RAW_INPUT}}
        if note := decode_blocks.note_part(part, encode_blocks.encode_block(block, wire_id)):
            notes[str(index)] = {**notes.get(str(index), {}), **note}
    return blocks, notes


def _join_texts(parts: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], list[int]]]:
    """Return the parts with neighbouring texts as one, as a stream has them, and where each was cut. A part with
    anything else, such as a signature, stays as it is."""
    joined: list[tuple[dict[str, Any], list[int]]] = []
    joins = False
    for part in parts:
        is_text = type(part) is dict and part.keys() in decode_blocks.JOINABLE and isinstance(part["text"], str)
        if is_text and joins and bool(joined[-1][0].get("thought")) == bool(part.get("thought")):
            before, cuts = joined[-1]
            joined[-1] = {**before, "text": before["text"] + part["text"]}, [*cuts, len(before["text"])]
        else:
            joined.append((part, []))
        joins = is_text
    return joined


def finish_reason_name(native: Any, facts: Mapping[str, Any]) -> str | None:
    """Return the name of a finish reason, which may be given as a number; None if there is none."""
    if isinstance(native, int) and not isinstance(native, bool):
        names = facts["finish_reasons"]
        native = names[native] if 0 <= native < len(names) else f"reason {native}"
    return None if native is None or native in _UNSPECIFIED else str(native)


def decode_usage(native: Mapping[str, Any] | None, searches: Mapping[str, int]) -> TokenUsage | None:
    """Decode the usage; None if it has no prompt count. ``searches`` are billed in addition to the tokens.

    A missing count is zero: Google leaves out zeros.
    """
    count = UsageReader.of(native)
    if count is None or native is None or native.get("promptTokenCount") is None:
        return None
    prompt, cached, thoughts = count("promptTokenCount"), count("cachedContentTokenCount"), "thoughtsTokenCount"
    traffic = _enum_name(native.get("trafficType"), _TRAFFIC)
    if traffic and traffic.startswith("ON_DEMAND_"):  # the rest is the name of the tier that requests it
        traffic = traffic.removeprefix("ON_DEMAND_").lower()
    return count.usage(
        input_tokens=count.uncached(prompt, cached) + count("toolUsePromptTokenCount"),
        cached_input_tokens=cached,
        output_tokens=count("candidatesTokenCount") + count(thoughts),
        reasoning_tokens=count.optional(thoughts),
        **count_media(count, _MEDIA_LISTS, "tokenCount", {"audio": "AUDIO", "image": "IMAGE"}),
        server_tools=dict(searches),
        service_tier=count.text("serviceTier") or traffic,
        reported_total=count.optional("totalTokenCount"),
    )


def count_media(
    count: UsageReader, lists: tuple[str, str, str, str], field: str, media: Mapping[str, str]
) -> dict[str, int | None]:
    """Return the tokens of each medium: of the prompt, with tools' prompts and without those from a cache, of the
    cache, and of the answer. None if the reply does not report them.

    ``lists`` are the wire's names of the lists of counts: of the prompt, of tools' prompts, of the cache and of the
    answer. ``field`` is the name of a count in them, and ``media`` are the wire's words for the media.
    """

    def read(name: str) -> dict[str, int]:
        if name not in count.native or not (entries := count.objects(name)):
            return {}
        sums = dict.fromkeys(media.values(), 0)
        for each in entries:
            if (word := _enum_name(each.get("modality"), _MODALITIES) or "") in sums:
                sums[word] += count.count_at(name, each.get(field))
        return sums

    prompt, tools, cache, answer = map(read, lists)
    found: dict[str, int | None] = {}
    for medium, word in media.items():
        sent = prompt.get(word)
        found[f"{medium}_input_tokens"] = (
            None if sent is None else max(0, sent + tools.get(word, 0) - cache.get(word, 0))
        )
        found[f"cached_{medium}_input_tokens"] = cache.get(word)
        found[f"{medium}_output_tokens"] = answer.get(word)
    return found


def _enum_name(value: Any, names: tuple[str, ...]) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return names[value] or None if 0 <= value < len(names) else str(value)
    return value if isinstance(value, str) and value else None


def attach_citations(content: Sequence[ContentBlock], candidate: Mapping[str, Any]) -> list[ContentBlock]:
    """Return the blocks, with the citations of the candidate's metadata on their texts."""
    grounding, citation_metadata = candidate.get("groundingMetadata"), candidate.get("citationMetadata")
    if not (grounding or citation_metadata):
        return list(content)
    grounding, citation_metadata = grounding or {}, citation_metadata or {}
    answer = _AnswerText(content)
    found: dict[int, list[Citation]] = {}  # by the index of their block
    chunks = grounding.get("groundingChunks") or ()
    for support in grounding.get("groundingSupports") or ():
        position = answer.place(support.get("segment") or {})
        if position is not None:
            for number in support.get("groundingChunkIndices") or ():
                if isinstance(number, int) and 0 <= number < len(chunks):
                    found.setdefault(position[0], []).append(_decode_citation(chunks[number], support, position))
    for source in citation_metadata.get("citationSources") or citation_metadata.get("citations") or ():
        position = answer.place(source)
        if position is not None:
            _, start, end = position
            found.setdefault(position[0], []).append(
                Citation(
                    kind="citation", title=source.get("title"), url=source.get("uri"), start=start, end=end, data=source
                )
            )
    return [
        block.model_copy(update={"citations": tuple(found[index])})
        if index in found and isinstance(block, TextBlock)
        else block
        for index, block in enumerate(content)
    ]


def count_searches(candidate: Mapping[str, Any], unit: str) -> dict[str, int]:
    """Count billed calls of Google's tools: each distinct query, or one for each prompt that led to any (``unit``)."""
    grounding = candidate.get("groundingMetadata") or {}
    queries = {query for query in grounding.get("webSearchQueries") or () if query}
    found = {"web_search": len(queries) if unit == "query" else 1} if queries else {}
    if any("maps" in chunk for chunk in grounding.get("groundingChunks") or ()):
        found["google_maps"] = 1
    return found


def _decode_citation(chunk: dict[str, Any], support: dict[str, Any], position: tuple[int, int, int]) -> Citation:
    kind = next(iter(chunk), "unknown")
    inner = chunk.get(kind)
    source: Mapping[str, Any] = inner if isinstance(inner, dict) else {}
    return Citation(
        kind=kind,
        title=source.get("title"),
        url=source.get("uri"),
        cited_text=source.get("text"),
        start=position[1],
        end=position[2],
        data={"chunk": chunk, "support": {key: value for key, value in support.items() if key != "segment"}},
    )


class _AnswerText:
    """The answer's texts without thoughts. Segments count their bytes in UTF-8."""

    def __init__(self, content: Sequence[ContentBlock]) -> None:
        self._texts = [(index, block.text) for index, block in enumerate(content) if isinstance(block, TextBlock)]
        self._bytes = "".join(text for _, text in self._texts).encode()

    def place(self, segment: Mapping[str, Any]) -> tuple[int, int, int] | None:
        """Return the block in which a segment begins, and its first and last character (exclusive) there; None if no
        block has it.
        """
        start, end, quoted = segment.get("startIndex") or 0, segment.get("endIndex"), segment.get("text")
        if not isinstance(end, int) or not 0 <= start < end <= len(self._bytes):
            return self._find_text(quoted)
        text_at = self._bytes[start:end].decode(errors="replace")
        if quoted and text_at != quoted:
            return self._find_text(quoted)
        first = len(self._bytes[:start].decode(errors="replace"))
        for index, text in self._texts:
            if first < len(text):
                return index, first, min(len(text), first + len(text_at))
            first -= len(text)
        return None

    def _find_text(self, quoted: Any) -> tuple[int, int, int] | None:
        if not isinstance(quoted, str) or not quoted:
            return None
        for index, text in self._texts:
            if (start := text.find(quoted)) >= 0:
                return index, start, start + len(quoted)
        return None
