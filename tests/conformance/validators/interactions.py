"""What the Interactions API accepts, written from its published types."""

import re
from collections.abc import Iterator
from typing import Any

from tests.conformance.validators.google import is_base64

_Faults = Iterator[str]

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_FIELDS = {
    "agent", "agent_config", "background", "cached_content", "continuation_token", "environment", "generation_config",
    "input", "labels", "model", "previous_interaction_id", "response_format", "response_mime_type",
    "response_modalities", "safety_settings", "service_tier", "store", "stream", "system_instruction", "tools",
    "webhook_config",
}  # fmt: skip
_SETTINGS = {
    "image_config", "max_output_tokens", "seed", "speech_config", "stop_sequences", "temperature", "thinking_level",
    "thinking_summaries", "tool_choice", "top_p", "transcription_config", "video_config",
}  # fmt: skip
_MEDIA = ("image", "audio", "video", "document")
_FOREIGN = ("user_input", "model_output", "function_call", "function_result")


def faults(body: dict[str, Any], *, foreign: bool) -> _Faults:
    """All faults of a body; ``foreign``: another provider produced the history."""
    yield from (f"{name} is not a parameter" for name in body if name not in _FIELDS)
    yield from (f"{name} is not a parameter" for name in body.get("generation_config") or {} if name not in _SETTINGS)
    if not (body.get("model") or body.get("agent")):
        yield "neither model nor agent"
    if not isinstance(body.get("system_instruction", ""), str):
        yield "the instruction is not text"
    for tool in body.get("tools") or ():
        if tool.get("type") == "function" and not (
            _NAME.fullmatch(tool.get("name", "")) and isinstance(tool.get("parameters", {}), dict)
        ):
            yield f"the tool {tool.get('name')!r}"
    input_value = body.get("input")
    if not input_value:
        yield "input is empty"
    elif isinstance(input_value, dict):
        yield from _content(input_value, foreign=foreign)
    elif isinstance(input_value, list) and all(each.get("type") in ("text", *_MEDIA) for each in input_value):
        for each in input_value:
            yield from _content(each, foreign=foreign)
    elif isinstance(input_value, list):
        yield from _steps(input_value, foreign=foreign, kept="previous_interaction_id" in body)


def _steps(steps: list[dict[str, Any]], *, foreign: bool, kept: bool) -> _Faults:
    for step in steps:
        kind = step.get("type")
        if foreign and kind not in _FOREIGN:
            yield f"{kind} of foreign origin"
        match kind:
            case "user_input" | "model_output":
                if foreign and not step.get("content"):
                    yield f"a {kind} without contents"
                for content in step.get("content") or ():
                    if content.get("type") != "function_result":
                        yield from _content(content, foreign=foreign)
            case "function_call":
                if foreign and "signature" in step:
                    yield "a signature of foreign origin"
                whole = isinstance(step.get("id"), str) and isinstance(step.get("arguments"), dict)
                if not (whole and _NAME.fullmatch(step.get("name", ""))):
                    yield f"the call of {step.get('name')!r}"
            case "function_result" if "result" not in step:
                yield "a tool's answer without a result"
            case "function_result" if isinstance(step["result"], list):
                for content in step["result"]:
                    yield from _content(content, foreign=foreign)
    if steps[-1].get("type") not in ("user_input", "function_result"):
        yield "the last message is the assistant's"
    yield from _pairs(steps, kept=kept)


def _content(content: dict[str, Any], *, foreign: bool) -> _Faults:
    kind = content.get("type")
    if kind == "text":
        if not isinstance(content.get("text"), str):
            yield "a text that is none"
        elif foreign and not content["text"]:
            yield "an empty text of foreign origin"
    elif kind in _MEDIA:
        inline = content.get("mime_type") and is_base64(content.get("data") or "")
        if not (inline or content.get("uri")):
            yield f"{kind} without data of a type, and without a URI"
    elif foreign:
        yield f"{kind} of foreign origin"


def _pairs(steps: list[dict[str, Any]], *, kept: bool) -> _Faults:
    """Each call has one answer, before the next text; answers to calls that Google stores may come."""
    waiting: list[str] = []
    for step in steps:
        inner = [each for each in step.get("content") or () if each.get("type") == "function_result"]
        answers = [step] if step.get("type") == "function_result" else inner
        for answer in answers:
            if answer.get("call_id") in waiting:
                waiting.remove(answer["call_id"])
            elif not kept:
                yield f"the answer {answer.get('call_id')} answers none of {waiting}"
        if step.get("type") == "function_call":
            waiting.append(step.get("id", ""))
        elif step.get("type") in ("user_input", "model_output") and not inner and waiting:
            yield f"the calls {waiting} have no answer"
            waiting = []
    if waiting:
        yield f"the calls {waiting} have no answer"
