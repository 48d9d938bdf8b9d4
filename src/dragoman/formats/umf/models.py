"""UMF as data: messages, blocks, and UMF's own constructors. Source: docs/reference/umf.md#messages.

Nulls and empty metadata are accepted and never written. Unknown keys are ignored.

Blocks as UMF blocks and back. Source: docs/reference/umf.md#blocks.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic_core import to_json

from dragoman.adapter.losses import LossKind
from dragoman.adapter.requests.unsupported_blocks import flatten_block
from dragoman.canonical.blocks import ContentBlock, ImageBlock, MediaSource, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.formats.reading.tool_calls import ToolIdReader
from dragoman.formats.results import LossCollector


class UmfModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, hide_input_in_errors=True)


class Base64Source(UmfModel):
    type: Literal["base64"] = "base64"
    media_type: str
    data: str


class UrlSource(UmfModel):
    type: Literal["url"] = "url"
    url: str


class Text(UmfModel):
    type: Literal["text"] = "text"
    text: str


class Image(UmfModel):
    type: Literal["image"] = "image"
    source: Annotated[Base64Source | UrlSource, Discriminator("type")]


class ToolUse(UmfModel):
    """``input`` is any JSON."""

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: Any


class ToolResult(UmfModel):
    """The block-level encoding of a result; it has no flag for errors."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: str


Block = Annotated[Text | Image | ToolUse | ToolResult, Discriminator("type")]


Content = Annotated[
    Annotated[str, Tag("string")] | Annotated[list[Block], Tag("blocks")],
    Discriminator(
        lambda value: "string" if isinstance(value, str) else "blocks" if isinstance(value, list) else None,
        custom_error_type="no_content",
        custom_error_message="content must be a text or a list of blocks",
    ),
]


class CalledFunction(UmfModel):
    """``arguments`` is the JSON text of an object."""

    name: str
    arguments: str | dict[str, Any] = "{}"


class ToolCall(UmfModel):
    """A call in OpenAI's form."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class InternalMessage(UmfModel):
    """One message of UMF. ``metadata`` is any JSON by name. ``tool_call_id`` and ``name`` belong to the message-level
    encoding of a result: the role ``tool`` and a text. ``tool_calls`` are calls in OpenAI's form, next to the content.
    """

    role: Literal["system", "user", "assistant", "tool"]
    """Who speaks. UMF has no developer role."""
    content: Content
    """A text, or blocks."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    tool_call_id: str | None = None
    name: str | None = None
    tool_calls: list[ToolCall] = Field(default_factory=list)

    @classmethod
    def system(cls, text: str) -> Self:
        """Return a message with instructions."""
        return cls(role="system", content=text)

    @classmethod
    def user(cls, text: str) -> Self:
        """Return a message of the user."""
        return cls(role="user", content=text)

    @classmethod
    def assistant(cls, text: str) -> Self:
        """Return a reply without calls."""
        return cls(role="assistant", content=text)

    @classmethod
    def assistant_with_tools(cls, text: str, calls: Sequence[ToolUse]) -> Self:
        """The text comes first, even if it is empty."""
        return cls(role="assistant", content=[Text(text=text), *calls])

    @classmethod
    def tool_result(cls, tool_call_id: str, name: str, text: str) -> Self:
        """Return the message-level encoding of a result."""
        return cls(role="tool", content=text, tool_call_id=tool_call_id, name=name)

    @classmethod
    def tool(cls, text: str) -> Self:
        """Return the old form of a result, without a call id."""
        return cls(role="tool", content=text)

    def text(self) -> str:
        """Return the text, or the joined texts of the blocks."""
        if isinstance(self.content, str):
            return self.content
        return "".join(block.text for block in self.content if isinstance(block, Text))

    def blocks(self) -> list[Block]:
        """Return the blocks; a text is one block."""
        return [Text(text=self.content)] if isinstance(self.content, str) else list(self.content)

    def as_dict(self) -> dict[str, Any]:
        """Return the message in its written form: without nulls, and without empty metadata."""
        written = self.model_dump()
        optional = {name: written[name] for name in ("tool_calls", "metadata") if written[name]}
        optional |= {name: written[name] for name in ("tool_call_id", "name") if written[name] is not None}
        return {"role": self.role, "content": written["content"], **optional}


