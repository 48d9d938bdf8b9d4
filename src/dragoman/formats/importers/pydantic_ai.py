"""pydantic-ai's message history, as `ModelMessagesTypeAdapter.dump_json` writes it, in this version and in older ones.

Instructions become a system message when they change. Calls and results of a provider's own tools, compacted histories
and parts of unknown kinds become blocks that no adapter sends. Parts that only control requests, such as
cache points and changed settings, are not part of the conversation and are skipped.
Source: pydantic_ai/messages.py, 2.68.
"""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import Citation, ContentBlock, RedactedThinkingBlock, TextBlock, ThinkingBlock
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.usage import Usage
from dragoman.formats.document import dig, iter_entries, kind_of, objects_in, validating
from dragoman.formats.reading.blocks import (
    build_usage,
    media_block,
    media_from_url,
    model_fields_of,
    provider_block,
    read_citation,
    signature_notes,
    text_blocks,
    to_text,
)
from dragoman.formats.reading.fields import Fields, source_losses, take_counts
from dragoman.formats.reading.turns import Turns, stop_after, take_time

LIBRARY = "pydantic-ai"

_FAILED = ("failed", "retried", "interrupted")
_STATES = {"interrupted": MessageStatus.PARTIAL, "incomplete": MessageStatus.PARTIAL}
_SETTINGS = ("instruction-baseline", "tool-availability-delta", "capability-load-delta", "model-settings-delta")
"""Parts with request settings: they are not part of the conversation, and no model gets them."""
_MEDIA = (
    "binary", "image-url", "audio-url", "video-url", "document-url", "uploaded-file", "text-content",
    "structured-content",
)  # fmt: skip
"""The items of a prompt and of a result that are not plain JSON, by kind."""


def from_pydantic_ai(document: Any) -> list[Message]:
    """Read a history from JSON or from Python lists and dicts. Raises FormatError, with a path."""
    turns = Turns()
    instructions: str | None = None
    for path, native in iter_entries(document, format_name=LIBRARY):
        message = Fields(native, path, LIBRARY)
        message.skip("message")
        kind = message.required_text("kind")
        parts = message.objects("parts")
        if message.look("parts") is None:
            raise message.fault("parts", "is missing")
        with validating(native, path):
            if kind == "response":
                _response(message, parts, turns)
            elif kind == "request":
                named = message.text("instructions")
                _request(message, parts, None if named == instructions else named, turns)
                instructions = named or instructions
            else:
                raise message.fault("kind", f"is neither request nor response: {kind[:80]!r}")
        message.close()
    return turns.messages


def _request(request: Fields, parts: list[Fields], instructions: str | None, turns: Turns) -> None:
    """Add a request as messages. Adjacent user parts become one message. Instructions follow the system prompts, and
    the results of tools: what stands between a call and its result would part them.
    """
    sent, session_id = take_time(request, "timestamp"), request.text("conversation_id")
    groups: list[tuple[Role, list[ContentBlock], datetime | None]] = []
    system_count = 0
    for part in parts:
        time = take_time(part, "timestamp") or sent
        if part.look("part_kind") in _SETTINGS:
            part.whole()
            continue
        role, blocks = _request_part(part, turns)
        if role is Role.SYSTEM and len(groups) == system_count:
            system_count += 1
        if role is Role.USER and groups and groups[-1][0] is Role.USER:
            groups[-1][1].extend(blocks)
        else:
            groups.append((role, blocks, time))
    if instructions:
        results = max((index for index, group in enumerate(groups, 1) if group[0] is Role.TOOL), default=0)
        groups.insert(max(system_count, results), (Role.SYSTEM, text_blocks(instructions), sent))
    for role, blocks, time in groups:
        if role is Role.USER:
            turns.start(role)
        if blocks:
            turns.add(role, blocks, request.path, created_at=time, session_id=session_id)


