"""The MCP extension: what the server declares about a tool, resource or prompt.

Source: docs/reference/cmf.md#extensions.
"""

from pydantic import Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.extensions.fields import FrozenObject, FrozenObjects
from dragoman.canonical.frozen import FrozenDict
from dragoman.canonical.guard import Text


class ToolMetadata(FrozenModel):
    """``annotations`` are MCP's hints, such as readOnlyHint and destructiveHint."""

    name: Text
    title: Text | None = None
    description: Text | None = None
    input_schema: FrozenObject | None = None
    output_schema: FrozenObject | None = None
    server_id: Text | None = None
    namespace: Text | None = None
    annotations: FrozenObject = Field(default_factory=FrozenDict)


class ResourceMetadata(FrozenModel):
    uri: Text
    name: Text | None = None
    description: Text | None = None
    mime_type: Text | None = None
    server_id: Text | None = None
    annotations: FrozenObject = Field(default_factory=FrozenDict)


class PromptMetadata(FrozenModel):
    """``arguments`` describe the template's parameters: name, description and required for each."""

    name: Text
    description: Text | None = None
    arguments: FrozenObjects | None = None
    server_id: Text | None = None
    annotations: FrozenObject = Field(default_factory=FrozenDict)


class MCPExtension(FrozenModel):
    """The tool, resource or prompt of an MCP server. By convention, a message sets exactly one of them."""

    tool: ToolMetadata | None = None
    resource: ResourceMetadata | None = None
    prompt: PromptMetadata | None = None
