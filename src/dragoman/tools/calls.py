"""Runs one tool call and turns its value into a result for the model."""

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
"""Maximum length of an error message for the model, in characters."""


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A checked call: the tool and its arguments, or the refusal if it may not run."""

    call: ToolUseBlock
    tool: Tool | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    refusal: str = ""
    fault: Fault | None = None
    """The reason of the refusal, as events name it."""


def run(prepared: PreparedCall) -> ToolResultBlock:
    """Run a prepared call. An exception of the tool becomes an error result."""
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
    """Return an error result with that text."""
    return ToolResultBlock(tool_use_id=tool_use_id, content=(TextBlock(text=text[:_MAX_ERROR_CHARS]),), is_error=True)


def _error_answer(call: ToolUseBlock, error: Exception) -> ToolResultBlock:
    logger.warning("the tool %s failed: %s", call.name, type(error).__name__)
    logger.debug("the tool %s failed", call.name, exc_info=error)
    return error_result(call.id, f"{type(error).__name__}: {error}")


def _to_result(call: ToolUseBlock, value: Any) -> ToolResultBlock:
    return ToolResultBlock(tool_use_id=call.id, content=_as_blocks(value))


def _as_blocks(value: Any) -> tuple[ContentBlock, ...]:
    """Return strings and blocks as they are, everything else as JSON. Raises TypeError if it cannot be JSON."""
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
            f"the tool returned a value of the class {type(value).__name__}, which is neither text nor blocks nor JSON"
        ) from error


def _reject_awaitable(value: Any) -> Any:
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError("the tool must be awaited, which only an AsyncSession can do")
    return value
