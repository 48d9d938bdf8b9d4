"""pydantic-ai messages as data: what its `ModelMessagesTypeAdapter` writes, in this version and in older ones.

Source: pydantic_ai/messages.py, 2.68. Fields that only the library itself needs are left out.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, Discriminator, Field, TypeAdapter

from dragoman.canonical.guard import Count
from dragoman.formats.importers.blocks import ImportedModel, UtcTime


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
