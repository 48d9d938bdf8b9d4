"""Structured output from models whose wire has no field for a schema (docs/reference/contract.md#capabilities).

Such a model is made to call a tool whose input is the answer, or the system prompt asks for it. That text comes after
the conversation's own instructions, so that every turn has the same prefix. The reply is text like any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import RequestError
from dragoman.adapter.facts.capabilities import NATIVE, AdapterCapabilities
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.options import AdapterOptions, NamedTool
from dragoman.adapter.requests.call_translators import ANSWER_TOOL_DESCRIPTION, ANSWER_TOOL_NAME, AnswerTool
from dragoman.adapter.requests.request_builder import RequestBuilder, Target
from dragoman.adapter.requests.request_reader import is_for_another
from dragoman.adapter.requests.schemas import has_free_keys
from dragoman.adapter.requests.turns import INSTRUCTION_ROLES
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition

ANY_OBJECT: Mapping[str, Any] = {"type": "object", "additionalProperties": True}
"""The output schema of an answer that is any JSON object. A wire with a JSON mode gets that mode for it."""

_SCHEMA_PROMPT = (
    "Answer with one JSON value that obeys the JSON Schema below. Write nothing before it and nothing behind it,"
    " and no code fence around it.\n"
)
_MESSAGE_ID = "msg_output_schema"
"""The message is built for each request, so it has a fixed id and time."""


def supports_native_schema(capabilities: AdapterCapabilities, *, tools: bool) -> bool:
    """Whether the wire supports a schema; some do not in a request with tools."""
    if tools and capabilities.structured_output_with_tools is not NATIVE:
        return False
    return capabilities.structured_output_by == "native" and bool(capabilities.supports_structured_output)


def asks_for_any_object(options: AdapterOptions) -> bool:
    """Whether the answer is any JSON object, which the JSON mode of a wire expresses without a schema."""
    return options.output_schema == ANY_OBJECT


def reads_schema(target: Target, context: RequestContext, *, tools: bool) -> bool:
    """Whether the output schema of a request is an option. For the wire's own provider it stays as it is if the wire
    would not say it so; another provider cannot have it from there."""
    return supports_native_schema(target.capabilities, tools=tools) or is_for_another(target.provider, context)


def emulate_schema(
    target: Target,
    messages: Sequence[Message],
    tools: Sequence[ToolDefinition],
    options: AdapterOptions,
    losses: list[Loss],
) -> tuple[Sequence[Message], Sequence[ToolDefinition], AdapterOptions]:
    """If the wire has no field for the output schema, send it as the input of the only tool, or in the system
    prompt. Raises RequestError if it is not a mapping."""
    capabilities, schema = target.capabilities, options.output_schema
    if not isinstance(schema, Mapping):  # sessions have read other forms by now
        raise RequestError(f"output_schema must be a JSON Schema as a mapping, not a {type(schema).__name__}")
    has_tools = bool(tools) and bool(capabilities.supports_tools)
    if not capabilities.supports_structured_output:
        return messages, tools, options
    if supports_native_schema(capabilities, tools=has_tools):
        if not (capabilities.output_schemas.closed and has_free_keys(schema)):
            return messages, tools, options
        reason = f"output_schema: {target.model} cannot be held to objects with free keys: the prompt asks for it"
        losses.append(Loss(LossKind.OPTION, "", -1, reason, Severity.INFO))
        return add_schema_prompt(messages, schema), tools, replace(options, output_schema=None)
    is_thinking = options.thinking or options.thinking_budget or options.effort not in (None, "none")
    forced = capabilities.forced_tool_choice
    can_force = forced == "allowed" or (forced == "without_reasoning" and not is_thinking)
    is_by_tool = capabilities.structured_output_by == "tool" and schema.get("type") == "object"
    if options.context is None or has_tools or not (is_by_tool and can_force):
        return add_schema_prompt(messages, schema), tools, options
    options.context.answer_tool = AnswerTool()
    reason = f"output_schema: {target.model} is made to call a tool whose input is the answer"
    losses.append(Loss(LossKind.OPTION, "", -1, reason, Severity.INFO))
    answer = ToolDefinition(name=ANSWER_TOOL_NAME, description=ANSWER_TOOL_DESCRIPTION, input_schema=dict(schema))
    return messages, [answer], replace(options, output_schema=None, tool_choice=NamedTool(ANSWER_TOOL_NAME))


def add_schema_prompt(messages: Sequence[Message], schema: Mapping[str, Any]) -> Sequence[Message]:
    """Add a request for the schema after the conversation's own instructions."""
    position = next((at for at, each in enumerate(messages) if each.role not in INSTRUCTION_ROLES), len(messages))
    text = _SCHEMA_PROMPT + wirejson.dumps_text(dict(schema))
    request = Message.system(text, id=_MESSAGE_ID, created_at=datetime.fromtimestamp(0, UTC))
    return [*messages[:position], request, *messages[position:]]


def should_send_schema(request: RequestBuilder, *, tools: bool) -> bool:
    """Whether to send the schema in the wire's own field; if not, the loss is recorded."""
    if request.used.take("output_schema") is None:
        return False
    capabilities, model = request.target.capabilities, request.target.model
    if supports_native_schema(capabilities, tools=tools):
        return True
    if capabilities.supports_structured_output:
        request.record_option_loss("output_schema", f"{model} is asked for it in the system prompt, and not held to it")
    else:
        request.record_option_loss("output_schema", f"{model} has no structured output")
    return False
