"""pydantic-ai's message history, as `ModelMessagesTypeAdapter.dump_json` writes it.

Instructions become a system message when they change. Calls and results of a provider's own tools, compacted histories
and parts of unknown kinds become blocks that no adapter sends. Parts that only control requests, such as
cache points and changed settings, are not part of the conversation and are skipped.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from dragoman.adapter.losses import LossKind, Severity
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
    read_citation,
    read_model,
    result_call_id,
    signature_notes,
    text_blocks,
    to_text,
    tool_call,
)
from dragoman.formats.reading.losses import is_empty, source_losses
from dragoman.formats.reading.pairs import pair_groups
from dragoman.formats.reading.turns import STOP_WORDS, put_results_first, stop_after
from dragoman.formats.tool_calls import ToolIdReader

LIBRARY = "pydantic-ai"

_FAILED = ("failed", "retried", "interrupted")
_STOP_REASONS = {**STOP_WORDS, "tool_call": StopReason.TOOL_USE, "error": StopReason.ERROR}
_STATES = {"interrupted": MessageStatus.PARTIAL, "incomplete": MessageStatus.PARTIAL}


def from_pydantic_ai(document: Any) -> list[Message]:
    """Read a history from JSON or from Python lists and dicts. Raises FormatError, with a path."""
    ids = ToolIdReader()
    read: list[list[Message]] = []
    paths: list[str] = []
    instructions: str | None = None
    for path, native in iter_entries(document, format_name=LIBRARY):
        with validating(native, path):
            message = theirs.MESSAGE.validate_python(native)
        source_losses().add_extra(message, path, LIBRARY)
        paths.append(path)
        parts: list[tuple[ImportedModel | None, dict[str, Any]]] = []
        for index, part in enumerate(message.parts):
            kind = part.get("part_kind")
            known = theirs.KNOWN.get(kind) if isinstance(kind, str) else None
            parts.append((read_model(known, part, f"{path}.parts[{index}]", LIBRARY) if known else None, part))
        if isinstance(message, theirs.ModelResponse):
            ids.start_turn(Role.ASSISTANT, has_results=False)
            with validating(native, path):
                read.append(_response(message, parts, ids, path))
            continue
        with validating(native, path):
            changed = message.instructions if message.instructions != instructions else None
            instructions = message.instructions or instructions
            read.append(_request(message, parts, changed, ids, path))
    return put_results_first([message for group in pair_groups(read, paths) for message in group])


def _request(
    request: theirs.ModelRequest,
    parts: list[tuple[ImportedModel | None, dict[str, Any]]],
    instructions: str | None,
    ids: ToolIdReader,
    path: str,
) -> list[Message]:
    """Return a request as messages. Adjacent user parts become one message. Instructions follow the system prompts, and
    the results of tools: what stands between a call and its result would part them.
    """
    shared: dict[str, Any] = {"session_id": request.conversation_id}
    groups: list[tuple[Role, list[ContentBlock], Any]] = []
    system_count = 0
    for index, (part, native) in enumerate(parts):
        kind = native.get("part_kind")
        if isinstance(kind, str) and kind in theirs.SETTINGS:
            continue
        role, blocks = _request_part(part, native, ids, f"{path}.parts[{index}].content")
        if role is Role.SYSTEM and len(groups) == system_count:
            system_count += 1
        time = getattr(part, "timestamp", None) or request.timestamp
        if role is Role.USER and groups and groups[-1][0] is Role.USER:
            groups[-1][1].extend(blocks)
        else:
            groups.append((role, blocks, time))
    if instructions:
        results = max((index for index, group in enumerate(groups, 1) if group[0] is Role.TOOL), default=0)
        place = max(system_count, results)
        groups.insert(place, (Role.SYSTEM, text_blocks(instructions), request.timestamp))
    read: list[Message] = []
    for role, blocks, time in groups:
        if role is Role.USER:
            ids.start_turn(role, has_results=False)
        read += build_messages(role, blocks, created_at=time, **shared)
    return read


def _request_part(
    part: ImportedModel | None, native: Mapping[str, Any], ids: ToolIdReader, path: str
) -> tuple[Role, list[ContentBlock]]:
    """Return the blocks of a request part with its content at ``path``, and their role."""
    match part:
        case theirs.SystemPrompt():
            return Role.SYSTEM, text_blocks(part.content)
        case theirs.InstructionDelta():
            return Role.SYSTEM, text_blocks(part.content)
        case theirs.UserPrompt():
            if isinstance(part.content, str):
                return Role.USER, text_blocks(part.content)
            items = enumerate(part.content)
            return Role.USER, [block for index, item in items for block in _content(item, f"{path}[{index}]")]
        case theirs.ToolReturn():
            answer = tool_result_blocks(part.content, path)
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
    response: theirs.ModelResponse,
    parts: list[tuple[ImportedModel | None, dict[str, Any]]],
    ids: ToolIdReader,
    path: str,
) -> list[Message]:
    blocks: list[ContentBlock] = []
    signatures: dict[int, str] = {}
    for index, (part, native) in enumerate(parts):
        found = _response_part(part, native, ids, f"{path}.parts[{index}]")
        signature = _details(part, f"{path}.parts[{index}]")
        if signature is not None and found and not isinstance(found[0], ThinkingBlock):
            signatures[len(blocks)] = signature
        blocks += found
    details = dict(response.provider_details or {})
    refusal = details.pop("refusal", None)
    stop_reason = _STOP_REASONS.get(response.finish_reason or "")
    if isinstance(refusal, str) and refusal:
        blocks += text_blocks(refusal) if not any(isinstance(block, TextBlock) for block in blocks) else []
        stop_reason = StopReason.REFUSAL
    _report(details, f"{path}.provider_details", _KNOWN_DETAILS)
    stop_reason = stop_after(blocks, stop_reason)
    if response.state == "suspended":
        stop_reason = StopReason.PAUSE
    named = model_fields_of(LIBRARY, response.provider_name, response.model_name)
    if not blocks:
        reason = "the response has no content: left out"
        source_losses().add(path, reason, kind=LossKind.EMPTY_MESSAGE, severity=Severity.INFO)
    return build_messages(
        Role.ASSISTANT,
        blocks,
        created_at=response.timestamp,
        session_id=response.conversation_id,
        metadata={
            **named,
            "usage": _usage(response.usage),
            "stop_reason": stop_reason,
            "status": _STATES.get(response.state),
            "provider_raw": signature_notes(named["provider"], signatures),
        },
    )


def _details(part: ImportedModel | None, path: str) -> str | None:
    """Return the signature in the provider's details of a part; report the details that have no place."""
    details = dict(getattr(part, "provider_details", None) or {})
    signature = details.pop("thought_signature", None)
    if getattr(part, "citations", None) is None and isinstance(part, theirs.Text):
        details.pop("citations", None)
    _report(details, f"{path}.provider_details", _KNOWN_DETAILS | {"citations"})
    return signature if isinstance(signature, str) and signature else None


