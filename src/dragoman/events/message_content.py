"""Messages as OpenTelemetry's conventions write them, where a program asks for content in its traces.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/#capturing-instructions-inputs-and-outputs. Pictures,
sounds and documents are named and left out: their bytes have no place in a trace.
"""

import json
from collections.abc import Iterable
from typing import Any

from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role
from dragoman.events.conventions import finish_reason


def format_messages(history: Iterable[Message]) -> str:
    """As JSON."""
    return _json([_message(message) for message in history])


def format_reply(message: Message) -> str:
    """One message with the reason of its end, in a list of one."""
    reason = message.stop_reason
    return _json([_message(message) | ({} if reason is None else {"finish_reason": finish_reason(reason)})])


def format_arguments(call: ToolUseBlock) -> str:
    return _json(call.input) if call.raw_input is None else call.raw_input


def format_result(answer: ToolResultBlock) -> str:
    return _json(_response(answer))


def _message(message: Message) -> dict[str, Any]:
    role = Role.SYSTEM if message.role is Role.DEVELOPER else message.role
    return {"role": str(role), "parts": [_part(block) for block in message.content]}


def _part(block: ContentBlock) -> dict[str, Any]:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "content": text}
        case ThinkingBlock(text=text):
            return {"type": "reasoning", "content": text}
        case ToolUseBlock(id=call_id, name=name):
            given = block.input if block.raw_input is None else block.raw_input
            return {"type": "tool_call", "id": call_id, "name": name, "arguments": given}
        case ToolResultBlock(tool_use_id=call_id):
            return {"type": "tool_call_response", "id": call_id, "response": _response(block)}
        case _:
            return {"type": block.type}


def _response(answer: ToolResultBlock) -> Any:
    """A text where the answer is one."""
    if all(isinstance(part, TextBlock) for part in answer.content):
        return "".join(part.text for part in answer.content if isinstance(part, TextBlock))
    return [_part(part) for part in answer.content]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=dict)