_ANY_TYPE = "application/octet-stream"


def write_block(
    message: Message, index: int, block: ContentBlock, ids: Mapping[str, str], losses: LossCollector
) -> Block | None:
    """Return the block, or None if UMF has no form for it, which is a loss. ``ids`` are the document's tool ids by
    ours.
    """
    match block:
        case TextBlock():
            if block.citations:
                losses.add(message, index, "UMF has no citations: left out")
            return Text(text=block.text)
        case ToolUseBlock():
            if block.raw_input is not None and block.input:
                losses.add(message, index, "the call has an input and a raw input: the raw one is written")
            call_input = block.input if block.raw_input is None else block.raw_input
            return ToolUse(id=ids.get(block.id, block.id), name=block.name, input=call_input)
        case ToolResultBlock():
            if block.is_error:
                losses.add(message, index, "a tool_result of UMF has no flag for errors: left out")
            text = result_text(message, index, block, losses)
            return ToolResult(tool_use_id=ids.get(block.tool_use_id, block.tool_use_id), content=text)
        case ImageBlock(source=MediaSource(kind="base64" | "url")):
            return _image(message, index, block, losses)
        case _ if (flat := flatten_block(block)) is not None:
            losses.add(message, index, f"UMF has no form for this {block.type} block: written as text")
            return Text(text=flat.text)
        case _:
            losses.add(message, index, f"UMF has no form for this {block.type} block: left out")
            return None


def result_text(message: Message, index: int, block: ToolResultBlock, losses: LossCollector) -> str:
    """Return a result as the one text that UMF allows."""
    texts: list[str] = []
    for part in block.content:
        if isinstance(part, TextBlock):
            texts.append(part.text)
            if part.citations:
                losses.add(message, index, "UMF has no citations: left out", kind=LossKind.CITATIONS)
        elif (flat := flatten_block(part)) is not None:
            texts.append(flat.text)
            losses.add(message, index, f"a result in UMF is a text: the {part.type} in it is written as text")
        else:
            losses.add(message, index, f"a result in UMF is a text: the {part.type} in it is left out")
    if len(texts) > 1:
        losses.add_info(message, index, "a result in UMF is one text: its texts are joined")
    return "".join(texts)


def block_of(block: Block, ids: ToolIdReader) -> ContentBlock:
    """Return the canonical block. Input that is not an object becomes the call's raw input."""
    match block:
        case Text():
            return TextBlock(text=block.text)
        case Image(source=Base64Source() as source):
            return ImageBlock(source=MediaSource(kind="base64", data=source.data), media_type=source.media_type)
        case Image(source=UrlSource() as source):
            return ImageBlock(source=MediaSource(kind="url", data=source.url))
        case ToolUse(input=dict() as call_input):
            return ToolUseBlock(id=ids.call_id(block.id), name=block.name, input=call_input)
        case ToolUse(input=call_input):
            raw = call_input if isinstance(call_input, str) else to_json(call_input).decode()
            return ToolUseBlock(id=ids.call_id(block.id), name=block.name, raw_input=raw)
        case ToolResult():
            content = (TextBlock(text=block.content),) if block.content else ()
            return ToolResultBlock(tool_use_id=ids.result_id(block.tool_use_id), content=content)
    raise AssertionError(f"not a block of UMF: {type(block).__name__}")


def _image(message: Message, index: int, block: ImageBlock, losses: LossCollector) -> Image:
    if block.detail is not None:
        losses.add_info(message, index, "UMF has no resolution of an image: left out")
    source = block.source
    if source.provider is not None:
        losses.add_info(message, index, "UMF has no owner of an image: left out")
    if source.kind == "url":
        if block.media_type is not None:
            losses.add_info(message, index, "UMF has no type of an image by URL: left out")
        return Image(source=UrlSource(url=source.data))
    if block.media_type is None:
        losses.add_info(message, index, f"UMF requires the type of an image: it is unknown, written as {_ANY_TYPE}")
    return Image(source=Base64Source(media_type=block.media_type or _ANY_TYPE, data=source.data))
