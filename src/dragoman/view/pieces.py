"""Blocks as the page shows them: every kind becomes one of a few, each with a title, a text and facts."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    MediaBlock,
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
)
from dragoman.view import figures, markdown, media

_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_FOLD_FROM = 700
"""Characters; a longer tool result is folded."""
_FILE_KINDS = {"url": "at", "file_ref": "the file", "file_id": "kept as"}

_CONTROL_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\r"} | {0x7F: 0x2421}

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """``kind`` sets the look: text, code, thinking, call, answer, media or data.

    ``html`` is harmless HTML that shows the ``text``: rendered Markdown, or coloured code.
    ``answer`` belongs to a call. ``src`` is a data URL of the message's own bytes, and ``tag`` the element that shows
    it.
    """

    kind: str
    title: str = ""
    text: str = ""
    html: str = ""
    note: str = ""
    facts: Facts = ()
    inner: tuple["Piece", ...] = ()
    answer: "Piece | None" = None
    tag: str = ""
    src: str = ""
    failed: bool = False
    folded: bool = False


def build_pieces(
    blocks: Sequence[ContentBlock], answers: Mapping[str, ToolResultBlock], *, rendered: bool = False
) -> tuple[Piece, ...]:
    """Return the pieces of blocks, in order. ``answers`` are results that are shown with their calls, by call id.

    ``rendered``: texts are Markdown, as a model's are.
    """
    return tuple(piece for block in blocks for piece in _pieces_of(block, answers, rendered=rendered))


def _pieces_of(
    block: ContentBlock, answers: Mapping[str, ToolResultBlock], *, rendered: bool = False
) -> Iterator[Piece]:
    match block:
        case TextBlock():
            yield from _text_pieces(block, rendered=rendered)
        case ThinkingBlock():
            words = len(block.text.split())
            note = figures.plural(words, "word") if words else "not shown by the provider"
            note += ", signed" if block.signature else ""
            yield Piece(kind="thinking", title="Thinking", note=note, text=block.text)
        case RedactedThinkingBlock():
            yield Piece(
                kind="thinking", title="Thinking", note="encrypted", text="The provider does not disclose this part."
            )
        case ToolUseBlock():
            result = answers.get(block.id)
            yield Piece(
                kind="call",
                title=block.name,
                text=block.raw_input or "",
                note="" if block.raw_input is None else "the arguments are not a JSON object",
                facts=tuple((name, to_text(value)) for name, value in block.input.items()),
                answer=None if result is None else answer_piece(result, answers),
            )
        case ToolResultBlock():
            yield answer_piece(block, answers)
        case shown if isinstance(shown, MEDIA_BLOCKS):
            yield _media_piece(shown)
        case ResourceBlock() | ResourceRefBlock():
            yield _resource_piece(block)
        case PromptRequestBlock() | PromptResultBlock():
            yield _prompt_piece(block)
        case ProviderBlock():
            yield Piece(kind="data", title=block.kind, note=block.provider, text=as_json(block.data), folded=True)
        case _:
            data = block.model_dump(mode="json")
            yield Piece(kind="data", title=block.type, note="of a newer version", text=as_json(data), folded=True)


def _text_pieces(block: TextBlock, *, rendered: bool) -> Iterator[Piece]:
    """Text, with its blocks of code separate, and its sources. If ``rendered``, it is Markdown; otherwise only fenced
    code is recognized."""
    parts = markdown.read_parts(show_control_characters(block.text)) if rendered else []
    for part in parts:
        if part.html:
            yield Piece(kind="text", text=part.words, html=part.html)
        else:
            yield _code_piece(part.code, part.language)
    if not parts:  # also if it has no markup
        end = 0
        for fence in _FENCE.finditer(block.text):
            if before := block.text[end : fence.start()].strip("\n"):
                yield Piece(kind="text", text=before)
            yield _code_piece(fence[2].rstrip("\n"), fence[1].strip())
            end = fence.end()
        if rest := block.text[end:].strip("\n"):
            yield Piece(kind="text", text=rest)
    if block.citations:
        facts = []
        for each in block.citations:
            words = (each.title, each.url, each.cited_text and f"“{each.cited_text}”")
            facts.append((each.kind, " · ".join(filter(None, words)) or as_json(each.data or {})))
        yield Piece(kind="data", title=figures.plural(len(facts), "source"), facts=tuple(facts), folded=True)


def _code_piece(code: str, language: str) -> Piece:
    return Piece(kind="code", title=language, text=code, html=markdown.color(show_control_characters(code), language))


def answer_piece(block: ToolResultBlock, answers: Mapping[str, ToolResultBlock]) -> Piece:
    """Return the piece of a tool result."""
    inner = build_pieces(block.content, answers)
    words = " ".join(each.text for each in inner)
    return Piece(
        kind="answer",
        title="failed" if block.is_error else "answered",
        note=" ".join(words[:_FOLD_FROM].split())[:100],
        inner=inner,
        failed=block.is_error,
        folded=len(words) > _FOLD_FROM,
    )


def _media_piece(block: MediaBlock) -> Piece:
    source = block.source
    found = media.detect_media_type(source.data) if source.kind == "base64" else None
    facts: dict[str, Any] = {
        "type": found or block.media_type or None,
        "declared as": block.media_type if found and block.media_type != found else None,
        "size": figures.size(media.size(source)) or None,
    }
    if source.kind in _FILE_KINDS:
        facts |= {_FILE_KINDS[source.kind]: source.data, "by": source.provider or None}
    for name in ("detail", "title", "context", "duration_ms", "transcript"):
        facts[name.replace("_", " ")] = getattr(block, name, None)
    tag, src = media.embed(block)
    return Piece(
        kind="media",
        title=block.type,
        text=source.data if source.kind == "text" else "",
        facts=tuple((name, str(value)) for name, value in facts.items() if value is not None),
        tag=tag,
        src=src,
    )


def _resource_piece(block: ResourceBlock | ResourceRefBlock) -> Piece:
    left_out = {"type", "content", "blob", "name", "resource_request_id"}
    facts = [(name, value) for name, value in block if name not in left_out and value not in (None, {})]
    if isinstance(block, ResourceBlock) and block.blob is not None:
        facts.append(("held", f"{figures.size(len(block.blob) * 3 // 4)} of binary data"))
    return Piece(
        kind="data",
        title=block.name or "resource",
        note=block.resource_type,
        text=(block.content or "") if isinstance(block, ResourceBlock) else "",
        facts=tuple((name.replace("_", " "), to_text(value)) for name, value in facts),
        folded=True,
    )


def _prompt_piece(block: PromptRequestBlock | PromptResultBlock) -> Piece:
    if isinstance(block, PromptRequestBlock):
        facts = tuple((name, to_text(value)) for name, value in block.arguments.items())
        return Piece(kind="data", title=block.name, note="prompt requested", facts=facts, folded=True)
    parts = [block.content or "", block.error_message or "", as_json(list(block.messages)) if block.messages else ""]
    text = "\n\n".join(filter(None, parts))
    return Piece(kind="data", title=block.prompt_name, note="prompt", text=text, failed=block.is_error, folded=True)


def to_text(value: Any) -> str:
    """Text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def show_control_characters(value: Any) -> Any:
    """Replace control characters with visible symbols: HTML may not contain them, and readers would not see them."""
    return value.translate(_CONTROL_PICTURES) if type(value) is str else value
