"""Tools, their calls and their results in UMF's own types, in MCP's, and in OpenAI's form.

Names in ``metadata`` begin with the protocol that they come from, so that the way back is without loss.
Source: docs/reference/umf.md#tools.
"""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field
from pydantic_core import to_json

from dragoman.adapter.notes import read_tool_note, tool_note
from dragoman.adapter.wirejson import parse_arguments
from dragoman.canonical.blocks import ContentBlock, ImageBlock, MediaSource, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.guard import copy_json
from dragoman.canonical.ids import new_tool_use_id
from dragoman.canonical.tools import SideEffects, ToolDefinition
from dragoman.formats.document import copy_json_at, kind_of, parse, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.umf.models import UmfModel

_SPECIFIED = {"title": "mcp_title", "outputSchema": "mcp_output_schema", "annotations": "mcp_annotations"}
_OTHERS = "mcp_others"
"""The fields of an MCP tool that UMF does not define, and the mark of a missing description."""
_SIDE_EFFECTS = "dragoman_side_effects"
_NEEDS_WORKSPACE = "dragoman_requires_workspace"
_MCP_RESULT = {"structuredContent": "mcp_structured_content", "_meta": "mcp_meta"}
_MCP_CONTENT = "mcp_content"
_RAW = "openai_arguments"
"""Arguments that are not an object, as their text."""
_OPENAI_STRICT = "openai_strict"
Json = dict[str, Any]


class InternalTool(UmfModel):
    """UMF's own form: ``parameters`` is a JSON Schema, keys of ``metadata`` start with the protocol that they come
    from.
    """

    name: str
    """The name under which the tool is offered."""
    description: str = ""
    """What the tool does, for the model."""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    metadata: dict[str, Any] = Field(default_factory=dict)

    def with_metadata(self, key: str, value: Any) -> Self:
        """Return a copy with this key set."""
        return self.model_copy(update={"metadata": {**self.metadata, key: copy_json(value)}})

    def has_metadata(self, key: str) -> bool:
        """Return whether ``metadata`` has this key."""
        return key in self.metadata


def tool_from_mcp(data: Any) -> InternalTool:
    """Read a tool as an MCP server lists it. Raises FormatError, with a path."""
    native = _object(data, "a tool of MCP")
    schema = native.get("inputSchema")
    if not isinstance(schema, dict):
        raise FormatError("a tool of MCP must have an inputSchema, which is an object", path="$.inputSchema")
    metadata = {umf_key: native[mcp_key] for mcp_key, umf_key in _SPECIFIED.items() if mcp_key in native}
    handled = {"name", "inputSchema", *_SPECIFIED} | ({"description"} if native.get("description") else set())
    if others := {name: value for name, value in native.items() if name not in handled}:
        metadata[_OTHERS] = others
    read = {"name": native.get("name"), "description": native.get("description") or ""}
    with validating(native, "$"):
        return InternalTool.model_validate({**read, "parameters": schema, "metadata": metadata})


def tool_to_mcp(tool: InternalTool) -> dict[str, Any]:
    """Write the tool as an MCP server lists it; metadata of other protocols is left out."""
    written: dict[str, Any] = {"name": tool.name}
    if tool.description:
        written["description"] = tool.description
    written["inputSchema"] = copy_json(tool.parameters)
    written |= {
        mcp_key: copy_json(tool.metadata[umf_key])
        for mcp_key, umf_key in _SPECIFIED.items()
        if umf_key in tool.metadata
    }
    for name, value in _others(tool.metadata).items():
        written.setdefault(name, value)
    return written


def tool_definition(tool: InternalTool, *, trusted: bool = False) -> ToolDefinition:
    """Return our form. What a server or a document says of side effects is not believed: the worst is assumed.

    ``trusted``: the document is the program's own, and its word of side effects holds."""
    effects = str(tool.metadata.get(_SIDE_EFFECTS)) if trusted else ""
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        input_schema=tool.parameters,
        side_effects=SideEffects(effects) if effects in list(SideEffects) else SideEffects.EXECUTE,
        requires_workspace=tool.metadata.get(_NEEDS_WORKSPACE) is not False,
        provider_raw=tool_note("umf", tool.metadata),
    )


