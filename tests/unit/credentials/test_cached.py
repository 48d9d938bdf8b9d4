"""One authorization for all: kept, renewed ahead of its end, and fetched once for whoever waits."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dragoman.adapter.errors import CredentialsError, NetworkError, RequestTimeoutError
from dragoman.credentials.cached import CachedCredentials
from dragoman.credentials.contract import ApiKey, Authorization

SECRET = "canary-0b97e24f1d8c"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Source:
    """Counts its fetches; each returns another key, which is valid for ``seconds``."""

    def __init__(self, clock: Clock, seconds: float | None = 3600.0) -> None:
        self.clock, self.seconds = clock, seconds
        self.fetches: list[bool] = []
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None

    def __call__(self, renew: bool) -> Authorization:
        self.fetches.append(renew)
        assert self.gate.wait(10)
        if self.failure is not None:
            raise self.failure
        end = None if self.seconds is None else datetime.fromtimestamp(self.clock.now + self.seconds, UTC)
        return Authorization(key=ApiKey(f"key-{len(self.fetches)}"), expires_at=end)


def cached(source: Any, clock: Clock, **settings: Any) -> CachedCredentials:
    return CachedCredentials(source, "the source", clock=clock, **settings)


def key_of(authorization: Authorization) -> str:
    assert authorization.key is not None
    return authorization.key.reveal()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_it_is_kept_until_it_ends() -> None:
    """Ten seconds before its end it is not used any more."""
    clock = Clock()
    source = Source(clock)
    credentials = cached(source, clock)
    assert {key_of(credentials.get()) for _ in range(5)} == {"key-1"}
    clock.now += 3591
    assert key_of(credentials.get()) == "key-2"
    assert source.fetches == [False, False]


def test_it_is_renewed_ahead_of_its_end() -> None:
    """In its last minutes, requests go on with the old one while a new one is fetched."""
    clock = Clock()
    source = Source(clock)
    credentials = cached(source, clock)
    credentials.get()
    clock.now += 3400
    source.gate.clear()
    assert key_of(credentials.get()) == "key-1"
    assert key_of(credentials.get()) == "key-1"
    source.gate.set()
    wait_until(lambda: key_of(credentials.get()) == "key-2")
    assert source.fetches == [False, False]


def test_a_renewal_that_fails_ahead_of_time_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """The old one is used on, the failure is logged without a secret, and it is not tried at each request."""
    clock = Clock()
    source = Source(clock)
    credentials = cached(source, clock)
    credentials.get()
    clock.now += 3400
    source.failure = ConnectionError(SECRET)
    credentials.get()
    wait_until(lambda: "could not be renewed" in caplog.text)
    for _ in range(5):
        assert key_of(credentials.get()) == "key-1"
    assert len(source.fetches) == 2
    assert SECRET not in caplog.text
    source.failure = None
    clock.now += 31
    credentials.get()
    wait_until(lambda: key_of(credentials.get()) == "key-3")


@pytest.mark.parametrize("callers", ["threads", "tasks", "loops"])
def test_a_hundred_that_wait_share_one_fetch(callers: str) -> None:
    clock = Clock()
    source = Source(clock)
    source.gate.clear()
    credentials = cached(source, clock)
    found: list[str] = []

    async def ask() -> None:
        found.append(key_of(await credentials.get_async(10)))

    async def ask_many(count: int) -> None:
        await asyncio.gather(*(ask() for _ in range(count)))

    if callers == "threads":
        threads = [threading.Thread(target=lambda: found.append(key_of(credentials.get(10)))) for _ in range(100)]
    elif callers == "tasks":
        threads = [threading.Thread(target=lambda: asyncio.run(ask_many(100)))]
    else:
        threads = [threading.Thread(target=lambda: asyncio.run(ask_many(25))) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: bool(source.fetches))
    time.sleep(0.05)
    source.gate.set()
    for thread in threads:
        thread.join(10)
    assert found == ["key-1"] * 100
    assert len(source.fetches) == 1


def test_a_hundred_share_one_renewal_after_a_refusal() -> None:
    """Whoever comes later with the same refused one gets the new one without a fetch."""
    clock = Clock()
    source = Source(clock)
    credentials = cached(source, clock)
    refused = credentials.get()
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(key_of(credentials.get(10, refused)))) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == ["key-2"] * 100
    assert source.fetches == [False, True]


def test_a_renewal_that_does_not_help_is_not_repeated_at_once() -> None:
    """An account without rights must not ask for a new token with each request."""
    clock = Clock()
    credentials = cached(Source(clock), clock)
    first = credentials.get()
    assert credentials.may_renew(first)
    second = credentials.get(rejected=first)
    assert credentials.may_renew(first)
    assert not credentials.may_renew(second)
    clock.now += 31
    assert credentials.may_renew(second)


@pytest.mark.parametrize("seconds", [-100_000.0, 0.0, 5.0])
def test_a_wrong_clock_does_not_fetch_for_each_request(seconds: float) -> None:
    """What is past on the day of its issue is used all the same, for half a minute."""
    clock = Clock()
    source = Source(clock, seconds)
    credentials = cached(source, clock)
    for _ in range(10):
        credentials.get()
    assert len(source.fetches) == 1
    clock.now += 31
    credentials.get()
    assert len(source.fetches) == 2


def test_without_an_end_it_is_kept_for_its_longest_age() -> None:
    clock = Clock()
    source = Source(clock, None)
    forever, short = cached(source, clock), cached(source, clock, max_age=60.0)
    first, second = key_of(forever.get()), key_of(short.get())
    clock.now += 61
    assert (key_of(forever.get()), key_of(short.get())) == (first, "key-3")
    assert second == "key-2"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_fetch_that_hangs_ends_at_the_deadline(asynchronous: bool) -> None:
    """The error says that nothing was sent. A minute later another fetch is started."""
    clock = Clock()
    source = Source(clock)
    source.gate.clear()
    credentials = cached(source, clock)
    started = time.monotonic()
    for _ in range(2):
        with pytest.raises(RequestTimeoutError, match="the source: no credentials in time") as caught:
            asyncio.run(credentials.get_async(0.05)) if asynchronous else credentials.get(0.05)
        assert caught.value.sent is False
    assert time.monotonic() - started < 5
    assert len(source.fetches) == 1
    clock.now += 61
    source.gate.set()
    assert key_of(credentials.get(10)).startswith("key-")


def test_an_error_is_each_waiters_own() -> None:
    """It names the kind of the failure and its place, and none of its words."""
    clock = Clock()
    source = Source(clock)
    source.failure = ValueError(SECRET)
    credentials = cached(source, clock)
    errors: list[BaseException] = []
    for _ in range(2):
        with pytest.raises(CredentialsError, match=r"the source: ValueError in __call__, line \d+") as caught:
            credentials.get(10)
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    source.failure = ConnectionResetError(SECRET)
    with pytest.raises(NetworkError) as broken:
        credentials.get(10)
    assert broken.value.retryable
    assert broken.value.sent is False


def test_an_async_source_runs_in_the_loop_that_asks() -> None:
    """Its connections may belong to that loop. Other loops and threads wait for its result."""
    loops: list[Any] = []

    async def fetch(renew: bool) -> Authorization:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0.1)
        return Authorization(key=ApiKey("key-1"))

    credentials = CachedCredentials(fetch, "the source", is_async=True)

    async def main() -> Any:
        other = asyncio.to_thread(credentials.get, 10)
        one, two, three = await asyncio.gather(credentials.get_async(10), credentials.get_async(10), other)
        assert one is two
        assert two is three
        return asyncio.get_running_loop()

    assert loops == [asyncio.run(main())]
    alone = CachedCredentials(fetch, "the source", is_async=True)
    assert key_of(alone.get(10)) == "key-1"


def test_a_loop_that_ends_takes_no_other_with_it() -> None:
    """Whoever waits for a fetch of a loop that ends fetches itself."""
    begun = threading.Event()
    calls: list[int] = []

    async def fetch(renew: bool) -> Authorization:
        calls.append(1)
        if len(calls) == 1:
            begun.set()
            await asyncio.sleep(60)
        return Authorization(key=ApiKey("key-2"))

    credentials = CachedCredentials(fetch, "the source", is_async=True)

    async def leave() -> None:
        with pytest.raises(RequestTimeoutError):
            await credentials.get_async(0.3)

    loop = threading.Thread(target=lambda: asyncio.run(leave()))
    loop.start()
    assert begun.wait(5)
    assert key_of(credentials.get(10)) == "key-2"
    loop.join(5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_its_parents_fetch() -> None:
    clock = Clock()
    source = Source(clock)
    source.gate.clear()
    credentials = cached(source, clock)
    waiting = threading.Thread(target=lambda: credentials.get(10))
    waiting.start()
    wait_until(lambda: bool(source.fetches))
    child = os.fork()
    if child == 0:
        try:
            source.gate = threading.Event()
            source.gate.set()
            os._exit(0 if key_of(credentials.get(5)) == "key-2" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    source.gate.set()
    waiting.join(5)
