"""Converts the objects of an MCP server to canonical blocks, and to the metadata that policies see.

It dispatches on the type strings of the protocol (https://modelcontextprotocol.io/specification), so that the objects
of any client work. An unknown kind raises: nothing is dropped silently.
"""

import re
from collections.abc import Iterable
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.errors import RequestError
from dragoman.adapter.facts.capabilities import SchemaRule
from dragoman.adapter.requests.schemas import fit_schema
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    ImageBlock,
    MediaSource,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
)
from dragoman.canonical.extensions.slots import PromptMetadata, ResourceMetadata, ToolMetadata
from dragoman.canonical.ids import new_ulid
from dragoman.canonical.tools import KEYWORDS, SideEffects, ToolDefinition
from dragoman.tools.tool import SIDE_EFFECTS

MCP_NAME = "mcpName"
"""The annotation with the server's name of a tool, if the session uses another one."""

_SUBSET = SchemaRule(keywords=tuple(sorted(KEYWORDS)), values={"additionalProperties": (True, False)}, root="object")
_MAX_NAME_LENGTH = 64


def blocks(content: Iterable[Any]) -> tuple[ContentBlock, ...]:
    """Return the content of a tool result or a prompt message. Raises RequestError for an unknown kind."""
    return tuple(map(_decode_block, content))


def resources(contents: Iterable[Any], name: str | None = None) -> tuple[ResourceBlock, ...]:
    """Return the contents of a resource: one block, or one for each of its parts."""
    return tuple(_decode_resource(item, name) for item in contents)


def resource_ref(uri: str, name: str | None = None) -> ResourceRefBlock:
    return ResourceRefBlock(
        resource_request_id=f"rr_{new_ulid()}", uri=uri, name=name, resource_type="file" if _is_file(uri) else "uri"
    )


def tool_definition(tool: Any, name: str, effects: SideEffects) -> ToolDefinition:
    """Return the definition for models. Its schema is fitted to the subset; dropped keywords become descriptions."""
    schema = fit_schema(tool.input_schema or {"type": "object"}, _SUBSET).schema
    return ToolDefinition(
        name=name,
        description=tool.description or tool.title or "",
        input_schema={"properties": {}, **schema},
        side_effects=effects,
        requires_workspace=False,
    )


def tool_metadata(tool: Any, name: str, server_id: str, effects: SideEffects) -> ToolMetadata:
    """Return the server's metadata of its tool, with the session's name and side effects."""
    hints = _annotations(tool)
    if tool.name != name:
        hints[MCP_NAME] = tool.name
    return ToolMetadata(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        server_id=server_id,
        annotations={**hints, SIDE_EFFECTS: str(effects)},
    )


def side_effects(tool: Any, *, trusted: bool) -> SideEffects:
    """A server counts as network access, unless it is trusted and its hints say that it does less."""
    hints = _annotations(tool) if trusted else {}
    if hints.get("openWorldHint") is not False:
        return SideEffects.NETWORK
    return SideEffects.READ if hints.get("readOnlyHint") is True else SideEffects.EXECUTE


def prompt_metadata(prompt: Any, server_id: str) -> PromptMetadata:
    arguments = None
    if prompt.arguments is not None:
        arguments = [_to_dict(item) for item in prompt.arguments]
    return PromptMetadata(
        name=prompt.name, description=prompt.description, arguments=arguments, server_id=server_id, annotations={}
    )


def resource_metadata(resource: Any, server_id: str) -> ResourceMetadata:
    return ResourceMetadata(
        uri=str(resource.uri),
        name=resource.name,
        description=resource.description,
        mime_type=resource.mime_type,
        server_id=server_id,
        annotations=_annotations(resource),
    )


def tool_name(name: str, prefix: str, taken: dict[str, int]) -> str:
    """Return a unique name for the tool, in snake_case. ``taken`` has the names so far, each with its last number."""
    snake_name = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")
    base_name = f"{prefix}{snake_name or 'tool'}"[:_MAX_NAME_LENGTH]
    base_name = base_name if base_name[0].isalpha() else f"t_{base_name}"[:_MAX_NAME_LENGTH]
    candidate, number = base_name, taken.get(base_name, 1)
    while candidate in taken:
        number += 1
        suffix = f"_{number}"
        candidate = base_name[: _MAX_NAME_LENGTH - len(suffix)] + suffix
    taken |= {candidate: 1, base_name: number}
    return candidate


def _decode_block(part: Any) -> ContentBlock:
    match part.type:
        case "text":
            return TextBlock(text=part.text)
        case "image":
            return ImageBlock(source=MediaSource(kind="base64", data=part.data), media_type=part.mime_type)
        case "audio":
            return AudioBlock(source=MediaSource(kind="base64", data=part.data), media_type=part.mime_type)
        case "resource":
            return _decode_resource(part.resource, None)
        case "resource_link":
            return resource_ref(str(part.uri), part.name)
        case other:
            raise RequestError(f"the MCP server sent content of the kind {other!r:.80}, which is unknown")


def _decode_resource(contents: Any, name: str | None) -> ResourceBlock:
    uri = str(contents.uri)
    text, blob = getattr(contents, "text", None), getattr(contents, "blob", None)
    return ResourceBlock(
        resource_request_id=f"rr_{new_ulid()}",
        uri=uri,
        name=name,
        resource_type="blob" if blob is not None else "file" if _is_file(uri) else "uri",
        content=text,
        blob=blob,
        mime_type=contents.mime_type,
    )


def structured_blocks(value: Any) -> tuple[ContentBlock, ...]:
    """Return structured content as text, for a result that has no other content."""
    return (TextBlock(text=wirejson.dumps_text(value)),)


def empty_blocks() -> tuple[ContentBlock, ...]:
    """Return the content of an empty result."""
    return (TextBlock(text=""),)


def _is_file(uri: str) -> bool:
    return uri.startswith("file:")


def _annotations(item: Any) -> dict[str, Any]:
    return {} if item.annotations is None else _to_dict(item.annotations)


def _to_dict(model: Any) -> dict[str, Any]:
    fields: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return fields
