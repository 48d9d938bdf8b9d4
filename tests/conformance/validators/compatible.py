"""What copies of OpenAI's APIs accept, on top of the rules of those: each dialect is judged, then removed."""

import copy
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from tests.conformance.scope import ADAPTERS

Faults = Iterator[str]
Validator = Callable[..., Faults]

_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")
_MISTRAL_PARTS = ("text", "thinking", "reference", "image_url", "document_url", "input_audio", "file")


def validators(chat: Validator, responses: Validator) -> dict[str, Validator]:
    """By adapter. Bodies of the two APIs are distinguished by their shape."""

    def add_rules(dialect: Validator) -> Validator:
        def validator(body: dict[str, Any], *, foreign: bool) -> Faults:
            if "messages" not in body:
                sampled = {name: value for name, value in body.items() if name not in ("temperature", "top_p")}
                yield from responses(sampled, foreign=foreign)
                return
            plain = copy.deepcopy(body)
            yield from dialect(plain, foreign=foreign)
            yield from chat(plain, foreign=foreign)

        return validator

    names = {"github-copilot", "google-openai", "z-ai", *ADAPTERS.values(), *_UPSTREAMS}
    own = {"anthropic", "openai", "openai-chat", "ollama", "cohere", "bedrock"}
    own |= {"google", "google-vertex", "google-interactions"}
    found = {name: add_rules(_plain) for name in names - own}
    others = {"mistral": _mistral, "deepseek": _deepseek, "perplexity": _perplexity, "openrouter": _openrouter}
    return found | {name: add_rules(dialect) for name, dialect in others.items()}


_UPSTREAMS = (
    "alibaba", "cerebras", "cloudflare", "databricks", "doubleword", "gpustack", "llamacpp", "mistralrs", "moonshot",
    "perplexity", "snowflake", "together", "venice", "vercel", "writer",
)  # fmt: skip


def _plain(body: dict[str, Any], *, foreign: bool) -> Faults:
    """Extensions of many: top_k, empty reasoning, tools and calls without a type."""
    body.pop("top_k", None)
    for tool in body.get("tools") or ():
        tool.setdefault("type", "function")
    for message in body["messages"]:
        for field in _REASONING:
            if field in message and not message[field]:
                del message[field]
        for call in message.get("tool_calls") or ():
            call.setdefault("type", "function")
    yield from ()


def _deepseek(body: dict[str, Any], *, foreign: bool) -> Faults:
    """Calls come with the reasoning that led to them, even if empty; it reads texts only."""
    for message in body["messages"]:
        off = (body.get("thinking") or {}).get("type") == "disabled"
        if foreign and not off and message.get("tool_calls") and not isinstance(message.get("reasoning_content"), str):
            yield "a call without reasoning_content"
        content = message.get("content")
        if isinstance(content, list) and any(part.get("type") != "text" for part in content):
            yield "a part that is not text"
    yield from _plain(body, foreign=foreign)


def _openrouter(body: dict[str, Any], *, foreign: bool) -> Faults:
    """Images and files in a tool's message, and files by URL or without a name."""
    for message in body["messages"]:
        if isinstance(message.get("content"), list):
            kinds = ("image_url", "file") if message["role"] == "tool" else ("file",)
            message["content"] = [part for part in message["content"] if part.get("type") not in kinds]
    yield from _plain(body, foreign=foreign)


def _perplexity(body: dict[str, Any], *, foreign: bool) -> Faults:
    """After the system's message the user's and the assistant's alternate; the last is the user's. No tools."""
    roles = [message["role"] for message in body["messages"] if message["role"] != "system"]
    if any(before == after for before, after in pairwise(roles)) or roles[-1:] != ["user"]:
        yield f"the roles {roles} do not alternate"
    if "tools" in body or {"tool"} & set(roles):
        yield "tools"
    yield from _plain(body, foreign=foreign)


def _mistral(body: dict[str, Any], *, foreign: bool) -> Faults:
    """Ids of nine letters or digits, no developer; the last message is a user's, a tool's, or an assistant's to
    continue.
    """
    for message in body["messages"]:
        if message["role"] == "developer":
            yield "no role developer"
        ids = [call.get("id") for call in message.get("tool_calls") or ()]
        ids += [message["tool_call_id"]] if "tool_call_id" in message else []
        if foreign:
            yield from (f"the call id {name!r}" for name in ids if not _MISTRAL_ID.fullmatch(str(name)))
        yield from _mistral_parts(message, foreign=foreign)
        for call in message.get("tool_calls") or ():
            if isinstance(call["function"].get("arguments"), dict):
                call["function"]["arguments"] = "{}"
    last = body["messages"][-1] if body["messages"] else {}
    if last.get("role") not in ("user", "tool") and not last.get("prefix"):
        yield "the last message is the assistant's"
    choice = body.get("tool_choice")
    if isinstance(choice, str) and choice not in ("auto", "none", "any", "required"):
        yield f"the tool choice {choice}"
    unknown = ("seed", "max_completion_tokens", "stream_options")
    yield from (f"{name} is not a parameter" for name in unknown if name in body)
    yield from _plain(body, foreign=foreign)


def _mistral_parts(message: dict[str, Any], *, foreign: bool) -> Faults:
    content = message.get("content")
    if not isinstance(content, list):
        return
    for part in content:
        if part.get("type") not in _MISTRAL_PARTS:
            yield f"{part.get('type')} in a {message['role']} message"
        if part.get("type") == "thinking" and foreign:
            yield "thinking of foreign origin"
        if isinstance(part.get("image_url"), str):
            part["image_url"] = {"url": part["image_url"]}
        if part.get("type") == "input_audio" and not isinstance(part["input_audio"], str):
            yield "audio that is not text"
    own = ("thinking", "reference", "document_url", "input_audio")
    message["content"] = [part for part in content if part.get("type") not in own]
