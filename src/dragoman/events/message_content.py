"""Messages in the form of OpenTelemetry's conventions, for programs that want content in their traces.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/#capturing-instructions-inputs-and-outputs. Images,
audio, video and documents are named without their bytes, which do not belong in a trace.
"""

import json
from collections.abc import Iterable
from typing import Any

from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role
from dragoman.events.conventions import finish_reason


def format_messages(history: Iterable[Message]) -> str:
    """Return the messages as JSON."""
    return _json([_message(message) for message in history])


def format_reply(message: Message) -> str:
    """Return a list with one message and its finish reason, as JSON."""
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