def internal_tool(tool: ToolDefinition) -> InternalTool:
    """Return UMF's form, with the metadata that the definition was made from."""
    metadata = read_tool_note(tool, "umf")
    if tool.side_effects is not SideEffects.EXECUTE:
        metadata[_SIDE_EFFECTS] = str(tool.side_effects)
    if not tool.requires_workspace or _NEEDS_WORKSPACE in metadata:
        metadata[_NEEDS_WORKSPACE] = tool.requires_workspace
    return InternalTool(name=tool.name, description=tool.description, parameters=tool.input_schema, metadata=metadata)


class InternalToolCall(UmfModel):
    """A call. ``arguments`` is an object."""

    id: str
    """The id that the result repeats."""
    name: str
    """The name under which the tool was offered."""
    arguments: Json = Field(default_factory=dict)
    metadata: Json = Field(default_factory=dict)
    """Further facts, by names that start with the protocol that they come from."""


class InternalToolResult(UmfModel):
    """The answer to a call. ``content`` is any JSON: a text, or the parts of MCP."""

    tool_call_id: str
    """The id of the call that this answers."""
    content: Any = ""
    is_error: bool = False
    """Whether the tool failed."""
    metadata: Json = Field(default_factory=dict)
    """Further facts, by names that start with the protocol that they come from."""


def call_from_mcp(data: Any, *, call_id: str | None = None) -> InternalToolCall:
    """Read the parameters of ``tools/call``. MCP's calls have no id of their own: the request's, or a new one.

    Raises FormatError, with a path.
    """
    native = _object(data, "a call of MCP")
    others = {name: value for name, value in native.items() if name not in ("name", "arguments")}
    metadata = {_OTHERS: others} if others else {}
    fields = {"id": call_id or new_tool_use_id(), "name": native.get("name"), "metadata": metadata}
    with validating(native, "$"):
        return InternalToolCall.model_validate({**fields, "arguments": native.get("arguments") or {}})


def call_to_mcp(call: InternalToolCall) -> Json:
    """Write the parameters of ``tools/call``."""
    return {"name": call.name, "arguments": copy_json(call.arguments), **_others(call.metadata)}


def result_from_mcp(data: Any, tool_call_id: str) -> InternalToolResult:
    """Read the result of ``tools/call``. One text is the content itself; other parts are kept as they are.

    Raises FormatError, with a path.
    """
    native = _object(data, "a result of MCP")
    content = native.get("content", [])
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise FormatError("must be a list of objects", path="$.content")
    if not isinstance(native.get("isError", False), bool):
        raise FormatError("must be true or false", path="$.isError")
    metadata: Json = {ours: native[theirs] for theirs, ours in _MCP_RESULT.items() if theirs in native}
    known = {"content", "isError", *_MCP_RESULT}
    if others := {name: value for name, value in native.items() if name not in known}:
        metadata[_OTHERS] = others
    if "isError" not in native:
        metadata["mcp_is_error"] = None
    is_text = len(content) == 1 and content[0].keys() == {"type", "text"} and content[0]["type"] == "text"
    return InternalToolResult(
        tool_call_id=tool_call_id,
        content=content[0]["text"] if is_text and isinstance(content[0]["text"], str) else content,
        is_error=native.get("isError", False),
        metadata=metadata,
    )


def result_to_mcp(result: InternalToolResult) -> Json:
    """Write the result of ``tools/call``. Content that is neither a text nor a list of parts becomes its JSON text."""
    content = result.content
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    elif not isinstance(content, list) or not all(isinstance(part, dict) and "type" in part for part in content):
        content = [{"type": "text", "text": to_json(content).decode()}]
    written: Json = {"content": copy_json(content)}
    written |= {theirs: copy_json(result.metadata[ours]) for theirs, ours in _MCP_RESULT.items()
                if ours in result.metadata}  # fmt: skip
    if result.is_error or "mcp_is_error" not in result.metadata:
        written["isError"] = result.is_error
    return {**written, **_others(result.metadata)}


def call_from_openai(data: Any) -> InternalToolCall:
    """Read a call in OpenAI's form, whose arguments are a JSON text. Raises FormatError, with a path."""
    native = _object(data, "a call")
    function = native.get("function")
    if not isinstance(function, dict):
        raise FormatError(f"must be an object, not {kind_of(function)}", path="$.function")
    text = function.get("arguments")
    if isinstance(text, dict):
        arguments, raw = text, None
    elif isinstance(text, str) or text is None:
        arguments, raw = parse_arguments(text or "{}")
    else:
        raise FormatError("must be a text", path="$.function.arguments")
    metadata = {_RAW: text} if raw is not None or _text_of(arguments) != text else {}
    with validating(native, "$"):
        return InternalToolCall.model_validate(
            {"id": native.get("id"), "name": function.get("name"), "arguments": arguments or {}, "metadata": metadata}
        )


