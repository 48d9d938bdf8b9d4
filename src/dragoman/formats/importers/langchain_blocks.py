"""The blocks of LangChain messages: its own, of both generations, and those of the providers.

A provider's block without a canonical kind is sent back to that provider; one of LangChain's is only kept.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import (
    ContentBlock,
    MediaSource,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from dragoman.canonical.guard import Count
from dragoman.formats.document import kind_of, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.blocks import (
    Fields,
    Imported,
    ImportedModel,
    media_block,
    media_from_url,
    provider_block,
    read_citation,
    read_model,
    result_call_id,
    text_blocks,
    to_text,
    tool_call,
)
from dragoman.formats.reading.fields import is_empty, source_losses
from dragoman.formats.reading.tool_calls import ToolIdReader

CLASSES = {
    "SystemMessage": "system",
    "HumanMessage": "human",
    "AIMessage": "ai",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
    "ChatMessage": "chat",
    "RemoveMessage": "remove",
}
"""The type of a message by its class. The class names of chunks end with ``Chunk``."""

_CHUNK = "Chunk"
_ESCAPED = "__lc_escaped__"


class Extras(ImportedModel):
    """What a provider's package stores with a block: ids of the provider's own storage, and signatures."""

    ignored: ClassVar[frozenset[str]] = frozenset({"item_id", "status", "caller", "phase", "index", "id"})

    signature: str | None = None
    encrypted_content: str | None = None
    filename: str | None = None


class TokenDetails(ImportedModel):
    ignored: ClassVar[frozenset[str]] = frozenset(
        {"text", "flex", "flex_cache_read", "priority", "priority_cache_read"}
    )

    cache_read: int | float | None = None
    cache_creation: int | float | None = None
    ephemeral_5m_input_tokens: int | float | None = None
    ephemeral_1h_input_tokens: int | float | None = None
    audio: int | float | None = None
    reasoning: int | float | None = None


class Call(ImportedModel):
    ignored: ClassVar[frozenset[str]] = frozenset({"type", "index"})

    name: str
    args: dict[str, Any] | str | None = None
    id: str | None = None
    extras: Extras | None = None


class InvalidCall(ImportedModel):
    ignored: ClassVar[frozenset[str]] = frozenset({"type", "index", "error"})

    name: str | None = None
    args: str | None = None
    id: str | None = None
    extras: Extras | None = None


class UsageFields(ImportedModel):
    ignored: ClassVar[frozenset[str]] = frozenset({"total_tokens"})

    input_tokens: Count = 0
    output_tokens: Count = 0
    input_token_details: TokenDetails = Field(default_factory=TokenDetails)
    output_token_details: TokenDetails = Field(default_factory=TokenDetails)


class LangChainMessage(ImportedModel):
    ignored: ClassVar[frozenset[str]] = frozenset({"type", "example", "chunk_position", "tool_call_chunks"})

    type: str
    content: str | list[str | dict[str, Any]]
    additional_kwargs: dict[str, Any] = Field(default_factory=dict)
    response_metadata: dict[str, Any] = Field(default_factory=dict)
    id: str | None = None
    name: str | None = None
    role: str | None = None
    tool_calls: list[Call] = Field(default_factory=list)
    invalid_tool_calls: list[InvalidCall] = Field(default_factory=list)
    usage_metadata: UsageFields | None = None
    tool_call_id: str | None = None
    status: str = "success"


def fields_of(native: Fields, path: str) -> tuple[Fields, str]:
    """Return the fields of a message in any of its forms, with a ``type`` of the table, and the path to them.

    Raises FormatError if it is not a message.
    """
    if "lc" in native:
        return _read_constructed(native, path)
    kind = native.get("type")
    role = native.get("role")
    if "type" not in native and isinstance(role, str) and role in _CHAT_TYPES:
        return _read_chat(native), path
    if not isinstance(kind, str):
        raise FormatError("a message of LangChain must have a type", path=f"{path}.type")
    inner, at = native, path
    if "data" in native and "content" not in native:
        inner, at = native["data"], f"{path}.data"
        _report_others(native, ("type", "data"), path)
        if not isinstance(inner, dict):
            raise FormatError(f"the data of a message must be an object, not {kind_of(inner)}", path=at)
    known = CLASSES.get(kind.removesuffix(_CHUNK), kind)
    if known not in CLASSES.values():
        raise FormatError(f"LangChain has no message of the type {kind[:80]!r}", path=f"{path}.type")
    return {**inner, "type": known}, at


_CHAT_TYPES = {"system": "system", "developer": "system", "user": "human", "assistant": "ai", "tool": "tool"}


def _read_chat(native: Fields) -> Fields:
    """Return a message as `convert_to_openai_messages` writes it: its calls are OpenAI's."""
    fields = {name: value for name, value in native.items() if name not in ("role", "tool_calls", "refusal")}
    older = {name: native[name] for name in ("tool_calls", "refusal") if native.get(name)}
    content = native.get("content")
    return {
        **fields,
        "content": "" if content is None else content,
        "type": _CHAT_TYPES[native["role"]],
        "additional_kwargs": {**older, **({"__openai_role__": "developer"} if native["role"] == "developer" else {})},
    }


