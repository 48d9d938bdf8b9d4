"""A message as a message body, and back. A body has no role, channel or time.

Parts without a name are the conversation: text, images, audio. Named parts are everything else: documents under their
titles, tool calls and results as JSON under ``/tool_calls`` and ``/tool_results``, prompts under ``/prompts``.
Source: docs/reference/message-body.md#conversion.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests.unsupported_blocks import flatten_block
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    PromptRequestBlock,
    PromptResultBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH, copy_json
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.canonical.words import READING
from dragoman.formats import verbatim
from dragoman.formats.body.message_body import (
    ANY_TYPE,
    FORMAT,
    MessageBody,
    MessageBodyPart,
    Part,
    is_base64,
    is_url,
    name_fault,
    type_fault,
)
from dragoman.formats.body.schema import MessageBodySchema
from dragoman.formats.document import parse
from dragoman.formats.errors import FormatError
from dragoman.formats.results import Conversion, LossCollector, as_message, finish

PartT = TypeVar("PartT", bound=Part)
Fields = dict[str, Any]
Ids = Callable[[str], str]

_JSON = "application/json"
_PLAIN = "text/plain"
_FOLDERS: Mapping[str, tuple[type[BaseModel], ...]] = {
    "/tool_calls/": (ToolUseBlock,),
    "/tool_results/": (ToolResultBlock,),
    "/prompts/": (PromptRequestBlock, PromptResultBlock),
    "/resources/": (ResourceRefBlock,),
}
"""The folders of blocks that are stored as JSON."""
_MEDIA: Mapping[str, type[ImageBlock | AudioBlock | VideoBlock]] = {
    "image": ImageBlock,
    "audio": AudioBlock,
    "video": VideoBlock,
}
_PRESENTATION_FIELDS = frozenset({"detail", "duration_ms", "media_type", "title", "provider"})
"""Fields whose loss does not lose content."""
_LABEL = "a message body"


def block_of(part: Part, call_id: Ids = str, result_id: Ids = str) -> ContentBlock:
    """Return the block of a part. ``call_id`` and ``result_id`` return the ids of calls and of the calls of results."""
    if part.name is not None and (embedded := _embedded_block(part, part.name, call_id, result_id)) is not None:
        return embedded
    if part.name is None and part.is_text and part.content_url is None:
        with suppress(ValueError):  # of an unknown charset, or of bytes that are not in it
            text = part.decode(part.inline_bytes() or b"") if part.content and part.is_base64 else part.content
            return TextBlock(text=text or "")  # without a content, the metadata hold everything
    if part.content_url is not None:
        source = MediaSource(kind="url", data=part.content_url)
    else:
        source = MediaSource(kind="base64" if part.is_base64 else "text", data=part.content or "")
    kind = _MEDIA.get(part.media_type.partition("/")[0])
    if kind is not None and source.kind != "text":
        return kind(source=source, media_type=part.content_type)
    return DocumentBlock(source=source, media_type=part.content_type, title=part.name)


def _embedded_block(part: Part, name: str, call_id: Ids, result_id: Ids) -> ContentBlock | None:
    """Return the block that a part holds as JSON, or None. The name alone does not make a part such a block."""
    kinds = next((kinds for folder, kinds in _FOLDERS.items() if name.startswith(folder)), ())
    if not kinds or part.media_type != _JSON or (text := part.plain_text()) is None:
        return None
    try:
        value = copy_json(from_json(text, allow_inf_nan=False), MAX_DOCUMENT_DEPTH)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    if "type" not in value and len(kinds) == 1:
        value["type"] = kinds[0].model_fields["type"].default
    kind = next((kind for kind in kinds if value.get("type") == kind.model_fields["type"].default), None)
    try:
        block: Any = kind.model_validate(value, context=READING) if kind is not None else None
    except ValidationError:
        return None
    if isinstance(block, ToolUseBlock):
        return block.model_copy(update={"id": call_id(block.id)})
    if isinstance(block, ToolResultBlock):
        return block.model_copy(update={"tool_use_id": result_id(block.tool_use_id)})
    found: ContentBlock | None = block
    return found


@dataclass(slots=True)
class PartWriter(Generic[PartT]):
    """Writes the parts of one message in one dialect.

    ``build_part`` builds a part from its fields, ``is_valid_name`` says whether a text is a valid name, ``ids`` are the
    document's own tool ids by ours, and ``read`` returns the block that a reader would make of a part.
    """

    format_name: str
    build_part: Callable[[Fields], PartT]
    is_valid_name: Callable[[str], bool]
    ids: Mapping[str, str]
    losses: LossCollector
    read: Callable[[PartT], ContentBlock]
    taken: set[str] = field(default_factory=set)
    """The names of the parts so far."""

    def parts(self, message: Message) -> list[PartT]:
        """Return the parts of the blocks. A block without one is a loss."""
        parts = (self._part(message, index) for index in range(len(message.content)))
        return [part for part in parts if part is not None]

    def _part(self, message: Message, index: int) -> PartT | None:
        block = message.content[index]
        candidates = [self.build_part(fields) for fields in self._candidates(block)]
        if not candidates:
            kind = block.source.kind if isinstance(block, MEDIA_BLOCKS) else None
            what = f"{block.type} block" if kind is None else f"{block.type} with a {kind} source"
            self.losses.add(message, index, f"{self.format_name} has no form for the {what}: left out")
            return None
        # The first that reads back unchanged is the best, or else the first that reads back as the same kind.
        read_parts = [(part, self.read(part)) for part in candidates]
        same = [each for each in read_parts if each[1] == self._with_native_id(block)]
        same_type = [each for each in read_parts if each[1].type == block.type]
        written, read = (same or same_type or read_parts)[0]
        if written.name is not None:
            self.taken.add(written.name)
        if read.type != block.type:
            reason = f"{self.format_name} has no form for it: the {block.type} is read as a {read.type}"
            self.losses.add(message, index, reason)
        elif not same:
            changed = sorted(_differences(self._with_native_id(block).model_dump(), read.model_dump()))
            reason = f"{self.format_name} cannot hold all of the {block.type} block ({', '.join(changed)})"
            severity = Severity.INFO if set(changed) <= _PRESENTATION_FIELDS else Severity.WARNING
            self.losses.add(message, index, reason, severity=severity)
        return written

    def _with_native_id(self, block: ContentBlock) -> ContentBlock:
        """Return the block with the document's own id for its call."""
        if isinstance(block, ToolUseBlock) and block.id in self.ids:
            return block.model_copy(update={"id": self.ids[block.id]})
        if isinstance(block, ToolResultBlock) and block.tool_use_id in self.ids:
            return block.model_copy(update={"tool_use_id": self.ids[block.tool_use_id]})
        return block

    def _candidates(self, block: ContentBlock) -> Iterator[Fields]:
        """Yield the ways to write a block, the best first."""
        match block:
            case TextBlock():
                yield {"content_type": _PLAIN, "content": block.text}
            case ToolUseBlock() | ToolResultBlock() | PromptRequestBlock() | PromptResultBlock() | ResourceRefBlock():
                name = self._unique_name(next(each for each, kinds in _FOLDERS.items() if isinstance(block, kinds)))
                implied = {"type"} if isinstance(block, (ToolUseBlock, ToolResultBlock)) else None
                written = self._with_native_id(block).model_dump(mode="json", exclude=implied, exclude_none=True)
                yield {"name": name, "content_type": _JSON, "content": to_json(written).decode()}
            case ResourceBlock():
                yield self._resource(block)
            case ImageBlock() | AudioBlock() | VideoBlock():
                if (content := _content(block.source)) is not None:
                    yield {"content_type": _type(block.media_type, ANY_TYPE), **content}
            case DocumentBlock():
                if (content := _content(block.source)) is not None:
                    fallback = _PLAIN if block.source.kind == "text" else ANY_TYPE
                    fields = {"content_type": _type(block.media_type, fallback), **content}
                    yield from ({**fields, **named} for named in self._titles(block.title))

    def _resource(self, block: ResourceBlock) -> Fields:
        fields: Fields = {"name": next((each["name"] for each in self._titles(block.name) if each), "")}
        if block.content is not None:
            return {**fields, "content_type": _type(block.mime_type, _PLAIN), "content": block.content}
        kind = _type(block.mime_type, ANY_TYPE)
        if block.blob is not None and is_base64(block.blob):
            return {**fields, "content_type": kind, "content": block.blob, "content_encoding": "base64"}
        if block.blob is None and is_url(block.uri):
            return {**fields, "content_type": kind, "content_url": block.uri}
        flat = flatten_block(block)
        return {"content_type": _PLAIN, "content": flat.text if flat else ""}

    def _titles(self, title: str | None) -> Iterator[Fields]:
        """Yield names for a document: its title, the closest valid name, none, and a generated one."""
        near = [title, f"/{title}"] if title is not None else []
        yield from ({"name": name} for name in near if self.is_valid_name(name) and name not in self.taken)
        yield {}
        yield {"name": self._unique_name("/documents/")}

    def _unique_name(self, folder: str) -> str:
        number = 1
        while f"{folder}{number}" in self.taken:
            number += 1
        return f"{folder}{number}"


