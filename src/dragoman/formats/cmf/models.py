"""CMF 2.0 as data: a message, its twelve kinds of parts and their contents. Source: docs/reference/cmf.md#parts.

The nested form, in which a part has its object under ``content``, is written. The flat form, which
has the object's fields on the part itself, can be read too. A message rejects unknown keys; parts ignore them.

Blocks as CMF parts and back. Source: docs/reference/cmf.md#conversion.
"""

import base64
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import to_json

from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    PromptRequestBlock,
    PromptResultBlock,
    ResourceBlock,
    ResourceRefBlock,
    ResourceType,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.guard import Count, Integer
from dragoman.canonical.message import Channel, Role, read_message
from dragoman.canonical.message_view.parts import CalledTool
from dragoman.canonical.words import UnknownWord

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


Kind = TypeVar("Kind")
Inner = TypeVar("Inner", bound=CmfModel)


class Part(CmfModel, Generic[Kind, Inner]):
    """A part with an object. A required field of the object on the part itself marks the flat form."""

    content_type: Kind
    content: Inner

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


ContentPart = Annotated[
    TextContent
    | ThinkingContent
    | Part[Literal["tool_call"], ToolCall]
    | Part[Literal["tool_result"], ToolResult]
    | Part[Literal["resource"], Resource]
    | Part[Literal["resource_ref"], ResourceReference]
    | Part[Literal["prompt_request"], PromptRequest]
    | Part[Literal["prompt_result"], PromptResult]
    | Part[Literal["image"], ImageSource]
    | Part[Literal["video"], TimedSource]
    | Part[Literal["audio"], TimedSource]
    | Part[Literal["document"], DocumentSource],
    Discriminator("content_type"),
]


class CmfMessage(CmfModel):
    model_config = ConfigDict(extra="forbid")

    schema_version: Literal["2.0"] = "2.0"
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: list[ContentPart] = Field(default_factory=list)
    channel: Literal["analysis", "commentary", "final"] | None = None


PromptResult.model_rebuild()
Part[Literal["prompt_result"], PromptResult].model_rebuild()
CmfMessage.model_rebuild()

PART: TypeAdapter[Any] = TypeAdapter(ContentPart)
PARTS: TypeAdapter[Any] = TypeAdapter(list[ContentPart])


Ids = Callable[[str], str]
Fields = dict[str, Any]
Tools = Mapping[str, CalledTool]
"""Tools by call id."""

KNOWN: Mapping[str, Collection[str]] = {"role": frozenset(Role), "channel": frozenset(Channel)}
"""The words of this version, by field of the message."""
_PLAIN_TEXT = "text/plain"
_NESTED: Mapping[str, type[ResourceBlock | ResourceRefBlock | PromptRequestBlock]] = {
    "resource": ResourceBlock,
    "resource_ref": ResourceRefBlock,
    "prompt_request": PromptRequestBlock,
}
_MEDIA: Mapping[str, type[ImageBlock | VideoBlock | AudioBlock | DocumentBlock]] = {
    "image": ImageBlock,
    "video": VideoBlock,
    "audio": AudioBlock,
    "document": DocumentBlock,
}


def part_of(block: ContentBlock, tools: Tools) -> Fields | None:
    """Return the part, or None if CMF has no form for the block."""
    match block:
        case TextBlock():
            return {"content_type": "text", "text": block.text}
        case ThinkingBlock():
            return {"content_type": "thinking", "text": block.text}
        case ToolUseBlock():
            called = tools.get(block.id)
            namespace = called.namespace if called and called.name == block.name else None
            fields = {"name": block.name, "arguments": block.input, "namespace": namespace}
            return _nest("tool_call", tool_call_id=block.id, **fields)
        case ToolResultBlock():
            return _nest(
                "tool_result",
                tool_call_id=block.tool_use_id,
                tool_name=tools[block.tool_use_id].name if block.tool_use_id in tools else "",
                content=_result_content(block.content, tools),
                is_error=block.is_error,
            )
        case ImageBlock() | VideoBlock() | AudioBlock() | DocumentBlock():
            return _media(block)
        case ResourceBlock() | ResourceRefBlock() if isinstance(block.resource_type, UnknownWord):
            return None
        case ResourceBlock() | ResourceRefBlock() | PromptRequestBlock():
            return _nest(block.type, **block.model_dump(mode="json", exclude={"type"}))
        case PromptResultBlock():
            fields = block.model_dump(mode="json", exclude={"type", "messages"})
            return _nest("prompt_result", **fields, messages=_messages(block.messages, tools))
        case _:
            return None


