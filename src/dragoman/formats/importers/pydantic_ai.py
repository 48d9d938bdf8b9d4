"""pydantic-ai's message history, as `ModelMessagesTypeAdapter.dump_json` writes it.

Instructions become a system message when they change. Calls and results of a provider's own tools, compacted histories
and parts of unknown kinds become blocks that no adapter sends. Parts that only control requests, such as
cache points and changed settings, are not part of the conversation and are skipped.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, Discriminator, Field, TypeAdapter

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
from dragoman.canonical.guard import Count
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.usage import Usage
from dragoman.formats.document import iter_entries, validating
from dragoman.formats.reading.blocks import (
    ImportedModel,
    UtcTime,
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
from dragoman.formats.reading.fields import is_empty, source_losses
from dragoman.formats.reading.tool_calls import ToolIdReader, pair_groups
from dragoman.formats.reading.turns import STOP_WORDS, put_results_first, stop_after


class Retry(ImportedModel):
    """How often a call was tried; the outcome says that it failed."""

    ignored: ClassVar[frozenset[str]] = frozenset({"cause", "attempt", "max_retries"})


class Part(ImportedModel):
    """A part of a message. Ids of the provider's own storage and the library's bookkeeping are ignored."""

    ignored: ClassVar[frozenset[str]] = frozenset(
        {"id", "provider_name", "tool_kind", "dynamic_ref", "timestamp", "outcome", "tool_name", "scope", "context_id"}
    )
    provider_details: dict[str, Any] | None = None
    retry: Retry | None = None


class SystemPrompt(Part):
    part_kind: Literal["system-prompt"]
    content: str
    timestamp: UtcTime | None = None


class UserPrompt(Part):
    part_kind: Literal["user-prompt"]
    content: str | list[Any]
    timestamp: UtcTime | None = None


class ToolReturn(Part):
    part_kind: Literal["tool-return"]
    tool_name: str
    content: Any = None
    tool_call_id: str | None = None
    timestamp: UtcTime | None = None
    outcome: str = "success"


class RetryPrompt(Part):
    """A part of older versions: a tool result if it names a tool, otherwise a text for the model."""

    part_kind: Literal["retry-prompt"]
    content: Any = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    timestamp: UtcTime | None = None


class RetryFeedback(Part):
    part_kind: Literal["retry-feedback"]
    content: Any = None
    timestamp: UtcTime | None = None


class InstructionDelta(Part):
    """New instructions that replace earlier ones, or remove them."""

    part_kind: Literal["instruction-delta"]
    content: str | None = None


class Speech(Part):
    part_kind: Literal["speech"]
    transcript: str | None = None
    audio: dict[str, Any] | None = None


class Compaction(Part):
    part_kind: Literal["compaction"]
    content: str | None = None
    provider_name: str | None = None


class CitationSource(ImportedModel):
    kind: str = "web"
    url: str | None = None
    title: str | None = None
    document_id: str | None = None
    excerpts: list[str] = Field(default_factory=list)


class CitationAnchor(ImportedModel):
    start: int
    end: int


class CitedSources(ImportedModel):
    sources: list[CitationSource] = Field(default_factory=list)
    anchor: CitationAnchor | None = None


class Text(Part):
    part_kind: Literal["text"]
    content: str
    citations: list[CitedSources] | None = None


class Thinking(Part):
    part_kind: Literal["thinking"]
    content: str
    id: str | None = None
    signature: str | None = None


class ToolCall(Part):
    part_kind: Literal["tool-call"]
    tool_name: str
    args: str | dict[str, Any] | None = None
    tool_call_id: str | None = None


class File(Part):
    part_kind: Literal["file"]
    content: dict[str, Any]


KNOWN: dict[str, type[ImportedModel]] = {
    "system-prompt": SystemPrompt,
    "user-prompt": UserPrompt,
    "tool-return": ToolReturn,
    "retry-prompt": RetryPrompt,
    "retry-feedback": RetryFeedback,
    "instruction-delta": InstructionDelta,
    "speech": Speech,
    "compaction": Compaction,
    "text": Text,
    "thinking": Thinking,
    "tool-call": ToolCall,
    "file": File,
}
"""The parts that are read, by kind; all others are kept verbatim."""

SETTINGS = frozenset(
    {"instruction-baseline", "tool-availability-delta", "capability-load-delta", "model-settings-delta"}
)
"""Parts with request settings: they are not part of the conversation, and no model gets them."""


class RequestUsage(ImportedModel):
    ignored: ClassVar[frozenset[str]] = frozenset({"audio_seconds", "requests", "total_tokens"})
    input_tokens: Count = Field(default=0, validation_alias=AliasChoices("input_tokens", "request_tokens"))
    output_tokens: Count = Field(default=0, validation_alias=AliasChoices("output_tokens", "response_tokens"))
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    cache_write_1h_tokens: Count = 0
    output_reasoning_tokens: Count = 0
    input_audio_tokens: Count = 0
    cache_audio_read_tokens: Count = 0
    output_audio_tokens: Count = 0
    cost: str | float | None = None
    web_searches: Count | None = None
    details: dict[str, Any] | None = None


_RUN = frozenset(
    {
        "run_id", "model_id", "provider_url", "canonical_system", "provider_response_id", "vendor_id", "workspace_ref",
        "history_digest", "failed_attempts", "state",
    }
)  # fmt: skip
"""Where and in which run of the program a message was made."""


class ModelRequest(ImportedModel):
    ignored: ClassVar[frozenset[str]] = _RUN
    kind: Literal["request"]
    parts: list[dict[str, Any]]
    timestamp: UtcTime | None = None
    instructions: str | None = None
    conversation_id: str | None = None


class ModelResponse(ImportedModel):
    ignored: ClassVar[frozenset[str]] = _RUN
    kind: Literal["response"]
    parts: list[dict[str, Any]]
    usage: RequestUsage = Field(default_factory=RequestUsage)
    model_name: str | None = None
    timestamp: UtcTime | None = None
    provider_name: str | None = None
    finish_reason: str | None = None
    conversation_id: str | None = None
    state: str = "complete"
    provider_details: dict[str, Any] | None = None


MESSAGE: TypeAdapter[ModelRequest | ModelResponse] = TypeAdapter(
    Annotated[ModelRequest | ModelResponse, Discriminator("kind")]
)


class Content(ImportedModel):
    """An item of a prompt or a result. Its identifier is made from its data."""

    ignored: ClassVar[frozenset[str]] = frozenset({"identifier", "force_download"})


class Binary(Content):
    """``data`` is base64 in the URL-safe alphabet."""

    kind: Literal["binary"]
    data: str
    media_type: str
    vendor_metadata: dict[str, Any] | None = None


class FileUrl(Content):
    kind: Literal["image-url", "audio-url", "video-url", "document-url"]
    url: str
    media_type: str | None = None
    vendor_metadata: dict[str, Any] | None = None


class UploadedFile(Content):
    kind: Literal["uploaded-file"]
    file_id: str
    provider_name: str
    media_type: str | None = None
    vendor_metadata: dict[str, Any] | None = None


class TaggedText(Content):
    """A text with data for the application, or the text that such data was rendered as."""

    kind: Literal["text-content", "structured-content"]
    content: str


CONTENT: dict[str, type[ImportedModel]] = {
    "binary": Binary,
    "image-url": FileUrl,
    "audio-url": FileUrl,
    "video-url": FileUrl,
    "document-url": FileUrl,
    "uploaded-file": UploadedFile,
    "text-content": TaggedText,
    "structured-content": TaggedText,
}
"""The items of a user prompt and a tool result that are not texts, by kind."""


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
            message = MESSAGE.validate_python(native)
        source_losses().add_extra(message, path, LIBRARY)
        paths.append(path)
        parts: list[tuple[ImportedModel | None, dict[str, Any]]] = []
        for index, part in enumerate(message.parts):
            kind = part.get("part_kind")
            known = KNOWN.get(kind) if isinstance(kind, str) else None
            parts.append((read_model(known, part, f"{path}.parts[{index}]", LIBRARY) if known else None, part))
        if isinstance(message, ModelResponse):
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
    request: ModelRequest,
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
        if isinstance(kind, str) and kind in SETTINGS:
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
        case SystemPrompt():
            return Role.SYSTEM, text_blocks(part.content)
        case InstructionDelta():
            return Role.SYSTEM, text_blocks(part.content)
        case UserPrompt():
            if isinstance(part.content, str):
                return Role.USER, text_blocks(part.content)
            items = enumerate(part.content)
            return Role.USER, [block for index, item in items for block in _content(item, f"{path}[{index}]")]
        case ToolReturn():
            answer = tool_result_blocks(part.content, path)
            failed = part.outcome in _FAILED
            call_id = result_call_id(ids, part.tool_call_id, part.tool_name)
            return Role.TOOL, [ToolResultBlock(tool_use_id=call_id, content=tuple(answer), is_error=failed)]
        case RetryPrompt(tool_name=str()):
            call_id = result_call_id(ids, part.tool_call_id, part.tool_name)
            return Role.TOOL, [
                ToolResultBlock(tool_use_id=call_id, content=tuple(text_blocks(part.content)), is_error=True)
            ]
        case RetryPrompt() | RetryFeedback():
            return Role.USER, text_blocks(part.content)
        case Speech():
            return Role.USER, _speech(part)
        case Compaction(provider_name=None):
            return Role.USER, text_blocks(part.content)
        case _:
            return Role.USER, [provider_block(LIBRARY, to_text(native.get("part_kind")), native)]


def _response(
    response: ModelResponse,
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
    if getattr(part, "citations", None) is None and isinstance(part, Text):
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
        case Text():
            return [TextBlock(text=part.content, citations=tuple(_citations(part)))] if part.content else []
        case Thinking(id="redacted_thinking", signature=str() as sealed):  # the id marks it as encrypted
            return [RedactedThinkingBlock(data=sealed)]
        case Thinking():
            signed = (part.provider_details or {}).get("thought_signature")
            signature = part.signature or (signed if isinstance(signed, str) else None)
            return [ThinkingBlock(text=part.content, signature=signature or None)]
        case ToolCall():
            return [tool_call(ids, part.tool_call_id, part.tool_name, part.args)]
        case File():
            return _content(part.content, f"{path}.content")
        case Speech():
            return _speech(part)
        case _:
            return [provider_block(LIBRARY, to_text(native.get("part_kind")), native)]


def _citations(part: Text) -> Iterator[Citation]:
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


def _speech(part: Speech) -> list[ContentBlock]:
    audio = Binary.model_validate(part.audio) if part.audio else None
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
    return isinstance(kind, str) and kind in CONTENT


def _content(item: Any, path: str) -> list[ContentBlock]:
    """Return one item of a prompt or of a result."""
    kind = item.get("kind") if isinstance(item, dict) else None
    if isinstance(item, str) or not isinstance(kind, str):
        return text_blocks(item)
    if kind == "cache-point":
        for name in sorted(item.keys() - {"kind", "ttl"}):
            source_losses().add_field(path, name, LIBRARY)
        return []
    known = CONTENT.get(kind)
    match read_model(known, item, path, LIBRARY) if known else None:
        case Binary() as binary:
            return [media_block(_bytes(binary), binary.media_type, detail=_detail(binary.vendor_metadata))]
        case FileUrl() as file:
            kind = kind.removesuffix("-url")
            return [media_from_url(file.url, file.media_type, kind=kind, detail=_detail(file.vendor_metadata))]
        case UploadedFile() as file:
            owner = model_fields_of(LIBRARY, file.provider_name, None)["provider"]
            source = MediaSource(kind="file_id", data=file.file_id, provider=owner)
            return [media_block(source, file.media_type, detail=_detail(file.vendor_metadata))]
        case TaggedText() as tagged:
            return text_blocks(tagged.content)
        case _:
            return [provider_block(LIBRARY, kind, item)]


def _bytes(binary: Binary) -> MediaSource:
    return MediaSource(kind="base64", data=binary.data.replace("-", "+").replace("_", "/"))


def _detail(metadata: Mapping[str, Any] | None) -> str | None:
    detail = (metadata or {}).get("detail")
    return detail if isinstance(detail, str) else None


def _usage(usage: RequestUsage) -> Usage | None:
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
