"""CMF 2.0 as data: a message, its twelve kinds of parts and their contents. Source: docs/reference/cmf.md#parts.

The nested form, in which a part has its object under ``content``, is written. The flat form, which
has the object's fields on the part itself, can be read too. A message rejects unknown keys; parts ignore them.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, TypeAdapter, model_validator

from dragoman.canonical.blocks import ResourceType
from dragoman.canonical.guard import Count, Integer

VERSION = "2.0"


class CmfModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, hide_input_in_errors=True)


class ToolCall(CmfModel):
    tool_call_id: str
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    namespace: str | None = None


class ToolResult(CmfModel):
    tool_call_id: str
    tool_name: str
    content: Any = None
    is_error: bool = False


class Resource(CmfModel):
    """``blob`` is base64."""

    resource_request_id: str
    uri: str
    name: str | None = None
    description: str | None = None
    resource_type: ResourceType
    content: str | None = None
    blob: str | None = None
    mime_type: str | None = None
    size_bytes: Count | None = None
    annotations: dict[str, Any] = Field(default_factory=dict)
    version: str | None = None

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        if self.content is not None and self.blob is not None:
            raise ValueError("a resource can have content or blob, not both")
        return self


class ResourceReference(CmfModel):
    resource_request_id: str
    uri: str
    name: str | None = None
    resource_type: ResourceType
    range_start: Integer | None = None
    range_end: Integer | None = None
    selector: str | None = None

    @model_validator(mode="after")
    def _range_in_order(self) -> Self:
        if self.range_start is not None and self.range_end is not None and self.range_end < self.range_start:
            raise ValueError("range_end is less than range_start")
        return self


class PromptRequest(CmfModel):
    prompt_request_id: str
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    server_id: str | None = None


class PromptResult(CmfModel):
    prompt_request_id: str
    prompt_name: str
    messages: list["CmfMessage"] = Field(default_factory=list)
    content: str | None = None
    is_error: bool = False
    error_message: str | None = None


class ImageSource(CmfModel):
    type: Literal["url", "base64"]
    data: str
    media_type: str | None = None


class TimedSource(ImageSource):
    """The source of a video or a recording."""

    duration_ms: Count | None = None


class DocumentSource(ImageSource):
    title: str | None = None


class TextContent(CmfModel):
    content_type: Literal["text"]
    text: str


class ThinkingContent(CmfModel):
    content_type: Literal["thinking"]
    text: str


class Nested(CmfModel):
    """A part with an object. A required field of the object on the part itself marks the flat form."""

    @model_validator(mode="before")
    @classmethod
    def _from_flat(cls, data: Any) -> Any:
        inner = cls.model_fields["content"].annotation
        if not isinstance(data, dict) or not (isinstance(inner, type) and issubclass(inner, CmfModel)):
            return data
        needed = {name for name, field in inner.model_fields.items() if field.is_required()}
        if not needed & data.keys():
            return data
        fields = {name: value for name, value in data.items() if name != "content_type"}
        if inner is ToolCall:
            fields.setdefault("tool_call_id", "")  # the flat example of the specification has none
        return {"content_type": data.get("content_type"), "content": fields}


class ToolCallContentPart(Nested):
    content_type: Literal["tool_call"]
    content: ToolCall


class ToolResultContentPart(Nested):
    content_type: Literal["tool_result"]
    content: ToolResult


class ResourceContentPart(Nested):
    content_type: Literal["resource"]
    content: Resource


class ResourceRefContentPart(Nested):
    content_type: Literal["resource_ref"]
    content: ResourceReference


class PromptRequestContentPart(Nested):
    content_type: Literal["prompt_request"]
    content: PromptRequest


class PromptResultContentPart(Nested):
    content_type: Literal["prompt_result"]
    content: PromptResult


class ImageContentPart(Nested):
    content_type: Literal["image"]
    content: ImageSource


class VideoContentPart(Nested):
    content_type: Literal["video"]
    content: TimedSource


class AudioContentPart(Nested):
    content_type: Literal["audio"]
    content: TimedSource


class DocumentContentPart(Nested):
    content_type: Literal["document"]
    content: DocumentSource


ContentPart = Annotated[
    TextContent
    | ThinkingContent
    | ToolCallContentPart
    | ToolResultContentPart
    | ResourceContentPart
    | ResourceRefContentPart
    | PromptRequestContentPart
    | PromptResultContentPart
    | ImageContentPart
    | VideoContentPart
    | AudioContentPart
    | DocumentContentPart,
    Discriminator("content_type"),
]


class CmfMessage(CmfModel):
    model_config = ConfigDict(extra="forbid")

    schema_version: Literal["2.0"] = "2.0"
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: list[ContentPart] = Field(default_factory=list)
    channel: Literal["analysis", "commentary", "final"] | None = None


PromptResult.model_rebuild()
PromptResultContentPart.model_rebuild()
CmfMessage.model_rebuild()

PART: TypeAdapter[Any] = TypeAdapter(ContentPart)
PARTS: TypeAdapter[Any] = TypeAdapter(list[ContentPart])
