"""One call of a tool: checked, run, and its answer as the model will read it."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dragoman.adapter import wirejson
from dragoman.adapter.errors import DragomanError
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.tools.tool import Tool

logger = logging.getLogger("dragoman.tools")

DECLINED = "The user declined this call."

Fault = Literal["not_found", "validation_error", "user_denied"]

_RESULT_BLOCKS = (TextBlock, ResourceBlock, ResourceRefBlock, *MEDIA_BLOCKS)
_MAX_ERROR_CHARS = 2000
"""Characters of an error that the model is told."""


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call that may run: the tool with its arguments; or the answer, where it may not."""

    call: ToolUseBlock
    tool: Tool | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    refusal: str = ""
    fault: Fault | None = None
    """Why it may not, by the name that events have for it."""


def run(prepared: PreparedCall) -> ToolResultBlock:
    """Runs a prepared call; whatever the tool raises becomes its answer."""
    if prepared.tool is None:
        return error_result(prepared.call.id, prepared.refusal)
    try:
        return _to_result(prepared.call, _reject_awaitable(prepared.tool.function(**prepared.arguments)))
    except Exception as error:
        return _error_answer(prepared.call, error)


async def run_async(
    prepared: PreparedCall, in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
) -> ToolResultBlock:
    """The async twin of `run`; plain functions run in a thread."""
    if prepared.tool is None:
        return error_result(prepared.call.id, prepared.refusal)
    function, arguments = prepared.tool.function, prepared.arguments
    try:
        value = function(**arguments) if prepared.tool.is_async else await in_thread(lambda: function(**arguments))
        return _to_result(prepared.call, await value if inspect.isawaitable(value) else value)
    except Exception as error:
        return _error_answer(prepared.call, error)


def error_result(tool_use_id: str, text: str) -> ToolResultBlock:
    """An answer that tells the model what went wrong."""
    return ToolResultBlock(tool_use_id=tool_use_id, content=(TextBlock(text=text[:_MAX_ERROR_CHARS]),), is_error=True)


def _error_answer(call: ToolUseBlock, error: Exception) -> ToolResultBlock:
    logger.warning("the tool %s failed: %s", call.name, type(error).__name__)
    logger.debug("the tool %s failed", call.name, exc_info=error)
    return error_result(call.id, f"{type(error).__name__}: {error}")


def _to_result(call: ToolUseBlock, value: Any) -> ToolResultBlock:
    return ToolResultBlock(tool_use_id=call.id, content=_as_blocks(value))


def _as_blocks(value: Any) -> tuple[ContentBlock, ...]:
    """Strings and blocks as they are, everything else as JSON. Raises TypeError where it is none."""
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
            f"the tool returned a value of the class {type(value).__name__}, which is neither text, blocks nor JSON"
        ) from error


def _reject_awaitable(value: Any) -> Any:
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError("the tool has to be awaited, which only an AsyncSession does")
    return value
