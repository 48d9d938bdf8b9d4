"""What generateContent accepts, written from the reference of its wire. Names are in camelCase or snake_case."""

import base64
import re
from collections.abc import Iterator
from typing import Any

_Faults = Iterator[str]

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
"""In the standard and in the URL-safe alphabet."""
_FLAGS = {"thought", "thoughtSignature", "mediaResolution", "videoMetadata", "partMetadata"}
_FOREIGN = {
    "user": {"text", "inlineData", "fileData", "functionResponse"},
    "model": {"text", "inlineData", "fileData", "functionCall"},
}
NO_SIGNATURE = base64.b64encode(b"skip_thought_signature_validator").decode()
"""The placeholder for the signature of a call that another provider made."""
_FIELDS = {
    "contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings", "cachedContent",
    "labels", "serviceTier", "store", "model", "modelArmorConfig",
}  # fmt: skip


def faults(body: dict[str, Any], *, foreign: bool) -> _Faults:
    """All faults of a body; ``foreign``: another provider produced the history."""
    body = _to_camel_case(body)
    yield from (f"{name} is not a parameter" for name in body if name not in _FIELDS)
    yield from _tools(body)
    instruction = body.get("systemInstruction") or {"parts": [{"text": ""}]}
    for part in _parts(instruction):
        if not isinstance(part.get("text"), str):
            yield "the instruction has a part that is not text"
    contents = body.get("contents")
    if not contents:
        yield "contents is empty"
        return
    for content in contents:
        parts = _parts(content)
        if content.get("role") not in ("user", "model"):
            yield f"no role {content.get('role')}"
        if not parts:
            yield f"a {content.get('role')} content without parts"
        for part in parts:
            yield from _part(str(content.get("role")), part, foreign=foreign)
    if contents[0].get("role") != "user":
        yield "the first content is not the user's"
    if contents[-1].get("role") == "model":
        yield "the last message is the assistant's"
    yield from _pairs(contents)


def faults_with_signatures(body: dict[str, Any], *, foreign: bool) -> _Faults:
    """As Gemini 3 requires: the first call of every step carries a signature."""
    yield from faults(body, foreign=foreign)
    for content in _to_camel_case(body).get("contents") or ():
        calls = [part for part in _parts(content) if "functionCall" in part]
        if foreign and calls and "thoughtSignature" not in calls[0]:
            yield "the first call of a step has no signature"


def _parts(content: dict[str, Any]) -> list[dict[str, Any]]:
    parts = content.get("parts") or []
    return [parts] if isinstance(parts, dict) else parts


def _part(role: str, part: dict[str, Any], *, foreign: bool) -> _Faults:
    kinds = [name for name in part if name not in _FLAGS]
    if len(kinds) > 1 or not (kinds or "thoughtSignature" in part):
        yield f"a part with the data {kinds}"
        return
    kind = kinds[0] if kinds else "text"
    if foreign:
        if kind not in _FOREIGN.get(role, ()):
            yield f"{kind} in a {role} content of foreign origin"
        signature = part.get("thoughtSignature")
        if part.get("thought") or (signature and signature != NO_SIGNATURE):
            yield "a thought of foreign origin"
        if part.get("text") == "":
            yield "an empty text of foreign origin"
    match kind:
        case "text" if not isinstance(part.get("text", ""), str):
            yield "a text that is not a string"
        case "inlineData":
            if not (part[kind].get("mimeType") and is_base64(part[kind].get("data", ""))):
                yield "inline data without a type, or that is not base64"
        case "fileData" if not part[kind].get("fileUri"):
            yield "a file without a URI"
        case "functionCall":
            if role != "model":
                yield f"a call in a {role} content"
            if not (_NAME.fullmatch(part[kind].get("name", "")) and isinstance(part[kind].get("args", {}), dict)):
                yield f"the call of {part[kind].get('name')!r}"
        case "functionResponse":
            if role != "user":
                yield f"a tool's answer in a {role} content"
            if not (part[kind].get("name") and isinstance(part[kind].get("response"), dict)):
                yield "a tool's answer without name or object"


def _pairs(contents: list[dict[str, Any]]) -> _Faults:
    """Each call has one answer of its name in the user's contents after it; ids, if given, agree."""
    waiting: list[dict[str, Any]] = []
    calls_seen = False
    for content in contents:
        parts = _parts(content)
        if content.get("role") == "model":
            if waiting and calls_seen:
                yield f"the calls {[call['name'] for call in waiting]} have no answer"
                waiting = []
            waiting += [part["functionCall"] for part in parts if "functionCall" in part]
            calls_seen = False
            continue
        calls_seen = True
        for answer in (part["functionResponse"] for part in parts if "functionResponse" in part):
            fits = [
                call
                for call in waiting
                if call["name"] == answer["name"] and call.get("id", answer.get("id")) == answer.get("id")
            ]
            # A call of that very id, before one of that name without an id.
            fits.sort(key=lambda call: call.get("id") != answer.get("id"))
            if fits:
                waiting.remove(fits[0])
            else:
                yield f"the answer of {answer['name']} answers none of {[call['name'] for call in waiting]}"
    if waiting:
        yield f"the calls {[call['name'] for call in waiting]} have no answer"


def _tools(body: dict[str, Any]) -> _Faults:
    for entry in body.get("tools") or ():
        for declared in entry.get("functionDeclarations") or ():
            if not _NAME.fullmatch(declared.get("name", "")):
                yield f"the tool name {declared.get('name')!r}"
            schemas = [
                declared[name] for name in ("parameters", "parametersJsonSchema") if declared.get(name) is not None
            ]
            if len(schemas) > 1 or not all(isinstance(schema, dict) for schema in schemas):
                yield f"the parameters of {declared.get('name')} are not a schema"
    config = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    if str(config.get("mode", "AUTO")).upper() not in ("AUTO", "ANY", "NONE", "VALIDATED"):
        yield f"the mode {config.get('mode')}"


_TOOLS_OWN = {"args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"}


def _to_camel_case(value: Any) -> Any:
    """Convert names to camelCase, except those that belong to a tool or a schema."""
    if isinstance(value, list):
        return [_to_camel_case(item) for item in value]
    if not isinstance(value, dict):
        return value
    named = {re.sub("_([a-z])", lambda found: found[1].upper(), name): inner for name, inner in value.items()}
    return {name: inner if name in _TOOLS_OWN else _to_camel_case(inner) for name, inner in named.items()}


def is_base64(text: str) -> bool:
    """Whether a text can be base64, as far as recordings show it."""
    # Recordings truncate long base64 anywhere and add a mark that is not base64: only the alphabet can be checked.
    return _BASE64.fullmatch(text.removesuffix("...TRIMMED")) is not None
