"""Content blocks: the closed set of things that a message is made of.

Every block is frozen. A misspelt field is an error on construction. *Reading* a block of a newer version keeps unknown
fields and unknown kinds (see `versions`). Source: docs/reference/canonical.md#blocks.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationInfo,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dragoman.canonical.guard import MAX_BODY_BYTES, Count, Integer, Json, JsonObject, Text, copy_json
from dragoman.canonical.words import OpenLiteral

MAX_NESTED_RESULTS = 16
"""How deeply tool results may be nested in tool results."""


ModelT = TypeVar("ModelT", bound=BaseModel)


class FrozenModel(BaseModel):
    """The base of all canonical data: immutable, strict about misspelt fields, and lossless for unknown fields on
    reading.

    Validation errors never show the offending value, because it may be a secret or a prompt.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, ser_json_bytes="base64", val_json_bytes="base64"
    )

    def __eq__(self, other: object) -> bool:
        if not (isinstance(other, FrozenModel) and type(other) is type(self)):
            return NotImplemented
        return self._comparable_fields() == other._comparable_fields()

    def __hash__(self) -> int:
        return hash((type(self).__name__, _to_hashable(self._comparable_fields())))

    def _comparable_fields(self) -> dict[str, Any]:
        """Return the fields that count for equality and hash: all except ``provider_raw``."""
        fields = {**self.__dict__, **(self.model_extra or {})}
        fields.pop("provider_raw", None)
        return fields

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy as pydantic does, but validate the updates. Raises pydantic.ValidationError."""
        if not update:
            return super().model_copy(deep=deep)
        unknown = self.model_extra or {}
        fields = {**self.__dict__, **{name: value for name, value in update.items() if name not in unknown}}
        changed = type(self).model_validate(copy.deepcopy(fields) if deep else fields)
        if unknown:
            kept = {name: update.get(name, value) for name, value in unknown.items()}
            object.__setattr__(changed, "__pydantic_extra__", copy_json(kept))
        return changed

    @model_serializer(mode="wrap")
    def _serialize_unknown(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return fields | self.model_extra if self.model_extra else fields


def replace_fields(model: ModelT, changes: Mapping[str, Any]) -> ModelT:
    """Copy a model with other fields that are valid already: nothing is validated again."""
    if not changes:
        return model
    if model.__pydantic_extra__ is None and model.__pydantic_private__ is None:  # as of nearly all models
        given = model.__pydantic_fields_set__ | changes.keys()
        return assemble(type(model), {**model.__dict__, **changes}, given)
    return BaseModel.model_copy(model, update=changes)


def assemble(kind: type[ModelT], fields: dict[str, Any], given: set[str]) -> ModelT:
    """Return a model of valid fields: all that its kind has, in their order. Nothing is validated.

    ``given`` names the fields that the caller set. Frozen models may share it. `model_construct` takes five times as
    long, because it looks for defaults and aliases.
    """
    model = object.__new__(kind)
    _set_fields(model, fields)
    _set_given(model, given)
    _set_extra(model, None)
    _set_private(model, None)
    return model


_set_fields, _set_given, _set_extra, _set_private = (
    vars(BaseModel)[name].__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)
"""Set the slots of a model, which every model has. `object.__setattr__` would look for each in all its classes."""


def _to_hashable(value: Any) -> Any:
    """Convert a JSON value to a hashable one. Equal values give equal results: neither key order
    nor 1 or 1.0 matters.
    """
    if isinstance(value, dict):
        return frozenset((key, _to_hashable(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_to_hashable, value))
    return value


class MediaSource(FrozenModel):
    """The source of a media block.

    ``data`` holds the base64 text (no data URL prefix), the URL, plain text, a workspace-relative path
    (``file_ref``) or the id of a file stored by a provider (``file_id``, which only that ``provider`` can read).
    """

    kind: Annotated[Literal["base64", "url", "text", "file_ref", "file_id"], OpenLiteral("kind of source")]
    """What ``data`` is. A word of a newer version is kept as it was read."""
    data: Text
    provider: Text | None = None


ImageSource = MediaSource
"""The specification's name for it."""


