"""The language between work that does no I/O and the code that does it.

Work is a generator: it yields effects, and receives the outcome of each. `drive` carries out work with a result,
`iterate` work that yields values too, and each has an async twin. An attempt of a request ends as `Replied`, `Failed`,
`Broken` or `Abandoned`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from types import TracebackType
from typing import Any, Protocol, TypeVar

from dragoman.adapter.errors import DragomanError
from dragoman.adapter.wire import AttemptRecord, Headers
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.message import Message


@dataclass(frozen=True, slots=True)
class ResponseDetails:
    """The response to one request.

    ``attempts`` are all attempts of the request, the last one included. ``seconds`` is the time from sending the
    request to the end of the reply, and ``first_event_seconds`` to the first content of a stream; neither contains the
    time that the request waited for a limit.
    """

    status: int
    """The HTTP status of the last attempt."""
    headers: Mapping[str, str] = field(default_factory=Headers, repr=False)
    """The response's headers. Names compare without case."""
    attempts: tuple[AttemptRecord, ...] = field(default=(), repr=False)
    first_event_seconds: float | None = None
    seconds: float | None = None

    @property
    def request_id(self) -> str | None:
        """The provider's id of the request, to quote in a support case."""
        from dragoman.adapter.replies.error_context import REQUEST_ID_HEADERS  # imported late: few programs ask

        return next((self.headers[name] for name in REQUEST_ID_HEADERS if name in self.headers), None)

    @property
    def remaining_requests(self) -> int | None:
        """The requests that the provider still allows now, if it says so."""
        from dragoman.adapter.replies.rate_limit_headers import read_remaining  # imported late, as above

        return read_remaining(self.headers).get("requests")

    @property
    def remaining_tokens(self) -> int | None:
        """The tokens that the provider still allows now, if it says so."""
        from dragoman.adapter.replies.rate_limit_headers import read_remaining

        return read_remaining(self.headers).get("tokens")


