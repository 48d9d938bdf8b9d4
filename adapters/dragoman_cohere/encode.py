"""Canonical to wire: the body of a chat request (docs.cohere.com/reference/chat)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from dragoman.adapter import demands, schemas, structured, wirejson
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.details import Detail
from dragoman.adapter.flatten import document_as_text
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.outgoing import Outgoing
from dragoman.adapter.residue import restore
from dragoman.adapter.turns import Turn
from dragoman.canonical.blocks import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition

PROVIDER = "cohere"

OPTIONS = {
    "max_output_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "p",
    "top_k": "k",
    "seed": "seed",
}
"""Our options and the names of Cohere's."""

_LACKING: tuple[Detail, ...] = ("citations", "link_types", "text_documents")
"""What the wire has no place for in what others said."""

Piece = tuple[str, Any]
"""A field of a message and one value of it: a content part, the plan, a call."""
Note = Mapping[str, Any]
ToolId = Callable[[str], str]


def body(request: Outgoing, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """The whole body."""
    history = request.history(request.turns, partial(_messages, request))
    encoded: dict[str, Any] = {"model": request.adapter.model, "messages": history}
    usable = schemas.fit_tools(request, request.usable(tools))
    encoded |= parameters(request, tools=bool(usable))
    if usable:
        encoded["tools"] = [tool(definition) for definition in usable]
    return encoded


def parameters(request: Outgoing, *, tools: bool) -> dict[str, Any]:
    """Everything but the conversation and the tools."""
    options = request.options
    encoded: dict[str, Any] = {"stream": True} if options.stream else {}
    encoded |= {theirs: value for ours, theirs in OPTIONS.items() if (value := getattr(options, ours)) is not None}
    if stop := demands.stop_sequences(request):
        encoded["stop_sequences"] = stop
    if structured.is_written(request, tools=tools):
        encoded["response_format"] = {"type": "json_object", "json_schema": schemas.fit_output(request)}
    if choice := _tool_choice(request, tools=tools):
        encoded["tool_choice"] = choice
    if thinking := _thinking(request):
        encoded["thinking"] = thinking
    if options.parallel_tool_calls is False:
        request.lose_option("parallel_tool_calls", "Cohere has no such switch")
    demands.lose_cache_hint(request)
    return encoded


def _tool_choice(request: Outgoing, *, tools: bool) -> str | None:
    """Choosing freely is what models do unless told otherwise; one certain tool cannot be asked for."""
    choice = demands.tool_choice(request, tools=tools, reasons=False)
    if choice in (None, "auto"):
        return None
    if request.adapter.capabilities.forced_tool_choice == "never":
        request.lose_option("tool_choice", f"{request.adapter.model} takes none; it may choose")
        return None
    if isinstance(choice, NamedTool):
        request.lose_option("tool_choice", f"Cohere can be told to call a tool, but not which: {choice.name} was meant")
    return "NONE" if choice == "none" else "REQUIRED"


def _thinking(request: Outgoing) -> dict[str, Any] | None:
    """On or off, with a budget; there are no levels."""
    options, model = request.options, request.adapter.model
    off = options.thinking is False or options.effort == "none"
    if options.effort is not None and not off:
        request.lose_option("effort", "Cohere takes budgets, not levels")
    if off:
        return {"type": "disabled"} if request.adapter.capabilities.supports_thinking else None
    if not (options.thinking or options.thinking_budget is not None):
        return None
    if not request.adapter.capabilities.supports_thinking:
        for name in ("thinking", "thinking_budget"):
            if getattr(options, name) is not None:
                request.lose_option(name, f"{model} does not reason")
        return None
    encoded: dict[str, Any] = {"type": "enabled"}
    if options.thinking_budget is not None:
        encoded["token_budget"] = options.thinking_budget
    return encoded


def tool(definition: ToolDefinition) -> dict[str, Any]:
    """A tool, in the nested form of OpenAI's chat."""
    raw = definition.provider_raw or {}
    own = raw if raw.get("by") == PROVIDER else {}
    if "native" in own:
        return dict(own["native"])
    function: dict[str, Any] = {"name": definition.name}
    if definition.description:
        function["description"] = definition.description
    function["parameters"] = definition.input_schema
    return restore({"type": "function", "function": restore(function, own.get("function"))}, own.get("residue"))


def _messages(request: Outgoing, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """One message a turn; a turn of several tool results becomes several."""
    encoded: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role is Role.TOOL:
            encoded += _results(request, turn)
        else:
            encoded.append(_message(request, turn))
    return encoded


def _message(request: Outgoing, turn: Turn) -> dict[str, Any]:
    if (text := turn.bare(PROVIDER)) is not None:
        return {"role": turn.role.value, "content": text}
    # A turn that was made because of a message, or has another role by now, is not the one that was noted.
    raw = turn.raw(PROVIDER) if turn.role is turn.message.role else {}
    notes = raw.get("blocks", {})
    pieces: list[Piece] = []
    for index, (block, origin) in enumerate(turn.pairs()):
        request.lose_details(turn, index, "arguments", "signatures", *(() if raw else _LACKING))
        field, value = piece(block, request.tool_id, notes.get(str(origin), {}))
        pieces.append((field, restore(value, notes.get(str(origin))) if isinstance(value, dict) else value))
    for index in turn.words_behind_calls():
        request.lose_block(turn, index, LossKind.FLATTENED, "words behind a call go before it", Severity.INFO)
    if raw:
        _lose_places(request, turn, [field for field, _ in pieces])
        pieces += [("citations", native) for native in (*cited(turn.blocks), *raw.get("citations", ()))]
    return message(str(turn.role), pieces, raw)


def _lose_places(request: Outgoing, turn: Turn, fields: Sequence[str]) -> None:
    """Sources name the part of the content that they back, or mean the first text: some may back another one now."""
    parts = [index for index, field in enumerate(fields) if field == "content"]
    first = next((index for index in parts if isinstance(turn.blocks[index], TextBlock)), -1)
    for index, block in enumerate(turn.blocks):
        told = [source.data.get("content_index") for source in getattr(block, "citations", ()) if source.data]
        if any((first if at is None else dict(enumerate(parts)).get(at)) != index for at in told):
            request.lose_block(turn, index, LossKind.CITATIONS, "the sources of a text move to another", Severity.INFO)


def cited(blocks: Iterable[ContentBlock]) -> list[dict[str, Any]]:
    """The sources of texts, which stand beside them."""
    citations = [citation for block in blocks if isinstance(block, TextBlock) for citation in block.citations]
    return [citation.data for citation in citations if citation.data]


def piece(block: ContentBlock, tool_id: ToolId, note: Note) -> Piece:
    """What is written for a block. ``note`` tells where it stood, if not in its usual place."""
    match block:
        case TextBlock():
            return "content", {"type": "text", "text": block.text}
        case ThinkingBlock():
            if note.get("field") == "tool_plan":
                return "tool_plan", block.text
            return "content", {"type": "thinking", "thinking": block.text}
        case ToolUseBlock():
            function = {"name": block.name, "arguments": wirejson.dumps_text(block.input)}
            return "tool_calls", {"id": tool_id(block.id), "type": "function", "function": function}
        case ImageBlock():
            image: dict[str, Any] = {"url": _url(block.source, block.media_type or "image/png")}
            if block.detail is not None:
                image["detail"] = block.detail
            return "content", {"type": "image_url", "image_url": image}
        case DocumentBlock():
            return "content", {"type": "text", "text": document_as_text(block).text}
        case ProviderBlock():
            return note.get("field", "content"), block.data
        case _:
            raise TypeError(f"the projection let a {block.type} block through")


def _url(source: MediaSource, media_type: str) -> str:
    return source.data if source.kind == "url" else f"data:{media_type};base64,{source.data}"


def message(role: str, pieces: Iterable[Piece], raw: Note) -> dict[str, Any]:
    """A message. What ``raw`` notes about the provider's own one goes where no block speaks for the field."""
    wrote: dict[str, list[Any]] = {}
    for field, value in pieces:
        wrote.setdefault(field, []).append(value)
    encoded: dict[str, Any] = {"role": role}
    content = wrote.pop("content", [])
    if content or not wrote:
        encoded["content"] = _compact(content, raw)
    for field, values in wrote.items():
        encoded[field] = "\n".join(values) if field == "tool_plan" else values
    return restore(encoded, _without(raw.get("residue"), {*wrote, *(("content",) if content else ())}))


def _compact(parts: list[dict[str, Any]], raw: Note) -> Any:
    """A lone text without any extras as a string, unless the provider's own was a list."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"} and not raw.get("list"):
        return parts[0]["text"]
    return parts


def _without(residue: Note | None, spoken_for: set[str]) -> dict[str, Any]:
    """A residue without the fields that blocks speak for."""
    if not residue:
        return {}
    return {
        "set": {field: value for field, value in residue.get("set", {}).items() if field not in spoken_for},
        "drop": [field for field in residue.get("drop", ()) if field not in spoken_for],
    }


def _results(request: Outgoing, turn: Turn) -> list[dict[str, Any]]:
    notes = turn.raw(PROVIDER).get("blocks", {})
    encoded: list[dict[str, Any]] = []
    for index, (block, origin) in enumerate(turn.pairs()):
        if isinstance(block, ToolResultBlock):
            request.lose_details(turn, index, "errors", *(() if turn.raw(PROVIDER) else _LACKING))
            encoded.append(result(block, request.tool_id, notes.get(str(origin), {})))
    return encoded


def result(block: ToolResultBlock, tool_id: ToolId, note: Note) -> dict[str, Any]:
    """A tool's answer: a text, or a list of texts and documents where the provider's own was one."""
    notes = note.get("parts", {})
    parts = [restore(piece(part, tool_id, {})[1], notes.get(str(at))) for at, part in enumerate(block.content)]
    encoded = {"role": "tool", "tool_call_id": tool_id(block.tool_use_id), "content": _compact(parts, note)}
    return restore(encoded, _without(note, {"content"} if parts else set()))