def constructor(native: Any) -> tuple[str, Fields] | None:
    """Return class and arguments of an object that `dumpd` wrote; None for anything else, and for what it could not
    write.
    """
    if not isinstance(native, dict) or native.get("lc") != 1 or native.get("type") != "constructor":
        return None
    name, arguments = native.get("id"), native.get("kwargs")
    if not isinstance(name, list) or not name or not isinstance(name[-1], str) or not isinstance(arguments, dict):
        return None
    return name[-1], arguments


def _read_constructed(native: Fields, path: str) -> tuple[Fields, str]:
    if native.get("type") == "not_implemented":
        raise FormatError("LangChain wrote only the repr of this object", path=path)
    constructed = constructor(native)
    if constructed is None:
        raise FormatError("an object of LangChain must have an id, which is a list of names, and kwargs", path=path)
    name, arguments = constructed
    _report_others(native, ("lc", "type", "id", "kwargs", "name", "graph"), path)
    kind = CLASSES.get(name.removesuffix(_CHUNK))
    if kind is None:
        raise FormatError(f"{name[:80]!r} is not a message of LangChain", path=f"{path}.id")
    return {**_unescape(arguments), "type": kind}, f"{path}.kwargs"


def _report_others(native: Fields, known: tuple[str, ...], path: str) -> None:
    for name, value in native.items():
        if name not in known and not is_empty(value):
            source_losses().add_field(path, name, "langchain")


