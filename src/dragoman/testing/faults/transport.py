"""Applies fault plans below an HTTP client: httpx transports that wrap another transport."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from dragoman.adapter.errors import ConfigurationError
from dragoman.testing.faults.plan import Plan

BODY_HEADERS = ("content-length", "content-encoding", "transfer-encoding")
"""Headers that describe the original body. They are dropped when it changes."""


@dataclass(frozen=True, slots=True)
class Refusals:
    """Refuses the first ``times`` requests with this status. Later requests succeed."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 1
    body: bytes = b""

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ConfigurationError(f"a refusal must have a status from 400 to 599, not {self.status}")
        if self.times < 1:
            raise ConfigurationError(f"times must be at least 1, not {self.times}")


def status_then_success(
    status: int, headers: Mapping[str, str] | None = None, times: int = 1, body: bytes = b""
) -> Refusals:
    """Return a plan for `FaultyTransport`: ``status_then_success(429, {"retry-after": "1"}, times=2)``.

    Raises ConfigurationError if the status is not an error.
    """
    return Refusals(status, dict(headers or {}), times, body)


class FaultyTransport(httpx.BaseTransport):
    """``httpx.Client(transport=FaultyTransport(CassetteTransport(cassette), Cut(100)))``.

    The plan is applied to the body of every response of the inner transport. Refused requests do not reach it;
    ``refused`` counts them. A plan that does not fit a body raises ConfigurationError when the body is read.
    """

    def __init__(self, inner: httpx.BaseTransport, plan: Plan | Refusals) -> None:
        _check(inner, httpx.BaseTransport, plan)
        self._inner = inner
        self._plan = plan
        self.refused = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if isinstance(self._plan, Refusals) and self.refused < self._plan.times:
            self.refused += 1
            return faulty_response(None, self._plan)
        response = self._inner.handle_request(request)
        if isinstance(self._plan, Refusals):
            return response
        return faulty_response(response, self._plan, response.read())

    def close(self) -> None:
        self._inner.close()


class AsyncFaultyTransport(httpx.AsyncBaseTransport):
    """The async twin of `FaultyTransport`."""

    def __init__(self, inner: httpx.AsyncBaseTransport, plan: Plan | Refusals) -> None:
        _check(inner, httpx.AsyncBaseTransport, plan)
        self._inner = inner
        self._plan = plan
        self.refused = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if isinstance(self._plan, Refusals) and self.refused < self._plan.times:
            self.refused += 1
            return faulty_response(None, self._plan)
        response = await self._inner.handle_async_request(request)
        if isinstance(self._plan, Refusals):
            return response
        return faulty_response(response, self._plan, await response.aread())

    async def aclose(self) -> None:
        await self._inner.aclose()


def _check(inner: object, kind: type, plan: object) -> None:
    """Raise ConfigurationError."""
    if not isinstance(inner, kind):
        raise ConfigurationError(f"a faulty transport wraps an httpx.{kind.__name__}, not a {type(inner).__name__}")
    if isinstance(plan, type) or not isinstance(plan, Plan | Refusals):
        raise ConfigurationError(f"{plan!r:.80} is not a fault plan")


def faulty_response(response: Any, plan: Plan | Refusals, body: bytes = b"", module: Any = httpx) -> Any:
    """Return a response with a fault: a refusal, or the rest of a body, whose end is the error of the HTTP library.

    ``module`` is that library: httpx, or httpx2. A refusal needs no response.
    """
    if isinstance(plan, Refusals):
        return module.Response(plan.status, headers=dict(plan.headers), content=plan.body)

    def chunks(_: Any) -> Iterator[bytes]:
        try:
            yield from plan.apply(body)
        except ConnectionResetError as error:
            raise module.ReadError(str(error)) from error
        except TimeoutError as error:
            raise module.ReadTimeout(str(error)) from error

    async def awaited(stream: Any) -> AsyncIterator[bytes]:
        for chunk in chunks(stream):
            yield chunk

    kinds = (module.SyncByteStream, module.AsyncByteStream)
    stream = type("Chunks", kinds, {"__iter__": chunks, "__aiter__": awaited})()
    kept = [(name, value) for name, value in response.headers.items() if name not in BODY_HEADERS]
    return module.Response(response.status_code, headers=kept, stream=stream)
