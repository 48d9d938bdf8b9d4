"""A tool: a function that a model may call, with its definition."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Generic, overload

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from typing_extensions import ParamSpec, TypeVar

from dragoman.adapter.errors import ConfigurationError, ToolSchemaError
from dragoman.canonical.tools import SideEffects, ToolDefinition
from dragoman.tools.context import NO_CONTEXT

P = ParamSpec("P", default=...)
ResultT = TypeVar("ResultT", default=Any, covariant=True)

ACTIONS = "actions"
"""The annotation by which a tool names further actions, such as forward."""
SIDE_EFFECTS = "sideEffects"
"""The annotation that holds a tool's side effects."""


@dataclass(frozen=True, slots=True)
class Tool(Generic[P, ResultT]):
    """A definition and the function behind it. Calling the tool calls the function, with its signature.

    ``arguments`` are the types that the model's arguments are converted to, by name; an argument without a type is
    passed as its JSON value. ``context_type`` is the type of the session's context that the function takes as its
    first argument. ``timeout`` is in seconds, and ``retries`` is how often the function may raise `ModelRetry` in one
    turn. ``fields`` are the parameters whose default is a pydantic ``Field``: the function receives the default of it.
    """

    definition: ToolDefinition
    """What the model is told: name, description and schema."""
    function: Callable[P, ResultT]
    """The function itself, sync or async."""
    arguments: Mapping[str, TypeAdapter[Any]] = field(default_factory=dict, repr=False)
    context_type: Any = NO_CONTEXT
    timeout: float | None = None
    retries: int = 1
    fields: Mapping[str, FieldInfo] = field(default_factory=dict, repr=False, kw_only=True)
    is_async: bool = field(init=False, repr=False, compare=False)
    """Whether the function is a coroutine function or an async generator function. Each session asks for it."""

    def __post_init__(self) -> None:
        timeout, retries = self.timeout, self.retries
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or timeout <= 0):
            raise ConfigurationError(f"the tool {self.name}: timeout must be a number of seconds above 0, or None")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise ConfigurationError(f"the tool {self.name}: retries must be a whole number, at least 0")
        if (flags := _flags(self.function)) is not None:
            is_async = bool(flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))
        else:
            is_async = self._is(inspect.iscoroutinefunction) or self._is(inspect.isasyncgenfunction)
        object.__setattr__(self, "is_async", is_async)

    @property
    def name(self) -> str:
        """The name under which the tool is offered."""
        return self.definition.name

    @property
    def takes_context(self) -> bool:
        """Whether the function's first parameter is a `Context`."""
        return self.context_type is not NO_CONTEXT

    @property
    def yields(self) -> bool:
        """Whether the function is a generator, which may report progress."""
        if (flags := _flags(self.function)) is not None:
            return bool(flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR))
        return self._is(inspect.isgeneratorfunction) or self._is(inspect.isasyncgenfunction)

    def _is(self, kind: Callable[[Any], bool]) -> bool:
        call = getattr(self.function, "__call__", None)  # noqa: B004 - an object with an async __call__
        return kind(self.function) or kind(call)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        if self.fields:
            return self._call_with_defaults(*args, **kwargs)
        return self.function(*args, **kwargs)

    def _call_with_defaults(self, *args: Any, **kwargs: Any) -> ResultT:
        """Call the function with the defaults of its fields. Raises TypeError, as Python does, if one has none."""
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        add_defaults(self.fields, bound.arguments)
        if missing := [name for name in self.fields if name not in bound.arguments]:
            raise TypeError(f"{self.name}() is called without {', '.join(missing)}")
        return self.function(*bound.args, **bound.kwargs)


def add_defaults(fields: Mapping[str, FieldInfo], arguments: dict[str, Any]) -> None:
    """Add the defaults of those fields to the arguments that are absent. Fields without a default are left out."""
    for name, each in fields.items():
        if name not in arguments and not each.is_required():
            arguments[name] = each.get_default(call_default_factory=True)


def _flags(function: Callable[..., Any]) -> int | None:
    """Return the flags of a plain function, which say its kind. `inspect` takes ten times as long, for each tool of
    each session. None for a function with attributes, which may be marked, and for anything else."""
    return function.__code__.co_flags if type(function) is FunctionType and not function.__dict__ else None


@overload
def tool(function: Callable[P, ResultT], /) -> Tool[P, ResultT]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    side_effects: SideEffects | str = ...,
    requires_workspace: bool = False,
    strict: bool | None = None,
    defer_loading: bool = False,
    extra: Mapping[str, dict[str, Any]] | None = None,
    timeout: float | None = None,
    retries: int = 1,
) -> Callable[[Callable[P, ResultT]], Tool[P, ResultT]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    side_effects: SideEffects | str = SideEffects.EXECUTE,
    requires_workspace: bool = False,
    strict: bool | None = None,
    defer_loading: bool = False,
    extra: Mapping[str, dict[str, Any]] | None = None,
    timeout: float | None = None,
    retries: int = 1,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Turn a function into a tool: the schema comes from its signature, the descriptions from its docstring.

    ``side_effects`` says what a run may do (none, read, write, execute, network) and must be true; the default is
    the most careful one that fits any code. A session without a workspace refuses a tool with ``requires_workspace``.
    ``timeout`` is in seconds: after it, the model receives an error, a
    coroutine is cancelled, and a plain function is left in its thread. ``retries`` is how often the function may raise
    `ModelRetry` in one turn. A first parameter of the type `Context` is not part of the schema. ``strict``,
    ``defer_loading`` and ``extra`` are those of `ToolDefinition`.

    Raises ToolSchemaError with every problem at once, and ConfigurationError for an unknown side effect.
    """

    try:
        effects = SideEffects(side_effects)
    except ValueError:
        choices = ", ".join(SideEffects)
        raise ConfigurationError(f"{side_effects!r:.80} is not a side effect: use one of {choices}") from None

    def make(function: Callable[..., Any]) -> Tool:
        if not callable(function):
            raise ConfigurationError(f"a tool must be a function, not a value of the class {type(function).__name__}")
        from dragoman.tools import signature  # imported late: many sessions have no tools

        read = signature.read(function)
        tool_name = name or read.name
        definition = ToolDefinition(
            name=tool_name,
            description=description or read.description,
            input_schema=read.schema,
            side_effects=effects,
            requires_workspace=requires_workspace,
            strict=strict,
            defer_loading=defer_loading,
            extra=extra or {},
        )
        if problems := [*read.problems, *definition.problems()]:
            raise ToolSchemaError(tool_name, problems)
        return Tool(definition, function, read.arguments, read.context_type, timeout, retries, fields=read.fields)

    return make if function is None else make(function)
