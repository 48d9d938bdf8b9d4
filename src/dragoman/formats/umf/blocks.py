"""Blocks as UMF blocks and back. Source: docs/reference/umf.md#blocks."""

from collections.abc import Mapping

from pydantic_core import to_json

from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests.unsupported_blocks import flatten_block
from dragoman.canonical.blocks import ContentBlock, ImageBlock, MediaSource, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.formats.results import LossCollector
from dragoman.formats.tool_calls import ToolIdReader
from dragoman.formats.umf import models as umf

_ANY_TYPE = "application/octet-stream"


def write_block(
    message: Message, index: int, block: ContentBlock, ids: Mapping[str, str], losses: LossCollector
) -> umf.Block | None:
    """Return the block, or None if UMF has no form for it, which is a loss. ``ids`` are the document's tool ids by
    ours.
    """
    match block:
        case TextBlock():
            if block.citations:
                losses.add(message, index, "UMF has no citations: left out")
            return umf.Text(text=block.text)
        case ToolUseBlock():
            if block.raw_input is not None and block.input:
                losses.add(message, index, "the call has an input and a raw input: the raw one is written")
            call_input = block.input if block.raw_input is None else block.raw_input
            return umf.ToolUse(id=ids.get(block.id, block.id), name=block.name, input=call_input)
        case ToolResultBlock():
            if block.is_error:
                losses.add(message, index, "a tool_result of UMF has no flag for errors: left out")
            text = result_text(message, index, block, losses)
            return umf.ToolResult(tool_use_id=ids.get(block.tool_use_id, block.tool_use_id), content=text)
        case ImageBlock(source=MediaSource(kind="base64" | "url")):
            return _image(message, index, block, losses)
        case _ if (flat := flatten_block(block)) is not None:
            losses.add(message, index, f"UMF has no form for this {block.type} block: written as text")
            return umf.Text(text=flat.text)
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
        losses.add(message, index, "a result in UMF is one text: its texts are joined", severity=Severity.INFO)
    return "".join(texts)


def block_of(block: umf.Block, ids: ToolIdReader) -> ContentBlock:
    """Return the canonical block. Input that is not an object becomes the call's raw input."""
    match block:
        case umf.Text():
            return TextBlock(text=block.text)
        case umf.Image(source=umf.Base64Source() as source):
            return ImageBlock(source=MediaSource(kind="base64", data=source.data), media_type=source.media_type)
        case umf.Image(source=umf.UrlSource() as source):
            return ImageBlock(source=MediaSource(kind="url", data=source.url))
        case umf.ToolUse(input=dict() as call_input):
            return ToolUseBlock(id=ids.call_id(block.id), name=block.name, input=call_input)
        case umf.ToolUse(input=call_input):
            raw = call_input if isinstance(call_input, str) else to_json(call_input).decode()
            return ToolUseBlock(id=ids.call_id(block.id), name=block.name, raw_input=raw)
        case umf.ToolResult():
            content = (TextBlock(text=block.content),) if block.content else ()
            return ToolResultBlock(tool_use_id=ids.result_id(block.tool_use_id), content=content)
    raise AssertionError(f"not a block of UMF: {type(block).__name__}")


def _image(message: Message, index: int, block: ImageBlock, losses: LossCollector) -> umf.Image:
    if block.detail is not None:
        losses.add(message, index, "UMF has no resolution of an image: left out", severity=Severity.INFO)
    source = block.source
    if source.provider is not None:
        losses.add(message, index, "UMF has no owner of an image: left out", severity=Severity.INFO)
    if source.kind == "url":
        if block.media_type is not None:
            losses.add(message, index, "UMF has no type of an image by URL: left out", severity=Severity.INFO)
        return umf.Image(source=umf.UrlSource(url=source.data))
    if block.media_type is None:
        reason = f"UMF requires the type of an image: it is unknown, written as {_ANY_TYPE}"
        losses.add(message, index, reason, severity=Severity.INFO)
    return umf.Image(source=umf.Base64Source(media_type=block.media_type or _ANY_TYPE, data=source.data))
