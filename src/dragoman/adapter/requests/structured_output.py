"""An answer that obeys a schema, from models whose wire has no place for one (specification D5.2).

Such a model is made to call a tool whose input is the answer, or is asked for it in the system prompt: behind whatever
the conversation's own says, so that the same options give the same beginning turn after turn. What comes back is text
like any other.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.facts.capabilities import NATIVE, AdapterCapabilities
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.canonical.message import Message, Role

_SCHEMA_PROMPT = (
    "Answer with one JSON value that obeys the JSON Schema below. Write nothing before it and nothing behind it,"
    " and no code fence around it.\n"
)
_INSTRUCTION_ROLES = (Role.SYSTEM, Role.DEVELOPER)
_MESSAGE_ID = "msg_output_schema"
"""The message is made anew for each request: it has no id of its own, and no time."""


def supports_native_schema(abilities: AdapterCapabilities, *, tools: bool) -> bool:
    """Whether the wire itself takes the schema; some take none in a request that offers tools."""
    if tools and abilities.structured_output_with_tools is not NATIVE:
        return False
    return abilities.structured_output_by == "native" and bool(abilities.supports_structured_output)


def can_use_answer_tool(abilities: AdapterCapabilities, options: AdapterOptions, *, has_tools: bool) -> bool:
    """Whether the model can be made to call a tool with such an input, and has no others that it might want to call."""
    if abilities.structured_output_by != "tool" or has_tools or (options.output_schema or {}).get("type") != "object":
        return False
    is_thinking = options.thinking or options.thinking_budget or options.effort not in (None, "none")
    forced = abilities.forced_tool_choice
    return forced == "allowed" or (forced == "without_reasoning" and not is_thinking)


def add_schema_prompt(messages: Sequence[Message], schema: Mapping[str, Any]) -> Sequence[Message]:
    """The messages with a request for the schema behind the conversation's own instructions."""
    position = next((at for at, each in enumerate(messages) if each.role not in _INSTRUCTION_ROLES), len(messages))
    text = _SCHEMA_PROMPT + wirejson.dumps_text(dict(schema))
    request = Message.system(text, id=_MESSAGE_ID, created_at=datetime.fromtimestamp(0, UTC))
    return [*messages[:position], request, *messages[position:]]


def should_send_schema(request: RequestBuilder, *, tools: bool) -> bool:
    """Whether the schema is to be written on the wire; where it is not, that is named."""
    abilities, model = request.target.capabilities, request.target.model
    if request.options.output_schema is None or supports_native_schema(abilities, tools=tools):
        return request.options.output_schema is not None
    if abilities.supports_structured_output:
        request.record_option_loss("output_schema", f"{model} is asked for it in the system prompt, and not held to it")
    else:
        request.record_option_loss("output_schema", f"{model} has no structured output")
    return False
