"""``UIMessage``: what the SDK's user interfaces keep, and ``ModelMessage``: what `generateText` takes and returns.

One message of the assistant holds all steps of its turn, with the outputs of the tools. Each step becomes a message,
followed by its results. Of messages for models, results of tools are messages with the role tool.

What both kinds of messages share: provider metadata, reasoning, citations, files and outputs of tools.

Source: https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message and .../model-message. Metadata of a part is an object
by provider, as ``providerMetadata`` or ``providerOptions``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import Usage
from dragoman.formats.document import dig, text_in
from dragoman.formats.importers.pydantic_ai import tool_result_blocks
from dragoman.formats.reading.blocks import (
    build_usage,
    cite_last_text,
    media_block,
    media_from_url,
    model_fields_of,
    provider_block,
    text_blocks,
    to_text,
)
from dragoman.formats.reading.fields import Fields, source_losses, take_counts, typed_errors
from dragoman.formats.reading.turns import Turns, read_messages, read_time

FORMAT = "vercel-ui"
LIBRARY = "vercel-ai"
_PYDANTIC = "pydantic_ai"
"""The place of pydantic-ai's metadata, which names the provider in a field."""
_FAILED = ("output-error", "output-denied")
_MODEL_FORMAT = "vercel-model"


@typed_errors
def from_vercel_ui(document: Any) -> list[Message]:
    """Read a list of messages, an object with one as ``messages``, or a single message. Raises FormatError."""
    return read_messages(document, FORMAT, lambda message, turns: _MessageReader(message, turns).read())


@dataclass(slots=True)
class _Step:
    blocks: list[ContentBlock] = field(default_factory=list)
    results: list[ToolResultBlock] = field(default_factory=list)
    sources: list[Citation] = field(default_factory=list)
    model: dict[str, Any] = field(default_factory=dict)


