"""The unions of each installed SDK, and the reply or the request that a member stands in."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from tests.conformance.unions.construct import TEXT, members, objects

Native = dict[str, Any]


@dataclass(frozen=True)
class Member:
    """One constructed value. ``in_reply``: it stands in a reply, and not in a request."""

    model: str
    union: str
    name: str
    value: Native
    body: Native
    in_reply: bool

    @property
    def key(self) -> str:
        return f"{self.union}.{self.name}"


@dataclass(frozen=True)
class Unions:
    """Those of one SDK; ``package`` is its import name."""

    package: str
    find: Callable[[], Iterator[Member]]

    @property
    def is_installed(self) -> bool:
        return find_spec(self.package) is not None


def _each(
    model: str,
    union: str,
    kinds: Iterator[Any],
    wrap: Callable[[Native], Native],
    *,
    in_reply: bool,
    audio_model: str = "",
) -> Iterator[Member]:
    """``audio_model`` gets what holds audio, if the other model takes none."""
    for kind in kinds:
        for value in objects(kind):
            name = str(value.get("type") or value.get("role") or kind.__name__)
            chosen = audio_model if audio_model and "input_audio" in str(value) else model
            yield Member(chosen, union, name, value, wrap(value), in_reply)


def anthropic() -> Iterator[Member]:
    from anthropic.types.beta import BetaContentBlock
    from anthropic.types.beta.beta_content_block_param import BetaContentBlockParam

    model = "anthropic:claude-opus-4-5"
    head = {"id": "m", "type": "message", "role": "assistant", "model": "claude-opus-4-5", "stop_reason": "end_turn"}
    usage = {"input_tokens": 1, "output_tokens": 1}

    def reply(block: Native) -> Native:
        return {**head, "content": [block], "usage": usage}

    def request(block: Native) -> Native:
        message = {"role": "user" if block["type"] in _USER_BLOCKS else "assistant", "content": [block]}
        call = {"type": "tool_use", "id": TEXT, "name": TEXT, "input": {}}
        before = [{"role": "assistant", "content": [call]}] if block["type"] == "tool_result" else []
        return {"model": "claude-opus-4-5", "max_tokens": 9, "messages": [*before, message]}

    yield from _each(model, "ContentBlock", members(BetaContentBlock), reply, in_reply=True)
    yield from _each(model, "ContentBlockParam", members(BetaContentBlockParam), request, in_reply=False)


_USER_BLOCKS = ("text", "image", "document", "search_result", "tool_result", "container_upload")


def openai_responses() -> Iterator[Member]:
    from openai.types.responses import ResponseOutputItem
    from openai.types.responses.response_input_item_param import ResponseInputItemParam

    model = "openai:gpt-6.1-sol"
    text = {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}  # fmt: skip

    def reply(item: Native) -> Native:
        after = [text] if item["type"] == "reasoning" else []
        status = {"object": "response", "status": "completed"}
        return {"id": "r", **status, "model": "gpt-6.1-sol", "output": [item, *after]}

    def request(item: Native) -> Native:
        after = [text] if item.get("type") == "reasoning" else []
        return {"model": "gpt-6.1-sol", "input": [item, *after], "previous_response_id": "resp_0"}

    yield from _each(model, "OutputItem", members(ResponseOutputItem), reply, in_reply=True)
    yield from _each(model, "InputItem", members(ResponseInputItemParam), request, in_reply=False)


def openai_chat() -> Iterator[Member]:
    from openai.types.chat import ChatCompletionContentPartParam, ChatCompletionMessage, ChatCompletionMessageParam

    model, audio_model = "openai-chat:gpt-4.1", "openai-chat:gpt-4o-audio-preview"

    def reply(message: Native) -> Native:
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return {"id": "c", "object": "chat.completion", "model": "gpt-4.1", "choices": [choice]}

    def request(message: Native) -> Native:
        call: Native = {"id": TEXT, "type": "function", "function": {"name": TEXT, "arguments": "{}"}}
        calls: Native = {"tool": {"tool_calls": [call]}, "function": {"function_call": call["function"]}}
        before = [{"role": "assistant", **calls[message["role"]]}] if message["role"] in calls else []
        return {"model": "gpt-4.1", "messages": [*before, message]}

    def part(part: Native) -> Native:
        return request({"role": "user", "content": [part]})

    yield from _each(model, "Message", members(ChatCompletionMessage), reply, in_reply=True)
    messages, parts = members(ChatCompletionMessageParam), members(ChatCompletionContentPartParam)
    yield from _each(model, "MessageParam", messages, request, in_reply=False, audio_model=audio_model)
    yield from _each(model, "ContentPartParam", parts, part, in_reply=False, audio_model=audio_model)


def google() -> Iterator[Member]:
    from google.genai import types

    model = "google:gemini-3-pro"
    flags = {"thought", "thought_signature", "media_resolution", "video_metadata", "part_metadata"}
    for value in objects(types.Part):
        named = [name for name in value if name not in flags]
        kinds = named if len(named) == 1 else []
        for name in kinds:
            part = {name: value[name]}
            if name == "functionResponse":
                part = {name: {**value[name], "id": TEXT, "name": TEXT}}
                if any(len(inner) != 1 for inner in value[name].get("parts", ())):
                    continue  # a part holds one kind of data
            body = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}
            yield Member(model, "Part", name, part, body, True)
            call = {"functionCall": {"id": TEXT, "name": TEXT, "args": {}}}
            before = [{"role": "model", "parts": [call]}] if name == "functionResponse" else []
            body = {"contents": [*before, {"role": "user", "parts": [part]}]}
            yield Member(model, "PartParam", name, part, body, False)


def google_interactions() -> Iterator[Member]:
    from google.genai._gaos.types.interactions.content import ContentParam
    from google.genai._gaos.types.interactions.step import StepParam

    model = "google-interactions:gemini-3-pro"
    head = {"id": "v1_1", "object": "interaction", "model": "gemini-3-pro", "status": "completed"}

    def reply(step: Native) -> Native:
        kind = step["type"].replace("_call", "_result")
        result = {"type": kind, "call_id": step.get("id"), "result": []}
        after = [result] if kind != step["type"] and step["type"] != "function_call" else []
        return {**head, "steps": [step, *after]}

    def request(step: Native) -> Native:
        return {"model": "gemini-3-pro", "input": [step], "previous_interaction_id": "v1_0"}

    def content(native: Native) -> Native:
        return request({"type": "user_input", "content": [native]})

    for member in _each(model, "Step", members(StepParam), reply, in_reply=True):
        if member.name not in _INPUT_STEPS:
            yield member
    yield from _each(model, "StepParam", members(StepParam), request, in_reply=False)
    yield from _each(model, "ContentParam", members(ContentParam), content, in_reply=False)


_INPUT_STEPS = ("user_input", "function_result")
"""Steps of the program: a reply that repeats them adds nothing."""


def ollama() -> Iterator[Member]:
    from ollama import Message

    def reply(message: Native) -> Native:
        return {"model": "qwen3", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": True}

    for value in objects(Message):
        message = {**value, "role": "assistant", **({"images": [TEXT]} if "images" in value else {})}
        yield Member("ollama:llama3.2-vision", "Message", "assistant", message, reply(message), True)


UNIONS = {
    "anthropic": Unions("anthropic", anthropic),
    "openai": Unions("openai", openai_responses),
    "openai-chat": Unions("openai", openai_chat),
    "google": Unions("google.genai", google),
    "google-interactions": Unions("google.genai", google_interactions),
    "ollama": Unions("ollama", ollama),
}
"""By provider."""
