"""What each provider accepts, written from the reference of its wire: a request body in, its faults out.

The rules are those that hold for a conversation of any origin: ids, pairing, order, roles, the parts that a role may
hold and their required fields. ``foreign`` is True if another provider produced the history: then nothing in it may be
signed, encrypted, or of a kind that only the issuer knows.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.conformance.validators import cohere as cohere_rules
from tests.conformance.validators import compatible, converse
from tests.conformance.validators import google as google_rules
from tests.conformance.validators import interactions as interactions_rules
from tests.conformance.validators import local as local_rules

_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_OPENAI_ID_LENGTH = 64

_Faults = Iterator[str]


def anthropic(body: dict[str, Any], *, foreign: bool) -> _Faults:
    """Messages, version 2026-10-21, for a model without sampling parameters and prefill."""
    if not isinstance(body.get("max_tokens"), int):
        yield "max_tokens is required"
    yield from (f"{name} is not a parameter" for name in ("temperature", "top_p", "top_k") if name in body)
    system = body.get("system", "")
    for index, block in enumerate([] if isinstance(system, str) else system):
        if block.get("type") != "text" or not block.get("text"):
            yield f"system[{index}] is not text with content"
    yield from _anthropic_tools(body)
    messages = body["messages"]
    if not messages:
        yield "messages is empty"
        return
    turns = list(_merge(messages))
    for role, blocks in turns:
        for block in blocks:
            yield from _anthropic_block(role, block, foreign=foreign)
    if turns[-1][0] == "assistant" and not _waits(turns[-1][1]):
        yield "the last message is the assistant's"
    yield from _anthropic_pairs(turns)


def _waits(blocks: list[dict[str, Any]]) -> bool:
    """Whether the API goes on with a reply: a call of a tool that it runs itself has no result."""
    answered = {block.get("tool_use_id") for block in blocks}
    return any(block.get("type") in _SERVER_CALLS and block["id"] not in answered for block in blocks)


_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")


def _merge(messages: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Turns: neighbouring messages of one role are one."""
    current: tuple[str, list[dict[str, Any]]] | None = None
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if current and current[0] == message["role"]:
            current[1].extend(blocks)
        else:
            if current:
                yield current
            current = (message["role"], list(blocks))
    if current:
        yield current


_ANTHROPIC_FOREIGN = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "tool_use"},
    "system": {"text"},
}


def _anthropic_block(role: str, block: dict[str, Any], *, foreign: bool) -> _Faults:
    kind = block.get("type")
    if role not in _ANTHROPIC_FOREIGN:
        yield f"no role {role}"
    elif foreign and kind not in _ANTHROPIC_FOREIGN[role]:
        yield f"{kind} in a {role} message of foreign origin"
    if kind == "text" and not block.get("text"):
        yield "an empty text"
    if kind == "text" and role == "user" and block.get("citations"):
        yield "citations in a user message"
    if kind in ("image", "document"):
        yield from _anthropic_source(block)
    if kind == "thinking" and ("thinking" not in block or not block.get("signature")):
        yield "thinking without its signature"
    if kind == "tool_use":
        yield from _call(block.get("id"), block.get("name"), _ANTHROPIC_ID, _ANTHROPIC_NAME)
        if not isinstance(block.get("input"), dict):
            yield "the input of a call is not an object"
    if kind == "tool_result":
        inner = block.get("content", "")
        for part in inner if isinstance(inner, list) else ():
            if part.get("type") not in ("text", "image", "document", "search_result", "tool_reference"):
                yield f"{part.get('type')} in a tool result"
            yield from _anthropic_block("user", part, foreign=False)


def _anthropic_source(block: dict[str, Any]) -> _Faults:
    source = block.get("source", {})
    fields = {"base64": "data", "url": "url", "file": "file_id", "text": "data", "content": "content"}
    needed = fields.get(source.get("type"))
    if needed is None or not source.get(needed):
        yield f"a {block['type']} without its source: {source.get('type')}"
    if block["type"] == "image" and source.get("type") == "base64" and source.get("media_type") not in _IMAGE_TYPES:
        yield f"an image of type {source.get('media_type')}"


def _anthropic_pairs(turns: list[tuple[str, list[dict[str, Any]]]]) -> _Faults:
    seen: set[str] = set()
    open_calls: list[str] = []
    for role, blocks in turns:
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(open_calls):
            yield f"the calls {open_calls} are answered by {results}"
        kinds = [block["type"] == "tool_result" for block in blocks]
        if kinds != sorted(kinds, reverse=True):
            yield "something stands before a tool result"
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"] if role == "assistant" else []
        yield from (f"the id {call} occurs twice" for call in open_calls if call in seen)
        seen.update(open_calls)
    if open_calls:
        yield f"the calls {open_calls} have no answer"


