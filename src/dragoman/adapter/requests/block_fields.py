"""The fields of a block or a message that a wire may not support, and the losses that follow.

A provider's message may have fields that no canonical one holds, such as one that says how long the message counts.
Adapters keep them in ``provider_raw`` and send them back to the same provider. Elsewhere, they are a loss.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.requests.turns import SYNTHETIC
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.message import Message

BlockField = Literal[
    "citations", "arguments", "signatures", "errors", "text_boundaries", "order", "resolution", "title", "note",
    "names", "link_names", "kept_titles", "text_documents", "types", "link_types", "inferred_types",
]  # fmt: skip
"""The fields that a wire may not support.

Of texts, calls, thinking: their sources, arguments that are not a JSON object, signatures. Of a tool's answer: a flag
for failure, the boundaries between its texts, the order of texts and media. Of media: the resolution of an image; the
title of a document, also of a kept file alone, and the note that goes with it; files, also linked ones, that need no
name; documents of plain text; media types, also of links and kept files alone. ``inferred_types``: a link or a kept
file without a type is given one, or read as of another.
"""

LostField = tuple[LossKind, str, Severity]
_INFO, _WARNING = Severity.INFO, Severity.WARNING


def find_lost_fields(
    block: ContentBlock, unsupported: Collection[BlockField], *, synthetic: bool = False, from_same_wire: bool = False
) -> Iterator[LostField]:
    """Yield the losses of a block on a wire that does not support those fields.

    ``synthetic``: the block is not the history's own. ``from_same_wire``: it was decoded from the same wire, so the
    provider does not need those fields back.
    """
    match block:
        case TextBlock() if block.citations and "citations" in unsupported:
            yield LossKind.CITATIONS, "the sources of a text are not sent", _INFO if from_same_wire else _WARNING
        case ToolUseBlock() if block.raw_input is not None and "arguments" in unsupported:
            yield LossKind.INVALID_INPUT, "arguments that are not a JSON object: left out", _WARNING
        case ThinkingBlock() if block.signature and "signatures" in unsupported:
            yield LossKind.THINKING, "the signature of thinking is not sent", _WARNING
        case ToolResultBlock():
            yield from _lost_in_result(block, unsupported, synthetic=synthetic)
        case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
            yield from _lost_in_media(block, unsupported)
        case _:
            pass


def find_lost_hints(messages: Iterable[Message], *, marks_cache: bool, cites_documents: bool) -> Iterator[Loss]:
    """Yield the losses of places up to which to cache, and of documents to cite, on a wire without them."""
    if marks_cache and cites_documents:
        return
    for message in messages:
        for index in () if marks_cache else message.metadata.cache_breakpoints or ():
            reason = "cache_breakpoints: the wire does not mark what to cache"
            yield Loss(LossKind.OPTION, message.id, index, reason, _INFO)
        for index, block in () if cites_documents else enumerate(message.content):
            if not isinstance(block, (DocumentBlock, ToolResultBlock)):
                continue
            parts = block.content if isinstance(block, ToolResultBlock) else (block,)
            if any(isinstance(part, DocumentBlock) and part.citations is not None for part in parts):
                reason = "whether answers cite a document is not sent"
                yield Loss(LossKind.CITATIONS, message.id, index, reason, _INFO, block.type)


def _lost_in_result(
    block: ToolResultBlock, unsupported: Collection[BlockField], *, synthetic: bool
) -> Iterator[LostField]:
    if block.is_error and "errors" in unsupported and not synthetic:
        yield LossKind.FLATTENED, "the wire has no flag for a failed tool: its answer must say so itself", _INFO
    if "text_boundaries" in unsupported and sum(isinstance(part, TextBlock) for part in block.content) > 1:
        yield LossKind.FLATTENED, "the texts of a tool's answer are sent as one", _INFO
    texts = [isinstance(part, TextBlock) for part in block.content]
    if "order" in unsupported and texts != sorted(texts, reverse=True):
        yield LossKind.FLATTENED, "the texts of a tool's answer go before its media", _INFO
    for part in block.content:
        if not isinstance(part, TextBlock):  # the projection names the sources of texts in answers
            yield from find_lost_fields(part, unsupported)


def _lost_in_media(block: MediaBlock, unsupported: Collection[BlockField]) -> Iterator[LostField]:
    kind = block.type
    if isinstance(block, ImageBlock) and block.detail not in (None, "auto") and "resolution" in unsupported:
        yield LossKind.MEDIA, "the resolution that an image was meant for is not sent", _INFO
    if isinstance(block, DocumentBlock):
        yield from _lost_in_document(block, unsupported)
    if isinstance(block, AudioBlock) and block.transcript is not None:
        yield LossKind.MEDIA, "sound is sent without its transcript", _INFO
    if isinstance(block, AudioBlock | VideoBlock) and block.duration_ms is not None:
        yield LossKind.MEDIA, f"the duration of the {kind} is not sent", _INFO
    yield from _lost_media_type(block, unsupported)


def _lost_in_document(block: DocumentBlock, unsupported: Collection[BlockField]) -> Iterator[LostField]:
    kind = block.source.kind
    if block.title and ("title" in unsupported or (kind == "file_id" and "kept_titles" in unsupported)):
        yield LossKind.MEDIA, "the title of a document is not sent", _WARNING
    if not block.title and (
        (kind == "base64" and "names" in unsupported) or (kind == "url" and "link_names" in unsupported)
    ):
        yield LossKind.MEDIA, "a document without a title is sent under a name", _INFO
    if block.context and "note" in unsupported:
        yield LossKind.MEDIA, "the note that goes with a document is not sent", _WARNING
    if kind == "text" and "text_documents" in unsupported:
        yield LossKind.FLATTENED, "a document of plain text is sent as text", _INFO


def _lost_media_type(block: MediaBlock, unsupported: Collection[BlockField]) -> Iterator[LostField]:
    if block.source.kind == "text" and "text_documents" in unsupported:
        return
    linked = block.source.kind in ("url", "file_id")
    if block.media_type is None:
        if "inferred_types" in unsupported if linked else "types" not in unsupported:
            yield LossKind.MEDIA, f"the media type of the {block.type} is not known: a likely one is sent", _INFO
    elif "types" in unsupported or (linked and "link_types" in unsupported):
        yield LossKind.MEDIA, f"the media type of the {block.type} is not sent", _INFO


MESSAGE_FIELDS = "message_fields"
"""The key of ``provider_raw`` that holds them."""


ACTIONS_NOTE = "actions"
"""The key of ``provider_raw`` that holds the ids of the calls that `ActionCalls` translated."""


def unread_fields(native: Mapping[str, Any], read: Collection[str]) -> dict[str, Any]:
    """Return the note of the fields of a native message that are not ``read``; empty if there are none."""
    if len(native) == len(read):
        return {}
    fields = {name: value for name, value in native.items() if name not in read}
    return {MESSAGE_FIELDS: fields} if fields else {}


def without_fields(note: Mapping[str, Any]) -> dict[str, Any]:
    """Return the note for the other messages that one native message became: the first one has its fields."""
    return {name: value for name, value in note.items() if name != MESSAGE_FIELDS}


def find_lost_message_fields(messages: Iterable[Message], provider: str) -> list[Loss]:
    """Return the fields of other providers' messages as losses."""
    losses: list[Loss] = []
    for message in messages:  # a plain loop, because it reads the whole history
        raw = message.metadata.provider_raw
        if raw and MESSAGE_FIELDS in raw and raw.get("by") != provider:
            losses += field_losses(message, raw["by"])
    return losses


def field_losses(message: Message, home: str) -> list[Loss]:
    """Return the fields of one message as a loss. ``home`` is where they mean something."""
    fields = (message.metadata.provider_raw or {}).get(MESSAGE_FIELDS, {})
    names = ", ".join(name for name, value in fields.items() if value is not None)
    if not names:
        return []
    reason = f"{names:.200} of a message means nothing outside of {home}: left out"
    return [Loss(LossKind.FIELD, message.id, SYNTHETIC, reason)]