@dataclass(frozen=True, slots=True)
class Replied:
    """The whole reply. ``response`` is None if a middleware provided the reply and nothing was sent."""

    message: Message
    """The complete reply."""
    response: ResponseDetails | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt gave no reply: the request could not be sent, or the provider refused it."""

    error: Exception
    """Why there is no reply: a DragomanError, or what a middleware raised."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A reply began and cannot be used. ``partial`` is what had arrived; ``seen`` says whether the caller saw any of
    that."""

    error: Exception
    """Why the reply broke off, such as StreamTruncatedError."""
    partial: Message | None
    seen: bool
    response: ResponseDetails | None = None
    """Status, headers and times; None if nothing of the response is known."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The caller left. ``partial`` is what had arrived, with status cancelled.

    If no content can be kept, ``billed`` is a message with the usage of the reply. ``sent`` is False if nothing was
    sent yet.
    """

    partial: Message | None = None
    billed: Message | None = None
    response: ResponseDetails | None = None
    """Status, headers and times; None if no response had arrived."""
    sent: bool = True


SendOutcome = Replied | Failed | Broken | Abandoned


EffectT = TypeVar("EffectT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Perform:
    """Do work that may wait: a driver calls one of the two functions. The outcome is its result."""

    work: Callable[[], Any]
    """What a synchronous driver calls. It may block."""
    work_async: Callable[[], Awaitable[Any]]
    """What an asynchronous driver awaits; the same work."""


Work = Generator[Perform, Any, ResultT]
"""Work whose only effects are `Perform`."""

Observe = Callable[[Any], Perform]
"""Returns the effect that applies what a provider reports of its limits: in the headers of a response, a mapping, or in
a ProviderError."""


class Stage(Protocol):
    """Filters one streamed reply, event by event. A reply that is not streamed is one message_complete event.

    Returns the events that replace this one. A stage that has to wait returns a `Perform`, whose result is these
    events. An exception of a stage ends the reply, which is then `Broken`.
    """

    def __call__(self, event: StreamEvent, /) -> Sequence[StreamEvent] | Perform: ...


class CallerLeft(BaseException):  # it is not an error, as GeneratorExit is not
    """Raised in the work of `iterate` where it yielded a value, if the caller wants no more of them."""


def shorten(error: DragomanError) -> DragomanError:
    """Return the error with a traceback that leaves out the frames between a program's call and where it was raised:
    they are ours, and say nothing about the call. Frames of the program's own functions stay."""
    kept: list[TracebackType] = []
    step = error.__traceback__
    while step is not None:
        module = step.tb_frame.f_globals.get("__name__", "")
        if step.tb_next is None or not module.startswith(_OWN_MODULES):
            kept.append(step)
        step = step.tb_next
    shortened: TracebackType | None = None
    for each in reversed(kept):
        shortened = TracebackType(shortened, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return error.with_traceback(shortened)


_OWN_MODULES = ("dragoman.", "dragoman_adapters.")


def call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Perform:
    """Return the effect that calls a function; on an event loop the function may return an awaitable."""
    work = partial(function, *arguments, **named)
    return Perform(work, partial(_call_async, work))


def in_thread(function: Callable[..., Any], *arguments: Any) -> Perform:
    """Return the effect that calls a function which may block: on an event loop it runs in a thread."""
    work = partial(function, *arguments)
    return Perform(work, partial(_run_in_thread, work))


def next_of(values: Any) -> Perform:
    """Return the effect whose outcome is the next value of a sync or an async iterator, or None at its end. It may be
    yielded again."""
    return Perform(lambda: next(values, None), lambda: anext(values, None))


def within(
    context: Any, use: Callable[[Any], Generator[EffectT, Any, ResultT]]
) -> Generator[EffectT | Perform, Any, ResultT]:
    """Do the work that ``use`` returns in a context manager, which is async for an async driver."""
    value = yield Perform(lambda: context.__enter__(), lambda: context.__aenter__())
    try:
        result = yield from use(value)
    except GeneratorExit:  # nothing can be yielded any more
        raise
    except BaseException as error:
        raised = [type(error), error, error.__traceback__]
        try:
            yield _leave(context, raised)
        finally:
            raised.clear()  # else the error would refer to itself, through the frames that it has passed
        raise
    yield _leave(context, (None, None, None))
    return result


def _leave(context: Any, error: Sequence[Any]) -> Perform:
    return Perform(lambda: context.__exit__(*error), lambda: context.__aexit__(*error))


async def _call_async(work: Callable[[], Any]) -> Any:
    result = work()
    return await result if isawaitable(result) else result


async def _run_in_thread(work: Callable[[], Any]) -> Any:
    import asyncio  # sync programs do not need it

    return await asyncio.to_thread(work)


def drive(
    work: Generator[EffectT, Any, ResultT],
    carry_out: Callable[[EffectT], Any] | None = None,
    first: EffectT | None = None,
) -> ResultT:
    """Run the work to its end, and return its result. Raises what it raises.

    ``carry_out`` returns the outcome of an effect; without it, each is a `Perform`. What an effect raises is raised in
    the work, where the work yielded it: an interrupt too, so that nothing stays reserved. ``first`` is the first effect
    of work that has begun.
    """
    try:
        effect: Any = next(work) if first is None else first
        while True:
            try:
                outcome = effect.work() if carry_out is None else carry_out(effect)
            except BaseException as error:
                effect = work.throw(error)
            else:
                effect = work.send(outcome)
    except StopIteration as done:
        result: ResultT = done.value
        return result
    except DragomanError as error:
        raise shorten(error)  # noqa: B904  # the same error


async def drive_async(
    work: Generator[EffectT, Any, ResultT],
    carry_out: Callable[[EffectT], Awaitable[Any]] | None = None,
    first: EffectT | None = None,
) -> ResultT:
    """`drive`, for an event loop. A cancellation is raised in the work, as any other exception is."""
    try:
        effect: Any = next(work) if first is None else first
        while True:
            try:
                outcome = await (effect.work_async() if carry_out is None else carry_out(effect))
            except BaseException as error:
                effect = work.throw(error)
            else:
                effect = work.send(outcome)
    except StopIteration as done:
        result: ResultT = done.value
        return result
    except DragomanError as error:
        raise shorten(error)  # noqa: B904  # the same error


def iterate(work: Generator[Any, Any, Any]) -> Generator[Any, None, None]:
    """Carry out the effects of the work, and yield everything else that it yields.

    A caller who closes this generator is raised in the work as `CallerLeft`; effects that follow are carried out.
    """
    try:
        yielded = next(work)
        while True:
            try:
                outcome = yielded.work() if isinstance(yielded, Perform) else (yield yielded)
            except GeneratorExit as left:
                yielded = work.throw(CallerLeft().with_traceback(left.__traceback__))
            except BaseException as error:
                yielded = work.throw(error)
            else:
                yielded = work.send(outcome)
    except (StopIteration, CallerLeft):
        return
    except DragomanError as error:
        raise shorten(error)  # noqa: B904  # the same error


async def iterate_async(work: Generator[Any, Any, Any]) -> AsyncGenerator[Any, None]:
    """The async twin of `iterate`."""
    try:
        yielded = next(work)
        while True:
            try:
                outcome = (await yielded.work_async()) if isinstance(yielded, Perform) else (yield yielded)
            except GeneratorExit as left:
                yielded = work.throw(CallerLeft().with_traceback(left.__traceback__))
            except BaseException as error:
                yielded = work.throw(error)
            else:
                yielded = work.send(outcome)
    except (StopIteration, CallerLeft):
        return
    except DragomanError as error:
        raise shorten(error)  # noqa: B904  # the same error


def perform_all(
    work: Generator[EffectT, Any, Any], carry_out: Callable[[EffectT], Any] | None = None, first: EffectT | None = None
) -> Perform:
    """Return one effect that carries out all of the work; its outcome is the result. The arguments are as for `drive`,
    and for `drive_async` on an event loop."""
    return Perform(partial(drive, work, carry_out, first), partial(drive_async, work, carry_out, first))


def carry_out(work: Work[ResultT]) -> Generator[Perform, Any, ResultT]:
    """Run work inside other work. Nothing is yielded if none of it has to wait; all that waits is one effect.

    An interrupt is left to the driver, which abandons its work.
    """
    try:
        first = next(work)
    except StopIteration as end:
        result: ResultT = end.value
        return result
    except Exception:
        raise
    except BaseException as interrupt:
        result = yield perform_all(_interrupt(interrupt))
    else:
        result = yield perform_all(work, first=first)
    return result


def _interrupt(error: BaseException) -> Work[Any]:
    raise error
    yield


def intercept(
    work: Generator[EffectT, Any, ResultT], handle: Callable[[EffectT], Generator[EffectT, Any, Any] | None]
) -> Generator[EffectT, Any, ResultT]:
    """Wrap work: each of its effects goes through ``handle``.

    ``handle`` yields the effect, changed or not, and returns its outcome, changed or not. It may yield other effects
    first, or return an outcome without yielding any. Its exceptions are raised in the work, where the work yielded the
    effect. If it returns None in place of a generator, the effect passes as it is.
    """
    outcome: Any = None
    try:
        while True:
            try:
                effect = work.throw(outcome) if isinstance(outcome, Exception) else work.send(outcome)
            except StopIteration as done:
                result: ResultT = done.value
                return result
            try:
                handling = handle(effect)
                outcome = (yield effect) if handling is None else (yield from handling)
            except Exception as error:
                outcome = error
    finally:
        work.close()