def _unescape(value: Any) -> Any:
    """Remove the mark that says that a program's own data is not a LangChain object."""
    if isinstance(value, list):
        return [_unescape(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_ESCAPED} and isinstance(value[_ESCAPED], dict):
        return value[_ESCAPED]
    return {name: _unescape(item) for name, item in value.items()}


LIBRARY = "langchain"

_STANDARD = frozenset({"server_tool_call", "server_tool_call_chunk", "server_tool_result", "non_standard"})
"""LangChain's own names for actions of a provider, which no provider would accept."""

_FORMATS = {"mp3": "audio/mpeg"}


class Block(ImportedModel):
    """A block. Positions in a stream and ids of the provider's own storage are ignored."""

    ignored: ClassVar[frozenset[str]] = frozenset({"type", "index", "id", "status", "phase", "caller"})


class Text(Block):
    """``citations`` are Anthropic's, ``annotations`` those of all others."""

    text: str
    annotations: list[dict[str, Any]] | None = None
    citations: list[dict[str, Any]] | None = None
    extras: Extras | None = None


class Thinking(Block):
    """Thinking in Anthropic's form."""

    thinking: str = ""
    signature: str | None = None


class Redacted(Block):
    data: str


class Summary(ImportedModel):
    ignored: ClassVar[frozenset[str]] = frozenset({"type"})

    text: str = ""


class Reasoning(Block):
    """Reasoning in LangChain's form, with a text, or in that of OpenAI Responses, with summaries."""

    reasoning: str | None = None
    summary: list[Summary] = Field(default_factory=list)
    encrypted_content: str | None = None
    extras: Extras = Field(default_factory=Extras)


class ImageUrl(ImportedModel):
    url: str
    detail: str | None = None


class ImageAtUrl(Block):
    image_url: ImageUrl | str


class InputAudio(ImportedModel):
    data: str
    format: str


class AudioInput(Block):
    input_audio: InputAudio


class Source(ImportedModel):
    """The source of media in Anthropic's form."""

    type: str
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    media_type: str | None = None


class File(ImportedModel):
    """A file in the form of Chat Completions."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class Media(Block):
    """Media in the forms of both generations; ``source`` is Anthropic's field."""

    type: str
    base64: str | None = None
    url: str | None = None
    file_id: str | None = None
    source_type: str | None = None
    data: str | None = None
    id: str | None = None
    text: str | None = None
    mime_type: str | None = None
    title: str | None = None
    filename: str | None = None
    context: str | None = None
    source: Source | None = None
    file: File | None = None
    detail: str | None = None
    extras: Extras | None = None
    metadata: dict[str, Any] | None = None


class FunctionCall(Block):
    """A call in the form of OpenAI Responses."""

    name: str
    arguments: str = ""
    call_id: str | None = None


class ToolUse(Block):
    """A call in Anthropic's form."""

    name: str
    input: Any = None
    id: str | None = None


class ToolResult(Block):
    """A result in Anthropic's form, which some programs write into a user message."""

    tool_use_id: str
    content: Any = None
    is_error: bool | None = None


class Refusal(Block):
    refusal: str


class BlockReader:
    """Reads the blocks of one message, which is at ``path``. ``calls`` are its calls by id, with complete arguments."""

    def __init__(
        self, ids: ToolIdReader, path: str, provider: str | None = None, calls: Mapping[str, Call] | None = None
    ) -> None:
        self._ids = ids
        self.path = path
        self._provider = provider
        self._calls = calls or {}
        self.seen_calls: set[str] = set()
        """The ids of the calls found so far."""
        self.signatures: dict[int, str] = {}
        """Signatures on texts, by their block."""

    def blocks(self, content: str | list[str | Fields]) -> list[ContentBlock]:
        """Return the content as blocks. Raises FormatError, with the path of the invalid block."""
        if isinstance(content, str):
            return text_blocks(content)
        read: list[ContentBlock] = []
        path = self.path
        for index, item in enumerate(content):
            self.path = f"{path}[{index}]"
            with validating(item, self.path):
                found = self._item(item)
            extras = item.get("extras") if isinstance(item, dict) else None
            signature = extras.get("signature") if isinstance(extras, dict) else None
            if isinstance(signature, str) and found and isinstance(found[0], TextBlock):
                self.signatures[len(read)] = signature
            read += found
        self.path = path
        return read

    def _read(self, kind: type[Imported], item: Fields) -> Imported:
        return read_model(kind, item, self.path, LIBRARY)

    def _item(self, item: str | Fields) -> list[ContentBlock]:
        if isinstance(item, str):
            return text_blocks(item)
        kind = item.get("type")
        read = _READERS.get(kind) if isinstance(kind, str) else None
        if read is not None:
            return list(read(self, item))
        return [self._unknown_block(to_text(kind), item)]

    def call(self, native: str | None, name: str, arguments: Any) -> ContentBlock:
        complete_call = self._calls.get(native or "")
        if native:
            self.seen_calls.add(native)
        if complete_call is not None and isinstance(arguments, dict) and arguments not in (complete_call.args, {}):
            reason = "a call in the content differs from the same one in tool_calls, which is read"
            source_losses().add(self.path, reason, kind=LossKind.FIELD)
        return tool_call(self._ids, native, name, arguments if complete_call is None else complete_call.args)

    def _unknown_block(self, kind: str, item: Fields) -> ContentBlock:
        if self._provider is None or kind in _STANDARD or not kind:
            return provider_block(LIBRARY, kind, item)
        native = {name: value for name, value in item.items() if name != "index"}  # keys of the stream
        return ProviderBlock(provider=self._provider, kind=kind, data=native)

    def text(self, item: Fields) -> Iterator[ContentBlock]:
        parsed = self._read(Text, item)
        cited = [*(parsed.citations or ()), *(parsed.annotations or ())]
        if parsed.text:
            yield TextBlock(text=parsed.text, citations=tuple(map(read_citation, cited)))

    def thinking(self, item: Fields) -> Iterator[ContentBlock]:
        parsed = self._read(Thinking, item)
        yield ThinkingBlock(text=parsed.thinking, signature=parsed.signature or None)

    def redacted(self, item: Fields) -> Iterator[ContentBlock]:
        yield RedactedThinkingBlock(data=self._read(Redacted, item).data)

    def reasoning(self, item: Fields) -> Iterator[ContentBlock]:
        parsed = self._read(Reasoning, item)
        summary = "\n\n".join(each.text for each in parsed.summary)
        text = summary if parsed.reasoning is None else parsed.reasoning
        signature = parsed.encrypted_content or parsed.extras.signature or parsed.extras.encrypted_content
        yield ThinkingBlock(text=text, signature=signature or None)

    def reasoning_content(self, item: Fields) -> Iterator[ContentBlock]:
        inner = item.get("reasoning_content")
        fields = inner if isinstance(inner, dict) else {}
        yield ThinkingBlock(text=to_text(fields.get("text")), signature=to_text(fields.get("signature")) or None)

    def image_url(self, item: Fields) -> Iterator[ContentBlock]:
        image = self._read(ImageAtUrl, item).image_url
        if isinstance(image, str):
            yield media_from_url(image, kind="image")
        else:
            yield media_from_url(image.url, kind="image", detail=image.detail)

    def input_audio(self, item: Fields) -> Iterator[ContentBlock]:
        audio = self._read(AudioInput, item).input_audio
        media_type = _FORMATS.get(audio.format, f"audio/{audio.format}")
        yield media_block(MediaSource(kind="base64", data=audio.data), media_type, kind="audio")

    def media(self, item: Fields) -> Iterator[ContentBlock]:
        parsed = self._read(Media, item)
        kind = None if parsed.type in ("file", "document", "text-plain", "media") else parsed.type
        noted = parsed.extras.filename if parsed.extras else None
        noted = noted or (parsed.metadata or {}).get("filename")
        title = parsed.title or parsed.filename or (noted if isinstance(noted, str) else None)
        if parsed.file is not None:
            title = title or parsed.file.filename
            if parsed.file.file_data is not None:
                yield media_from_url(parsed.file.file_data, parsed.mime_type, title=title)
                return
            parsed = parsed.model_copy(update={"file_id": parsed.file.file_id})
        details = {"title": title, "context": parsed.context, "detail": parsed.detail}
        source_block = parsed.source
        if source_block is not None:
            parsed = parsed.model_copy(
                update={
                    "url": source_block.url, "file_id": source_block.file_id, "mime_type": source_block.media_type,
                    "text" if source_block.type == "text" else "base64": source_block.data,
                }
            )  # fmt: skip
        data = parsed.base64 if parsed.base64 is not None else parsed.data if parsed.source_type != "text" else None
        file = parsed.file_id or (parsed.id if parsed.source_type == "id" else None)
        text = parsed.text
        if text is not None:
            source = MediaSource(kind="text", data=text)
            yield media_block(source, parsed.mime_type or "text/plain", kind="document", **details)
        elif data is not None:
            yield media_block(MediaSource(kind="base64", data=data), parsed.mime_type, kind=kind, **details)
        elif parsed.url is not None:
            yield media_from_url(parsed.url, parsed.mime_type, kind=kind, **details)
        elif file is not None:
            source = MediaSource(kind="file_id", data=file, provider=self._provider)
            yield media_block(source, parsed.mime_type, kind=kind, **details)
        else:
            yield self._unknown_block(parsed.type, item)

    def tool_call(self, item: Fields) -> Iterator[ContentBlock]:
        call = self._read(Call, item)
        yield self.call(call.id, call.name, call.args)

    def tool_use(self, item: Fields) -> Iterator[ContentBlock]:
        call = self._read(ToolUse, item)
        yield self.call(call.id, call.name, call.input)

    def function_call(self, item: Fields) -> Iterator[ContentBlock]:
        call = self._read(FunctionCall, item)
        yield self.call(call.call_id, call.name, call.arguments)

    def tool_result(self, item: Fields) -> Iterator[ContentBlock]:
        result = self._read(ToolResult, item)
        is_list = isinstance(result.content, list) and all(isinstance(each, (str, dict)) for each in result.content)
        items = result.content if is_list else [to_text(result.content)]
        content = [block for each in items for block in self._item(each)]
        call_id = result_call_id(self._ids, result.tool_use_id, None)
        yield ToolResultBlock(tool_use_id=call_id, content=tuple(content), is_error=bool(result.is_error))

    def non_standard(self, item: Fields) -> Iterator[ContentBlock]:
        value = item.get("value")
        kind = value.get("type") if isinstance(value, dict) else None
        if isinstance(value, dict) and kind in ("refusal", "redacted_thinking"):
            yield from self._item(value)
        elif isinstance(value, dict) and isinstance(kind, str) and self._provider is not None:
            yield ProviderBlock(provider=self._provider, kind=kind, data=value)
        else:
            yield self._unknown_block("non_standard", item)

    def refusal(self, item: Fields) -> Iterator[ContentBlock]:
        yield from text_blocks(self._read(Refusal, item).refusal)


_READERS: dict[str, Callable[[BlockReader, Fields], Iterator[ContentBlock]]] = {
    "text": BlockReader.text,
    "input_text": BlockReader.text,
    "output_text": BlockReader.text,
    "thinking": BlockReader.thinking,
    "redacted_thinking": BlockReader.redacted,
    "reasoning": BlockReader.reasoning,
    "reasoning_content": BlockReader.reasoning_content,
    "image_url": BlockReader.image_url,
    "input_audio": BlockReader.input_audio,
    "image": BlockReader.media,
    "audio": BlockReader.media,
    "video": BlockReader.media,
    "file": BlockReader.media,
    "document": BlockReader.media,
    "media": BlockReader.media,
    "text-plain": BlockReader.media,
    "tool_call": BlockReader.tool_call,
    "tool_use": BlockReader.tool_use,
    "function_call": BlockReader.function_call,
    "tool_result": BlockReader.tool_result,
    "refusal": BlockReader.refusal,
    "non_standard": BlockReader.non_standard,
}
"""The readers by block type."""