def _anthropic_tools(body: dict[str, Any]) -> _Faults:
    for tool in body.get("tools", ()):
        if "type" not in tool or tool["type"] == "custom":
            if not _ANTHROPIC_NAME.fullmatch(tool.get("name", "")):
                yield f"the tool name {tool.get('name')!r}"
            if tool.get("input_schema", {}).get("type") != "object":
                yield f"the input schema of {tool.get('name')} is not of type object"
    choice = body.get("tool_choice", {"type": "auto"})
    if choice.get("type") not in ("auto", "any", "tool", "none") or (choice["type"] == "tool" and "name" not in choice):
        yield f"the tool choice {choice}"


def responses(body: dict[str, Any], *, foreign: bool) -> _Faults:
    """Responses, for a reasoning model whose effort is never none."""
    unknown = ("stop", "seed", "n", "messages", "max_tokens", "temperature", "top_p")
    yield from (f"{name} is not a parameter" for name in unknown if name in body)
    if "instructions" in body and not isinstance(body["instructions"], str):
        yield "instructions is not text"
    for tool in body.get("tools", ()):
        if tool["type"] == "function":
            yield from _openai_tool(tool)
    items = body.get("input", [])
    if isinstance(items, str):
        return
    if not items:
        yield "input is empty"
    calls: list[str] = []
    answered: list[str] = []
    for item in items:
        match item.get("type", "message"):
            case "message":
                yield from _responses_message(item)
            case "function_call":
                yield from _openai_call(item.get("call_id"), item.get("name"), item.get("arguments"), foreign=foreign)
                calls.append(item["call_id"])
            case "function_call_output":
                if item["call_id"] not in calls:
                    yield f"the output of {item['call_id']} answers no call before it"
                answered.append(item["call_id"])
                yield from _responses_output(item.get("output"))
            case other if foreign:
                yield f"the item {other} of foreign origin"
    if sorted(calls) != sorted(answered) or len(set(calls)) != len(calls):
        yield f"the calls {calls} are answered by {answered}"


_RESPONSES_PARTS = {
    "user": ("input_text", "input_image", "input_file"),
    "system": ("input_text", "input_image", "input_file"),
    "developer": ("input_text", "input_image", "input_file"),
    "assistant": ("output_text", "refusal"),
}


def _responses_message(item: dict[str, Any]) -> _Faults:
    role, content = item.get("role"), item.get("content")
    if role not in _RESPONSES_PARTS:
        yield f"no role {role}"
        return
    for part in content if isinstance(content, list) else ():
        if part.get("type") not in _RESPONSES_PARTS[role]:
            yield f"{part.get('type')} in a {role} message"
        yield from _responses_part(part)
    if not isinstance(content, (str, list)):
        yield f"a {role} message without content"


def _responses_part(part: dict[str, Any]) -> _Faults:
    match part.get("type"):
        case "input_text" | "output_text":
            if not isinstance(part.get("text"), str):
                yield "a text part without text"
        case "input_image":
            if not (part.get("image_url") or part.get("file_id")) or isinstance(part.get("image_url"), dict):
                yield "an image part without a URL or file id"
        case "input_file":
            if not (part.get("file_id") or part.get("file_url") or (part.get("file_data") and part.get("filename"))):
                yield "a file part without data and name, URL or id"


def _responses_output(output: Any) -> _Faults:
    if not isinstance(output, (str, list)):
        yield "an output that is neither text nor parts"
    for part in output if isinstance(output, list) else ():
        if part.get("type") not in ("input_text", "input_image", "input_file"):
            yield f"{part.get('type')} in a tool's output"
        yield from _responses_part(part)


def chat(body: dict[str, Any], *, foreign: bool) -> _Faults:
    """Chat Completions as OpenAI serves them."""
    yield from (f"{name} is not a parameter" for name in ("top_k", "system", "stop_sequences") if name in body)
    for tool in body.get("tools", ()):
        yield from _openai_tool(tool.get("function", {})) if tool["type"] == "function" else ()
    if not body["messages"]:
        yield "messages is empty"
    waiting: list[str] = []
    seen: set[str] = set()
    for message in body["messages"]:
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                yield f"the result of {message.get('tool_call_id')} answers none of {waiting}"
            else:
                waiting.remove(message["tool_call_id"])
        elif waiting:
            yield f"the calls {waiting} have no answer before a {role} message"
            waiting = []
        yield from _chat_content(message)
        for call in message.get("tool_calls") or ():
            function = call.get("function", {})
            yield from _openai_call(call.get("id"), function.get("name"), function.get("arguments"), foreign=foreign)
            if call["id"] in seen:
                yield f"the id {call['id']} occurs twice"
            seen.add(call["id"])
            waiting.append(call["id"])
        own = {"reasoning_content", "reasoning", "reasoning_details", "audio"} & message.keys()
        if foreign and own:
            yield f"{sorted(own)} of foreign origin"
    if waiting:
        yield f"the calls {waiting} have no answer"


