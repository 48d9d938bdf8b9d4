"""Tools that a session runs itself: registration, validation of what the model asks for, and the answer."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, overload

from pydantic import BaseModel

from dragoman.adapter import wirejson
from dragoman.adapter.errors import DragomanError, ToolSchemaError
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.tools import SideEffects, ToolDefinition
from dragoman.session import signature

logger = logging.getLogger("dragoman.tools")

_MAX_ERROR = 2000
_RESULT_BLOCKS = (TextBlock, ResourceBlock, ResourceRefBlock, *MEDIA_BLOCKS)


@dataclass(frozen=True, slots=True)
class Tool:
    """A definition and the function behind it. Calling the tool calls the function."""

    definition: ToolDefinition
    function: Callable[..., Any]
    arguments: type[BaseModel] | None = None

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, side_effects: SideEffects | str = ...
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    side_effects: SideEffects | str = SideEffects.EXECUTE,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Makes a function a tool: the schema comes from its signature, the descriptions from its docstring.

    ``side_effects`` says what a run does to the world (none, read, write, execute, network) and must be honest;
    the default is the most careful one that fits any code. Raises ToolSchemaError with every problem at once.
    """

    def make(function: Callable[..., Any]) -> Tool:
        called = name or function.__name__
        arguments = signature.arguments_model(function, called)
        definition = ToolDefinition(
            name=called,
            description=description or signature.summary(function),
            input_schema=signature.input_schema(arguments),
            side_effects=SideEffects(side_effects),
        )
        if problems := definition.problems():
            raise ToolSchemaError(called, problems)
        return Tool(definition, function, arguments)

    return make if function is None else make(function)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that may run: the function with its arguments; or the answer, where it may not."""

    call: ToolUseBlock
    tool: Tool | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    refusal: str | None = None


class Toolbox:
    """A session's tools by name. Raises ToolSchemaError on a definition outside the subset or a name used twice."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._validators: dict[str, Any] = {}
        for item in tools:
            self.add(item)

    def add(self, item: Tool | Callable[..., Any]) -> None:
        """Registers a tool; a plain function becomes one."""
        added = item if isinstance(item, Tool) else tool(item)
        problems = added.definition.problems()
        if added.name in self._tools:
            problems.append(f"name: {added.name!r} is registered already")
        if problems:
            raise ToolSchemaError(added.name, problems)
        self._tools[added.name] = added

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        return tuple(item.definition for item in self._tools.values())

    @property
    def async_names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self._tools.values() if item.is_async)

    def prepare(self, call: ToolUseBlock) -> Prepared:
        """Checks a call before anything runs: its name, that its arguments are whole, and that they fit the schema."""
        found = self._tools.get(call.name)
        if found is None:
            known = ", ".join(self._tools) or "none"
            return Prepared(call, refusal=f"There is no tool {call.name!r}. Known tools: {known}.")
        if call.raw_input is not None:
            return Prepared(call, refusal="The arguments were no complete JSON object, so the tool was not run.")
        if violations := self._violations(found, call.input):
            logger.warning("tool.input_invalid: %s: %d violations", call.name, len(violations))
            return Prepared(call, refusal="The arguments do not fit the schema: " + "; ".join(violations))
        if found.arguments is None:
            return Prepared(call, found, call.input)
        try:
            parsed = found.arguments.model_validate(call.input)
        except ValueError as error:
            return Prepared(call, refusal=f"The arguments do not fit: {error}"[:_MAX_ERROR])
        # Only what the model gave: the function's own defaults serve for the rest.
        return Prepared(call, found, {name: getattr(parsed, name) for name in parsed.model_fields_set})

    def _violations(self, found: Tool, given: Mapping[str, Any]) -> list[str]:
        validator = self._validators.get(found.name)
        if validator is None:
            import jsonschema_rs  # imported late: only sessions that run tools need it

            validator = jsonschema_rs.validator_for(found.definition.input_schema)
            self._validators[found.name] = validator
        return [
            f"{'.'.join(map(str, error.instance_path)) or 'input'}: {error.message}"[:_MAX_ERROR]
            for error in validator.iter_errors(given)
        ]


def run(prepared: Prepared) -> ToolResultBlock:
    """Runs a prepared call; whatever the tool raises becomes its answer."""
    if prepared.tool is None:
        return refused(prepared)
    try:
        return answered(prepared, prepared.tool.function(**prepared.arguments))
    except Exception as error:
        return failed(prepared, error)


async def run_async(prepared: Prepared, in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]) -> ToolResultBlock:
    """The async twin of `run`; plain functions run in a thread."""
    if prepared.tool is None:
        return refused(prepared)
    function, arguments = prepared.tool.function, prepared.arguments
    try:
        if prepared.tool.is_async:
            return answered(prepared, await function(**arguments))
        return answered(prepared, await in_thread(lambda: function(**arguments)))
    except Exception as error:
        return failed(prepared, error)


def refused(prepared: Prepared) -> ToolResultBlock:
    return _result(prepared, (TextBlock(text=prepared.refusal or "The call was refused."),), is_error=True)


def failed(prepared: Prepared, error: Exception) -> ToolResultBlock:
    logger.warning("the tool %s failed: %s", prepared.call.name, type(error).__name__)
    return _result(prepared, (TextBlock(text=f"{type(error).__name__}: {error}"[:_MAX_ERROR]),), is_error=True)


def answered(prepared: Prepared, value: Any) -> ToolResultBlock:
    """The answer as blocks: strings and blocks as they are, everything else as JSON."""
    return _result(prepared, _as_blocks(value), is_error=False)


def _result(prepared: Prepared, content: tuple[ContentBlock, ...], *, is_error: bool) -> ToolResultBlock:
    return ToolResultBlock(tool_use_id=prepared.call.id, content=content, is_error=is_error)


def _as_blocks(value: Any) -> tuple[ContentBlock, ...]:
    if isinstance(value, str):
        return (TextBlock(text=value),)
    if isinstance(value, _RESULT_BLOCKS):
        return (value,)
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, _RESULT_BLOCKS) for item in value):
        return tuple(value)
    try:
        return (TextBlock(text=wirejson.dumps_text(value)),)
    except DragomanError as error:
        raise TypeError(
            f"the tool returned a {type(value).__name__}, which is neither text, blocks nor JSON"
        ) from error
