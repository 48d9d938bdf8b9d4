"""Tools that a provider runs, with one word for one thing across providers, and tools that providers define and trained
their models for, and that the program runs (docs/server-tools.md).
"""

import tomllib
from collections.abc import Mapping
from datetime import date
from importlib.resources import files
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import JsonObject, Text
from dragoman.canonical.tools import ClientTool, ServerTool, SideEffects

Names = tuple[Text, ...]


class UserLocation(FrozenModel):
    """The approximate place of the user. ``country`` has two letters, ``timezone`` is an IANA name."""

    city: Text | None = None
    """The name of the city, free text."""
    region: Text | None = None
    """The name of the region or state, free text."""
    country: Text | None = None
    timezone: Text | None = None


def _refuse_both(tool: Any) -> Any:
    if tool.allowed_domains and tool.blocked_domains:
        raise ValueError("give either allowed_domains or blocked_domains: providers refuse both")
    return tool


class WebSearch(ServerTool):
    """Search the web."""

    WORD: ClassVar[str] = "web_search"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset(
        {"allowed_domains", "blocked_domains", "max_uses", "live", "since", "until"}
    )

    name: Text = "web_search"
    allowed_domains: Names = ()
    """Search these domains alone. Providers take this or ``blocked_domains``, not both."""
    blocked_domains: Names = ()
    """Leave these domains out."""
    max_uses: int | None = Field(default=None, ge=1)
    """The most searches of one request."""
    user_location: UserLocation | None = None
    """Where the user is, for results that depend on it."""
    context_size: Literal["low", "medium", "high"] | None = None
    """How much of what was found the model reads."""
    images: bool | None = None
    """Whether the model gets images that were found; None leaves it to the provider."""
    live: bool | None = None
    """False: read only what the provider has stored."""
    since: date | None = None
    """The first day of publication that counts."""
    until: date | None = None
    """The last day of publication that counts."""

    _check_domains = model_validator(mode="after")(_refuse_both)


class WebFetch(ServerTool):
    """Read pages by their URLs."""

    WORD: ClassVar[str] = "web_fetch"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset({"allowed_domains", "blocked_domains", "max_uses"})

    name: Text = "web_fetch"
    allowed_domains: Names = ()
    """Read pages of these domains alone. Providers take this or ``blocked_domains``, not both."""
    blocked_domains: Names = ()
    """Read no page of these domains."""
    max_uses: int | None = Field(default=None, ge=1)
    """The most pages of one request."""
    max_content_tokens: int | None = Field(default=None, ge=1)
    """The most tokens of one page; the rest is cut."""
    citations: bool | None = None
    """Whether the answer cites the pages; None leaves it to the provider."""

    _check_domains = model_validator(mode="after")(_refuse_both)


class CodeExecution(ServerTool):
    """Run code in the provider's sandbox. Containers and files have ids of one provider, and are given by provider."""

    WORD: ClassVar[str] = "code_execution"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset({"network"})

    name: Text = "code_execution"
    side_effects: SideEffects = SideEffects.EXECUTE
    files: Mapping[str, Names] = Field(default_factory=dict)
    """The ids of uploaded files that the code can read, by provider."""
    network: Literal["off"] | Names | None = None
    """``off``, or the domains that the code may reach."""
    memory: Text | None = None
    """The memory of a new container, in the provider's own words, such as ``4g``."""
    container: Mapping[str, Text] = Field(default_factory=dict)
    """A container that is used again, with its own files, network and memory."""


class FileSearch(ServerTool):
    """Search files that were uploaded to the provider. Stores have ids of one provider, and are given by provider."""

    WORD: ClassVar[str] = "file_search"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset({"filter"})

    name: Text = "file_search"
    side_effects: SideEffects = SideEffects.READ
    stores: Mapping[str, Names] = Field(min_length=1)
    """The ids of the stores to search, by provider."""
    max_results: int | None = Field(default=None, ge=1)
    """The most results of one search."""
    filter: JsonObject | None = None
    """A comparison ``{"type": "eq", "key": ..., "value": ...}``, or ``and`` and ``or`` of several ``filters``."""


class ImageGeneration(ServerTool):
    """Draw and edit images."""

    WORD: ClassVar[str] = "image_generation"

    name: Text = "image_generation"
    size: Text | None = None
    """The width and height in pixels, such as ``1024x1024``, or ``auto``."""
    aspect_ratio: Text | None = None
    """The ratio of width to height, such as ``3:2``."""
    quality: Text | None = None
    """The provider's word for the effort, such as ``high``."""
    format: Text | None = None
    """The file format, such as ``png`` or ``webp``."""
    compression: int | None = None
    """The quality of a compressed format, in per cent."""
    background: Text | None = None
    """The provider's word for the background, such as ``transparent``."""
    model: Text | None = None
    """The model that draws, if it is not the provider's choice."""
    action: Literal["auto", "generate", "edit"] | None = None
    """Whether to draw a new image or to edit one of the conversation; ``auto`` lets the model decide."""
    partial_images: int | None = None
    """How many unfinished images a stream shows on the way."""