_KNOWN_DETAILS = frozenset({"finish_reason", "timestamp", "service_tier", "phase", "caller", "container_id"})
"""Details whose content is in a field of the response, or is of no use outside the provider's own storage."""


def _report(details: Mapping[str, Any], path: str, known: frozenset[str]) -> None:
    for name, value in details.items():
        if name not in known and not is_empty(value):
            source_losses().add_field(path, name, LIBRARY)


def _response_part(
    part: ImportedModel | None, native: Mapping[str, Any], ids: ToolIdReader, path: str
) -> list[ContentBlock]:
    """Return the blocks of a response part."""
    match part:
        case theirs.Text():
            return [TextBlock(text=part.content, citations=tuple(_citations(part)))] if part.content else []
        case theirs.Thinking(id="redacted_thinking", signature=str() as sealed):  # the id marks it as encrypted
            return [RedactedThinkingBlock(data=sealed)]
        case theirs.Thinking():
            signed = (part.provider_details or {}).get("thought_signature")
            signature = part.signature or (signed if isinstance(signed, str) else None)
            return [ThinkingBlock(text=part.content, signature=signature or None)]
        case theirs.ToolCall():
            return [tool_call(ids, part.tool_call_id, part.tool_name, part.args)]
        case theirs.File():
            return _content(part.content, f"{path}.content")
        case theirs.Speech():
            return _speech(part)
        case _:
            return [provider_block(LIBRARY, to_text(native.get("part_kind")), native)]


def _citations(part: theirs.Text) -> Iterator[Citation]:
    listed = (part.provider_details or {}).get("citations")
    natives = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    if not part.citations:
        yield from map(read_citation, natives)
    originals = iter(natives)
    for cited in part.citations or ():
        for source in cited.sources:
            yield Citation(
                kind=source.kind,
                title=source.title or source.document_id,
                url=source.url,
                cited_text="\n".join(source.excerpts) or None,
                start=cited.anchor.start if cited.anchor else None,
                end=cited.anchor.end if cited.anchor else None,
                data=next(originals, None),
            )


def _speech(part: theirs.Speech) -> list[ContentBlock]:
    audio = theirs.Binary.model_validate(part.audio) if part.audio else None
    if audio is None:
        return text_blocks(part.transcript)
    return [media_block(_bytes(audio), audio.media_type, kind="audio", transcript=part.transcript)]


def tool_result_blocks(content: Any, path: str) -> list[ContentBlock]:
    """Return a tool result: any JSON, with media in it. A list without media is one text, as a model would get it."""
    if isinstance(content, list) and any(map(_is_media, content)):
        return [block for index, item in enumerate(content) for block in _content(item, f"{path}[{index}]")]
    return _content(content, path) if _is_media(content) else text_blocks(content)


def _is_media(item: Any) -> bool:
    kind = item.get("kind") if isinstance(item, dict) else None
    return isinstance(kind, str) and kind in theirs.CONTENT


def _content(item: Any, path: str) -> list[ContentBlock]:
    """Return one item of a prompt or of a result."""
    kind = item.get("kind") if isinstance(item, dict) else None
    if isinstance(item, str) or not isinstance(kind, str):
        return text_blocks(item)
    if kind == "cache-point":
        for name in sorted(item.keys() - {"kind", "ttl"}):
            source_losses().add_field(path, name, LIBRARY)
        return []
    known = theirs.CONTENT.get(kind)
    match read_model(known, item, path, LIBRARY) if known else None:
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
        reported_cost_usd=_cost(usage.cost),
        raw=usage.details,
        server_tools={"web_search": usage.web_searches} if usage.web_searches else None,
        audio_input_tokens=max(usage.input_audio_tokens - usage.cache_audio_read_tokens, 0),
        audio_output_tokens=usage.output_audio_tokens,
        cached_audio_input_tokens=usage.cache_audio_read_tokens,
    )


def _cost(cost: str | float | None) -> Decimal | None:
    try:
        found = Decimal(str(cost)) if cost is not None else None
    except InvalidOperation:
        return None
    return found if found is not None and found.is_finite() else None
