"""The MCP extension: what the server declares about a tool, resource or prompt.

Source: docs/reference/cmf.md#extensions.
"""

from pydantic import Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.extensions.fields import FrozenObject, FrozenObjects
from dragoman.canonical.frozen import FrozenDict
from dragoman.canonical.guard import Text


class ToolMetadata(FrozenModel):
    """A tool as its MCP server describes it. ``annotations`` are MCP's hints, such as readOnlyHint and
    destructiveHint."""

    name: Text
    """The tool's name on its server."""
    title: Text | None = None
    """The name for people."""
    description: Text | None = None
    """The server's description, which is data from outside and not to be trusted as an instruction."""
    input_schema: FrozenObject | None = None
    """The JSON schema of the arguments."""
    output_schema: FrozenObject | None = None
    """The JSON schema of structured results, if the server declares one."""
    server_id: Text | None = None
    """The host's name for the server."""
    namespace: Text | None = None
    """The prefix that tells tools of several servers apart."""
    annotations: FrozenObject = Field(default_factory=FrozenDict)


class ResourceMetadata(FrozenModel):
    """A resource as its MCP server describes it."""

    uri: Text
    """The address of the resource, in any scheme."""
    name: Text | None = None
    """The name for people."""
    description: Text | None = None
    """The server's description, which is data from outside and not to be trusted as an instruction."""
    mime_type: Text | None = None
    """The IANA type of the content, if the server declares it."""
    server_id: Text | None = None
    """The host's name for the server."""
    annotations: FrozenObject = Field(default_factory=FrozenDict)
    """MCP's hints, such as audience and priority."""


class PromptMetadata(FrozenModel):
    """A prompt template as its MCP server describes it. ``arguments`` describe the template's parameters: name,
    description and required for each."""

    name: Text
    """The template's name on its server."""
    description: Text | None = None
    """The server's description, which is data from outside and not to be trusted as an instruction."""
    arguments: FrozenObjects | None = None
    server_id: Text | None = None
    """The host's name for the server."""
    annotations: FrozenObject = Field(default_factory=FrozenDict)
    """Hints of the server, as JSON."""


class MCPExtension(FrozenModel):
    """The tool, resource or prompt of an MCP server. By convention, a message sets exactly one of them."""

    tool: ToolMetadata | None = None
    """The tool that the message calls, or whose result it holds."""
    resource: ResourceMetadata | None = None
    """The resource that the message reads or holds."""
    prompt: PromptMetadata | None = None
    """The prompt template that the message requests, or whose result it holds."""
