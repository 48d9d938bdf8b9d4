"""Messages of the protocols between agents, tools and programs: A2A and MCP.

Messages and tasks of the A2A protocol as JSON, version 1 (one key for each kind of part) and 0.3 (``kind``).

A task as Protocol Buffers is read with a table of its fields, as the JSON that A2A defines for them.

A2A has no calls of tools. Data parts in the two forms that agents use for them become calls and results: an object with
``type`` (``tool_call``, ``tool_result``), or one with the metadata ``adk_type``. All other data is kept as it is.
Sources: https://a2a-protocol.org/latest/specification (a2a.proto, version 1) and
https://protobuf.dev/programming-guides/encoding.

Messages of the Model Context Protocol: those of sampling, those of a prompt, and the result of one call.

A request for sampling has instructions of its own next to the list. Results stand in a message of the user.
Source: https://modelcontextprotocol.io/specification, schema 2025-11-25.
"""

import base64
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dragoman.adapter.losses import LossKind
from dragoman.adapter.package_data import read_toml
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH
from dragoman.canonical.ids import new_ulid
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import dig
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.blocks import media_block, provider_block, read_media, text_blocks, to_text
from dragoman.formats.reading.fields import Fields, drop_tools, iter_rows, source_losses, typed_errors, words_of
from dragoman.formats.reading.turns import Turns, read_time, stop_after

_ROLE_NAMES = {1: "ROLE_USER", 2: "ROLE_AGENT"}
_VARINT, _FIXED64, _SIZED = 0, 1, 2
_WIRE = {"number": _VARINT, "flag": _VARINT, "role": _VARINT, "double": _FIXED64}
_MAX_VARINT = 10
_TASK_START = 0x0A
"""The tag of the first field, the id."""
FORMAT = "a2a"
_MEDIA = (ImageBlock, AudioBlock, VideoBlock, DocumentBlock)
_CALLS = ("tool_call", "function_call", "tool_use")
_RESULTS = ("tool_result", "function_response", "tool_response")


def is_task(data: bytes) -> bool:
    """Whether the bytes are a task with all their fields known, and with messages."""
    if data[:1] != bytes([_TASK_START]):
        return False
    try:
        task = read_task(data)
    except FormatError:
        return False
    return "history" in task or "artifacts" in task or "message" in task.get("status", {})


def read_task(data: bytes) -> dict[str, Any]:
    """Return a task as JSON. Raises FormatError if the bytes are none, or have a field of a later version."""
    try:
        found = _read_message(data, "task", 0)
    except (IndexError, struct.error, UnicodeDecodeError, OverflowError, OSError, ValueError) as error:
        raise FormatError(f"this is not a task of A2A: {error}") from None
    assert isinstance(found, dict)
    return found


