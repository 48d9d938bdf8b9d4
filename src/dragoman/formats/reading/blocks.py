"""Shared code of the importers: JSON to blocks, and foreign counts and names to ours."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic_core import to_json

from dragoman.adapter.registry import adapter_class, is_provider
from dragoman.adapter.wirejson import parse_arguments
from dragoman.canonical.blocks import (
    AudioBlock,
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.canonical.usage import Usage
from dragoman.formats.reading.fields import is_count, words_of
from dragoman.formats.reading.tool_calls import ToolIdReader, split_results

Fields = dict[str, Any]
SourceKind = Literal["base64", "url", "text", "file_ref", "file_id"]

_DATA_URL = re.compile(
    r"data:(?P<type>[^;,]*)(?:;[^;,]*)*?(?P<base64>;base64)?,(?P<data>.*)", re.DOTALL | re.IGNORECASE
)
_MEDIA = {"image": ImageBlock, "audio": AudioBlock, "video": VideoBlock}


def signature_notes(provider: str | None, signatures: Mapping[int, str]) -> Fields | None:
    """Return the adapter's note of signatures on calls and texts, by block, if the provider signs them."""
    if not signatures or provider is None or not is_provider(provider):
        return None
    return adapter_class(provider).signature_notes(signatures)


def model_fields_of(library: str, provider: str | None, name: str | None) -> Fields:
    """Return model and provider as a message's metadata has them. ``provider`` is the library's name for it."""
    ours = words_of(library).providers.get(provider, provider) if provider else None
    model = f"{ours}:{name}" if ours and name else name
    return {"model": model or None, "provider": ours or None}


def library_provider(library: str, provider: str) -> str:
    """Return the library's name of a provider."""
    return next((name for name, ours in words_of(library).providers.items() if ours == provider), provider)


def media_block(
    form: SourceKind,
    data: str,
    media_type: str | None = None,
    *,
    kind: str | None = None,
    owner: str | None = None,
    **fields: Any,
) -> ContentBlock:
    """Return a media block of the given kind, or of the kind of its type. Other types become documents.

    ``form`` says what the data are; ``owner`` is the provider that keeps a file.
    """
    source = MediaSource(kind=form, data=data, provider=owner)
    block: Any = _MEDIA.get(kind or (media_type or "").partition("/")[0], DocumentBlock)
    known = {name: value for name, value in fields.items() if value is not None and name in block.model_fields}
    built: ContentBlock = block(source=source, media_type=media_type or None, **known)
    return built


def media_from_url(url: str, media_type: str | None = None, *, kind: str | None = None, **fields: Any) -> ContentBlock:
    """Return a media block by URL, or with the content of a data URL."""
    data_url = _DATA_URL.fullmatch(url)
    if data_url is None:
        return media_block("url", url, media_type, kind=kind, **fields)
    return media_block("base64", data_url["data"], data_url["type"] or media_type, kind=kind, **fields)


def read_media(
    media_type: str | None, *, data: str | None = None, url: str | None = None, path: str | None = None, **fields: Any
) -> ContentBlock | None:
    """Return a media block with the first of these that there is: base64, a URL, or a file; None without any. The other
    ``fields`` are those of `media_block`.
    """
    if data is not None:
        return media_block("base64", data, media_type, **fields)
    if url is not None:
        return media_from_url(url, media_type, **fields)
    return None if path is None else media_block("file_ref", path, media_type, **fields)


def tool_call(ids: ToolIdReader, native: str | None, name: str, arguments: Any) -> ToolUseBlock:
    """Return a tool call. Arguments that are neither an object nor the JSON text of one become its raw input."""
    raw: str | None = None
    if isinstance(arguments, str):
        arguments, raw = parse_arguments(arguments)
    elif arguments is not None and not isinstance(arguments, dict):
        arguments, raw = None, to_text(arguments)
    return ToolUseBlock(id=ids.call_id(native or placeholder_id(name)), name=name, input=arguments or {}, raw_input=raw)