def block_of(part: Any, call_id: Ids, result_id: Ids) -> ContentBlock:
    """Return the block of a CMF part."""
    match part:
        case TextContent():
            return TextBlock(text=part.text)
        case ThinkingContent():
            return ThinkingBlock(text=part.text)
        case Part(content=ToolCall() as call):
            return ToolUseBlock(id=call_id(call.tool_call_id), name=call.name, input=call.arguments)
        case Part(content=ToolResult() as result):
            return ToolResultBlock(
                tool_use_id=result_id(result.tool_call_id),
                content=_read_result_content(result.content),
                is_error=result.is_error,
            )
        case Part(content=PromptResult() as rendered):
            messages = tuple(map(message_fields, rendered.messages))
            return PromptResultBlock(**rendered.model_dump(exclude={"messages"}), messages=messages)
        case Part(content=ImageSource() as source):
            others = source.model_dump(exclude={"type", "data"})
            return _MEDIA[part.content_type](source=MediaSource(kind=source.type, data=source.data), **others)
        case Part(content=inner):
            return _NESTED[part.content_type](**inner.model_dump())
        case _:
            raise AssertionError(f"not a part of CMF: {type(part).__name__}")


def message_fields(message: CmfMessage) -> Fields:
    """Return a message inside a prompt result, as the JSON of a canonical one."""
    blocks = [block_of(part, str, str).model_dump(mode="json", exclude_none=True) for part in message.content]
    fields: Fields = {"role": message.role, "content": blocks}
    return fields | ({"channel": message.channel} if message.channel else {})


def _nest(content_type: str, **fields: Any) -> Fields:
    written = {name: value for name, value in fields.items() if value is not None}
    return {"content_type": content_type, "content": written}


def _media(block: ImageBlock | VideoBlock | AudioBlock | DocumentBlock) -> Fields | None:
    """Return None for files in a workspace or at a provider: CMF has only URLs and base64."""
    kind, data, media_type = block.source.kind, block.source.data, block.media_type
    if kind == "text":
        kind, data = "base64", base64.b64encode(data.encode()).decode()
        media_type = media_type or _PLAIN_TEXT
    if kind not in ("url", "base64"):
        return None
    others = {name: getattr(block, name, None) for name in ("duration_ms", "title")}
    return _nest(block.type, type=kind, data=data, media_type=media_type, **others)


def _result_content(content: tuple[ContentBlock, ...], tools: Tools) -> Any:
    """Return a tool result as JSON: null, a text, or a list of parts."""
    if not content:
        return None
    if len(content) == 1 and isinstance(content[0], TextBlock):
        return content[0].text
    return [part for block in content if (part := part_of(block, tools)) is not None]


def _read_result_content(content: Any) -> tuple[ContentBlock, ...]:
    """Return any JSON as the content of a tool result; other values than a text or a list of parts become JSON text."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextBlock(text=content),)
    if isinstance(content, list):
        with suppress(ValidationError):
            return tuple(block_of(part, str, str) for part in PARTS.validate_python(content))
    return (TextBlock(text=to_json(content).decode()),)


def _messages(messages: Iterable[Fields], tools: Tools) -> list[Fields]:
    """Return the canonical messages of a rendered prompt; other items are left out."""
    written = []
    for fields in messages:
        with suppress(ValueError):
            message = read_message(fields)
            written.append(message_of(message.role, message.channel, message.content, tools))
    return written


def message_of(role: str, channel: str | None, content: Iterable[ContentBlock], tools: Tools) -> Fields:
    """Return a message of the parts that have a CMF form. CMF has no words of newer versions: an unknown role becomes
    the user's.
    """
    parts = [part for block in content if (part := part_of(block, tools)) is not None]
    written_role = str(role) if role in KNOWN["role"] else "user"
    fields: Fields = {"schema_version": VERSION, "role": written_role, "content": parts}
    return fields | ({"channel": str(channel)} if channel in KNOWN["channel"] else {})