class _MessageReader:
    def __init__(self, message: Fields, turns: Turns) -> None:
        self._message = message
        self._turns = turns
        self._is_pydantic = False
        self._steps: list[_Step] = [_Step()]
        self._has_marks = False
        self._usage: Usage | None = None
        self._model: dict[str, Any] = {}

    def read(self) -> None:
        message = self._message
        role = message.role()
        message.ignore("id")
        time = self._metadata()
        created = read_time(message.take("createdAt")) or time
        self._turns.start(role)
        listed = message.objects("parts")
        self._has_marks = any(part.look("type") == "step-start" for part in listed)
        for part in listed:
            self._part(part)
        steps = [step for step in self._steps if step.blocks or step.results or step.sources] or [_Step()]
        for step in steps:
            metadata = name_model({**step.model, **self._model}) if role is Role.ASSISTANT else {}
            if step is steps[-1]:
                metadata["usage"] = self._usage
            blocks = add_sources(step.blocks, step.sources)
            self._turns.add(role, blocks, message.path, metadata=metadata, created_at=created)
            for result in step.results:
                self._turns.add(Role.TOOL, [result], message.path, created_at=created)

    def _metadata(self) -> Any:
        """Read what programs usually store with a message: time, model and usage; and pydantic-ai's time."""
        metadata = self._message.inner("metadata")
        for name in ("totalUsage", "usage"):
            if isinstance(metadata.look(name), dict):
                self._usage = self._usage or build_usage(**take_counts(metadata.inner(name)))
        model = metadata.look("model")
        if isinstance(model, str):
            provider = model.partition(":")[0] if ":" in model else None
            self._model = {"model": metadata.text("model"), **({"provider": provider} if provider else {})}
        pydantic = metadata.object(_PYDANTIC)
        if pydantic is None:
            return read_time(metadata.take("createdAt"))
        self._is_pydantic = True
        return read_time(pydantic.take("timestamp"))

    def _part(self, part: Fields) -> None:
        kind = part.text("type") or ""
        if kind == "step-start":
            self._steps.append(_Step())
            return
        if kind.startswith("tool-") or kind == "dynamic-tool":
            self._tool(part, kind)
            return
        step = self._steps[-1]
        if step.results and not self._has_marks and kind in ("text", "reasoning"):
            step = _Step()  # some programs write no marks between the steps
            self._steps.append(step)
        if kind in ("source-url", "source-document"):
            step.sources.append(read_source(part))
            return
        if kind == "custom" and (named := model_of_custom(part)) is not None:
            step.model.update(named)
            return
        part.ignore("state")
        if kind not in ("text", "reasoning", "file"):
            step.blocks.append(provider_block(LIBRARY, kind, part.whole()))
            return
        metadata = PartMetadata(part, step.model, "providerMetadata")
        if kind == "text":
            text = read_text(part.text("text") or "", metadata, part)
            step.blocks += [text] if text is not None else []
        elif kind == "reasoning":
            part.ignore("id")
            step.blocks.append(read_reasoning(part.text("text") or "", metadata))
        else:
            step.blocks += read_file(part, "url")

    def _tool(self, part: Fields, kind: str) -> None:
        step = self._steps[-1]
        name = part.text("toolName") or kind.removeprefix("tool-")
        if part.look("providerExecuted") is True:
            step.blocks.append(provider_block(LIBRARY, name, part.whole()))
            return
        part.ignore("providerExecuted", "preliminary", "title")
        metadata = PartMetadata(part, step.model, "callProviderMetadata", "resultProviderMetadata")
        metadata.ignore("outcome", "retry", "content")  # pydantic-ai's form of the output that the part has
        native_id, state = part.text("toolCallId"), part.text("state")
        arguments = part.take("input", "rawInput", "args")
        if isinstance(arguments, dict) and arguments.keys() == {"INVALID_JSON"}:
            arguments = arguments["INVALID_JSON"]
        step.blocks.append(self._turns.call(native_id, name, arguments))
        if state in _FAILED:
            content = text_blocks(part.text("errorText") or "The call was denied.")
            step.results.append(self._turns.result(native_id, name, content, is_error=True))
        elif state == "output-available" or "output" in part:
            output = part.take("output")
            content = tool_result_blocks(output, f"{part.path}.output") if self._is_pydantic else text_blocks(output)
            step.results.append(self._turns.result(native_id, name, content))


@typed_errors
def from_vercel_model(document: Any) -> list[Message]:
    """Read a list of messages, an object with one as ``messages``, or a single message. Raises FormatError."""
    return read_messages(document, _MODEL_FORMAT, lambda message, turns: _ModelMessageReader(message, turns).read())


class _ModelMessageReader:
    def __init__(self, message: Fields, turns: Turns) -> None:
        self._message = message
        self._turns = turns
        self._model: dict[str, Any] = {}
        self._server_calls: set[str] = set()

    def read(self) -> None:
        message = self._message
        role = message.role()
        message.ignore("id")
        content = message.look("content")
        self._turns.start(role)
        if isinstance(content, str):
            blocks: list[ContentBlock] = text_blocks(message.text("content"))
        else:
            blocks = [block for part in message.objects("content") for block in self._part(part)]
        metadata = name_model(self._model) if role is Role.ASSISTANT else None
        self._turns.add(role, blocks, message.path, metadata=metadata)

    def _part(self, part: Fields) -> list[ContentBlock]:
        kind = part.text("type") or ""
        if kind == "custom":  # of version 7, with what a provider's stream began with: only its model matters
            named = model_of_custom(part)
            if named is None:
                return [provider_block(LIBRARY, "custom", part.whole())]
            self._model.update(named)
            return []
        metadata = PartMetadata(part, self._model, "providerOptions", "providerMetadata")
        match kind:
            case "text":
                block = read_text(part.text("text") or "", metadata, part)
                return [block] if block is not None else []
            case "reasoning":
                return [read_reasoning(part.text("text") or "", metadata)]
            case "image" | "file":
                return list(read_file(part, "image", "data"))
            case "tool-call":
                native_id, name = part.text("toolCallId"), part.required_text("toolName")
                if part.flag("providerExecuted"):
                    self._server_calls.add(native_id or name)
                    return [provider_block(LIBRARY, name, part.whole())]
                return [self._turns.call(native_id, name, part.take("input", "args"))]
            case "tool-result":
                return [self._result(part)]
            case _:
                return [provider_block(LIBRARY, kind, part.whole())]

    def _result(self, part: Fields) -> ContentBlock:
        native_id, name = part.text("toolCallId"), part.text("toolName")
        if part.flag("providerExecuted") or (native_id or name) in self._server_calls:
            return provider_block(LIBRARY, f"{name}_result", part.whole())
        output = part.look("output")
        if isinstance(output, dict) and "type" in output:
            content, failed = read_output(part.inner("output"))
        else:
            content, failed = text_blocks(part.take("output", "result")), part.flag("isError")
        return self._turns.result(native_id, name, content, is_error=failed)


