"""Canonical to wire: the body that `dragoman.transport.local` runs.

A body names the model, how it is to be prompted, the messages as lists of parts, the tools and the options::

    {"model": "smollm2-135m", "prompting": "guided",
     "messages": [{"role": "user", "content": [{"type": "text", "text": "Read README.md."}]},
                  {"role": "assistant", "content": [{"type": "call", "id": "a", "name": "read_file",
                                                     "arguments": {"path": "README.md"}}]},
                  {"role": "tool", "content": [{"type": "result", "id": "a",
                                                "content": [{"type": "text", "text": "Hello"}]}]}],
     "tools": [{"name": "read_file", "description": "Read a file", "parameters": {...}}],
     "tool_choice": "auto", "options": {"max_tokens": 200}, "stream": true}
"""

from collections.abc import Callable, Sequence
from typing import Any

from dragoman.adapter.contract import NamedTool
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.canonical.blocks import ContentBlock, ProviderBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.tools import ToolDefinition

OPTION_FIELDS = {
    "max_output_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
}
"""Our options and the names that they have on this wire."""

ToolId = Callable[[str], str]


def encode_body(request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """The whole body."""
    encoded: dict[str, Any] = {"model": request.target.model}
    encoded["prompting"] = request.target.capabilities.wire["prompting"]
    encoded["messages"] = request.encode_history(
        request.turns, lambda turns: [_encode_turn(request, each) for each in turns]
    )
    if usable := request.usable_tools(tools):
        encoded["tools"] = [encode_tool(definition) for definition in usable]
    return encoded | encode_options(request)


def encode_options(request: RequestBuilder) -> dict[str, Any]:
    """Everything but the conversation and the tools."""
    options = request.options
    encoded: dict[str, Any] = {}
    if options.tool_choice is not None:
        choice = options.tool_choice
        encoded["tool_choice"] = {"name": choice.name} if isinstance(choice, NamedTool) else choice
    if options.parallel_tool_calls is not None:
        encoded["parallel_tool_calls"] = options.parallel_tool_calls
    if options.output_schema is not None:
        encoded["output_schema"] = dict(options.output_schema)
    settings: dict[str, Any] = {
        theirs: value for ours, theirs in OPTION_FIELDS.items() if (value := getattr(options, ours)) is not None
    }
    if options.stop_sequences:
        settings["stop"] = list(options.stop_sequences)
    if settings:
        encoded["options"] = settings
    if options.stream:
        encoded["stream"] = True
    _record_unsupported_options(request)
    return encoded


def _record_unsupported_options(request: RequestBuilder) -> None:
    options, model = request.options, request.target.model
    if options.thinking or options.effort not in (None, "none"):
        request.record_option_loss("thinking" if options.thinking else "effort", f"{model} does not reason")
    if options.thinking_budget is not None:
        request.record_option_loss("thinking_budget", f"{model} does not reason")
    if options.prompt_cache is not None:
        reason = "prompt_cache: a model in this process keeps no prompt between requests"
        request.record_loss(LossKind.OPTION, reason, Severity.INFO)
    if options.parallel_tool_calls and not request.target.capabilities.supports_parallel_tool_calls:
        request.record_option_loss("parallel_tool_calls", f"{model} calls one tool at a time")


def encode_tool(definition: ToolDefinition) -> dict[str, Any]:
    return {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.input_schema,
    }


def _encode_turn(request: RequestBuilder, turn: Turn) -> dict[str, Any]:
    for index in range(len(turn.blocks)):
        request.record_field_losses(turn, index, "citations")
    return {"role": str(turn.role), "content": [encode_block(block, request.tool_id) for block in turn.blocks]}


def encode_block(block: ContentBlock, tool_id: ToolId) -> dict[str, Any]:
    """One block. A call whose arguments were no object carries them as the text that they were."""
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ToolUseBlock():
            arguments = block.input if block.raw_input is None else block.raw_input
            return {"type": "call", "id": tool_id(block.id), "name": block.name, "arguments": arguments}
        case ToolResultBlock():
            encoded: dict[str, Any] = {"type": "result", "id": tool_id(block.tool_use_id)}
            encoded["content"] = [encode_block(inner, tool_id) for inner in block.content]
            return encoded | ({"is_error": True} if block.is_error else {})
        case ProviderBlock():
            return block.data
        case _:
            raise TypeError(f"the projection let a {block.type} block through")
