"""Attribute names, values and messages of OpenTelemetry's semantic conventions for generative AI, as far as sessions
use them.

https://opentelemetry.io/docs/specs/semconv/gen-ai/ (semantic conventions 1.41, all of them in development). Our own
attributes begin with ``dragoman.``. Images, audio, video and documents in messages are named without their bytes, which
do not belong in a trace.
"""

import json
from collections.abc import Iterable
from typing import Any

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.registry import adapter_class
from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role, StopReason
from dragoman.events.catalogue import LlmCallCompleted

OPERATION, PROVIDER = "gen_ai.operation.name", "gen_ai.provider.name"
REQUEST_MODEL, RESPONSE_MODEL = "gen_ai.request.model", "gen_ai.response.model"
CONVERSATION, AGENT, ERROR = "gen_ai.conversation.id", "gen_ai.agent.name", "error.type"
FINISH_REASONS, TOKEN_TYPE = "gen_ai.response.finish_reasons", "gen_ai.token.type"
INPUT_MESSAGES, OUTPUT_MESSAGES = "gen_ai.input.messages", "gen_ai.output.messages"
TOOL_NAME, TOOL_CALL, TOOL_TYPE = "gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.type"
TOOL_ARGUMENTS, TOOL_RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"

DURATION = "gen_ai.client.operation.duration"
DURATION_BUCKETS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
TOKENS = "gen_ai.client.token.usage"
TOKEN_BUCKETS = [4**power for power in range(14)]

_CHAT = "chat"
_FINISH_REASONS = {
    StopReason.END_TURN: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.TOOL_USE: "tool_call",
    StopReason.MAX_TOKENS: "length",
    StopReason.CONTEXT_OVERFLOW: "length",
    StopReason.REFUSAL: "content_filter",
    StopReason.CANCELLED: "error",
    StopReason.ERROR: "error",
}


def is_in_process(provider: str) -> bool:
    adapter = _adapter_class(provider)
    return adapter is not None and adapter.transport == "local"


def _adapter_class(provider: str) -> type[Adapter] | None:
    """Return the adapter of a provider; None if it is not installed here, as for events from elsewhere."""
    try:
        return adapter_class(provider)
    except ConfigurationError:
        return None


def model_name(model: str) -> str:
    """Return the provider's own name of a model."""
    return model.partition(":")[2] or model


def finish_reason(reason: StopReason) -> str:
    return _FINISH_REASONS.get(reason, str(reason))


def request_attributes(provider: str, model: str) -> dict[str, Any]:
    adapter = _adapter_class(provider)
    return {
        OPERATION: adapter.telemetry_operation if adapter is not None else _CHAT,
        PROVIDER: adapter.telemetry_name if adapter is not None else provider,  # ours if the convention has none
        REQUEST_MODEL: model_name(model),
    }


def total_input_tokens(payload: LlmCallCompleted) -> int | None:
    """Return all input tokens, cache reads and writes included: the convention counts them in, our buckets are
    disjoint.
    """
    parts = (payload.input_tokens, payload.cached_input_tokens, payload.cache_creation_input_tokens)
    return None if payload.input_tokens is None else sum(part or 0 for part in parts)


def reply_attributes(payload: LlmCallCompleted) -> dict[str, Any]:
    """Return the attributes of a reply; unknown values are left out."""
    known = {
        RESPONSE_MODEL: model_name(payload.model),
        FINISH_REASONS: None if payload.stop_reason is None else [finish_reason(payload.stop_reason)],
        "gen_ai.usage.input_tokens": total_input_tokens(payload),
        "gen_ai.usage.output_tokens": payload.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": payload.cached_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": payload.cache_creation_input_tokens,
        "dragoman.cost.usd": None if payload.cost_usd is None else format(payload.cost_usd, "f"),
        "dragoman.cost.pricing_version": payload.pricing_version,
    }
    return {name: value for name, value in known.items() if value is not None}


def format_messages(history: Iterable[Message]) -> str:
    """Return the messages as JSON."""
    return _json([_message_fields(message) for message in history])


def format_reply(message: Message) -> str:
    """Return a list with one message and its finish reason, as JSON."""
    reason = message.stop_reason
    return _json([_message_fields(message) | ({} if reason is None else {"finish_reason": finish_reason(reason)})])


def format_arguments(call: ToolUseBlock) -> str:
    return _json(call.input) if call.raw_input is None else call.raw_input


def format_result(answer: ToolResultBlock) -> str:
    return _json(_response(answer))


def _message_fields(message: Message) -> dict[str, Any]:
    role = Role.SYSTEM if message.role is Role.DEVELOPER else message.role
    return {"role": str(role), "parts": [_part(block) for block in message.content]}


def _part(block: ContentBlock) -> dict[str, Any]:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "content": text}
        case ThinkingBlock(text=text):
            return {"type": "reasoning", "content": text}
        case ToolUseBlock(id=call_id, name=name):
            arguments = block.input if block.raw_input is None else block.raw_input
            return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
        case ToolResultBlock(tool_use_id=call_id):
            return {"type": "tool_call_response", "id": call_id, "response": _response(block)}
        case _:
            return {"type": block.type}


def _response(answer: ToolResultBlock) -> Any:
    """Return the text of a result that is one text, otherwise its parts."""
    if all(isinstance(part, TextBlock) for part in answer.content):
        return "".join(part.text for part in answer.content if isinstance(part, TextBlock))
    return [_part(part) for part in answer.content]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=dict)