def model_of_custom(part: Fields) -> dict[str, Any] | None:
    """Return provider and model of a ``message_start`` part; None for other custom parts."""
    kind = part.look("kind")
    if not isinstance(kind, str) or not kind.endswith(".message_start"):
        return None
    provider = kind.partition(".")[0]
    name = dig(part.look("providerOptions") or part.look("providerMetadata"), provider, "model")
    part.whole()
    return model_fields_of(LIBRARY, provider, text_in(name))


_SIGNATURES = ("signature", "thoughtSignature", "reasoningEncryptedContent", "encryptedContent")
_BOOKKEEPING = ("itemId", "id", "canonical_system", "phase")
"""Ids of the provider's own storage, and who called a tool: a history without them means the same."""


def name_model(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the model's fields of a message. A provider without a model has one that is unnamed, as in its lists: what
    it signed is its own.
    """
    provider = fields.get("provider")
    return fields if fields.get("model") or not provider else {**fields, "model": f"{provider}:unnamed"}


class PartMetadata:
    """The metadata of one part: by provider, or pydantic-ai's. The first provider is the one of ``model``."""

    def __init__(self, part: Fields, model: dict[str, Any], *names: str) -> None:
        self._namespaces: list[Fields] = []
        for name in names:
            outer = part.inner(name)
            for namespace, value in outer.whole().items():
                if not isinstance(value, dict):
                    source_losses().add_field(outer.path, namespace, LIBRARY)
                    continue
                inner = outer.adopt(value, f"{outer.path}.{namespace}")
                self._namespaces.append(inner)
                named = inner.text("provider_name") if namespace == _PYDANTIC else namespace
                if provider := model_fields_of(LIBRARY, named, None)["provider"]:
                    model.setdefault("provider", provider)
        for inner in self._namespaces:
            inner.ignore(*_BOOKKEEPING)
            if isinstance(inner.look("caller"), dict) and (caller := inner.object("caller")) is not None:
                caller.ignore("type", "tool_id", "toolId")

    def text(self, *names: str) -> str | None:
        found = (inner.text(name) for inner in self._namespaces for name in names)
        return next((each for each in found if each is not None), None)

    def ignore(self, *names: str) -> None:
        for inner in self._namespaces:
            inner.ignore(*names)

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
    texts = [block for block in blocks if isinstance(block, TextBlock)]
    if not texts:
        return [*blocks, *(provider_block(LIBRARY, "source", source.model_dump(mode="json")) for source in sources)]
    known = {citation.url for text in texts for citation in text.citations}
    return cite_last_text(blocks, [source for source in sources if source.url is None or source.url not in known])


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
            yield media_block("text", tagged.required_text("text"), media_type or "text/plain", title=title)
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
        yield media_block("base64", value, media_type, kind=kind, title=title)


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
