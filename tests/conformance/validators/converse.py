"""What Bedrock's Converse accepts, written from its API reference and botocore's model of the service."""

import base64
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DOCUMENT_NAME = re.compile(r"[A-Za-z0-9()\[\]_-]+( [A-Za-z0-9()\[\]_-]+)*")
_FORMATS = {
    "image": {"png", "jpeg", "gif", "webp"},
    "document": {"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"},
    "video": {"mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"},
}
_FOREIGN = {
    "user": {"text", "image", "document", "video", "toolResult", "cachePoint"},
    "assistant": {"text", "toolUse", "cachePoint"},
    "system": {"text", "cachePoint"},
}
_RESULT = {"text", "json", "image", "document", "video", "searchResult"}
_FIELDS = {
    "messages", "system", "inferenceConfig", "toolConfig", "guardrailConfig", "additionalModelRequestFields",
    "promptVariables", "additionalModelResponseFieldPaths", "requestMetadata", "performanceConfig", "serviceTier",
    "outputConfig", "schemaVersion",
}  # fmt: skip

_Block = dict[str, Any]


def faults(body: dict[str, Any], *, foreign: bool) -> Iterator[str]:
    """All faults of a body; ``foreign``: another provider produced the history."""
    yield from (f"{name} is not a parameter" for name in body if name not in _FIELDS)
    for block in body.get("system") or ():
        if "text" in block and not block["text"]:
            yield "an empty text in the system prompt"
    messages = body["messages"]
    if not messages:
        yield "messages is empty"
        return
    if messages[0]["role"] != "user":
        yield "the first message is not the user's"
    if messages[-1]["role"] == "assistant":
        yield "the last message is the assistant's"
    if any(one["role"] == another["role"] for one, another in pairwise(messages)):
        yield "the roles do not alternate"
    for message in messages:
        yield from _message(message, foreign=foreign)
    yield from _pairs(messages)
    yield from _tools(body, messages)
    names = [block["document"]["name"] for message in messages for block in message["content"] if "document" in block]
    if foreign and len(names) != len(set(names)):
        yield f"documents of one name: {names}"


def _message(message: dict[str, Any], *, foreign: bool) -> Iterator[str]:
    role, content = message["role"], message["content"]
    if role not in _FOREIGN:
        yield f"no role {role}"
        return
    if not content:
        yield f"a {role} message without content"
    for block in content:
        (kind,) = block
        if foreign and kind not in _FOREIGN[role]:
            yield f"{kind} in a {role} message of foreign origin"
        yield from _block(kind, block[kind])
    kinds = {kind for block in content for kind in block}
    if "document" in kinds and "text" not in kinds:
        yield "a document without a text beside it"


def _block(kind: str, value: Any) -> Iterator[str]:
    match kind:
        case "text" if not value:
            yield "an empty text"
        case "image" | "document" | "video":
            yield from _medium(kind, value)
        case "toolUse":
            if not (_ID.fullmatch(value["toolUseId"]) and _NAME.fullmatch(value["name"])):
                yield f"the call {value['toolUseId']!r} of {value['name']!r}"
            if not isinstance(value["input"], dict):
                yield "the input of a call is not an object"
        case "toolResult":
            for part in value["content"]:
                (inner,) = part
                if inner not in _RESULT:
                    yield f"{inner} in a tool's answer"
                yield from _block(inner, part[inner])
        case _:
            pass


def _medium(kind: str, value: dict[str, Any]) -> Iterator[str]:
    source = value["source"]
    if value.get("format") not in _FORMATS[kind]:
        yield f"{kind} of the format {value.get('format')}"
    if len(source) != 1 or not source.keys() <= {"bytes", "s3Location", "text", "content"}:
        yield f"the source of a {kind} is {sorted(source)}"
    if "bytes" in source and not _is_base64(source["bytes"]):
        yield f"the bytes of a {kind} are not base64"
    if kind == "document" and not _DOCUMENT_NAME.fullmatch(value["name"]):
        yield f"the document name {value['name']!r}"


def _is_base64(text: str) -> bool:
    # Recordings truncate long base64, with a mark that is not base64.
    whole = text.removesuffix("...TRIMMED")
    if whole != text:
        whole = whole[: len(whole) // 4 * 4]
    try:
        base64.b64decode(whole)
    except ValueError:
        return False
    return not text.startswith(("data:", "http"))


def _pairs(messages: list[dict[str, Any]]) -> Iterator[str]:
    """The calls of a message are answered by the next one. What Bedrock runs itself is in one message."""
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        results = [block["toolResult"]["toolUseId"] for block in message["content"] if "toolResult" in block]
        calls = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        if message["role"] == "user" and sorted(results) != sorted(waiting):
            yield f"the calls {waiting} are answered by {results}"
        if message["role"] == "assistant":
            waiting = [call["toolUseId"] for call in calls if call.get("type") != "server_tool_use"]
            yield from (f"the id {call} occurs twice" for call in waiting if call in seen)
            seen.update(waiting)
        elif message["role"] == "user":
            waiting = []
    if waiting:
        yield f"the calls {waiting} have no answer"


def _tools(body: dict[str, Any], messages: list[dict[str, Any]]) -> Iterator[str]:
    config = body.get("toolConfig") or {}
    used = any(block.keys() & {"toolUse", "toolResult"} for message in messages for block in message["content"])
    if used and not config.get("tools"):
        yield "calls without toolConfig"
    if "toolConfig" in body and not config.get("tools"):
        yield "toolConfig without tools"
    for tool in config.get("tools") or ():
        if spec := tool.get("toolSpec"):
            if not _NAME.fullmatch(spec["name"]):
                yield f"the tool name {spec['name']!r}"
            if spec["inputSchema"]["json"].get("type") != "object":
                yield f"the input schema of {spec['name']} is not of type object"
    choice = config.get("toolChoice") or {"auto": {}}
    if len(choice) != 1 or not choice.keys() <= {"auto", "any", "tool"}:
        yield f"the tool choice {choice}"