class Citation(FrozenModel):
    """A source for a span of text. ``data`` is the provider's own citation object, verbatim.

    ``kind`` is the provider's word for the kind of source, ``url`` and ``title`` name it, ``cited_text`` is what it
    says, and ``start`` and ``end`` are characters of the block's text.
    """

    kind: Text
    title: Text | None = None
    url: Text | None = None
    cited_text: Text | None = None
    start: Integer | None = None
    end: Integer | None = None
    data: JsonObject | None = None


class TextBlock(FrozenModel):
    """Text that somebody wrote."""

    type: Literal["text"] = "text"
    text: Text
    """The text, which may be empty."""
    citations: tuple[Citation, ...] = ()
    """The sources that the provider named for parts of the text, in its order."""


TEXT_ALONE = {"text"}
"""The given fields of each plain text."""


def text_block(text: str) -> TextBlock:
    """Return ``TextBlock(text=text)``, in half the time if it is ASCII: most blocks that are read are plain texts."""
    if type(text) is str and text.isascii() and len(text) <= MAX_BODY_BYTES:
        return assemble(TextBlock, {"type": "text", "text": text, "citations": ()}, TEXT_ALONE)
    return TextBlock(text=text)


class ToolUseBlock(FrozenModel):
    """A tool call. ``id`` is canonical (``tu_<ulid>``), whatever id the provider used.

    ``raw_input`` is set only if the model's arguments are not a JSON object (cut off or malformed). It holds them as
    received; ``input`` is then empty, and a session answers the call with an error instead of running it.
    """

    type: Literal["tool_use"] = "tool_use"
    id: Text
    name: Text
    """The name under which the tool was offered."""
    input: JsonObject = Field(default_factory=dict)
    raw_input: Text | None = None


class ImageBlock(FrozenModel):
    """An image. ``media_type`` is an IANA type and may be unknown for URLs; ``detail`` is the resolution hint."""

    type: Literal["image"] = "image"
    source: MediaSource
    """The image itself, or where it is."""
    media_type: Text | None = None
    detail: Text | None = None


class AudioBlock(FrozenModel):
    """Recorded or generated speech and sound."""

    type: Literal["audio"] = "audio"
    source: MediaSource
    """The recording itself, or where it is."""
    media_type: Text | None = None
    """An IANA type such as ``audio/wav``; None if it is not known."""
    duration_ms: Count | None = None
    """The length in milliseconds, if it is known."""
    transcript: Text | None = None
    """The words of the recording, which models without audio get in its place."""


class VideoBlock(FrozenModel):
    """A film. Models without video get a note in its place, as a loss."""

    type: Literal["video"] = "video"
    source: MediaSource
    """The film itself, or where it is."""
    media_type: Text | None = None
    """An IANA type such as ``video/mp4``; None if it is not known."""
    duration_ms: Count | None = None
    """The length in milliseconds, if it is known."""


class DocumentBlock(FrozenModel):
    """A PDF, text file or similar. ``title`` doubles as the file name, ``context`` is a note to the model.

    ``citations``: whether the answer names its sources in the document; None leaves it to the provider.
    """

    type: Literal["document"] = "document"
    source: MediaSource
    """The document itself, or where it is."""
    media_type: Text | None = None
    """An IANA type such as ``application/pdf``; None if it is not known."""
    title: Text | None = None
    context: Text | None = None
    citations: bool | None = None


class ThinkingBlock(FrozenModel):
    """Reasoning. ``signature`` is an opaque token that only its issuer can read (it may carry hidden text)."""

    type: Literal["thinking"] = "thinking"
    text: Text = ""
    """The reasoning, or a summary of it; empty if the provider shows only the signature."""
    signature: Text | None = None


class RedactedThinkingBlock(FrozenModel):
    """Reasoning that its provider encrypted."""

    type: Literal["redacted_thinking"] = "redacted_thinking"
    data: Text
    """The provider's opaque token. Only its issuer can read it."""


ResourceType = Annotated[
    Literal["file", "blob", "uri", "database", "api", "memory", "artifact"], OpenLiteral("type of resource")
]
"""The kind of a resource. A word of a newer version is kept as it was read."""


