"""Operations of several requests, such as a batch or an upload, without I/O.

An operation is a generator: it yields requests, receives the reply to each, and returns the result, so that sync and
async code can drive it. The driver raises the error of a failed reply and sends in successful ones only.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import TypeVar

from dragoman.adapter.wire import WireRequest, WireResponse

T = TypeVar("T")
Steps = Generator[WireRequest, WireResponse, T]


def drive(steps: Steps[T], send: Callable[[WireRequest], WireResponse]) -> T:
    """Send each request of an operation, and return its result."""
    try:
        request = next(steps)
        while True:
            request = steps.send(send(request))
    except StopIteration as done:
        value: T = done.value
        return value


async def drive_async(steps: Steps[T], send: Callable[[WireRequest], Awaitable[WireResponse]]) -> T:
    """The async twin of `drive`."""
    try:
        request = next(steps)
        while True:
            request = steps.send(await send(request))
    except StopIteration as done:
        value: T = done.value
        return value


def get_request(path: str, headers: Mapping[str, str] | None = None) -> WireRequest:
    return WireRequest("GET", path, b"", headers or {})


def post_request(path: str, body: bytes, headers: Mapping[str, str] | None = None) -> WireRequest:
    return WireRequest("POST", path, body, headers or {})


def delete_request(path: str, headers: Mapping[str, str] | None = None) -> WireRequest:
    return WireRequest("DELETE", path, b"", headers or {})