def _request_part(part: Fields, turns: Turns) -> tuple[Role, list[ContentBlock]]:
    """Return the blocks of a request part, and their role."""
    kind, at = to_text(part.look("part_kind")), f"{part.path}.content"
    match kind:
        case "system-prompt":
            role, blocks = Role.SYSTEM, text_blocks(part.required_text("content"))
        case "instruction-delta":
            role, blocks = Role.SYSTEM, text_blocks(part.text("content"))
        case "user-prompt":
            content = part.take("content")
            if not isinstance(content, (str, list)):
                raise part.fault("content", f"must be a text or a list, not {kind_of(content)}")
            items = enumerate([content] if isinstance(content, str) else content)
            blocks = [block for index, item in items for block in _content(item, f"{at}[{index}]")]
            role = Role.USER
        case "tool-return":
            answer = tool_result_blocks(part.take("content"), at)
            call_id, tool = part.text("tool_call_id"), part.required_text("tool_name")
            role, failed = Role.TOOL, part.text("outcome") in _FAILED
            blocks = [turns.result(call_id, tool, answer, is_error=failed)]
        case "retry-prompt" if (name := part.text("tool_name")) is not None:  # of older versions
            answer = text_blocks(part.take("content"))
            role, blocks = Role.TOOL, [turns.result(part.text("tool_call_id"), name, answer, is_error=True)]
        case "retry-prompt" | "retry-feedback":
            part.ignore("tool_call_id")
            role, blocks = Role.USER, text_blocks(part.take("content"))
        case "speech":
            role, blocks = Role.USER, _speech(part)
        case "compaction" if part.look("provider_name") is None:
            role, blocks = Role.USER, text_blocks(part.text("content"))
        case _:
            return Role.USER, [provider_block(LIBRARY, kind, part.whole())]
    _close_part(part)
    return role, blocks


def _close_part(part: Fields) -> None:
    """Skip what a part of any kind has next to its content."""
    part.skip("part")
    for name in ("retry", "provider_details"):
        part.inner(name).skip(name)


def _response(response: Fields, parts: list[Fields], turns: Turns) -> None:
    turns.start(Role.ASSISTANT)
    blocks: list[ContentBlock] = []
    signatures: dict[int, str] = {}
    for part in parts:
        signature = _detail(part, "provider_details", "thought_signature")
        found = _response_part(part, turns)
        if signature and found and not isinstance(found[0], ThinkingBlock):
            signatures[len(blocks)] = signature
        blocks += found
    stop_reason = response.stop_reason("finish_reason")
    details = response.inner("provider_details")
    details.skip("response_details")
    refusal = details.take("refusal")
    if isinstance(refusal, str) and refusal:
        blocks += text_blocks(refusal) if not any(isinstance(block, TextBlock) for block in blocks) else []
        stop_reason = StopReason.REFUSAL
    stop_reason = stop_after(blocks, stop_reason)
    state = to_text(response.look("state"))
    if state == "suspended":
        stop_reason = StopReason.PAUSE
    named = model_fields_of(LIBRARY, response.text("provider_name"), response.text("model_name"))
    time, session_id = take_time(response, "timestamp"), response.text("conversation_id")
    metadata = {
        **named,
        "usage": _usage(response.inner("usage")),
        "stop_reason": stop_reason,
        "status": _STATES.get(state),
        "provider_raw": signature_notes(named["provider"], signatures),
    }
    if not blocks:
        source_losses().add_info(response.path, "the response has no content: left out", LossKind.EMPTY_MESSAGE)
        return
    turns.add(Role.ASSISTANT, blocks, response.path, metadata=metadata, created_at=time, session_id=session_id)


def _response_part(part: Fields, turns: Turns) -> list[ContentBlock]:
    """Return the blocks of a response part."""
    kind = to_text(part.look("part_kind"))
    blocks: list[ContentBlock]
    match kind:
        case "text":
            text, cited = part.required_text("content"), tuple(_citations(part))
            blocks = [TextBlock(text=text, citations=cited)] if text else []
        case "thinking":
            text, signature = part.required_text("content"), part.text("signature")
            if part.look("id") == "redacted_thinking" and signature is not None:  # the id marks it as encrypted
                blocks = [RedactedThinkingBlock(data=signature)]
            else:
                signature = signature or _detail(part, "provider_details", "thought_signature")
                blocks = [ThinkingBlock(text=text, signature=signature or None)]
        case "tool-call":
            name, arguments = part.required_text("tool_name"), part.take("args")
            if not isinstance(arguments, (str, dict)) and arguments is not None:
                raise part.fault("args", f"must be an object or a text, not {kind_of(arguments)}")
            blocks = [turns.call(part.text("tool_call_id"), name, arguments)]
        case "file":
            content = part.take("content")
            if not isinstance(content, dict):
                raise part.fault("content", f"must be an object, not {kind_of(content)}")
            blocks = _content(content, f"{part.path}.content")
        case "speech":
            blocks = _speech(part)
        case _:
            return [provider_block(LIBRARY, kind, part.whole())]
    _close_part(part)
    return blocks