class ResourceBlock(FrozenModel):
    """An embedded resource (CMF ``resource``). ``content`` and ``blob`` (base64) exclude each other."""

    type: Literal["resource"] = "resource"
    resource_request_id: Text
    """The id of the request that the resource answers."""
    uri: Text
    """The address of the resource, in any scheme."""
    resource_type: ResourceType
    """The kind of resource: file, blob, uri, database, api, memory or artifact."""
    name: Text | None = None
    """A short name for people and models."""
    description: Text | None = None
    """A text that says what the resource contains."""
    content: Text | None = None
    blob: Text | None = None
    mime_type: Text | None = None
    """The IANA type of the content or blob."""
    size_bytes: Count | None = None
    """The declared size in bytes; it may differ from the size of ``content``."""
    annotations: JsonObject = Field(default_factory=dict)
    """Hints of the server, such as MCP's audience and priority, as JSON."""
    version: Text | None = None
    """The server's own word for the version of the resource."""

    @model_validator(mode="after")
    def _check_one_body(self) -> Self:
        if self.content is not None and self.blob is not None:
            raise ValueError("a resource can have content or blob, not both")
        return self


class ResourceRefBlock(FrozenModel):
    """A reference to a resource without its content (CMF ``resource_ref``). Ranges are lines or
    bytes, ends included.
    """

    type: Literal["resource_ref"] = "resource_ref"
    resource_request_id: Text
    """The id of the request that the reference answers."""
    uri: Text
    """The address of the resource, in any scheme."""
    resource_type: ResourceType
    """The kind of resource: file, blob, uri, database, api, memory or artifact."""
    name: Text | None = None
    """A short name for people and models."""
    range_start: Integer | None = None
    """The first line or byte of the part; None means from the beginning."""
    range_end: Integer | None = None
    """The last line or byte of the part, included; None means to the end."""
    selector: Text | None = None
    """A part that is not a range, such as a JSON path or a CSS selector."""

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.range_start is not None and self.range_end is not None and self.range_end < self.range_start:
            raise ValueError(f"range_end {self.range_end} is less than range_start {self.range_start}")
        return self


class PromptRequestBlock(FrozenModel):
    """A request for a prompt template (CMF ``prompt_request``)."""

    type: Literal["prompt_request"] = "prompt_request"
    prompt_request_id: Text
    """The id that the result repeats."""
    name: Text
    """The name of the template on its server."""
    arguments: JsonObject = Field(default_factory=dict)
    """The values of the template's parameters, by name."""
    server_id: Text | None = None
    """The MCP server of the template, if it has one."""


class ProviderBlock(FrozenModel):
    """A native block without a canonical kind: server tools, compaction items, future kinds.

    ``data`` is the provider's own object, verbatim. It is sent back to ``provider`` at the same position and is a loss
    for any other provider.
    """

    type: Literal["provider"] = "provider"
    provider: Text
    kind: Text
    """The provider's own word for the block, such as ``server_tool_use``."""
    data: JsonObject


class UnknownBlock(BaseModel):
    """A block of a kind that this version does not know, kept verbatim. Only reading a message creates one."""

    model_config = ConfigDict(frozen=True, extra="allow", hide_input_in_errors=True)

    __pydantic_extra__: dict[str, Json]

    type: Text
    """The kind, as it was read."""

    @model_serializer
    def _serialize(self) -> dict[str, Any]:
        return {"type": self.type, **(self.model_extra or {})}

    def __hash__(self) -> int:
        return hash((self.type, _to_hashable(self.model_extra)))