class McpServer(ServerTool):
    """A server of the Model Context Protocol that the provider connects to.

    For a server that this process connects to, see `dragoman.tools.mcp`.
    """

    WORD: ClassVar[str] = "mcp"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset({"allowed_tools", "approval", "headers", "connector"})

    url: Text | None = None
    """The server's address. A server has this or ``connector``."""
    connector: Text | None = None
    """The id of a connector that the provider knows, in place of a URL."""
    authorization: Text | None = Field(default=None, repr=False)
    """The token that the provider sends to the server. It is not shown in a repr."""
    headers: Mapping[str, Text] = Field(default_factory=dict, repr=False)
    """Further headers that the provider sends to the server. They are not shown in a repr."""
    allowed_tools: Names = ()
    """The tools that the model may call; empty allows all."""
    description: Text = ""
    approval: Literal["never", "always"] | Names = "never"
    """Which calls wait for an approval: none, all, or those of the named tools."""

    @model_validator(mode="after")
    def _check_address(self) -> Self:
        if (self.url is None) == (self.connector is None):
            raise ValueError("an MCP server has either a url or a connector")
        return self

    def settings(self) -> dict[str, Any]:
        shared = {"name": self.name, "description": self.description, "defer_loading": self.defer_loading}
        return super().settings() | {name: value for name, value in shared.items() if value}


class ToolSearch(ServerTool):
    """Load the definitions of tools with ``defer_loading`` when the model needs them."""

    WORD: ClassVar[str] = "tool_search"

    name: Text = "tool_search"
    side_effects: SideEffects = SideEffects.NONE
    required: bool = False
    strategy: Literal["auto", "bm25", "regex"] = "auto"
    """How tools are found; ``auto`` lets the provider decide."""
    max_results: int | None = None
    """The most definitions that one search loads."""


_SCHEMAS: Mapping[str, JsonObject] = tomllib.loads(
    files(__package__).joinpath("client_tools.toml").read_text(encoding="utf-8")
)


class Bash(ClientTool):
    """A shell with a session: ``function(command, restart)``, with one of them."""

    WORD: ClassVar[str] = "bash"

    name: Text = "bash"
    description: Text = "Run a command in a shell that stays open, or restart the shell."
    input_schema: JsonObject = _SCHEMAS["bash"]


class TextEditor(ClientTool):
    """View and edit files: ``function(command, path, ...)``."""

    WORD: ClassVar[str] = "text_editor"

    name: Text = "str_replace_based_edit_tool"
    side_effects: SideEffects = SideEffects.WRITE
    description: Text = "View and edit text files."
    input_schema: JsonObject = _SCHEMAS["text_editor"]
    max_characters: int | None = None
    """The most characters of a file that the model sees at once, for providers with such a setting."""


class Memory(ClientTool):
    """Files that outlive the conversation, under ``/memories``: ``function(command, ...)``."""

    WORD: ClassVar[str] = "memory"

    name: Text = "memory"
    side_effects: SideEffects = SideEffects.WRITE
    description: Text = "Store and look up what is worth remembering, as files under /memories."
    input_schema: JsonObject = _SCHEMAS["memory"]


class ComputerUse(ClientTool):
    """A screen, a mouse and a keyboard. The function gets the provider's own actions as arguments, and returns a
    screenshot as an image block (docs/server-tools.md#computers)."""

    WORD: ClassVar[str] = "computer_use"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset({"exclude"})

    name: Text = "computer"
    environment: Literal["browser", "desktop", "mobile"] | None = None
    """What the screen shows; None leaves it to the provider."""
    display: tuple[int, int] | None = None
    """The width and height of the screen, in pixels."""
    exclude: tuple[Text, ...] = ()
    """Actions that the model may not take."""


class Shell(ClientTool):
    """Shell commands: ``function(commands, timeout_ms)`` returns a text, or for each command an object with ``stdout``,
    ``stderr`` and ``exit_code``."""

    WORD: ClassVar[str] = "shell"

    name: Text = "shell"
    description: Text = "Run shell commands, one after another."
    input_schema: JsonObject = _SCHEMAS["shell"]


class ApplyPatch(ClientTool):
    """Create, update and delete files by diffs: ``function(operation)``; an exception reports a failure."""

    WORD: ClassVar[str] = "apply_patch"

    name: Text = "apply_patch"
    side_effects: SideEffects = SideEffects.WRITE
    description: Text = "Create, update or delete a file; a diff holds the new content or the changes."
    input_schema: JsonObject = _SCHEMAS["apply_patch"]
