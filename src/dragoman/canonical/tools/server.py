"""Tools that a provider runs, with one word for one thing across providers (docs/server-tools.md)."""

from collections.abc import Mapping
from datetime import date
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import JsonObject, Text
from dragoman.canonical.tools.base import ServerTool
from dragoman.canonical.tools.definition import SideEffects

Names = tuple[Text, ...]


class UserLocation(FrozenModel):
    """The approximate place of the user. ``country`` has two letters, ``timezone`` is an IANA name."""

    city: Text | None = None
    region: Text | None = None
    country: Text | None = None
    timezone: Text | None = None


class WebSearch(ServerTool):
    """Search the web."""

    WORD: ClassVar[str] = "web_search"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset(
        {"allowed_domains", "blocked_domains", "max_uses", "live", "since", "until"}
    )

    name: Text = "web_search"
    allowed_domains: Names = ()
    blocked_domains: Names = ()
    max_uses: int | None = Field(default=None, ge=1)
    user_location: UserLocation | None = None
    context_size: Literal["low", "medium", "high"] | None = None
    """How much of what was found the model reads."""
    images: bool | None = None
    live: bool | None = None
    """False: read only what the provider has stored."""
    since: date | None = None
    until: date | None = None

    @model_validator(mode="after")
    def _check_domains(self) -> Self:
        _check_domains(self.allowed_domains, self.blocked_domains)
        return self


class WebFetch(ServerTool):
    """Read pages by their URLs."""

    WORD: ClassVar[str] = "web_fetch"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset({"allowed_domains", "blocked_domains", "max_uses"})

    name: Text = "web_fetch"
    allowed_domains: Names = ()
    blocked_domains: Names = ()
    max_uses: int | None = Field(default=None, ge=1)
    max_content_tokens: int | None = Field(default=None, ge=1)
    citations: bool | None = None

    @model_validator(mode="after")
    def _check_domains(self) -> Self:
        _check_domains(self.allowed_domains, self.blocked_domains)
        return self


class CodeExecution(ServerTool):
    """Run code in the provider's sandbox. Containers and files have ids of one provider, and are given by provider."""

    WORD: ClassVar[str] = "code_execution"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset({"network"})

    name: Text = "code_execution"
    side_effects: SideEffects = SideEffects.EXECUTE
    files: Mapping[str, Names] = Field(default_factory=dict)
    network: Literal["off"] | Names | None = None
    """``off``, or the domains that the code may reach."""
    memory: Text | None = None
    container: Mapping[str, Text] = Field(default_factory=dict)
    """A container that is used again, with its own files, network and memory."""


class FileSearch(ServerTool):
    """Search files that were uploaded to the provider. Stores have ids of one provider, and are given by provider."""

    WORD: ClassVar[str] = "file_search"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset({"filter"})

    name: Text = "file_search"
    side_effects: SideEffects = SideEffects.READ
    stores: Mapping[str, Names] = Field(min_length=1)
    max_results: int | None = Field(default=None, ge=1)
    filter: JsonObject | None = None
    """A comparison ``{"type": "eq", "key": ..., "value": ...}``, or ``and`` and ``or`` of several ``filters``."""


class ImageGeneration(ServerTool):
    """Draw and edit images."""

    WORD: ClassVar[str] = "image_generation"

    name: Text = "image_generation"
    size: Text | None = None
    aspect_ratio: Text | None = None
    """Such as ``3:2``."""
    quality: Text | None = None
    format: Text | None = None
    compression: int | None = None
    background: Text | None = None
    model: Text | None = None
    action: Literal["auto", "generate", "edit"] | None = None
    partial_images: int | None = None


class McpServer(ServerTool):
    """A server of the Model Context Protocol that the provider connects to.

    For a server that this process connects to, see `dragoman.tools.mcp`.
    """

    WORD: ClassVar[str] = "mcp"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset({"allowed_tools", "approval", "headers", "connector"})

    url: Text | None = None
    connector: Text | None = None
    """The id of a connector that the provider knows, in place of a URL."""
    authorization: Text | None = Field(default=None, repr=False)
    headers: Mapping[str, Text] = Field(default_factory=dict, repr=False)
    allowed_tools: Names = ()
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
    max_results: int | None = None


def _check_domains(allowed: Names, blocked: Names) -> None:
    if allowed and blocked:
        raise ValueError("give either allowed_domains or blocked_domains: providers refuse both")