class ToolResultBlock(FrozenModel):
    """The result of a tool call. A plain string is accepted as content and becomes one text block."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: Text
    """The canonical id of the call that this answers."""
    content: "Content" = ()
    """What the tool returned: text, media or other results. At most 16 levels are nested."""
    is_error: bool = False
    """Whether the tool failed. The content then says why, for the model."""

    @model_validator(mode="after")
    def _check_depth(self) -> Self:
        if _nesting(self) > MAX_NESTED_RESULTS:
            raise PydanticCustomError(
                "too_deep", "tool results are nested more than {limit} levels deep", {"limit": MAX_NESTED_RESULTS}
            )
        return self


def _nesting(block: ToolResultBlock) -> int:
    inner = (_nesting(part) for part in block.content if isinstance(part, ToolResultBlock))
    return 1 + max(inner, default=0)


class PromptResultBlock(FrozenModel):
    """A rendered prompt (CMF ``prompt_result``); ``messages`` are canonical messages as JSON objects."""

    type: Literal["prompt_result"] = "prompt_result"
    prompt_request_id: Text
    """The id of the request that this answers."""
    prompt_name: Text
    """The name of the template on its server."""
    messages: tuple[JsonObject, ...] = ()
    content: Text | None = None
    """The rendered prompt as one text, if the server gave a text."""
    is_error: bool = False
    """Whether the prompt could not be rendered."""
    error_message: Text | None = None
    """Why it could not be rendered."""


_KINDS = (
    "text", "tool_use", "tool_result", "image", "audio", "video", "document", "thinking", "redacted_thinking",
    "resource", "resource_ref", "prompt_request", "prompt_result", "provider",
)  # fmt: skip


def _tag(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    if not isinstance(kind, str):
        return None
    return kind if kind in _KINDS else "unknown"


def _reject_unknown(value: Any, info: ValidationInfo) -> Any:
    """Reject an unknown kind in a constructed message, and accept it in a message that is read."""
    if isinstance(value, UnknownBlock) or (info.context or {}).get("reading"):
        return value
    raise PydanticCustomError(
        "unknown_kind", "unknown type of block; the types are {kinds}", {"kinds": ", ".join(_KINDS)}
    )


ContentBlock = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ToolUseBlock, Tag("tool_use")]
    | Annotated[ToolResultBlock, Tag("tool_result")]
    | Annotated[ImageBlock, Tag("image")]
    | Annotated[AudioBlock, Tag("audio")]
    | Annotated[VideoBlock, Tag("video")]
    | Annotated[DocumentBlock, Tag("document")]
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[RedactedThinkingBlock, Tag("redacted_thinking")]
    | Annotated[ResourceBlock, Tag("resource")]
    | Annotated[ResourceRefBlock, Tag("resource_ref")]
    | Annotated[PromptRequestBlock, Tag("prompt_request")]
    | Annotated[PromptResultBlock, Tag("prompt_result")]
    | Annotated[ProviderBlock, Tag("provider")]
    | Annotated[UnknownBlock, BeforeValidator(_reject_unknown), Tag("unknown")],
    Discriminator(
        _tag,
        custom_error_type="no_block",
        custom_error_message="a block is one of the block classes or a dict with a type; a text is TextBlock(text=...)",
    ),
]
"""A block of any kind, told apart by its ``type``. Source: docs/reference/canonical.md#blocks."""

SINGLE_VALUES = (BaseModel, Mapping, bytes, bytearray)
"""Iterable types that are not lists of blocks: a single block, a dict, bytes."""


def _as_blocks(value: Any) -> Any:
    if isinstance(value, str):
        return ({"type": "text", "text": value},)
    if isinstance(value, (tuple, list)):  # the common case
        return value
    if isinstance(value, SINGLE_VALUES) or not isinstance(value, Iterable):
        raise PydanticCustomError(
            "no_blocks", "content must be a text or a list of blocks, not a {kind}", {"kind": type(value).__name__}
        )
    return value


Content = Annotated[tuple[ContentBlock, ...], BeforeValidator(_as_blocks)]
"""An ordered tuple of blocks; a plain string is accepted and becomes one text block."""

ToolResultBlock.model_rebuild()

MediaBlock = ImageBlock | AudioBlock | VideoBlock | DocumentBlock
MEDIA_BLOCKS = (ImageBlock, AudioBlock, VideoBlock, DocumentBlock)
MEDIA_CLASSES: dict[str, type[MediaBlock]] = {
    "image": ImageBlock,
    "audio": AudioBlock,
    "video": VideoBlock,
    "document": DocumentBlock,
}
"""The classes of media by their types."""


def has_only_texts(content: Iterable[ContentBlock]) -> bool:
    """Whether all blocks are texts, calls, or results of texts, as nearly all are: none names a file, or holds other
    messages."""
    for block in content:
        kind = type(block)
        if kind is TextBlock or kind is ToolUseBlock:
            continue
        if not isinstance(block, ToolResultBlock) or any(type(part) is not TextBlock for part in block.content):
            return False
    return True