_CHAT_PARTS = {
    "system": ("text",),
    "developer": ("text",),
    "tool": ("text",),
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
}


def _chat_content(message: dict[str, Any]) -> _Faults:
    role, content = message.get("role"), message.get("content")
    if role not in _CHAT_PARTS:
        yield f"no role {role}"
        return
    if content is None and not (role == "assistant" and (message.get("tool_calls") or message.get("refusal"))):
        yield f"a {role} message without content"
    for part in content if isinstance(content, list) else ():
        if part.get("type") not in _CHAT_PARTS[role]:
            yield f"{part.get('type')} in a {role} message"
        if part.get("type") == "image_url" and not str(part["image_url"].get("url", "")).startswith(("http", "data:")):
            yield "an image without a URL"
        if part.get("type") == "file" and not (
            part["file"].get("file_id") or (part["file"].get("file_data") and part["file"].get("filename"))
        ):
            yield "a file without id, or data and name"


def ollama(body: dict[str, Any], *, foreign: bool) -> _Faults:
    """Ollama's /api/chat. Its models read any plain-text thinking, so nothing in it is foreign."""
    yield from (f"{name} is not a parameter" for name in ("tool_choice", "max_tokens", "system") if name in body)
    if not body["messages"]:
        yield "messages is empty"
    waiting: list[str] = []
    for message in body["messages"]:
        role = message.get("role")
        if role not in ("system", "user", "assistant", "tool"):
            yield f"no role {role}"
        if not isinstance(message.get("content", ""), str):
            yield f"the content of a {role} message is not text"
        for image in message.get("images", ()):
            if not _is_base64(image):
                yield "an image that is not bare base64"
        if role == "tool":
            # Ids may be absent on either side; then order decides.
            answered = [call for call in waiting if message.get("tool_call_id", call) == call]
            answered += [call for call in waiting if not call]
            if answered:
                waiting.remove(answered[0])
            else:
                yield f"the result of {message.get('tool_call_id')} answers none of {waiting}"
        elif waiting:
            yield f"the calls {waiting} have no answer before a {role} message"
        for call in message.get("tool_calls", ()):
            if not isinstance(call["function"].get("arguments"), dict):
                yield "the arguments of a call are not an object"
            waiting.append(call.get("id", ""))
    if waiting:
        yield f"the calls {waiting} have no answer"


def _is_base64(text: str) -> bool:
    # Recordings truncate long base64, with a mark that is not base64.
    try:
        base64.b64decode(text.removesuffix("...TRIMMED") + "==")
    except ValueError:
        return False
    return not text.startswith(("data:", "http"))


def _openai_tool(function: dict[str, Any]) -> _Faults:
    if not _OPENAI_NAME.fullmatch(function.get("name", "")):
        yield f"the tool name {function.get('name')!r}"
    if "parameters" in function and not isinstance(function["parameters"], dict):
        yield f"the parameters of {function.get('name')} are not a schema"


def _openai_call(call_id: Any, name: Any, arguments: Any, *, foreign: bool) -> _Faults:
    """A model's own malformed arguments are accepted as they are; foreign ones must be an object."""
    yield from _call(call_id, name, re.compile(rf".{{1,{_OPENAI_ID_LENGTH}}}"), _OPENAI_NAME)
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except (TypeError, ValueError):
        is_object = False
    if not (is_object or (isinstance(arguments, str) and not foreign)):
        yield "the arguments of a call are not a JSON object"


def _call(call_id: Any, name: Any, id_rule: re.Pattern[str], name_rule: re.Pattern[str]) -> _Faults:
    if not (isinstance(call_id, str) and id_rule.fullmatch(call_id)):
        yield f"the call id {call_id!r}"
    if not (isinstance(name, str) and name_rule.fullmatch(name)):
        yield f"the call name {name!r}"


def bedrock(body: dict[str, Any], *, foreign: bool) -> _Faults:
    """Converse, or Anthropic's Messages, which name themselves; the models there are older, and accept sampling
    parameters.
    """
    if "anthropic_version" not in body:
        return converse.faults(body, foreign=foreign)
    return (fault for fault in anthropic(body, foreign=foreign) if fault != "temperature is not a parameter")


VALIDATORS: dict[str, Callable[..., _Faults]] = {
    "anthropic": anthropic,
    "openai": responses,
    "openai-chat": chat,
    "ollama": ollama,
    **compatible.validators(chat, responses),
    "google": google_rules.faults_with_signatures,
    "google-vertex": google_rules.faults,
    "google-interactions": interactions_rules.faults,
    "cohere": cohere_rules.faults,
    "bedrock": bedrock,
    "local": local_rules.faults,
}
"""By adapter."""
