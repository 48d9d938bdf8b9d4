"""The blocks of LangChain messages: its own, of both generations, and those of the providers.

A provider's block without a canonical kind is sent back to that provider; one of LangChain's is only kept.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import Field

from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    DocumentBlock,
    MediaSource,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from dragoman.formats.document import validating
from dragoman.formats.importers.blocks import (
    Fields,
    ImportedModel,
    media_block,
    media_from_url,
    provider_block,
    result_call_id,
    text_blocks,
    to_text,
    tool_call,
)
from dragoman.formats.importers.langchain_models import Call
from dragoman.formats.tool_calls import ToolIdReader

LIBRARY = "langchain"

_STANDARD = frozenset({"server_tool_call", "server_tool_call_chunk", "server_tool_result", "non_standard"})
"""LangChain's own names for actions of a provider, which no provider would accept."""

_FORMATS = {"mp3": "audio/mpeg"}


class Annotation(ImportedModel):
    type: str = "citation"
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start_index: int | None = None
    end_index: int | None = None


class Text(ImportedModel):
    text: str
    annotations: list[Annotation] = Field(default_factory=list)


class Thinking(ImportedModel):
    """Thinking in Anthropic's form."""

    thinking: str = ""
    signature: str | None = None


class Redacted(ImportedModel):
    data: str


class Summary(ImportedModel):
    text: str = ""


class Reasoning(ImportedModel):
    """Reasoning in LangChain's form, with a text, or in that of OpenAI Responses, with summaries."""

    reasoning: str | None = None
    summary: list[Summary] = Field(default_factory=list)
    encrypted_content: str | None = None
    extras: dict[str, Any] = Field(default_factory=dict)


class ImageUrl(ImportedModel):
    url: str
    detail: str | None = None


class ImageAtUrl(ImportedModel):
    image_url: ImageUrl | str


class InputAudio(ImportedModel):
    data: str
    format: str


class AudioInput(ImportedModel):
    input_audio: InputAudio


class Source(ImportedModel):
    """The source of media in Anthropic's form."""

    type: str
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    media_type: str | None = None


class Media(ImportedModel):
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


class FunctionCall(ImportedModel):
    """A call in the form of OpenAI Responses."""

    name: str
    arguments: str = ""
    call_id: str | None = None


class ToolUse(ImportedModel):
    """A call in Anthropic's form."""

    name: str
    input: Any = None
    id: str | None = None


class ToolResult(ImportedModel):
    """A result in Anthropic's form, which some programs write into a user message."""

    tool_use_id: str
    content: Any = None
    is_error: bool | None = None


class Refusal(ImportedModel):
    refusal: str


class BlockReader:
    """Reads the blocks of one message, which is at ``path``. ``calls`` are its calls by id, with complete arguments."""

    def __init__(
        self, ids: ToolIdReader, path: str, provider: str | None = None, calls: Mapping[str, Call] | None = None
    ) -> None:
        self._ids = ids
        self._path = path
        self._provider = provider
        self._calls = calls or {}
        self.seen_calls: set[str] = set()
        """The ids of the calls found so far."""

    def blocks(self, content: str | list[str | Fields]) -> list[ContentBlock]:
        """Return the content as blocks. Raises FormatError, with the path of the invalid block."""
        if isinstance(content, str):
            return text_blocks(content)
        read: list[ContentBlock] = []
        for index, item in enumerate(content):
            with validating(item, f"{self._path}[{index}]"):
                read += self._item(item)
        return read

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
        return tool_call(self._ids, native, name, arguments if complete_call is None else complete_call.args)

    def _unknown_block(self, kind: str, item: Fields) -> ContentBlock:
        if self._provider is None or kind in _STANDARD or not kind:
            return provider_block(LIBRARY, kind, item)
        native = {name: value for name, value in item.items() if name != "index"}  # keys of the stream
        return ProviderBlock(provider=self._provider, kind=kind, data=native)

    def text(self, item: Fields) -> Iterator[ContentBlock]:
        parsed = Text.model_validate(item)
        citations = (
            Citation(
                kind=each.type, title=each.title, url=each.url, cited_text=each.cited_text, start=each.start_index,
                end=each.end_index,
            )
            for each in parsed.annotations
        )  # fmt: skip
        if parsed.text:
            yield TextBlock(text=parsed.text, citations=tuple(citations))

    def thinking(self, item: Fields) -> Iterator[ContentBlock]:
        parsed = Thinking.model_validate(item)
        yield ThinkingBlock(text=parsed.thinking, signature=parsed.signature or None)

    def redacted(self, item: Fields) -> Iterator[ContentBlock]:
        yield RedactedThinkingBlock(data=Redacted.model_validate(item).data)

    def reasoning(self, item: Fields) -> Iterator[ContentBlock]:
        parsed = Reasoning.model_validate(item)
        summary = "\n\n".join(each.text for each in parsed.summary)
        text = summary if parsed.reasoning is None else parsed.reasoning
        extras = (parsed.extras.get(name) for name in ("signature", "encrypted_content"))
        signature = parsed.encrypted_content or next((each for each in extras if isinstance(each, str)), None)
        yield ThinkingBlock(text=text, signature=signature or None)

    def reasoning_content(self, item: Fields) -> Iterator[ContentBlock]:
        inner = item.get("reasoning_content")
        fields = inner if isinstance(inner, dict) else {}
        yield ThinkingBlock(text=to_text(fields.get("text")), signature=to_text(fields.get("signature")) or None)

    def image_url(self, item: Fields) -> Iterator[ContentBlock]:
        image = ImageAtUrl.model_validate(item).image_url
        if isinstance(image, str):
            yield media_from_url(image, kind="image")
        else:
            yield media_from_url(image.url, kind="image", detail=image.detail)

    def input_audio(self, item: Fields) -> Iterator[ContentBlock]:
        audio = AudioInput.model_validate(item).input_audio
        media_type = _FORMATS.get(audio.format, f"audio/{audio.format}")
        yield media_block(MediaSource(kind="base64", data=audio.data), media_type, kind="audio")

    def media(self, item: Fields) -> Iterator[ContentBlock]:
        parsed = Media.model_validate(item)
        kind = None if parsed.type in ("file", "document", "text-plain", "media") else parsed.type
        details = {"title": parsed.title or parsed.filename, "context": parsed.context}
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
            yield DocumentBlock(source=source, media_type=parsed.mime_type or "text/plain", **details)
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
        call = Call.model_validate(item)
        yield self.call(call.id, call.name, call.args)

    def tool_use(self, item: Fields) -> Iterator[ContentBlock]:
        call = ToolUse.model_validate(item)
        yield self.call(call.id, call.name, call.input)

    def function_call(self, item: Fields) -> Iterator[ContentBlock]:
        call = FunctionCall.model_validate(item)
        yield self.call(call.call_id, call.name, call.arguments)

    def tool_result(self, item: Fields) -> Iterator[ContentBlock]:
        result = ToolResult.model_validate(item)
        is_list = isinstance(result.content, list) and all(isinstance(each, (str, dict)) for each in result.content)
        items = result.content if is_list else [to_text(result.content)]
        content = [block for each in items for block in self._item(each)]
        call_id = result_call_id(self._ids, result.tool_use_id, None)
        yield ToolResultBlock(tool_use_id=call_id, content=tuple(content), is_error=bool(result.is_error))

    def refusal(self, item: Fields) -> Iterator[ContentBlock]:
        yield from text_blocks(Refusal.model_validate(item).refusal)


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
}
"""The readers by block type."""