def _read_message(data: bytes, kind: str, depth: int) -> Any:
    if depth > MAX_DOCUMENT_DEPTH:
        raise FormatError(f"this is nested deeper than {MAX_DOCUMENT_DEPTH} levels")
    fields = read_toml("dragoman.formats.importers", "a2a.toml")[kind]
    found: dict[str, Any] = {}
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        known = fields.get(str(tag >> 3))
        if known is None:
            raise FormatError(f"a {kind} of A2A has no field {tag >> 3}")
        name, inner = known
        value, position = _field(data, position, tag & 7, inner.removesuffix("*"), depth)
        if inner.endswith("*"):
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    match kind:  # values and structures stand in JSON as themselves
        case "struct":
            return {each.get("key", ""): each.get("value") for each in found.get("fields", ())}
        case "list":
            return found.get("values", [])
        case "value":
            value = next(iter(found.values()), None)
            if "null" in found:
                return None
            return int(value) if isinstance(value, float) and value.is_integer() else value
        case "time":
            time = datetime.fromtimestamp(found.get("seconds", 0), UTC)
            return time.replace(microsecond=found.get("nanos", 0) // 1000).isoformat()
        case _:
            return found


def _field(data: bytes, position: int, wire: int, kind: str, depth: int) -> tuple[Any, int]:
    if wire != _WIRE.get(kind, _SIZED):
        raise FormatError(f"a {kind} of A2A has the wire type {wire}")
    if wire == _FIXED64:
        return struct.unpack_from("<d", data, position)[0], position + 8
    number, position = _varint(data, position)
    if wire == _VARINT:
        value: Any = _ROLE_NAMES.get(number, "") if kind == "role" else bool(number) if kind == "flag" else number
        return value, position
    end = position + number
    if end > len(data):
        raise IndexError("it ends inside a field")
    inner = data[position:end]
    if kind == "text":
        return inner.decode(), end
    if kind == "bytes":
        return base64.b64encode(inner).decode(), end
    return _read_message(inner, kind, depth + 1), end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for index in range(_MAX_VARINT):
        byte = data[position + index]
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, position + index + 1
    raise FormatError("a number of A2A is longer than ten bytes")


@typed_errors
def from_a2a(document: Any) -> list[Message]:
    """Read a task with its history, a list of messages, or a single message; a task also as Protocol Buffers.

    Raises FormatError, with a path.
    """
    is_binary = isinstance(document, (bytes, bytearray)) and is_task(bytes(document))
    turns = Turns()
    for fields in iter_rows(read_task(bytes(document)) if is_binary else document, FORMAT):
        if "role" in fields:
            _message(fields, turns)
        elif "status" in fields or "history" in fields:
            _task(fields, turns)
        else:
            raise FormatError("this is neither a message nor a task of A2A", path=fields.path)
    return turns.messages


def _task(task: Fields, turns: Turns) -> None:
    task.ignore("id", "contextId", "context_id", "kind")
    known: set[str] = set()
    for message in task.objects("history"):
        known.add(_id(message))
        _message(message, turns)
    status = task.inner("status")
    status.ignore("state", "timestamp")
    last = status.object("message")
    if last is not None and _id(last) in known:
        last.whole()
    elif last is not None:
        _message(last, turns)
    artifacts = task.objects("artifacts")
    if not turns.messages:
        for artifact in artifacts:
            turns.start(Role.ASSISTANT)
            artifact.ignore("artifactId", "artifact_id", "name", "description")
            blocks = [block for part in artifact.objects("parts") for block in _part(part, turns)]
            turns.add(Role.ASSISTANT, blocks, artifact.path)
        return
    for artifact in artifacts:
        artifact.whole()
        source_losses().add(artifact.path, "an artifact of a task is not part of its conversation: left out")


def _id(message: Fields) -> str:
    return to_text(message.look("messageId") or message.look("message_id"))


def _message(message: Fields, turns: Turns) -> None:
    word = message.required_text("role")
    role = words_of(FORMAT).roles.get(word.lower())
    if role is None:
        raise FormatError(f"unknown role {word[:80]!r}", path=f"{message.path}.role")
    message.ignore("messageId", "message_id", "contextId", "context_id", "taskId", "task_id", "kind")
    metadata = message.inner("metadata")
    model = metadata.text("model") if isinstance(metadata.look("model"), str) else None
    time = read_time(metadata.take("timestamp"))
    parts = message.objects("parts")
    turns.start(role, has_results=any(_data_type(part) in _RESULTS for part in parts))
    fields = {"model": model} if role is Role.ASSISTANT else None
    # A data part cannot hold media: those that directly follow a result are a part of it.
    joined: list[ContentBlock] = []
    for block in [block for part in parts for block in _part(part, turns)]:
        last = joined[-1] if joined else None
        if isinstance(block, _MEDIA) and isinstance(last, ToolResultBlock):
            joined[-1] = last.model_copy(update={"content": (*last.content, block)})
        else:
            joined.append(block)
    turns.add(role, joined, message.path, metadata=fields, created_at=time)


def _data_type(part: Fields) -> Any:
    return dig(part.look("metadata"), "adk_type") or dig(part.look("data"), "type")


def _part(part: Fields, turns: Turns) -> list[ContentBlock]:
    kind = _data_type(part)
    part.ignore("kind", "type")
    if "text" in part or part.look("text") == "":
        return text_blocks(part.text("text"))
    if kind in (*_CALLS, *_RESULTS):
        call = part.inner("data")
        if call.look("name") is not None or kind in _RESULTS:
            part.ignore("mediaType", "media_type", "metadata")
            return [_call_or_result(call, kind, turns)]
        return [provider_block(FORMAT, "data", {"data": call.whole(), **part.rest()})]
    if (file := part.object("file")) is not None:
        media_type, title = file.text("mimeType", "mime_type", "mediaType"), file.text("name")
        data, url = file.text("bytes", "fileWithBytes"), file.text("uri", "fileWithUri")
    elif "raw" in part or "url" in part:
        media_type, title = part.text("mediaType", "media_type"), part.text("filename")
        data, url = part.text("raw"), part.text("url")
    else:
        return [provider_block(FORMAT, "data" if "data" in part else "part", part.rest())]
    if (block := read_media(media_type, data=data, url=url, title=title)) is not None:
        return [block]
    source_losses().add("$", "a file without content is left out", kind=LossKind.MEDIA)
    return []


def _call_or_result(data: Fields, kind: str, turns: Turns) -> ToolUseBlock | ToolResultBlock:
    native_id, name = data.text("id", "tool_call_id", "call_id"), data.text("name", "tool_name")
    data.ignore("type")
    if kind in _CALLS:
        return turns.call(native_id, name or "", data.take("arguments", "args", "input"))
    failed = data.take("is_error", "error")
    content = data.take("result", "response", "output", "content")
    if isinstance(failed, str) and content is None:
        content = failed
    return turns.result(native_id, name, text_blocks(content), is_error=bool(failed))


_MCP = "mcp"


@typed_errors
def from_mcp(document: Any) -> list[Message]:
    """Read messages of sampling, a request with them or its result, the result of a prompt, or that of a tool.

    A frame of JSON-RPC around one of them is opened. Raises FormatError, with a path.
    """
    turns = Turns()
    for fields in iter_rows(document, _MCP):
        if "jsonrpc" in fields:
            fields.ignore("jsonrpc", "id", "method")
            inner = fields.object("params", "result")
            if inner is None:
                raise FormatError("a frame of MCP without params or result holds no message", path=fields.path)
            _entry(inner, turns)
        else:
            _entry(fields, turns)
    return turns.messages


def _entry(fields: Fields, turns: Turns) -> None:
    fields.ignore("_meta", "resultType")
    if "messages" in fields:
        drop_tools(fields)
        fields.ignore("description")  # of the prompt, for people
        for name in words_of(_MCP).skipped["options"]:
            fields.drop(name, f"a history has no options of a request: {name!r} is left out")
        if (system := fields.text("systemPrompt")) is not None:
            turns.add(Role.SYSTEM, text_blocks(system), f"{fields.path}.systemPrompt")
        for message in fields.objects("messages"):
            message.ignore("_meta")
            _mcp_message(message, turns)
    elif "role" in fields:
        _mcp_message(fields, turns)
    elif isinstance(fields.look("content"), list):
        turns.start(Role.TOOL)
        turns.add(Role.TOOL, [_mcp_result(fields, None, turns)], fields.path)
    else:
        raise FormatError("this is neither a message nor a result of MCP", path=fields.path)


def _mcp_message(message: Fields, turns: Turns) -> None:
    role = message.role()
    is_one = isinstance(message.look("content"), Mapping)  # or a list of parts
    parts = [message.inner("content")] if is_one else message.objects("content")
    turns.start(role, has_results=any(part.look("type") == "tool_result" for part in parts))
    blocks = [_mcp_part(part, turns) for part in parts]
    metadata = {"model": message.text("model"), "stop_reason": stop_after(blocks, message.stop_reason("stopReason"))}
    turns.add(role, blocks, message.path, metadata=metadata if role is Role.ASSISTANT else None)


def _mcp_part(part: Fields, turns: Turns) -> ContentBlock:
    kind = part.text("type") or ""
    for name in ("annotations", "_meta"):
        part.drop(name, "notes on a part for a program or its user are left out")
    match kind:
        case "text":
            return TextBlock(text=part.required_text("text"))
        case "image" | "audio":
            return media_block("base64", part.required_text("data"), part.text("mimeType"), kind=kind)
        case "tool_use":
            return turns.call(part.text("id"), part.required_text("name"), part.take("input"))
        case "tool_result":
            return _mcp_result(part, part.text("toolUseId"), turns)
        case "resource":
            return _resource(part)
        case "resource_link":
            uri = part.required_text("uri")
            for name in ("mimeType", "description", "title", "size"):
                part.drop(name, f"a reference to a resource has no {name}: left out")
            return ResourceRefBlock(
                resource_request_id=f"rr_{new_ulid()}",
                uri=uri,
                name=part.text("name"),
                resource_type="file" if uri.startswith("file:") else "uri",
            )
        case _:
            return provider_block(_MCP, to_text(kind), {"type": kind, **part.whole()})


def _resource(part: Fields) -> ContentBlock:
    native = part.object("resource")
    if native is None:
        raise part.fault("resource", "is missing")
    native.ignore("_meta")
    uri, blob = native.required_text("uri"), native.text("blob")
    return ResourceBlock(
        resource_request_id=f"rr_{new_ulid()}",
        uri=uri,
        resource_type="blob" if blob is not None else "file" if uri.startswith("file:") else "uri",
        content=native.text("text") if blob is None else None,
        blob=blob,
        mime_type=native.text("mimeType"),
    )


def _mcp_result(part: Fields, native_id: str | None, turns: Turns) -> ContentBlock:
    is_error = part.flag("isError")
    content = [_mcp_part(each, turns) for each in part.objects("content")]
    if content:
        part.drop("structuredContent", "a result has no structured form next to its content: left out")
    else:
        content = text_blocks(part.take("structuredContent"))
    return turns.result(native_id, None, content, is_error=is_error)
