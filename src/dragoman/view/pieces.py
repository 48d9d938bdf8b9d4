"""Blocks as the page shows them: all kinds come down to a few, each with a title, a text and facts beside it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.canonical.blocks import (
    AudioBlock,
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    PromptRequestBlock,
    PromptResultBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.view import figures, media

_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_LONG = 700
"""Characters; a longer answer of a tool is folded."""
_FILE_KINDS = {"url": "at", "file_ref": "the file", "file_id": "kept as"}

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """``kind`` says how it looks: text, code, thinking, call, answer, media or data.

    ``answer`` belongs to a call. ``src`` is a data URL, made of the message's own bytes, and ``tag`` what plays it.
    """

    kind: str
    title: str = ""
    text: str = ""
    note: str = ""
    facts: Facts = ()
    inner: tuple["Piece", ...] = ()
    answer: "Piece | None" = None
    tag: str = ""
    src: str = ""
    failed: bool = False
    folded: bool = False


def pieces(blocks: Sequence[ContentBlock], answers: Mapping[str, ToolResultBlock]) -> tuple[Piece, ...]:
    """What blocks come to, in order. ``answers`` are those that stand with their calls, by the calls' ids."""
    return tuple(piece for block in blocks for piece in _of(block, answers))


def _of(block: ContentBlock, answers: Mapping[str, ToolResultBlock]) -> Iterator[Piece]:
    match block:
        case TextBlock():
            yield from _text(block.text)
            if block.citations:
                yield Piece(
                    kind="data",
                    title=figures.plural(len(block.citations), "source"),
                    facts=tuple(map(_source, block.citations)),
                    folded=True,
                )
        case ThinkingBlock():
            yield _thinking(block)
        case RedactedThinkingBlock():
            yield Piece(
                kind="thinking", title="Thinking", note="encrypted", text="The provider keeps this part to itself."
            )
        case ToolUseBlock():
            yield _call(block, answers)
        case ToolResultBlock():
            yield answer(block, answers)
        case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
            yield _media(block)
        case ResourceBlock() | ResourceRefBlock():
            yield _resource(block)
        case PromptRequestBlock() | PromptResultBlock():
            yield _prompt(block)
        case ProviderBlock():
            yield Piece(kind="data", title=block.kind, note=block.provider, text=as_json(block.data), folded=True)
        case _:
            written = block.model_dump(mode="json")
            yield Piece(kind="data", title=block.type, note="of a newer version", text=as_json(written), folded=True)


def _text(text: str) -> Iterator[Piece]:
    """Texts, with what stands between fences set apart as code; nothing else of Markdown is read."""
    end = 0
    for fence in _FENCE.finditer(text):
        if before := text[end : fence.start()].strip("\n"):
            yield Piece(kind="text", text=before)
        yield Piece(kind="code", title=fence[1].strip(), text=fence[2].rstrip("\n"))
        end = fence.end()
    if rest := text[end:].strip("\n"):
        yield Piece(kind="text", text=rest)


def _thinking(block: ThinkingBlock) -> Piece:
    words = len(block.text.split())
    notes = [figures.plural(words, "word") if words else "not shown by the provider"]
    notes += ["signed"] if block.signature else []
    return Piece(kind="thinking", title="Thinking", note=", ".join(notes), text=block.text)


def _call(block: ToolUseBlock, answers: Mapping[str, ToolResultBlock]) -> Piece:
    result = answers.get(block.id)
    return Piece(
        kind="call",
        title=block.name,
        text="" if block.raw_input is None else block.raw_input,
        note="" if block.raw_input is None else "the arguments are no JSON object",
        facts=tuple((name, plainly(value)) for name, value in block.input.items()),
        answer=None if result is None else answer(result, answers),
    )


def answer(block: ToolResultBlock, answers: Mapping[str, ToolResultBlock]) -> Piece:
    """What a tool answered."""
    inner = pieces(block.content, answers)
    words = " ".join(each.text for each in inner)
    return Piece(
        kind="answer",
        title="failed" if block.is_error else "answered",
        note=" ".join(words[:_LONG].split())[:100],
        inner=inner,
        failed=block.is_error,
        folded=len(words) > _LONG,
    )


def _media(block: media.MediaBlock) -> Piece:
    source, facts = block.source, []
    found = media.sniffed(source.data) if source.kind == "base64" else None
    kind = found or block.media_type or ""
    facts += [("type", kind)] if kind else []
    if found and block.media_type and block.media_type != found:
        facts.append(("declared as", block.media_type))
    facts += [("size", figures.size(media.size(source)))] if media.size(source) is not None else []
    if source.kind in _FILE_KINDS:
        facts.append((_FILE_KINDS[source.kind], source.data))
        facts += [("by", source.provider)] if source.provider else []
    for name in ("detail", "title", "context", "duration_ms", "transcript"):
        told = getattr(block, name, None)
        facts += [] if told is None else [(name.replace("_", " "), str(told))]
    played = media.shown(block)
    return Piece(
        kind="media",
        title=block.type,
        text=source.data if source.kind == "text" else "",
        facts=tuple(facts),
        tag=played.tag if played else "",
        src=played.url if played else "",
    )


def _resource(block: ResourceBlock | ResourceRefBlock) -> Piece:
    left_out = {"type", "content", "blob", "name", "resource_request_id"}
    facts = [(name, value) for name, value in block if name not in left_out and value not in (None, {})]
    if isinstance(block, ResourceBlock) and block.blob is not None:
        facts.append(("held", f"{figures.size(len(block.blob) * 3 // 4)} of binary data"))
    return Piece(
        kind="data",
        title=block.name or "resource",
        note=block.resource_type,
        text=(block.content or "") if isinstance(block, ResourceBlock) else "",
        facts=tuple((name.replace("_", " "), plainly(value)) for name, value in facts),
        folded=True,
    )


def _prompt(block: PromptRequestBlock | PromptResultBlock) -> Piece:
    if isinstance(block, PromptRequestBlock):
        facts = tuple((name, plainly(value)) for name, value in block.arguments.items())
        return Piece(kind="data", title=block.name, note="prompt asked for", facts=facts, folded=True)
    said = [block.content or "", block.error_message or "", as_json(list(block.messages)) if block.messages else ""]
    text = "\n\n".join(filter(None, said))
    return Piece(kind="data", title=block.prompt_name, note="prompt", text=text, failed=block.is_error, folded=True)


def _source(citation: Citation) -> tuple[str, str]:
    told = (citation.title, citation.url, citation.cited_text and f"“{citation.cited_text}”")
    return citation.kind, " · ".join(filter(None, told)) or as_json(citation.data or {})


def plainly(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)
