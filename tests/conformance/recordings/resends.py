"""Replies sent back: a provider must receive what it sent unchanged, with ids, signatures and native parts."""

import json
from collections.abc import Iterator
from typing import Any

from dragoman import AdapterOptions, Message
from tests.conformance.adapters import create_adapter
from tests.conformance.jsondiff import differences
from tests.conformance.outcomes import Aspect, Difference, Outcome
from tests.conformance.recordings.oracle.expected import Expected, arguments
from tests.conformance.scope import model_name, wire_name
from tests.exchanges import RecordedExchange


def judge(exchange: RecordedExchange, expected: Expected, message: Message) -> Iterator[Outcome]:
    """The reply within a continued conversation; nothing if the reply is empty."""
    theirs = _expected_resend(wire_name(exchange), expected.native)
    if not theirs:
        return
    results = [Message.tool(call.id, "done") for call in message.tool_uses]
    history = [Message.user("Begin."), message, *results, Message.user("Go on.")]
    try:
        wire = create_adapter(model_name(exchange)).to_wire(history, [], _options(exchange.provider, expected.native))
    except Exception as error:
        yield Outcome(exchange, Aspect.RESEND, (Difference(f"raised {type(error).__name__}", str(error)),))
        return
    ours = _resent_reply(wire_name(exchange), json.loads(wire.body))
    yield Outcome(exchange, Aspect.RESEND, tuple(differences(theirs, ours)))


def _expected_resend(provider: str, native: Any) -> Any:
    """The part of a reply that has to be sent again. Nulls carry nothing, and some providers refuse an empty text."""
    match provider:
        case "anthropic":
            return [_without_nulls(block) for block in native if block.get("text") != ""]
        case "openai-responses":
            return [_without_nulls(item) for item in native]
        case "google" | "google-vertex":
            return native
        case "google-interactions":
            return [_parse_step_arguments(step) for step in native]
        case "bedrock":
            return [block for block in map(_normalize_bedrock_block, native) if block]
        case _:
            return _normalize_chat_message(native)


def _resent_reply(provider: str, body: dict[str, Any]) -> Any:
    """The part of a request that is the reply."""
    match provider:
        case "anthropic":
            (assistant,) = (message for message in body["messages"] if message["role"] == "assistant")
            content = assistant["content"]
            return (
                [{"type": "text", "text": content}] if isinstance(content, str) else list(map(_without_nulls, content))
            )
        case "openai-responses":
            ours = [item for item in body["input"] if item.get("role") != "user"]
            return [_without_nulls(item) for item in ours if not _is_result(item)]
        case "bedrock":
            (assistant,) = (message for message in body["messages"] if message["role"] == "assistant")
            return [block for block in map(_normalize_bedrock_block, assistant["content"]) if block]
        case "google-interactions":
            return [step for step in body["input"] if step["type"] not in ("user_input", "function_result")]
        case "google" | "google-vertex":
            (model_content,) = (content for content in body["contents"] if content["role"] == "model")
            return model_content["parts"]
        case _:
            (assistant,) = (message for message in body["messages"] if message["role"] == "assistant")
            return _normalize_chat_message(assistant)


def _options(provider: str, native: Any) -> AdapterOptions:
    """Bedrock is answered in the form of its reply: blocks of Anthropic's form have a type."""
    if provider == "bedrock" and any("type" in block for block in native):
        return AdapterOptions(extra={"bedrock": {"anthropic_version": "bedrock-2023-05-31"}})
    return AdapterOptions()


def _normalize_bedrock_block(block: dict[str, Any]) -> dict[str, Any] | None:
    """A block in a comparable form: calls have a type in replies only, and only signed thinking is sent back."""
    if "type" in block:
        return _without_nulls(block) if block.get("text") != "" else None
    match block:
        case {"text": ""}:
            return None
        case {"toolUse": {"type": "tool_use"} as call}:
            return {"toolUse": {name: value for name, value in call.items() if name != "type"}}
        case {"reasoningContent": {"reasoningText": thought}} if not thought.get("signature"):
            return None
        case _:
            return block


def _parse_step_arguments(step: dict[str, Any]) -> dict[str, Any]:
    """A step of Google's with its arguments as an object; a stream sends them as text."""
    return {**step, "arguments": arguments(step["arguments"])} if isinstance(step.get("arguments"), str) else step


def _is_result(item: dict[str, Any]) -> bool:
    return bool(item.get("type") == "function_call_output" and item.get("output") == "done")


def _without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    return {name: inner for name, inner in value.items() if inner is not None}


def _normalize_chat_message(message: dict[str, Any]) -> dict[str, Any]:
    """A chat message in a comparable form: its text, its refusal and its calls."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    kept: dict[str, Any] = {
        "content": "".join(part.get("text", "") for part in parts) if parts else content or "",
        "refusal": message.get("refusal") or "",
        "calls": [
            {"id": call.get("id"), "called": _without_nulls(call.get("function") or call.get("custom"))}
            for call in message.get("tool_calls") or ()
        ],
        "function_call": message.get("function_call") if (message.get("function_call") or {}).get("name") else None,
    }
    return {name: value for name, value in kept.items() if value}
