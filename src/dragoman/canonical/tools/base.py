"""The base of tools that a provider runs or defines. `server` and `client` have the tools themselves."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from pydantic import Field

from dragoman.canonical.guard import JsonObject, Text
from dragoman.canonical.tools.definition import SideEffects, ToolDefinition


class ServerTool(ToolDefinition):
    """A tool that the provider runs. Its calls and results are in the reply, and the program has nothing to do.

    ``extra`` holds fields of single providers by name. They are merged into the provider's own object, and no other
    provider receives them.
    """

    RUN_BY_PROVIDER: ClassVar[bool] = True
    WORD: ClassVar[str]
    """The tool's name in the tables of the adapters."""
    RESTRICTING: ClassVar[frozenset[str]] = frozenset()
    """Settings that forbid something. A request is refused if the provider lacks one of them."""

    side_effects: SideEffects = SideEffects.NETWORK
    requires_workspace: bool = False
    required: bool = True
    """Whether a request is refused if the provider lacks the tool, or a setting that restricts it. Otherwise the tool
    is left out, as a loss."""

    def settings(self) -> dict[str, Any]:
        """Return the settings that are given, by name."""
        own = type(self).model_fields.keys() - ServerTool.model_fields.keys()
        fields = {name: getattr(self, name) for name in type(self).model_fields if name in own}
        return {name: value for name, value in fields.items() if value is not None and value not in ((), {})}

    def problems(self) -> list[str]:
        """Return no problem: the schema is the provider's own."""
        return []


class ClientTool(ServerTool):
    """A tool with a schema that the provider knows. ``function`` runs its calls, with the arguments by name.

    A provider that has no such tool gets it as an ordinary function: the behaviour is the program's own.
    """

    RUN_BY_PROVIDER: ClassVar[bool] = False

    side_effects: SideEffects = SideEffects.EXECUTE
    function: Callable[..., Any] | None = Field(default=None, exclude=True, repr=False)

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "function"}


class ProviderTool(ServerTool):
    """Any other tool of one provider, in the provider's own form. Other providers do without it, as a loss."""

    WORD: ClassVar[str] = "provider_tool"

    name: Text = "provider_tool"
    required: bool = False
    provider: Text
    """The provider whose tool this is."""
    native: JsonObject
    """The tool as the provider's API takes it, sent verbatim."""

    def __init__(self, provider: str, native: Mapping[str, Any], /, **fields: Any) -> None:
        name = fields.pop("name", None) or native.get("name") or native.get("type") or next(iter(native), "tool")
        super().__init__(**{**fields, "provider": provider, "native": dict(native), "name": name})

    @classmethod
    def model_validate(cls, obj: Any, **how: Any) -> Self:
        """Validate the fields of a copy."""
        fields = dict(obj)
        return cls(fields.pop("provider"), fields.pop("native"), **fields)