def _citations(part: Fields) -> Iterator[Citation]:
    natives = objects_in(dig(part.look("provider_details"), "citations"))
    cited_sources = part.objects("citations")
    if not cited_sources:
        yield from map(read_citation, natives)
    originals = iter(natives)
    for cited in cited_sources:
        anchor = cited.inner("anchor")
        start, end = anchor.count("start"), anchor.count("end")
        for source in cited.objects("sources"):
            excerpts = [to_text(excerpt) for excerpt, _ in source.items("excerpts")]
            yield Citation(
                kind=source.text("kind") or "web",
                title=source.text("title") or source.text("document_id"),
                url=source.text("url"),
                cited_text="\n".join(excerpts) or None,
                start=start,
                end=end,
                data=next(originals, None),
            )
            source.ignore("document_id")


def _speech(part: Fields) -> list[ContentBlock]:
    transcript, audio = part.text("transcript"), part.take("audio")
    if not audio:
        return text_blocks(transcript)
    if not isinstance(audio, dict):
        raise part.fault("audio", f"must be an object, not {kind_of(audio)}")
    binary = Fields(audio, f"{part.path}.audio", LIBRARY)  # its other fields are the library's own
    media_type = binary.required_text("media_type")
    return [media_block("base64", _bytes(binary), media_type, kind="audio", transcript=transcript)]


def tool_result_blocks(content: Any, path: str) -> list[ContentBlock]:
    """Return a tool result: any JSON, with media in it. A list without media is one text, as a model would get it."""
    if isinstance(content, list) and any(map(_is_media, content)):
        return [block for index, item in enumerate(content) for block in _content(item, f"{path}[{index}]")]
    return _content(content, path) if _is_media(content) else text_blocks(content)


def _is_media(item: Any) -> bool:
    return isinstance(item, dict) and item.get("kind") in _MEDIA


def _content(native: Any, path: str) -> list[ContentBlock]:
    """Return one item of a prompt or of a result."""
    if not isinstance(native, dict) or not isinstance(native.get("kind"), str):
        return text_blocks(native)
    item = Fields(native, path, LIBRARY)
    item.ignore("identifier", "force_download")  # an identifier is made from the data
    detail = _detail(item, "vendor_metadata", "detail")
    kind = item.required_text("kind")
    blocks: list[ContentBlock]
    match kind:
        case "cache-point":
            item.ignore("ttl")
            blocks = []
        case "binary":
            blocks = [media_block("base64", _bytes(item), item.required_text("media_type"), detail=detail)]
        case "image-url" | "audio-url" | "video-url" | "document-url":
            url, media_type = item.required_text("url"), item.text("media_type")
            blocks = [media_from_url(url, media_type, kind=kind.removesuffix("-url"), detail=detail)]
        case "uploaded-file":
            owner = model_fields_of(LIBRARY, item.required_text("provider_name"), None)["provider"]
            file_id = item.required_text("file_id")
            blocks = [media_block("file_id", file_id, item.text("media_type"), owner=owner, detail=detail)]
        case "text-content" | "structured-content":  # a text with data for the application, or made from such data
            blocks = text_blocks(item.required_text("content"))
        case _:
            return [provider_block(LIBRARY, kind, native)]
    if kind in _MEDIA:
        item.ignore("vendor_metadata")
    item.close()
    return blocks


def _bytes(binary: Fields) -> str:
    """Return content that is base64 in the URL-safe alphabet as plain base64."""
    return binary.required_text("data").replace("-", "+").replace("_", "/")


def _detail(fields: Fields, name: str, key: str) -> str | None:
    """Return a text in an object of a library's or a provider's own, without taking the object."""
    text = dig(fields.look(name), key)
    return text if isinstance(text, str) else None


def _usage(usage: Fields) -> Usage | None:
    counts = take_counts(usage)
    searches, cached_audio = counts.pop("searches"), counts["cached_audio_input_tokens"] or 0
    counts["audio_input_tokens"] = max((counts["audio_input_tokens"] or 0) - cached_audio, 0)
    try:
        reported = Decimal(to_text(usage.take("cost")))
    except InvalidOperation:
        reported = None
    return build_usage(
        **counts,
        reported_cost_usd=reported if reported is not None and reported.is_finite() else None,
        raw=usage.inner("details").whole(),
        server_tools={"web_search": searches} if searches else None,
    )
