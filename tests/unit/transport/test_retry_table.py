"""What is retried, by status, headers and the moment of the failure, on a virtual clock.

Each row says how an attempt fails and how long the transport waits before each retry. Once the failures of a test are
used up, the server answers 200.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import httpx
import pytest

from dragoman.adapter.wire import WireRequest
from tests.tables import each_row
from tests.unit.transport.drivers import (
    DRIVERS,
    PLAIN_REQUEST,
    STREAM_REQUEST,
    BreakingStream,
    CallResult,
    Driver,
    VirtualClock,
)

Outcome = Callable[[], httpx.Response]
FAR, NEAR, PAST = "Sat, 21 Nov 2026 13:00:00 GMT", "Sat, 21 Nov 2026 12:00:07 GMT", "Fri, 20 Nov 2026 12:00:00 GMT"


class Row(NamedTuple):
    """A way to fail. ``waits``: the seconds before each retry if every attempt of the call fails in this way."""

    name: str
    waits: tuple[float, ...]
    status: int | None = None
    headers: dict[str, str] = {}  # noqa: RUF012
    raises: type[httpx.RequestError] | None = None
    chunks: tuple[bytes, ...] | None = None
    streamed_waits: tuple[float, ...] | None = None
    """The waits of a streamed request, if they differ."""


TWICE = (1.0, 2.0)
NEVER: tuple[float, ...] = ()

STATUSES = [
    *(Row(f"{status}", TWICE, status) for status in (408, 429, 500, 501, 502, 503, 504, 507, 520, 524, 529, 599)),
    *(
        Row(f"{status}", NEVER, status)
        for status in (301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 409, 410, 413, 415, 422, 425, 451, 499)
    ),
]  # fmt: skip
HEADERS = [
    Row("retry-after seconds", (7.0, 7.0), 429, {"retry-after": "7"}),
    Row("a fraction", (0.25, 0.25), 429, {"retry-after": "0.25"}),
    Row("capitals", (7.0, 7.0), 429, {"Retry-After": "7"}),
    Row("on 503", (7.0, 7.0), 503, {"retry-after": "7"}),
    Row("on 500", (7.0, 7.0), 500, {"retry-after": "7"}),
    Row("milliseconds", (0.35, 0.35), 429, {"retry-after-ms": "350"}),
    Row("milliseconds first", (0.35, 0.35), 429, {"retry-after-ms": "350", "retry-after": "9"}),
    Row("bad milliseconds, good seconds", (9.0, 9.0), 429, {"retry-after-ms": "soon", "retry-after": "9"}),
    Row("a date ahead, then gone by", (7.0, 2.0), 429, {"retry-after": NEAR}),
    Row("a date too far", NEVER, 429, {"retry-after": FAR}),
    Row("a date gone by", TWICE, 429, {"retry-after": PAST}),
    Row("a minute", (60.0, 60.0), 429, {"retry-after": "60"}),
    Row("over a minute", NEVER, 429, {"retry-after": "60.001"}),
    Row("61 seconds", NEVER, 503, {"retry-after": "61"}),
    Row("61,000 milliseconds", NEVER, 429, {"retry-after-ms": "61000"}),
    Row("an hour", NEVER, 429, {"retry-after": "3600"}),
    Row("zero", TWICE, 429, {"retry-after": "0"}),
    Row("negative", TWICE, 429, {"retry-after": "-5"}),
    Row("NaN", TWICE, 429, {"retry-after": "nan"}),
    Row("infinite", TWICE, 429, {"retry-after": "inf"}),
    Row("minus infinite", TWICE, 429, {"retry-after": "-inf"}),
    Row("1e999", TWICE, 429, {"retry-after": "1e999"}),
    Row("a billion", TWICE, 429, {"retry-after": "1000000000"}),
    Row("garbage", TWICE, 429, {"retry-after": "a while"}),
    Row("empty", TWICE, 429, {"retry-after": ""}),
    Row("two of them", TWICE, 429, {"retry-after": "1, 2"}),
    Row("an impossible date", TWICE, 429, {"retry-after": "Sat, 99 Nov 2026 99:00:00 GMT"}),
    Row("an hour on a refused request", NEVER, 400, {"retry-after": "3600"}),
    Row("a wait on a refused request", NEVER, 400, {"retry-after": "2"}),
    Row("should", TWICE, 400, {"x-should-retry": "true"}),
    Row("should, conflict", TWICE, 409, {"x-should-retry": "true"}),
    Row("should, with a wait", (4.0, 4.0), 422, {"x-should-retry": "true", "retry-after": "4"}),
    Row("should, but after an hour", NEVER, 429, {"x-should-retry": "true", "retry-after": "3600"}),
    Row("should not, 429", NEVER, 429, {"x-should-retry": "false"}),
    Row("should not, 500", NEVER, 500, {"x-should-retry": "false"}),
    Row("should not, with a wait", NEVER, 503, {"x-should-retry": "false", "retry-after": "1"}),
    Row("should, in other words", TWICE, 500, {"x-should-retry": "maybe"}),
    Row("should, in other words, refused", NEVER, 400, {"x-should-retry": "yes"}),
]
BREAKS = [
    *(
        Row(kind.__name__, TWICE, raises=kind)
        for kind in (
            httpx.ConnectError, httpx.ConnectTimeout, httpx.ReadError, httpx.ReadTimeout, httpx.WriteError,
            httpx.WriteTimeout, httpx.PoolTimeout, httpx.RemoteProtocolError, httpx.ProxyError, httpx.CloseError,
        )
    ),
    Row("not sendable", NEVER, raises=httpx.LocalProtocolError),
    Row("undecodable for the client", NEVER, raises=httpx.DecodingError),
    Row("unknown protocol", NEVER, raises=httpx.UnsupportedProtocol),
    Row("reset after the head", TWICE, 200, raises=httpx.ReadError, chunks=()),
    Row("silence after the head", TWICE, 200, raises=httpx.ReadTimeout, chunks=()),
    Row("reset in the body", TWICE, 200, raises=httpx.ReadError, chunks=(b"half",), streamed_waits=NEVER),
    Row("end in the body", TWICE, 200, raises=httpx.RemoteProtocolError, chunks=(b"ha", b"lf"), streamed_waits=NEVER),
    Row("silence in the body", TWICE, 200, raises=httpx.ReadTimeout, chunks=(b"half",), streamed_waits=NEVER),
    Row("reset in a failing body", TWICE, 503, raises=httpx.ReadError, chunks=(b"over",)),
    Row("reset in a refusing body", NEVER, 400, raises=httpx.ReadError, chunks=(b"bad",)),
    Row("a protocol error in the body", NEVER, 200, raises=httpx.LocalProtocolError, chunks=(b"ha", b"lf")),
    Row("strange encoding", NEVER, 200, {"content-encoding": "br"}, chunks=(b"x",), raises=httpx.ReadError),
]  # fmt: skip
_IGNORED_VALUES = {
    "nan": "nan", "NAN": "NAN", "inf": "inf", "-inf": "-inf", "1e999": "1e999", "-1e999": "-1e999", "-1": "-1",
    "-0": "-0", "1e9": "10^9", "86401": "over a day", "9" * 400: "400 nines", "0x10": "hex",
    "1_0_0_0_0_0": "underscores",
    "Thu, 01 Jan 1970 00:00:00 GMT": "the epoch", "Fri, 31 Dec 9999 23:59:59 GMT": "the last day",
    "Sat, 21 Nov 2026 12:00:00": "now, without a zone", "Sat, 21 Nov 2026 25:61:61 GMT": "no time of day",
    "2026-11-21T12:00:07Z": "an ISO date", "12:00:07": "a time", "7s": "a unit", "7, 7": "a list",
}  # fmt: skip
_MILLISECONDS = {"1e9", "86401", "1_0_0_0_0_0"}
"""Implausible as seconds, so read as milliseconds: too long to wait."""
HOSTILE = [
    *(Row(f"{label} on {status}", TWICE, status, {"retry-after": value})
      for value, label in _IGNORED_VALUES.items() for status in (503, 529)),
    *(Row(f"{label} in ms", TWICE, 500, {"retry-after-ms": value})
      for value, label in _IGNORED_VALUES.items() if value not in _MILLISECONDS),
    *(Row(f"{label} on a refused request", NEVER, 400, {"retry-after": value}) for value,
    label in _IGNORED_VALUES.items()),
    *(Row(f"{label}, and should", TWICE, 409, {"retry-after": value, "x-should-retry": "true"})
      for value, label in _IGNORED_VALUES.items()),
    *(Row(f"{seconds} s", NEVER, 503, {"retry-after": seconds}) for seconds in ("61", "119", "121", "1e3", "86400")),
    *(Row(f"{ms} ms", NEVER, 503, {"retry-after-ms": ms}) for ms in ("60001", "121000", "8.64e7")),
    Row("hostile ms, honest seconds", (7.0, 7.0), 429, {"retry-after-ms": "inf", "retry-after": "7"}),
    Row("honest ms, hostile seconds", (0.5, 0.5), 429, {"retry-after-ms": "500", "retry-after": "1e999"}),
]  # fmt: skip
TABLE = [*STATUSES, *HEADERS, *HOSTILE, *BREAKS]


def respond(row: Row) -> httpx.Response:
    error = None if row.raises is None else row.raises("scripted")
    if row.chunks is not None:
        assert error is not None
        return httpx.Response(row.status or 200, headers=row.headers, stream=BreakingStream(error, *row.chunks))
    if error is not None:
        raise error
    return httpx.Response(row.status or 200, headers=row.headers, stream=httpx.ByteStream(b"ok"))


def run_call(driver: Driver, row: Row, request: WireRequest, failures: int) -> tuple[CallResult, VirtualClock, int]:
    """Runs a call whose first ``failures`` attempts fail as the row says; those after them succeed."""
    time, sent = VirtualClock(), 0

    def handler(_: httpx.Request) -> httpx.Response:
        nonlocal sent
        sent += 1
        return respond(row) if sent <= failures else httpx.Response(200, content=b"ok")

    client = driver.client(handler)
    result = driver.call(request, client=client, timing=time.timing)
    if isinstance(client, httpx.Client):
        client.close()
    else:
        asyncio.run(client.aclose())
    return result, time, sent


def test_the_table_is_large_enough() -> None:
    """The table has at least 120 rows, each with its own name."""
    assert len({row.name for row in TABLE}) == len(TABLE) >= 120


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
@pytest.mark.parametrize("request_", [PLAIN_REQUEST, STREAM_REQUEST], ids=["whole", "stream"])
@each_row("row", TABLE, ids=lambda row: row.name)
def test_a_lasting_failure_waits_by_the_table(row: Row, request_: WireRequest, driver: Driver) -> None:
    """One attempt more than waits, all recorded in the error."""
    waits = row.streamed_waits if request_.stream and row.streamed_waits is not None else row.waits
    result, time, sent = run_call(driver, row, request_, failures=99)
    assert result.error is not None
    assert time.slept == pytest.approx(list(waits))
    assert sent == len(waits) + 1
    if row.raises not in (httpx.LocalProtocolError, httpx.UnsupportedProtocol):
        assert [attempt.waited for attempt in result.attempts] == pytest.approx([*waits, 0.0])
        assert [attempt.number for attempt in result.attempts] == list(range(1, sent + 1))


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
@each_row("row", [row for row in TABLE if row.waits], ids=lambda row: row.name)
def test_a_transient_failure_is_retried_once(row: Row, driver: Driver) -> None:
    """After one failure the second attempt succeeds."""
    result, time, sent = run_call(driver, row, PLAIN_REQUEST, failures=1)
    assert (result.error, result.body, sent) == (None, b"ok", 2)
    assert time.slept == pytest.approx([row.waits[0]])
    assert [attempt.error_class is None for attempt in result.attempts] == [False, True]


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
@pytest.mark.parametrize("seconds", [0.5, 1.5, 10.0])
def test_no_row_waits_beyond_the_limit(seconds: float, driver: Driver) -> None:
    """No single wait is over two minutes, and all together stay below the caller's limit."""
    for row in TABLE:
        time = VirtualClock()
        client = driver.client(lambda _, row=row: respond(row))
        result = driver.call(client=client, timing=time.timing, timeout=seconds)
        assert result.error is not None
        assert all(0 < wait <= 120 for wait in time.slept), row.name
        assert sum(time.slept) < seconds, row.name
        client.close() if isinstance(client, httpx.Client) else asyncio.run(client.aclose())


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_a_time_limit_ends_the_retries(driver: Driver) -> None:
    """The second wait would end too late with two and a half seconds."""
    time = VirtualClock()
    client = driver.client(lambda _: httpx.Response(503))
    result = driver.call(client=client, timing=time.timing, timeout=2.5)
    assert time.slept == [1.0]
    assert len(result.attempts) == 2
    client.close() if isinstance(client, httpx.Client) else asyncio.run(client.aclose())
