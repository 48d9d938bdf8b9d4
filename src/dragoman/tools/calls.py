"""Runs one tool call and turns its value into a result for the model."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self

from dragoman.adapter import wirejson
from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.log import get_logger
from dragoman.canonical.message import Message
from dragoman.effects import Perform, Work, drive
from dragoman.tools.context import CallDeferred, Context, Deferred, ModelRetry, Progress
from dragoman.tools.tool import Tool

logger = get_logger("dragoman.tools")

DECLINED = "The user declined this call."
NO_RETRIES_LEFT = "This tool has no retries left in this turn: go on without it."

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
    context: tuple[Context[Any], ...] = ()
    """The context of the call, if the tool takes it."""
    outcome: ToolResultBlock | Deferred | None = None
    """The result, if it comes from elsewhere, or the reason why it comes later: nothing is run."""
    is_judged: bool = False
    """Whether a policy judges the result: the log has no words of it, and neither does a traceback."""
    labels: set[str] = field(default_factory=set)
    """The security labels of what the tool returned, such as the message of a sub-agent."""

    def with_context(self, context: Context[Any]) -> Self:
        return replace(self, context=(context,))


CallOutcome = ToolResultBlock | ModelRetry | Deferred
"""What a call ends with: a result, a request of the tool for another call, or nothing yet."""

Tell = Callable[[Progress], object]
"""Receives the progress of one call."""


def _ignore(progress: Progress) -> None:
    """Do nothing: nobody receives reports."""


InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function in a thread, for an event loop."""


def run(prepared: PreparedCall, tell: Tell = _ignore) -> CallOutcome:
    """Run a prepared call. An exception of the tool becomes an error result; a ModelRetry is returned."""
    return drive(work_of(prepared, tell))


def work_of(prepared: PreparedCall, tell: Tell, in_thread: InThread | None = None) -> Work[CallOutcome]:
    """Return the work that runs a prepared call. On an event loop, plain functions run in a thread."""
    if prepared.outcome is not None:
        return prepared.outcome
    if prepared.tool is None:
        return error_result(prepared.call.id, prepared.refusal)
    call = partial(prepared.tool.function, *prepared.context, **prepared.arguments)
    try:
        value = yield Perform(
            partial(_call, prepared.tool, call, tell), partial(_call_async, prepared.tool, call, tell, in_thread)
        )
        return _to_result(prepared.call, value, prepared.labels)
    except ModelRetry as retry:
        return retry
    except CallDeferred as wait:
        return Deferred(str(wait))
    except Exception as error:
        shown = None if prepared.is_judged else error
        logger.warning("the tool %s failed: %s", prepared.call.name, type(error).__name__, exc_info=shown)
        return error_result(prepared.call.id, f"{type(error).__name__}: {error}")


def _call(tool: Tool, call: Callable[[], Any], tell: Tell) -> Any:
    value = _read_value(tool, call(), tell)
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError("the tool must be awaited, which only an AsyncSession can do")
    return value


async def _call_async(tool: Tool, call: Callable[[], Any], tell: Tell, in_thread: InThread | None) -> Any:
    if not tool.is_async:
        import asyncio  # sync programs do not need it

        value = await (in_thread or asyncio.to_thread)(lambda: _read_value(tool, call(), tell))
    elif tool.yields:
        value = await _read_steps_async(call(), tell)
    else:
        value = call()
    return await value if inspect.isawaitable(value) else value


def result_from_elsewhere(call: ToolUseBlock, value: Any, labels: set[str]) -> ToolResultBlock:
    """Return a value that answers a call: an exception as an error result, and everything else as if a tool had
    returned it. Its labels are added to ``labels``. Raises TypeError if no result can hold it."""
    if isinstance(value, Exception):
        return error_result(call.id, str(value) or type(value).__name__)
    if isinstance(value, ToolResultBlock):
        return value.model_copy(update={"tool_use_id": call.id})
    return _to_result(call, value, labels)


def _read_value(tool: Tool, value: Any, tell: Tell) -> Any:
    return _read_steps(value, tell) if tool.yields else value


def _read_steps(steps: Generator[Any, Any, Any], tell: Tell) -> Any:
    """Return the value of a generator: what it returns, else what it yields apart from progress."""
    results: list[Any] = []
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return _join(results) if end.value is None else end.value
        if isinstance(step, Progress):
            tell(step)
        else:
            results.append(step)


async def _read_steps_async(steps: AsyncIterator[Any], tell: Tell) -> Any:
    results: list[Any] = []
    async for step in steps:
        if isinstance(step, Progress):
            tell(step)
        else:
            results.append(step)
    return _join(results)


def _join(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else results or None


def timeout_result(call: ToolUseBlock, seconds: float) -> ToolResultBlock:
    """Return the error result of a call whose time is over."""
    logger.warning("the tool %s did not answer within %g seconds", call.name, seconds)
    return error_result(call.id, f"The tool did not answer within {seconds:g} seconds. What it did is not known.")


def error_result(tool_use_id: str, text: str) -> ToolResultBlock:
    """Return an error result with that text."""
    return ToolResultBlock(tool_use_id=tool_use_id, content=(TextBlock(text=text[:_MAX_ERROR_CHARS]),), is_error=True)


def _to_result(call: ToolUseBlock, value: Any, labels: set[str]) -> ToolResultBlock:
    for each in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(each, Message):
            from dragoman.canonical.extensions.message_labels import carried_labels  # imported late: few do

            labels |= carried_labels(each)
    return ToolResultBlock(tool_use_id=call.id, content=_as_blocks(value))


def _as_blocks(value: Any) -> tuple[ContentBlock, ...]:
    """Return strings and blocks as they are, those of a message too, and everything else as JSON. Raises TypeError if
    it cannot be JSON."""
    if isinstance(value, str):
        return (TextBlock(text=value),)
    if isinstance(value, _RESULT_BLOCKS):
        return (value,)
    if isinstance(value, (list, tuple)) and any(isinstance(each, Message) for each in value):
        return tuple(block for each in value for block in _as_blocks(each))
    items = value.content if isinstance(value, Message) else value
    if (
        isinstance(items, (list, tuple))
        and any(isinstance(item, _RESULT_BLOCKS) for item in items)
        and all(isinstance(item, (str, *_RESULT_BLOCKS)) for item in items)
    ):
        return tuple(TextBlock(text=item) if isinstance(item, str) else item for item in items)
    if isinstance(value, Message):
        raise TypeError("the tool returned a message with blocks that no result can hold: return its text or its media")
    try:
        return (TextBlock(text=wirejson.dumps_text(value)),)
    except DragomanError as error:
        raise TypeError(
            f"the tool returned a value of the class {type(value).__name__}, which is neither text nor blocks nor JSON"
        ) from error


def apply_decision(prepared: PreparedCall, allowed: object) -> PreparedCall:
    """Return the call if it was approved, its refusal, or the call as one that waits. Raises ConfigurationError if the
    decision is awaited."""
    if inspect.isawaitable(allowed):
        if inspect.iscoroutine(allowed):
            allowed.close()
        raise ConfigurationError("approve has to be awaited, which only an AsyncSession does")
    if allowed is Deferred or isinstance(allowed, Deferred):
        return PreparedCall(prepared.call, outcome=allowed if isinstance(allowed, Deferred) else Deferred())
    return prepared if allowed else PreparedCall(prepared.call, refusal=DECLINED, fault="user_denied")
