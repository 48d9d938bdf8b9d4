"""LlamaIndex's messages: a list of them, the file of a chat store, or that of a memory.

Source: llama_index/core/base/llms/types.py and llama_index/core/storage/chat_store/simple_chat_store.py, 0.14.
"""

from collections.abc import Iterator
from typing import Any

from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import kind_of, parse, parse_json_or_lines
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.blocks import (
    cite_last_text,
    provider_block,
    read_citation,
    read_media,
    text_blocks,
    to_text,
)
from dragoman.formats.reading.fields import Fields, iter_fields, typed_errors
from dragoman.formats.reading.turns import Turns
from dragoman.formats.results import Conversation

FORMAT = "llama-index"

_MEDIA = ("image", "audio", "video", "document")
_MEDIA_TYPES = ("image_mimetype", "video_mimetype", "document_mimetype", "audio_mimetype")


@typed_errors
def from_llama_index(document: Any) -> list[Conversation]:
    """Return the conversations of a store by their keys, or the one of a list or of a memory.

    Raises FormatError, with a path.
    """
    data = parse_json_or_lines(document, format_name=FORMAT)
    return [Conversation(name, _read(messages, at)) for name, messages, at in _lists(data, "$")]


def _lists(data: Any, path: str) -> Iterator[tuple[str, Any, str]]:
    """Yield the lists of messages with their names and paths."""
    if isinstance(data, dict) and "chat_store" in data:
        fields = Fields(data, path, FORMAT)
        fields.ignore("token_limit", "chat_store_key", "tokenizer_fn", "class_name")
        yield from _lists(parse(fields.take("chat_store"), format_name=FORMAT), f"{path}.chat_store")
        fields.close()
    elif isinstance(data, dict) and "store" in data:
        fields = Fields(data, path, FORMAT)
        fields.ignore("class_name")
        store = fields.take("store")
        fields.close()
        if not isinstance(store, dict):
            raise fields.fault("store", "must be an object with a list for each key")
        for name, messages in store.items():
            if not isinstance(messages, list):
                raise FormatError(f"must be a list of messages, not {kind_of(messages)}", path=f"{path}.store.{name}")
            yield name, messages, f"{path}.store.{name}"
    else:
        yield "1", data, path


def _read(messages: Any, path: str) -> list[Message]:
    turns = Turns()
    for message in iter_fields(messages, FORMAT, path):
        role, extra = message.role(), message.inner("additional_kwargs")
        turns.start(role)
        signatures = extra.take("thinking_signature")
        blocks = _join_citations([block for part in message.objects("blocks") for block in _block(part, turns)])
        if isinstance(content := message.take("content"), str):  # before blocks
            blocks += text_blocks(content)
        if signatures is not None and blocks and isinstance(blocks[0], ThinkingBlock) and blocks[0].signature is None:
            blocks[0] = blocks[0].model_copy(update={"signature": to_text(signatures)})
        turns.add(role, _with_extra(role, blocks, extra, turns), message.path)
    return turns.messages


def _with_extra(role: Role, blocks: list[ContentBlock], extra: Fields, turns: Turns) -> list[ContentBlock]:
    """Return the blocks with what stands next to them: the calls of a reply, the call of a result, citations."""
    if role is Role.TOOL:
        native_id, name = extra.text("tool_call_id"), extra.text("name", "tool_name")
        return [turns.result(native_id, name, blocks, is_error=extra.flag("is_error"))]
    calls = [call for call in extra.objects("tool_calls") if role is Role.ASSISTANT]
    # Version 0.14 stores only the first of several calls as a block, and all of them here.
    held = [block for block in blocks if isinstance(block, ToolUseBlock)]
    for number, call in enumerate(calls):
        if number < len(held):
            call.whole()
            continue
        call.ignore("type", "index")
        inner = call.object("function") or call
        blocks.append(turns.call(call.text("id"), inner.required_text("name"), inner.take("arguments", "input")))
    citations = extra.objects("citations")
    position = next((index for index in reversed(range(len(blocks))) if isinstance(blocks[index], TextBlock)), None)
    if citations and position is not None:
        found = tuple(read_citation(each.whole()) for each in citations)
        blocks[position] = blocks[position].model_copy(update={"citations": found})
    if extra.take("refusal") is not None and not blocks:
        return text_blocks(extra.take("refusal"))
    return blocks


def _block(block: Fields, turns: Turns) -> list[ContentBlock]:
    kind = block.text("block_type") or ""
    match kind:
        case "text":
            return text_blocks(block.text("text"))
        case "thinking":
            return _thinking(block)
        case "tool_call":
            arguments = block.take("tool_kwargs")
            return [turns.call(block.text("tool_call_id"), block.required_text("tool_name"), arguments)]
        case "citation" | "citable":
            return [TextBlock(text="", citations=(_citation(block),))]
        case _ if kind in _MEDIA:
            return [_media(block, kind)]
        case _:
            return [provider_block(FORMAT, kind, {"block_type": kind, **block.whole()})]


def _thinking(block: Fields) -> list[ContentBlock]:
    block.ignore("num_tokens")
    noted, text = block.inner("additional_information"), block.text("content") or ""
    redacted = noted.text("data") if noted.look("type") == "redacted_thinking" else None
    signature = noted.text("signature", "encrypted_content")
    noted.ignore("type", "id", "summary", "content", "status")
    if redacted is not None:
        return [RedactedThinkingBlock(data=redacted)]
    return [ThinkingBlock(text=text, signature=signature)] if text or signature else []


def _citation(block: Fields) -> Citation:
    """Return a source that a reply cites: LlamaIndex keeps it as a block before the text."""
    native: dict[str, Any] = {"type": "citation", "title": block.text("title")}
    source = block.take("source")
    if isinstance(source, str) and source.startswith(("http:", "https:")):
        native["url"] = source
    else:
        native["source"] = source
    cited = [block.inner("cited_content"), *block.objects("content")]
    for each in cited:
        each.ignore("block_type")
    native["cited_text"] = "".join(each.text("text") or "" for each in cited) or None
    native |= block.inner("additional_location_info").whole()
    return read_citation({name: value for name, value in native.items() if value is not None})


def _join_citations(blocks: list[ContentBlock]) -> list[ContentBlock]:
    """Return the blocks with each citation on the text after it, or on the last one."""
    joined: list[ContentBlock] = []
    waiting: tuple[Citation, ...] = ()
    for block in blocks:
        if isinstance(block, TextBlock) and block.citations and not block.text:
            waiting += block.citations
        elif isinstance(block, TextBlock) and waiting:
            joined.append(block.model_copy(update={"citations": (*waiting, *block.citations)}))
            waiting = ()
        else:
            joined.append(block)
    if waiting and not any(isinstance(block, TextBlock) for block in joined):
        return [*joined, TextBlock(text="", citations=waiting)]
    return cite_last_text(joined, waiting)


def _media(block: Fields, kind: str) -> ContentBlock:
    media_type, subtype = block.text(*_MEDIA_TYPES), block.text("format")
    if media_type is None and subtype is not None:
        media_type = f"{kind}/{subtype}"
    block.drop("fps", "a video has no rate of frames: left out")
    fields = {name: block.text(name) for name in ("url", "path", "detail", "title")}
    fields |= {"data": block.text("image", "audio", "video", "data"), "kind": kind if kind != "document" else None}
    read = read_media(media_type, **fields)
    return provider_block(FORMAT, kind, block.whole()) if read is None else read
