"""The language of effects: how the drivers carry out work, and how work wraps other work."""

import asyncio
import traceback
from collections.abc import Callable, Generator
from typing import Any

import pytest

from dragoman.adapter.errors import DragomanError
from dragoman.adapter.wire import Headers
from dragoman.effects import (
    Abandoned,
    CallerLeft,
    Perform,
    ResponseDetails,
    call,
    carry_out,
    drive,
    drive_async,
    in_thread,
    intercept,
    iterate,
    iterate_async,
    next_of,
    perform_all,
    shorten,
    within,
)

Run = Callable[..., Any]


def drive_on_a_loop(*arguments: Any) -> Any:
    return asyncio.run(drive_async(*arguments))


async def _collect(work: Any) -> list[Any]:
    return [value async for value in iterate_async(work)]


def collect_on_a_loop(work: Any) -> list[Any]:
    return asyncio.run(_collect(work))


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Run:
    return drive if request.param == "sync" else drive_on_a_loop


@pytest.fixture(params=["sync", "async"])
def collect(request: pytest.FixtureRequest) -> Run:
    return (lambda work: [*iterate(work)]) if request.param == "sync" else collect_on_a_loop


def both(work: Callable[[], Any]) -> Perform:
    async def work_async() -> Any:
        return work()

    return Perform(work, work_async)


def fail(error: BaseException) -> Callable[[], Any]:
    def raise_it() -> Any:
        raise error

    return raise_it


DRIVERS = {drive: "drive", drive_on_a_loop: "drive_async"}


class TestDrive:
    def test_outcomes_go_back_into_the_work(self, run: Run) -> None:
        def work() -> Generator[Perform, Any, list[Any]]:
            return [(yield both(lambda: 1)), (yield call(lambda: 2)), (yield in_thread(lambda: 3))]

        assert run(work()) == [1, 2, 3]

    def test_an_error_is_raised_where_the_work_yielded(self, run: Run) -> None:
        def work() -> Generator[Perform, Any, str]:
            with pytest.raises(KeyboardInterrupt):
                yield both(fail(KeyboardInterrupt()))
            return "settled"

        assert run(work()) == "settled"

    def test_a_function_may_carry_out_the_effects(self) -> None:
        def work() -> Generator[str, Any, str]:
            return (yield "effect")

        async def shout(effect: str) -> str:
            return effect.upper()

        assert drive(work(), str.upper) == "EFFECT"
        assert drive_on_a_loop(work(), shout) == "EFFECT"

    def test_work_that_has_begun_goes_on_with_its_first_effect(self, run: Run) -> None:
        def work() -> Generator[Perform, Any, list[int]]:
            return [(yield both(lambda: 1)), (yield both(lambda: 2))]

        begun = work()
        assert run(begun, None, next(begun)) == [1, 2]

    def test_an_awaitable_is_awaited_on_a_loop(self) -> None:
        async def answer() -> int:
            return 3

        def work() -> Generator[Perform, Any, int]:
            return (yield call(answer))

        assert drive_on_a_loop(work()) == 3

    def test_the_frames_of_the_library_are_left_out_of_an_error(self, run: Run) -> None:
        def work() -> Generator[Perform, Any, None]:
            yield call(fail(DragomanError("no")))

        with pytest.raises(DragomanError) as raised:
            run(work())
        frames = traceback.extract_tb(raised.value.__traceback__)
        assert [each.name for each in frames if each.filename.endswith("effects.py")][-3:] == [
            DRIVERS[run],
            "work",
            "raise_it",
        ]


def test_shorten_keeps_the_last_frame_and_those_of_the_program() -> None:
    def of_the_library(inner: Callable[[], Any]) -> Any:
        namespace: dict[str, Any] = {"__name__": "dragoman.anything", "inner": inner}
        exec("def pass_on():\n    return inner()\n", namespace)
        return namespace["pass_on"]

    def of_the_program() -> Any:
        return of_the_library(fail(DragomanError("no")))()

    try:
        of_the_library(of_the_program)()
    except DragomanError as error:
        names = [each.name for each in traceback.extract_tb(shorten(error).__traceback__)]
    assert names == [
        "test_shorten_keeps_the_last_frame_and_those_of_the_program", "of_the_program", "raise_it",
    ]  # fmt: skip


