"""Canonical to wire: the body of a chat request (wire reference 5)."""

from collections.abc import Callable, Sequence
from typing import Any

from dragoman.adapter import demands, schemas, structured
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.details import Detail
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.outgoing import Outgoing
from dragoman.adapter.residue import restore
from dragoman.adapter.turns import Turn
from dragoman.canonical.blocks import ContentBlock, ImageBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition

EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "max", "max": "max"}

OPTIONS = {
    "max_output_tokens": "num_predict",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
}
"""Our options and the names of Ollama's."""

_LACKING: tuple[Detail, ...] = ("citations", "arguments", "signatures", "errors", "seams", "resolution", "types")
"""What the wire has no place for."""

_ROLES = {Role.DEVELOPER: "system"}

ToolId = Callable[[str], str]


def body(request: Outgoing, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """The whole body."""
    encoded: dict[str, Any] = {"model": request.adapter.model}
    names: dict[str, str] = {}
    encoded["messages"] = request.history(
        request.turns, lambda turns: [message for turn in turns for message in _messages(request, turn, names)]
    )
    encoded |= parameters(request)
    usable = schemas.fit_tools(request, request.usable(tools))
    if usable and request.options.tool_choice != "none":
        encoded["tools"] = [tool(definition) for definition in usable]
    return encoded


def parameters(request: Outgoing) -> dict[str, Any]:
    """Everything but the conversation and the tools. The server streams unless told otherwise, so we always say."""
    options = request.options
    encoded: dict[str, Any] = {"stream": options.stream}
    if (think := _think(request)) is not None:
        encoded["think"] = think
    if structured.is_written(request, tools=False):
        encoded["format"] = schemas.fit_output(request)
    settings: dict[str, Any] = {
        theirs: value for ours, theirs in OPTIONS.items() if (value := getattr(options, ours)) is not None
    }
    if stop := demands.stop_sequences(request):
        settings["stop"] = stop
    if settings:
        encoded["options"] = settings
    if options.tool_choice == "required" or isinstance(options.tool_choice, NamedTool):
        request.lose_option("tool_choice", "Ollama cannot be forced to call a tool; it may choose")
    if options.parallel_tool_calls is False:
        request.lose_option("parallel_tool_calls", "Ollama has no such switch")
    if options.thinking_budget is not None:
        request.lose_option("thinking_budget", "Ollama takes levels, not budgets")
    demands.lose_cache_hint(request)
    return encoded


def _think(request: Outgoing) -> bool | str | None:
    effort, abilities, model = request.options.effort, request.adapter.capabilities, request.adapter.model
    if request.options.thinking is False or effort == "none":
        if abilities.thinking_off:
            return False
        request.lose_option("thinking", f"{model} always thinks; the lowest level is asked for")
        return "low"
    if not abilities.supports_thinking and (request.options.thinking or effort is not None):
        request.lose_option("thinking" if request.options.thinking else "effort", f"{model} is not known to think")
        return None
    if effort is None:
        return request.options.thinking
    if effort not in EFFORTS:
        request.lose_option("effort", f"{effort!r} is no level of Ollama's")
        return None
    return EFFORTS[effort]


def tool(definition: ToolDefinition) -> dict[str, Any]:
    """A tool, in the nested form of OpenAI's chat."""
    raw = definition.provider_raw or {}
    function: dict[str, Any] = {"name": definition.name, "description": definition.description}
    function["parameters"] = definition.input_schema
    own = raw if raw.get("by") == "ollama" else {}
    return restore({"type": "function", "function": restore(function, own.get("function"))}, own.get("residue"))


def _messages(request: Outgoing, turn: Turn, names: dict[str, str]) -> list[dict[str, Any]]:
    """One message a turn; a turn of several tool results becomes several. ``names`` are the tools by call."""
    if (text := turn.bare("ollama")) is not None:
        return [{"role": _ROLES.get(turn.role, turn.role.value), "content": text}]
    for index in range(len(turn.blocks)):
        request.lose_details(turn, index, *_LACKING)
    if turn.role is Role.TOOL:
        return [
            request.restored(turn, index, tool_result(block, request.tool_id, names))
            for index, block in enumerate(turn.blocks)
            if isinstance(block, ToolResultBlock)
        ]
    notes = turn.raw("ollama").get("blocks", {})
    calls = []
    for block, origin in zip(turn.blocks, turn.origins, strict=True):
        if isinstance(block, ToolUseBlock):
            names[block.id] = block.name
            calls.append(tool_call(block, request.tool_id, notes.get(str(origin), {})))
    for index in turn.words_behind_calls():
        request.lose_block(turn, index, LossKind.FLATTENED, "words behind a call go before it", Severity.INFO)
    for index in turn.thoughts_inside():
        request.lose_block(turn, index, LossKind.FLATTENED, "thinking goes first, as one text", Severity.INFO)
    _lose_seams(request, turn)
    encoded = message(_ROLES.get(turn.role, str(turn.role)), turn.blocks)
    if calls:
        encoded["tool_calls"] = calls
    return [restore(encoded, turn.raw("ollama").get("residue"))]


def _lose_seams(request: Outgoing, turn: Turn) -> None:
    """A content is one text: that it was several is a loss of form."""
    texts = [index for index, block in enumerate(turn.blocks) if isinstance(block, TextBlock)]
    for index in texts[1:]:
        request.lose_block(turn, index, LossKind.FLATTENED, "texts of one message are sent as one", Severity.INFO)


def message(role: str, blocks: Sequence[ContentBlock]) -> dict[str, Any]:
    """A message without its calls: texts are joined, and images stand beside the text, as the wire has it."""
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    encoded: dict[str, Any] = {"role": role, "content": "\n".join(texts)}
    if thoughts := [block.text for block in blocks if isinstance(block, ThinkingBlock)]:
        encoded["thinking"] = "\n".join(thoughts)
    if images := [block.source.data for block in blocks if isinstance(block, ImageBlock)]:
        encoded["images"] = images
    return encoded


def tool_call(block: ToolUseBlock, tool_id: ToolId, note: dict[str, Any]) -> dict[str, Any]:
    """A call; its arguments are an object here, not a string."""
    function = restore({"name": block.name, "arguments": block.input}, note.get("function"))
    return restore({"id": tool_id(block.id), "function": function}, note)


def tool_result(block: ToolResultBlock, tool_id: ToolId, names: dict[str, str]) -> dict[str, Any]:
    """A tool's answer. Servers before tool_call_id go by the tool's name, so both are sent."""
    encoded = message("tool", block.content)
    if name := names.get(block.tool_use_id):
        encoded["tool_name"] = name
    encoded["tool_call_id"] = tool_id(block.tool_use_id)
    return encoded