def result_call_id(ids: ToolIdReader, native: str | None, name: str | None) -> str:
    """Return the id of the call that a result answers. Without an id, it is the first open call of its tool."""
    return ids.result_id(native or placeholder_id(name))


def to_text(value: Any) -> str:
    """Return a JSON value as the text that a model would get: empty for None, the text itself, or JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value).decode()


def text_blocks(value: Any) -> list[ContentBlock]:
    """Return one text block, or none if there is no text."""
    text = to_text(value)
    return [TextBlock(text=text)] if text else []


def read_citation(native: Mapping[str, Any]) -> Citation:
    """Return a provider's own citation, with the fields that all have."""
    kind = native.get("type")
    nested = native.get(kind) if isinstance(kind, str) else None
    fields = nested if isinstance(nested, dict) else native

    def text(*names: str) -> str | None:
        return next((value for name in names if isinstance(value := fields.get(name), str)), None)

    def number(*names: str) -> int | None:
        found = (fields.get(name) for name in names)
        return next((each for each in found if isinstance(each, int) and not isinstance(each, bool)), None)

    return Citation(
        kind=kind if isinstance(kind, str) else "citation",
        title=text("title", "document_title", "filename"),
        url=text("url", "uri"),
        cited_text=text("cited_text"),
        start=number("start_index", "start_char_index", "start"),
        end=number("end_index", "end_char_index", "end"),
        data={name: value for name, value in native.items() if name != _SUPPORTED}
        if native.keys() - _CITATION_FIELDS
        else None,
    )


_SUPPORTED = "supported_text"
_CITATION_FIELDS = frozenset({"type", "url", "title", "cited_text", "start_index", "end_index", _SUPPORTED})
"""The fields that a citation has of its own; ``supported_text`` is the text that it is on."""


def provider_block(library: str, kind: str, data: Mapping[str, Any]) -> ProviderBlock:
    """Return a block without a canonical kind, verbatim. No adapter sends it: in a request it is a loss."""
    return ProviderBlock(provider=library, kind=kind or "unknown", data=dict(data))


def count_of(fields: Mapping[str, Any], *names: str) -> int | None:
    """Return the first of these fields that is a count."""
    found = (fields.get(name) for name in names)
    return next((each for each in found if is_count(each)), None)


def build_usage(
    prompt: int | None, output: int | None, *, cached: int | None = None, written: int | None = None, **fields: Any
) -> Usage | None:
    """Return a usage. ``prompt`` includes cache reads and cache writes. None if there are no counts."""
    if not (prompt or output or fields.get("raw")):
        return None
    cached, written = cached or 0, written or 0
    uncached = (prompt or 0) - cached - written
    unread = ("input_tokens",) if uncached < 0 else ()
    return Usage(
        input_tokens=max(uncached, 0),
        output_tokens=output or 0,
        cached_input_tokens=cached,
        cache_creation_input_tokens=written,
        unread=unread,
        **{name: value for name, value in fields.items() if value},
    )


def build_messages(
    role: Role, blocks: Sequence[ContentBlock], *, metadata: Mapping[str, Any] | None = None, **fields: Any
) -> list[Message]:
    """Return the blocks as one message, or as several if there are results among them; no blocks, no message.

    Fields that are None are left out, so that they get their defaults.
    """
    if not blocks:
        return []
    message_fields = {name: value for name, value in fields.items() if value is not None}
    metadata_fields = {name: value for name, value in (metadata or {}).items() if value is not None}
    return split_results(role, blocks, {**message_fields, "metadata": MessageMetadata(**metadata_fields)})


def cite_last_text(blocks: Sequence[ContentBlock], citations: Sequence[Citation]) -> list[ContentBlock]:
    """Return the blocks with the citations on the last text: of some libraries, nothing says which text cites them.
    Without a text, nothing changes.
    """
    found = list(blocks)
    for index in reversed(range(len(found))):
        if isinstance(block := found[index], TextBlock):
            found[index] = block.model_copy(update={"citations": (*block.citations, *citations)})
            break
    return found


def placeholder_id(name: str | None) -> str:
    """Return the id by which calls and results without one are paired."""
    return f"unnamed {name or ''}"