def test_shorten_keeps_the_last_frame_of_the_library() -> None:
    namespace: dict[str, Any] = {"__name__": "dragoman_adapters.anything", "DragomanError": DragomanError}
    exec("def outer():\n    inner()\ndef inner():\n    raise DragomanError('no')\n", namespace)
    try:
        namespace["outer"]()
    except DragomanError as error:
        names = [each.name for each in traceback.extract_tb(shorten(error).__traceback__)]
    assert names == ["test_shorten_keeps_the_last_frame_of_the_library", "inner"]


class TestIterate:
    def test_values_pass_and_effects_are_carried_out(self, collect: Run) -> None:
        def work() -> Generator[Any, Any, None]:
            yield "first"
            yield (yield both(lambda: "second"))

        assert collect(work()) == ["first", "second"]

    def test_an_error_is_raised_where_the_work_yielded(self, collect: Run) -> None:
        def work() -> Generator[Any, Any, None]:
            try:
                yield both(fail(ValueError("no")))
            except ValueError as error:
                yield str(error)

        assert collect(work()) == ["no"]

    def test_an_error_of_the_work_reaches_the_caller(self, collect: Run) -> None:
        def work() -> Generator[Any, Any, None]:
            yield "first"
            raise DragomanError("no")

        with pytest.raises(DragomanError, match="no"):
            collect(work())

    def test_a_caller_who_leaves_is_raised_in_the_work(self) -> None:
        log: list[str] = []
        values = iterate(self._noting(log))
        assert next(values) == "value"
        values.close()
        assert log == ["left", "settled"]

    def test_a_caller_who_leaves_is_raised_in_the_work_on_a_loop(self) -> None:
        log: list[str] = []

        async def leave() -> None:
            values = iterate_async(self._noting(log))
            assert await anext(values) == "value"
            await values.aclose()

        asyncio.run(leave())
        assert log == ["left", "settled"]

    def _noting(self, log: list[str]) -> Generator[Any, Any, None]:
        try:
            yield "value"
        except CallerLeft:
            log.append("left")
            yield both(lambda: log.append("settled"))
            raise


class Context:
    """A context manager of both kinds, which notes how it is left."""

    def __init__(self, log: list[Any], *, suppresses: bool = False) -> None:
        self.log = log
        self.suppresses = suppresses

    def __enter__(self) -> str:
        self.log.append("entered")
        return "inside"

    def __exit__(self, *error: Any) -> bool:
        self.log.append(error[0])
        assert (error[1] is None) is (error[2] is None) is (error[0] is None)
        return self.suppresses

    async def __aenter__(self) -> str:
        return self.__enter__()

    async def __aexit__(self, *error: Any) -> bool:
        return self.__exit__(*error)


class TestWithin:
    def test_the_work_is_done_inside(self, run: Run) -> None:
        log: list[Any] = []

        def use(value: str) -> Generator[Perform, Any, str]:
            log.append((yield both(lambda: "used")))
            return value

        assert run(within(Context(log), use)) == "inside"
        assert log == ["entered", "used", None]

    @pytest.mark.parametrize("suppresses", [True, False])
    def test_an_error_leaves_the_context_and_is_raised(self, run: Run, suppresses: bool) -> None:
        """Whatever the context answers: it is left, and no more."""
        log: list[Any] = []
        error = ValueError("no")
        with pytest.raises(ValueError, match="no") as raised:
            run(within(Context(log, suppresses=suppresses), lambda _: self._fail(error)))
        assert raised.value is error
        assert log == ["entered", ValueError]

    def test_the_error_does_not_refer_to_itself(self) -> None:
        """The list of what was raised is in a frame that the error has passed."""
        with pytest.raises(ValueError, match="no") as raised:
            drive(within(Context([]), lambda _: self._fail(ValueError("no"))))
        step, found = raised.value.__traceback__, []
        while step is not None:
            found += [value for name, value in step.tb_frame.f_locals.items() if name == "raised" and value == []]
            step = step.tb_next
        assert found

    def test_work_that_is_closed_yields_nothing(self) -> None:
        log: list[Any] = []
        work = within(Context(log), lambda _: self._wait())
        work.send(next(work).work())
        work.close()
        assert log == ["entered"]

    def _fail(self, error: BaseException) -> Generator[Perform, Any, None]:
        yield both(fail(error))

    def _wait(self) -> Generator[Perform, Any, None]:
        yield both(lambda: None)