def _content(source: MediaSource) -> Fields | None:
    """Return the fields of a source, or None if a part cannot hold it."""
    match source.kind:
        case "text":
            return {"content": source.data}
        case "base64" if is_base64(source.data):
            return {"content": source.data, "content_encoding": "base64"}
        case "url" if is_url(source.data):
            return {"content_url": source.data}
        case _:
            return None


def _type(media_type: str | None, fallback: str) -> str:
    return media_type if media_type is not None and type_fault(media_type) is None else fallback


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields that differ; for a source, its own fields."""
    for key in before:
        if before[key] != after.get(key):
            if key == "source" and isinstance(after.get(key), dict):
                yield from _differences(before[key], after[key])
            else:
                yield key


def to_message_body(message: Message) -> Conversion[MessageBody]:
    """Return the content of a message as a body. Raises CriticalLossError if a block marked critical would be lost."""
    losses = LossCollector(FORMAT)
    body = _write(as_message(message), losses)
    return finish(body, losses, [message], _LABEL)


def from_message_body(
    body: MessageBody | Any, *, role: Role | str = Role.USER, schema: MessageBodySchema | None = None
) -> Message:
    """Return the message of a body, given as a body or as JSON. Tool ids do not change.

    The body must obey the ``schema``, and the one that a document declares: an object with ``schema`` next to its
    ``parts``. `to_message_body` restores what a message cannot hold, unless the message was changed. Raises
    FormatError, with a path, and MessageBodyError with every violation of a schema.
    """
    message_body, declared = (body, None) if isinstance(body, MessageBody) else _read_document(body)
    for each in (schema, declared):
        if each is not None:
            each.enforce(message_body)
    content = tuple(block_of(part) for part in message_body.parts)
    result_ids = [block.tool_use_id for block in content if isinstance(block, ToolResultBlock)]
    role = Role(role)
    metadata = MessageMetadata(parent_tool_use_id=result_ids[0] if len(result_ids) == 1 and role is Role.TOOL else None)
    message = Message(role=role, content=content, metadata=metadata)
    if _write(message, LossCollector(FORMAT)).as_json() == message_body.as_json():
        return message
    return verbatim.attach([message], FORMAT, {"parts": message_body.as_json()})[0]


def read_body(document: Any) -> list[Message]:
    """As `from_message_body`, as a history of one message."""
    return [from_message_body(document)]


def write_body(history: Sequence[Message]) -> Conversion[Any]:
    """Write a history of one message as the JSON of a body. Raises ConfigurationError if it has more."""
    if len(history) != 1:
        raise ConfigurationError(f"a message body holds one message, not {len(history)}: use acp")
    written = to_message_body(history[0])
    return Conversion(written.data.as_json(), written.losses, written.labels)


def _read_document(document: Any) -> tuple[MessageBody, MessageBodySchema | None]:
    """Return the body in a document, and the schema that it declares."""
    value = parse(document, format_name=FORMAT)
    if not isinstance(value, dict) or "schema" not in value:
        return MessageBody.from_json(value), None
    try:
        declared = MessageBodySchema.from_json(value["schema"])
    except FormatError as error:
        raise FormatError(error.reason, path=f"$.schema{error.path.removeprefix('$')}") from None
    return MessageBody.from_json({name: each for name, each in value.items() if name != "schema"}), declared


def _write(message: Message, losses: LossCollector) -> MessageBody:
    if message.channel is not None:
        losses.add_info(message, -1, f"{_LABEL} has no channels", LossKind.CHANNEL)
    if (found := verbatim.recover([message], 0, FORMAT)) is not None:
        return MessageBody.from_json(found[0]["parts"])
    writer = PartWriter(
        _LABEL, MessageBodyPart.model_validate, lambda name: name_fault(name) is None, {}, losses, block_of
    )
    return MessageBody(tuple(writer.parts(message)))
