"""What both kinds of messages share: provider metadata, reasoning, citations, files and outputs of tools.

Source: https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message and .../model-message. Metadata of a part is an object
by provider, as ``providerMetadata`` or ``providerOptions``.
"""

from collections.abc import Iterator
from typing import Any

from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    MediaSource,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
)
from dragoman.canonical.usage import Usage
from dragoman.formats.importers.blocks import (
    build_usage,
    media_block,
    media_from_url,
    model_fields_of,
    provider_block,
    text_blocks,
    to_text,
)
from dragoman.formats.reading.fields import Fields
from dragoman.formats.reading.losses import source_losses

LIBRARY = "vercel-ai"

_SIGNATURES = ("signature", "thoughtSignature", "reasoningEncryptedContent", "encryptedContent")
_BOOKKEEPING = ("itemId", "id", "canonical_system", "phase")
"""Ids of the provider's own storage, and who called a tool: a history without them means the same."""
_PYDANTIC = "pydantic_ai"
"""The place of pydantic-ai's metadata, which names the provider in a field."""


def name_model(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the model's fields of a message. A provider without a model has one that is unnamed, as in its lists: what
    it signed is its own.
    """
    provider = fields.get("provider")
    return fields if fields.get("model") or not provider else {**fields, "model": f"{provider}:unnamed"}


class PartMetadata:
    """The metadata of one part: by provider, or pydantic-ai's."""

    def __init__(self, part: Fields, *names: str) -> None:
        self.provider: str | None = None
        self._namespaces: list[Fields] = []
        for name in names:
            outer = part.object(name)
            for namespace in list(outer.whole()) if outer is not None else ():
                assert outer is not None
                value = outer.look(namespace)
                if not isinstance(value, dict):
                    source_losses().add_field(outer.path, namespace, LIBRARY)
                    continue
                inner = outer.adopt(value, f"{outer.path}.{namespace}")
                self._namespaces.append(inner)
                named = inner.text("provider_name") if namespace == _PYDANTIC else namespace
                self.provider = self.provider or model_fields_of(LIBRARY, named, None)["provider"]
        for inner in self._namespaces:
            inner.ignore(*_BOOKKEEPING)
            if isinstance(inner.look("caller"), dict) and (caller := inner.object("caller")) is not None:
                caller.ignore("type", "tool_id", "toolId")

    def text(self, *names: str) -> str | None:
        for inner in self._namespaces:
            for name in names:
                if (found := inner.text(name)) is not None:
                    return found
        return None

    def take(self, name: str) -> Any:
        found = None
        for inner in self._namespaces:
            value = inner.take(name)
            found = value if found is None else found
        return found

    def is_redacted(self) -> bool:
        """Whether pydantic-ai marks the part as encrypted thinking, by its id."""
        return any(inner.look("id") == "redacted_thinking" for inner in self._namespaces)

    def objects(self, name: str) -> list[Fields]:
        return [each for inner in self._namespaces for each in inner.objects(name)]

    def object(self, name: str) -> Fields | None:
        found = (inner.object(name) for inner in self._namespaces)
        return next((each for each in found if each is not None), None)


def read_reasoning(text: str, metadata: PartMetadata) -> ContentBlock:
    redacted = metadata.text("redactedData")
    signature = metadata.text(*_SIGNATURES)
    if redacted is not None:
        return RedactedThinkingBlock(data=redacted)
    if metadata.is_redacted() and signature is not None:
        return RedactedThinkingBlock(data=signature)
    return ThinkingBlock(text=text, signature=signature or None)


def read_text(text: str, metadata: PartMetadata, part: Fields) -> TextBlock | None:
    """Return a text with its citations. An empty one is None."""
    details = metadata.object("provider_details")
    stored = metadata.objects("citations")
    cited = [*(details.objects("citations") if details is not None else ()), *metadata.objects("annotations")]
    citations = [_citation(each) for each in cited or stored]
    for each in stored if cited else ():
        each.whole()  # pydantic-ai's own form of the same citations
    for each in part.objects("citations"):
        source = each.object("source")
        if source is None:
            continue
        start, end = each.take("startIndex"), each.take("endIndex")
        source.ignore("type", "sourceType", "id")
        each.ignore("type")
        found = Citation(
            kind="url",
            title=source.text("title"),
            url=source.text("url"),
            start=start if isinstance(start, int) else None,
            end=end if isinstance(end, int) else None,
        )
        if all(found.url is None or found.url != known.url for known in citations):
            citations.append(found)
    return TextBlock(text=text, citations=tuple(citations)) if text else None


def _citation(cited: Fields) -> Citation:
    """Return a citation of a provider, or of pydantic-ai, which lists the sources of a span."""
    native = cited.whole()
    sources = native.get("sources")
    if isinstance(sources, list) and sources and isinstance(sources[0], dict):
        anchor = native.get("anchor")
        excerpts = sources[0].get("excerpts")
        native = {
            **sources[0],
            **(anchor if isinstance(anchor, dict) else {}),
            "cited_text": "\n".join(map(to_text, excerpts)) if isinstance(excerpts, list) else None,
            "type": sources[0].get("kind"),
        }
    texts = {name: value for name, value in native.items() if isinstance(value, str)}
    start, end = (native.get(f"{side}_index", native.get(side)) for side in ("start", "end"))
    return Citation(
        kind=texts.get("type", "citation"),
        title=texts.get("title"),
        url=texts.get("url"),
        cited_text=texts.get("cited_text"),
        start=start if isinstance(start, int) else None,
        end=end if isinstance(end, int) else None,
        data=cited.whole(),
    )


def read_source(part: Fields) -> Citation:
    """Return a source that stands in a message next to the texts."""
    part.ignore("type", "sourceId", "id", "sourceType", "providerMetadata", "providerOptions")
    title = part.text("title") or part.text("filename")
    part.ignore("mediaType", "filename")
    return Citation(kind="document" if part.look("type") == "source-document" else "url",
                    title=title, url=part.text("url"))  # fmt: skip


def add_sources(blocks: list[ContentBlock], sources: list[Citation]) -> list[ContentBlock]:
    """Return the blocks with the sources on their last text. Without a text, each source is a block of the library."""
    index = max((index for index, block in enumerate(blocks) if isinstance(block, TextBlock)), default=None)
    if not sources:
        return blocks
    if index is None:
        return [*blocks, *(provider_block(LIBRARY, "source", source.model_dump(mode="json")) for source in sources)]
    text = blocks[index]
    assert isinstance(text, TextBlock)
    known = {citation.url for block in blocks if isinstance(block, TextBlock) for citation in block.citations}
    new = tuple(source for source in sources if source.url is None or source.url not in known)
    return [*blocks[:index], text.model_copy(update={"citations": (*text.citations, *new)}), *blocks[index + 1 :]]


def read_file(part: Fields, *names: str) -> Iterator[ContentBlock]:
    """Yield a file: a URL, base64, or one of the tagged forms of version 7."""
    media_type = part.text("mediaType", "mimeType")
    kind = "image" if part.look("type") in ("image", "image-data", "image-url") else None
    title = part.text("filename")
    value = part.take(*names)
    if isinstance(value, dict):
        tagged = part.adopt(value, f"{part.path}.{names[0]}")
        tag = tagged.text("type")
        if tag == "text":
            source = MediaSource(kind="text", data=tagged.required_text("text"))
            yield media_block(source, media_type or "text/plain", title=title)
            return
        if tag == "url":
            value = tagged.required_text("url")
        elif tag == "data" and isinstance(tagged.look("data"), str):
            value = tagged.text("data")
        else:
            yield provider_block(LIBRARY, "file", {**part.whole(), names[0]: tagged.whole()})
            return
    if not isinstance(value, str):
        yield provider_block(LIBRARY, "file", part.whole())
        return
    if value.startswith(("data:", "http:", "https:")):
        yield media_from_url(value, media_type, kind=kind, title=title)
    else:
        yield media_block(MediaSource(kind="base64", data=value), media_type, kind=kind, title=title)


def read_output(output: Fields) -> tuple[list[ContentBlock], bool]:
    """Return the output of a tool in a message for models, and whether the tool failed."""
    kind = output.text("type")
    if kind == "content":
        return [block for item in output.objects("value") for block in _output_item(item)], False
    if kind == "execution-denied":
        return text_blocks(output.text("reason") or "The call was denied."), True
    return text_blocks(output.take("value")), kind in ("error-text", "error-json")


def _output_item(item: Fields) -> Iterator[ContentBlock]:
    kind = item.text("type")
    item.ignore("providerOptions")
    if kind == "text":
        yield from text_blocks(item.text("text"))
    elif kind in ("media", "image-data", "file-data", "image-url", "file-url", "file"):
        yield from read_file(item, "data", "url")
    else:
        yield provider_block(LIBRARY, kind or "", item.whole())


def read_usage(usage: Fields) -> Usage | None:
    """Return the usage that a program stored with a message, in the SDK's own form."""
    details = usage.object("inputTokenDetails")
    output_details = usage.object("outputTokenDetails")
    cached = usage.count("cachedInputTokens")
    usage.ignore("totalTokens", "raw")
    reasoning = usage.count("reasoningTokens")
    if details is not None:
        read = details.count("cacheReadTokens")
        cached = cached if read is None else read
        details.ignore("noCacheTokens")
    if output_details is not None:
        inner = output_details.count("reasoningTokens")
        reasoning = reasoning if inner is None else inner
        output_details.ignore("textTokens")
    return build_usage(
        usage.count("inputTokens"),
        usage.count("outputTokens"),
        cached=cached,
        written=details.count("cacheWriteTokens") if details is not None else None,
        reasoning_tokens=reasoning,
    )
