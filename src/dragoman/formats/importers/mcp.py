"""Messages of the Model Context Protocol: those of sampling, those of a prompt, and the result of one call.

A request for sampling has instructions of its own next to the list. Results stand in a message of the user.
Source: https://modelcontextprotocol.io/specification, schema 2025-11-25.
"""

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.blocks import ContentBlock, ResourceBlock, ResourceRefBlock, TextBlock
from dragoman.canonical.ids import new_ulid
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import parse_json_or_lines
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.blocks import media_block, provider_block, text_blocks, to_text
from dragoman.formats.reading.fields import Fields, drop_tools, inner_fields, iter_fields, typed_errors
from dragoman.formats.reading.turns import Turns, stop_after
from dragoman.formats.reading.words import words_of

FORMAT = "mcp"

_OPTIONS = (
    "maxTokens", "temperature", "stopSequences", "modelPreferences", "includeContext", "toolChoice", "metadata", "task",
)  # fmt: skip


@typed_errors
def from_mcp(document: Any) -> list[Message]:
    """Read messages of sampling, a request with them or its result, the result of a prompt, or that of a tool.

    A frame of JSON-RPC around one of them is opened. Raises FormatError, with a path.
    """
    turns = Turns()
    for fields in iter_fields(parse_json_or_lines(document, format_name=FORMAT), FORMAT):
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
        for name in _OPTIONS:
            fields.drop(name, f"a history has no options of a request: {name!r} is left out")
        if (system := fields.text("systemPrompt")) is not None:
            turns.add(Role.SYSTEM, text_blocks(system), f"{fields.path}.systemPrompt")
        for message in fields.objects("messages"):
            message.ignore("_meta")
            _message(message, turns)
    elif "role" in fields:
        _message(fields, turns)
    elif isinstance(fields.look("content"), list):
        turns.start(Role.TOOL, has_results=True)
        turns.add(Role.TOOL, [_result(fields, None, turns)], fields.path)
    else:
        raise FormatError("this is neither a message nor a result of MCP", path=fields.path)


def _message(message: Fields, turns: Turns) -> None:
    role = message.role(words_of(FORMAT).roles)
    is_one = isinstance(message.look("content"), Mapping)  # or a list of parts
    parts = [inner_fields(message, "content")] if is_one else message.objects("content")
    turns.start(role, has_results=any(part.look("type") == "tool_result" for part in parts))
    blocks = [_part(part, turns) for part in parts]
    stop = words_of(FORMAT).stops.get(message.text("stopReason") or "")
    metadata = {"model": message.text("model"), "stop_reason": stop_after(blocks, stop)}
    turns.add(role, blocks, message.path, metadata=metadata if role is Role.ASSISTANT else None)


def _part(part: Fields, turns: Turns) -> ContentBlock:
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
            return _result(part, part.text("toolUseId"), turns)
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
            return provider_block(FORMAT, to_text(kind), {"type": kind, **part.whole()})


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


def _result(part: Fields, native_id: str | None, turns: Turns) -> ContentBlock:
    is_error = part.flag("isError")
    content = [_part(each, turns) for each in part.objects("content")]
    if content:
        part.drop("structuredContent", "a result has no structured form next to its content: left out")
    else:
        content = text_blocks(part.take("structuredContent"))
    return turns.result(native_id, None, content, is_error=is_error)
