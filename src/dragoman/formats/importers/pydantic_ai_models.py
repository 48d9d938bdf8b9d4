"""pydantic-ai messages as data: what its `ModelMessagesTypeAdapter` writes, in this version and in older ones.

Source: pydantic_ai/messages.py, 2.68. Fields that only the library itself needs are left out.
"""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Discriminator, Field, TypeAdapter

from dragoman.canonical.guard import Count
from dragoman.formats.importers.blocks import ImportedModel, UtcTime


class SystemPrompt(ImportedModel):
    part_kind: Literal["system-prompt"]
    content: str
    timestamp: UtcTime | None = None


class UserPrompt(ImportedModel):
    part_kind: Literal["user-prompt"]
    content: str | list[Any]
    timestamp: UtcTime | None = None


class ToolReturn(ImportedModel):
    part_kind: Literal["tool-return"]
    tool_name: str
    content: Any = None
    tool_call_id: str | None = None
    timestamp: UtcTime | None = None
    outcome: str = "success"


class RetryPrompt(ImportedModel):
    """A part of older versions: a tool result if it names a tool, otherwise a text for the model."""

    part_kind: Literal["retry-prompt"]
    content: Any = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    timestamp: UtcTime | None = None


class RetryFeedback(ImportedModel):
    part_kind: Literal["retry-feedback"]
    content: Any = None
    timestamp: UtcTime | None = None


class InstructionDelta(ImportedModel):
    """New instructions that replace earlier ones, or remove them."""

    part_kind: Literal["instruction-delta"]
    content: str | None = None


class Speech(ImportedModel):
    part_kind: Literal["speech"]
    transcript: str | None = None
    audio: dict[str, Any] | None = None


class Compaction(ImportedModel):
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


class Text(ImportedModel):
    part_kind: Literal["text"]
    content: str
    citations: list[CitedSources] | None = None


class Thinking(ImportedModel):
    part_kind: Literal["thinking"]
    content: str
    id: str | None = None
    signature: str | None = None


class ToolCall(ImportedModel):
    part_kind: Literal["tool-call"]
    tool_name: str
    args: str | dict[str, Any] | None = None
    tool_call_id: str | None = None


class File(ImportedModel):
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
    input_tokens: Count = Field(default=0, validation_alias=AliasChoices("input_tokens", "request_tokens"))
    output_tokens: Count = Field(default=0, validation_alias=AliasChoices("output_tokens", "response_tokens"))
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0
    cache_write_1h_tokens: Count = 0
    output_reasoning_tokens: Count = 0
    input_audio_tokens: Count = 0
    cache_audio_read_tokens: Count = 0
    output_audio_tokens: Count = 0


class ModelRequest(ImportedModel):
    kind: Literal["request"]
    parts: list[dict[str, Any]]
    timestamp: UtcTime | None = None
    instructions: str | None = None
    conversation_id: str | None = None


class ModelResponse(ImportedModel):
    kind: Literal["response"]
    parts: list[dict[str, Any]]
    usage: RequestUsage = Field(default_factory=RequestUsage)
    model_name: str | None = None
    timestamp: UtcTime | None = None
    provider_name: str | None = None
    finish_reason: str | None = None
    conversation_id: str | None = None
    state: str = "complete"


MESSAGE: TypeAdapter[ModelRequest | ModelResponse] = TypeAdapter(
    Annotated[ModelRequest | ModelResponse, Discriminator("kind")]
)


class Binary(ImportedModel):
    """``data`` is base64 in the URL-safe alphabet."""

    kind: Literal["binary"]
    data: str
    media_type: str
    vendor_metadata: dict[str, Any] | None = None


class FileUrl(ImportedModel):
    kind: Literal["image-url", "audio-url", "video-url", "document-url"]
    url: str
    media_type: str | None = None
    vendor_metadata: dict[str, Any] | None = None


class UploadedFile(ImportedModel):
    kind: Literal["uploaded-file"]
    file_id: str
    provider_name: str
    media_type: str | None = None
    vendor_metadata: dict[str, Any] | None = None


class TaggedText(ImportedModel):
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