def call_to_openai(call: InternalToolCall) -> Json:
    """Write a call in OpenAI's form, with the text that its arguments were read from."""
    text = call.metadata.get(_RAW, _text_of(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def tool_from_openai(data: Any) -> InternalTool:
    """Read a tool in OpenAI's form. Raises FormatError, with a path."""
    native = _object(data, "a tool")
    function = native.get("function")
    if native.get("type") != "function" or not isinstance(function, dict):
        raise FormatError("a tool must have the type function, and its definition as an object", path="$.function")
    metadata = {_OPENAI_STRICT: function["strict"]} if "strict" in function else {}
    given = {name: function[name] for name in ("description", "parameters") if function.get(name)}
    with validating(native, "$"):
        return InternalTool.model_validate({"name": function.get("name"), **given, "metadata": metadata})


def tool_to_openai(tool: InternalTool) -> Json:
    """Write a tool in OpenAI's form; metadata of other protocols is left out."""
    function: Json = {"name": tool.name, "description": tool.description, "parameters": copy_json(tool.parameters)}
    if _OPENAI_STRICT in tool.metadata:
        function["strict"] = tool.metadata[_OPENAI_STRICT]
    return {"type": "function", "function": function}


def tool_use_block(call: InternalToolCall) -> ToolUseBlock:
    """Return the call as a block. Arguments that were not an object are its raw input."""
    raw = call.metadata.get(_RAW)
    is_raw = isinstance(raw, str) and not call.arguments and parse_arguments(raw)[1] is not None
    return ToolUseBlock(id=call.id, name=call.name, input=call.arguments, raw_input=raw if is_raw else None)


def internal_tool_call(block: ToolUseBlock) -> InternalToolCall:
    """Return a block as a call."""
    metadata = {_RAW: block.raw_input} if block.raw_input is not None else {}
    return InternalToolCall(id=block.id, name=block.name, arguments=copy_json(block.input), metadata=metadata)


def tool_result_block(result: InternalToolResult) -> ToolResultBlock:
    """Return a result as a block. Texts and images are blocks, anything else is its JSON text."""
    content = result.content
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return ToolResultBlock(
        tool_use_id=result.tool_call_id,
        content=tuple(block for part in parts for block in _blocks_of(part)),
        is_error=result.is_error,
    )


def internal_tool_result(block: ToolResultBlock) -> InternalToolResult:
    """Return a block as a result with the parts of MCP; one text is the content itself."""
    parts = [_part_of(part) for part in block.content]
    is_text = len(parts) <= 1 and all(isinstance(part, TextBlock) for part in block.content)
    content: Any = "".join(part["text"] for part in parts) if is_text else parts
    return InternalToolResult(tool_call_id=block.tool_use_id, content=content, is_error=block.is_error)


def _blocks_of(part: Any) -> list[ContentBlock]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return [TextBlock(text=part["text"])] if part["text"] else []
    if kind == "image" and isinstance(part.get("data"), str):
        return [ImageBlock(source=MediaSource(kind="base64", data=part["data"]), media_type=part.get("mimeType"))]
    return [TextBlock(text=_text_of(part.get("text") if kind == "text" else part))]


def _part_of(block: ContentBlock) -> Json:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ImageBlock) and block.source.kind == "base64":
        return {"type": "image", "data": block.source.data, "mimeType": block.media_type or "application/octet-stream"}
    return {"type": "text", "text": block.model_dump_json(exclude_none=True)}


def _text_of(value: Any) -> str:
    return to_json(value).decode()


def _object(data: Any, what: str) -> Json:
    native = copy_json_at(parse(data, format_name="UMF"))
    if not isinstance(native, dict):
        raise FormatError(f"{what} must be an object, not {kind_of(native)}")
    return native


def _others(metadata: Json) -> Json:
    others = metadata.get(_OTHERS)
    return copy_json(others) if isinstance(others, dict) else {}
