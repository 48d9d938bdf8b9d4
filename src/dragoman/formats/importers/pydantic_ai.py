"""pydantic-ai's message history, as `ModelMessagesTypeAdapter.dump_json` writes it.

Instructions become a system message when they change. Calls and results of a provider's own tools, compacted histories
and parts of unknown kinds become blocks that no adapter sends. Parts that only control requests, such as
cache points and changed settings, are not part of the conversation and are skipped.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    MediaSource,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.usage import Usage
from dragoman.formats.document import iter_entries, validating
from dragoman.formats.importers import pydantic_ai_models as theirs
from dragoman.formats.importers.blocks import (
    ImportedModel,
    build_messages,
    build_usage,
    media_block,
    media_from_url,
    model_fields_of,
    provider_block,
    result_call_id,
    text_blocks,
    to_text,
    tool_call,
)
from dragoman.formats.tool_calls import ToolIdReader

LIBRARY = "pydantic-ai"

_FAILED = ("failed", "retried")
_STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "tool_call": StopReason.TOOL_USE,
    "error": StopReason.ERROR,
}
_STATES = {"interrupted": MessageStatus.PARTIAL, "incomplete": MessageStatus.PARTIAL}


def from_pydantic_ai(document: Any) -> list[Message]:
    """Read a history from JSON or from Python lists and dicts. Raises FormatError, with a path."""
    ids = ToolIdReader()
    read: list[Message] = []
    instructions: str | None = None
    for path, native in iter_entries(document, format_name=LIBRARY):
        with validating(native, path):
            message = theirs.MESSAGE.validate_python(native)
        parts = list(_parts(message.parts, f"{path}.parts"))
        if isinstance(message, theirs.ModelResponse):
            ids.start_turn(Role.ASSISTANT, has_results=False)
            with validating(native, path):
                read += _response(message, parts, ids)
            continue
        with validating(native, path):
            changed = message.instructions if message.instructions != instructions else None
            instructions = message.instructions or instructions
            read += _request(message, parts, changed, ids)
    return read


def _parts(natives: list[dict[str, Any]], path: str) -> Iterator[tuple[ImportedModel | None, dict[str, Any]]]:
    for index, native in enumerate(natives):
        kind = native.get("part_kind")
        known = theirs.KNOWN.get(kind) if isinstance(kind, str) else None
        with validating(native, f"{path}[{index}]"):
            yield known.model_validate(native) if known else None, native


def _request(
    request: theirs.ModelRequest,
    parts: list[tuple[ImportedModel | None, dict[str, Any]]],
    instructions: str | None,
    ids: ToolIdReader,
) -> list[Message]:
    """Return a request as messages. Adjacent user parts become one message; instructions follow the system prompts."""
    shared: dict[str, Any] = {"session_id": request.conversation_id}
    groups: list[tuple[Role, list[ContentBlock], Any]] = []
    system_count = 0
    for part, native in parts:
        if native.get("part_kind") in theirs.SETTINGS:
            continue
        role, blocks = _request_part(part, native, ids)
        if role is Role.SYSTEM and len(groups) == system_count:
            system_count += 1
        time = getattr(part, "timestamp", None) or request.timestamp
        if role is Role.USER and groups and groups[-1][0] is Role.USER:
            groups[-1][1].extend(blocks)
        else:
            groups.append((role, blocks, time))
    if instructions:
        groups.insert(system_count, (Role.SYSTEM, text_blocks(instructions), request.timestamp))
    read: list[Message] = []
    for role, blocks, time in groups:
        if role is Role.USER:
            ids.start_turn(role, has_results=False)
        read += build_messages(role, blocks, created_at=time, **shared)
    return read


def _request_part(
    part: ImportedModel | None, native: Mapping[str, Any], ids: ToolIdReader
) -> tuple[Role, list[ContentBlock]]:
    """Return the blocks of a request part, and their role."""
    match part:
        case theirs.SystemPrompt():
            return Role.SYSTEM, text_blocks(part.content)
        case theirs.InstructionDelta():
            return Role.SYSTEM, text_blocks(part.content)
        case theirs.UserPrompt():
            content = [part.content] if isinstance(part.content, str) else part.content
            return Role.USER, [block for item in content for block in _content(item)]
        case theirs.ToolReturn():
            answer = _tool_result(part.content)
            failed = part.outcome in _FAILED
            call_id = result_call_id(ids, part.tool_call_id, part.tool_name)
            return Role.TOOL, [ToolResultBlock(tool_use_id=call_id, content=tuple(answer), is_error=failed)]
        case theirs.RetryPrompt(tool_name=str()):
            call_id = result_call_id(ids, part.tool_call_id, part.tool_name)
            return Role.TOOL, [
                ToolResultBlock(tool_use_id=call_id, content=tuple(text_blocks(part.content)), is_error=True)
            ]
        case theirs.RetryPrompt() | theirs.RetryFeedback():
            return Role.USER, text_blocks(part.content)
        case theirs.Speech():
            return Role.USER, _speech(part)
        case theirs.Compaction(provider_name=None):
            return Role.USER, text_blocks(part.content)
        case _:
            return Role.USER, [provider_block(LIBRARY, to_text(native.get("part_kind")), native)]


def _response(
    response: theirs.ModelResponse, parts: list[tuple[ImportedModel | None, dict[str, Any]]], ids: ToolIdReader
) -> list[Message]:
    blocks = [block for part, native in parts for block in _response_part(part, native, ids)]
    stop_reason = _STOP_REASONS.get(response.finish_reason or "")
    if stop_reason is StopReason.END_TURN and any(block.type == "tool_use" for block in blocks):
        stop_reason = StopReason.TOOL_USE
    if response.state == "suspended":
        stop_reason = StopReason.PAUSE
    return build_messages(
        Role.ASSISTANT,
        blocks,
        created_at=response.timestamp,
        session_id=response.conversation_id,
        metadata={
            **model_fields_of(LIBRARY, response.provider_name, response.model_name),
            "usage": _usage(response.usage),
            "stop_reason": stop_reason,
            "status": _STATES.get(response.state),
        },
    )


def _response_part(part: ImportedModel | None, native: Mapping[str, Any], ids: ToolIdReader) -> list[ContentBlock]:
    """Return the blocks of a response part."""
    match part:
        case theirs.Text():
            return [TextBlock(text=part.content, citations=tuple(_citations(part)))] if part.content else []
        case theirs.Thinking(id="redacted_thinking", signature=str() as sealed):  # the id marks it as encrypted
            return [RedactedThinkingBlock(data=sealed)]
        case theirs.Thinking():
            return [ThinkingBlock(text=part.content, signature=part.signature or None)]
        case theirs.ToolCall():
            return [tool_call(ids, part.tool_call_id, part.tool_name, part.args)]
        case theirs.File():
            return _content(part.content)
        case theirs.Speech():
            return _speech(part)
        case _:
            return [provider_block(LIBRARY, to_text(native.get("part_kind")), native)]


def _citations(part: theirs.Text) -> Iterator[Citation]:
    for cited in part.citations or ():
        for source in cited.sources:
            yield Citation(
                kind=source.kind,
                title=source.title or source.document_id,
                url=source.url,
                cited_text="\n".join(source.excerpts) or None,
                start=cited.anchor.start if cited.anchor else None,
                end=cited.anchor.end if cited.anchor else None,
            )


def _speech(part: theirs.Speech) -> list[ContentBlock]:
    audio = theirs.Binary.model_validate(part.audio) if part.audio else None
    if audio is None:
        return text_blocks(part.transcript)
    return [media_block(_bytes(audio), audio.media_type, kind="audio", transcript=part.transcript)]


def _tool_result(content: Any) -> list[ContentBlock]:
    """Return a tool result: any JSON, with media in it. A list without media is one text, as a model would get it."""
    if isinstance(content, list) and any(map(_is_media, content)):
        return [block for item in content for block in _content(item)]
    return _content(content) if _is_media(content) else text_blocks(content)


def _is_media(item: Any) -> bool:
    kind = item.get("kind") if isinstance(item, dict) else None
    return isinstance(kind, str) and kind in theirs.CONTENT


def _content(item: Any) -> list[ContentBlock]:
    """Return one item of a prompt or of a result."""
    kind = item.get("kind") if isinstance(item, dict) else None
    if isinstance(item, str) or not isinstance(kind, str):
        return text_blocks(item)
    if kind == "cache-point":
        return []
    known = theirs.CONTENT.get(kind)
    match known.model_validate(item) if known else None:
        case theirs.Binary() as binary:
            return [media_block(_bytes(binary), binary.media_type, detail=_detail(binary.vendor_metadata))]
        case theirs.FileUrl() as file:
            kind = kind.removesuffix("-url")
            return [media_from_url(file.url, file.media_type, kind=kind, detail=_detail(file.vendor_metadata))]
        case theirs.UploadedFile() as file:
            owner = model_fields_of(LIBRARY, file.provider_name, None)["provider"]
            source = MediaSource(kind="file_id", data=file.file_id, provider=owner)
            return [media_block(source, file.media_type, detail=_detail(file.vendor_metadata))]
        case theirs.TaggedText() as tagged:
            return text_blocks(tagged.content)
        case _:
            return [provider_block(LIBRARY, kind, item)]


def _bytes(binary: theirs.Binary) -> MediaSource:
    return MediaSource(kind="base64", data=binary.data.replace("-", "+").replace("_", "/"))


def _detail(metadata: Mapping[str, Any] | None) -> str | None:
    detail = (metadata or {}).get("detail")
    return detail if isinstance(detail, str) else None


def _usage(usage: theirs.RequestUsage) -> Usage | None:
    return build_usage(
        usage.input_tokens,
        usage.output_tokens,
        cached=usage.cache_read_tokens,
        written=usage.cache_write_tokens,
        reasoning_tokens=usage.output_reasoning_tokens,
        cache_creation_1h_input_tokens=usage.cache_write_1h_tokens,
        audio_input_tokens=max(usage.input_audio_tokens - usage.cache_audio_read_tokens, 0),
        audio_output_tokens=usage.output_audio_tokens,
        cached_audio_input_tokens=usage.cache_audio_read_tokens,
    )