class TestCarryOut:
    def test_work_that_does_not_wait_yields_nothing(self) -> None:
        def work() -> Generator[Perform, Any, str]:
            yield from ()
            return "done"

        with pytest.raises(StopIteration) as ended:
            next(carry_out(work()))
        assert ended.value.value == "done"

    def test_all_that_waits_is_one_effect(self, run: Run) -> None:
        def work() -> Generator[Perform, Any, list[int]]:
            return [(yield both(lambda: 1)), (yield both(lambda: 2))]

        outer = carry_out(work())
        effect = next(outer)
        assert effect.work() == [1, 2]
        with pytest.raises(StopIteration) as ended:
            outer.send("its result")
        assert ended.value.value == "its result"
        assert run(carry_out(work())) == [1, 2]

    def test_an_error_is_raised_at_once(self) -> None:
        def work() -> Generator[Perform, Any, None]:
            yield from ()
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            next(carry_out(work()))

    def test_an_interrupt_is_left_to_the_driver(self, run: Run) -> None:
        def work() -> Generator[Perform, Any, None]:
            yield from ()
            raise KeyboardInterrupt

        assert isinstance(next(carry_out(work())), Perform)
        with pytest.raises(KeyboardInterrupt):
            run(carry_out(work()))


def test_perform_all_takes_the_arguments_of_a_driver() -> None:
    def work() -> Generator[str, Any, list[str]]:
        return [(yield "a"), (yield "b")]

    async def shout(effect: str) -> str:
        return effect.upper()

    begun = work()
    assert perform_all(begun, str.upper, next(begun)).work() == ["A", "B"]
    begun = work()
    effect: Any = perform_all(begun, shout, next(begun))
    assert asyncio.run(effect.work_async()) == ["A", "B"]


def test_next_of_reads_to_the_end_and_beyond(run: Run) -> None:
    async def count() -> Any:
        yield 1

    def work() -> Generator[Perform, Any, list[Any]]:
        values = next_of(count() if run is drive_on_a_loop else iter([1]))
        return [(yield values), (yield values), (yield values)]

    assert run(work()) == [1, None, None]


class TestIntercept:
    def _two(self) -> Generator[Any, Any, list[Any]]:
        found: list[Any] = []
        for effect in ("a", "b"):
            try:
                found.append((yield effect))
            except ValueError as error:
                found.append(str(error))
        return found

    def test_none_passes_an_effect_as_it_is(self) -> None:
        assert drive(intercept(self._two(), lambda _: None), str.upper) == ["A", "B"]

    def test_an_effect_and_its_outcome_may_change(self) -> None:
        def handle(effect: str) -> Generator[str, Any, str]:
            return (yield f"{effect}!") + "?"

        assert drive(intercept(self._two(), handle), str.upper) == ["A!?", "B!?"]

    def test_an_error_of_the_handler_or_the_driver_is_raised_in_the_work(self) -> None:
        def handle(effect: str) -> Generator[str, Any, str] | None:
            if effect == "a":
                raise ValueError("refused")
            return None

        def fail_at_b(effect: str) -> str:
            raise ValueError(f"broken {effect}")

        assert drive(intercept(self._two(), handle), fail_at_b) == ["refused", "broken b"]

    def test_an_interrupt_closes_the_work(self) -> None:
        closed: list[str] = []

        def work() -> Generator[str, Any, None]:
            try:
                yield "effect"
            finally:
                closed.append("closed")

        def interrupt(effect: str) -> str:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            drive(intercept(work(), lambda _: None), interrupt)
        assert closed == ["closed"]


class TestOutcomes:
    def test_what_is_not_said_was_sent(self) -> None:
        assert Abandoned().sent

    def test_a_response_says_what_the_provider_allows(self) -> None:
        headers = Headers({
            "x-request-id": "req_1", "x-ratelimit-remaining-requests": "7", "x-ratelimit-remaining-tokens": "900",
        })  # fmt: skip
        details = ResponseDetails(200, headers)
        found = details.request_id, details.remaining_requests, details.remaining_tokens
        assert found == ("req_1", 7, 900)
        nothing = ResponseDetails(200)
        assert (nothing.request_id, nothing.remaining_requests, nothing.remaining_tokens) == (None, None, None)

    def test_the_headers_of_a_response_are_not_shown(self) -> None:
        shown = repr(ResponseDetails(200, Headers({"authorization": "secret"})))
        assert shown == "ResponseDetails(status=200, first_event_seconds=None, seconds=None)"
