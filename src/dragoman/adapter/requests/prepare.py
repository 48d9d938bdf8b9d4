"""Prepares a request: legal tool names, a supported form of the output schema, the projected history.

Records in the context what is sent differently, so that the reply can be mapped back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dragoman.adapter.errors import RequestError
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.options import AdapterOptions, NamedTool
from dragoman.adapter.requests import structured_output
from dragoman.adapter.requests.answer_tool import ANSWER_TOOL_DESCRIPTION, ANSWER_TOOL_NAME, AnswerTool
from dragoman.adapter.requests.history.tool_names import ToolNames, make_legal_names
from dragoman.adapter.requests.projection import Target
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.schemas import has_free_keys
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition

Tools = Sequence[ToolDefinition]


def prepare_request(
    target: Target,
    messages: Sequence[Message],
    tools: Tools,
    options: AdapterOptions,
    *,
    server_state: bool = False,
    whole: bool = False,
) -> tuple[RequestBuilder, Tools]:
    """Return the request and its tools; see `RequestBuilder.from_history`.

    Raises CriticalLossError and RequestError.
    """
    if options.context is not None:
        options.context.tool_names = options.context.answer_tool = None
        options.context.reply_note = options.context.action_calls = None
        options.context.ends_turn = options.context.replies_whole = False
    losses: list[Loss] = []
    capabilities = target.capabilities
    if options.stream and not (
        capabilities.supports_streaming and (not tools or capabilities.supports_streaming_tool_calls)
    ):
        options = replace(options, stream=False)
        if options.context is not None:
            options.context.replies_whole = True
    if options.parallel_tool_calls and not capabilities.supports_parallel_tool_calls:
        options = replace(options, parallel_tool_calls=None)
        reason = f"parallel_tool_calls: {target.model} calls one tool at a time"
        losses.append(Loss(LossKind.OPTION, "", -1, reason))
    if tools:
        tools, options = _rename_tools(target, tools, options, losses)
    if options.output_schema is not None:
        messages, tools, options = _emulate_schema(target, messages, tools, options, losses)
    request = RequestBuilder.from_history(target, messages, options, server_state=server_state, whole=whole)
    request.losses += losses
    return request, tools


def _rename_tools(
    target: Target, tools: Tools, options: AdapterOptions, losses: list[Loss]
) -> tuple[Tools, AdapterOptions]:
    legal_names = make_legal_names(tools, target.capabilities.tool_name_rule, target.provider)
    if not legal_names:
        return tools, options
    for own, name in legal_names.items():
        losses.append(_loss(LossKind.TOOLS, f"the tool {own} is offered under the name {name}, which the wire takes"))
    if options.context is not None:
        options.context.tool_names = ToolNames({name: own for own, name in legal_names.items()})
    if isinstance(choice := options.tool_choice, NamedTool):
        options = replace(options, tool_choice=NamedTool(legal_names.get(choice.name, choice.name)))
    renamed_tools = [
        tool.model_copy(update={"name": legal_names[tool.name]}) if tool.name in legal_names else tool for tool in tools
    ]
    return renamed_tools, options


def _emulate_schema(
    target: Target, messages: Sequence[Message], tools: Tools, options: AdapterOptions, losses: list[Loss]
) -> tuple[Sequence[Message], Tools, AdapterOptions]:
    """If the wire has no field for the output schema, send it as the input of the only tool, or in the system
    prompt. Raises RequestError if it is not a mapping."""
    capabilities, schema = target.capabilities, options.output_schema
    if not isinstance(schema, Mapping):  # sessions have read other forms by now
        raise RequestError(f"output_schema must be a JSON Schema as a mapping, not a {type(schema).__name__}")
    has_tools = bool(tools) and bool(capabilities.supports_tools)
    if schema is None or not capabilities.supports_structured_output:
        return messages, tools, options
    if structured_output.supports_native_schema(capabilities, tools=has_tools):
        if not (capabilities.output_schemas.closed and has_free_keys(schema)):
            return messages, tools, options
        reason = f"output_schema: {target.model} cannot be held to objects with free keys: the prompt asks for it"
        losses.append(_loss(LossKind.OPTION, reason))
        return structured_output.add_schema_prompt(messages, schema), tools, replace(options, output_schema=None)
    if options.context is None or not structured_output.can_use_answer_tool(capabilities, options, has_tools=has_tools):
        return structured_output.add_schema_prompt(messages, schema), tools, options
    options.context.answer_tool = AnswerTool()
    reason = f"output_schema: {target.model} is made to call a tool whose input is the answer"
    losses.append(_loss(LossKind.OPTION, reason))
    answer = ToolDefinition(name=ANSWER_TOOL_NAME, description=ANSWER_TOOL_DESCRIPTION, input_schema=dict(schema))
    return messages, [answer], replace(options, output_schema=None, tool_choice=NamedTool(ANSWER_TOOL_NAME))


def _loss(kind: LossKind, reason: str) -> Loss:
    return Loss(kind, "", -1, reason, Severity.INFO)
