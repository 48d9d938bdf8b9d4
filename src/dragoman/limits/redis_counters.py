"""The counters of many processes, in Redis or Valkey: the rules of `LocalCounters` as atomic server scripts.

The server's clock is used, so that processes with different clocks share one limit. Needs the extra
``dragoman[redis]``.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from copy import copy
from functools import cache
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

from dragoman.adapter.errors import ConfigurationError, MissingExtraError, mask_secrets
from dragoman.limits.limit import Adjustment, Claim, ClaimResult, Notice
from dragoman.limits.reservation import LimitsUnavailableError

_TIMEOUT = 5.0
"""Timeout of a call to the server, in seconds."""


class RedisCounters:
    """``name`` separates programs that share a server. ``clock`` replaces the server's in tests.

    Raises ConfigurationError for an invalid URL, and MissingExtraError.
    """

    def __init__(self, url: str, name: str, clock: Callable[[], float] | None = None) -> None:
        try:
            import redis
            import redis.asyncio
        except ModuleNotFoundError:
            raise MissingExtraError('limits in Redis need its client: pip install "dragoman[redis]"') from None
        scheme, separator, rest = url.partition("://")
        self._url = {"valkey": "redis", "valkeys": "rediss"}.get(scheme, scheme) + separator + rest
        self._name = name
        self._clock = clock
        self._async_client_class = redis.asyncio.Redis
        self._failures = (redis.RedisError, OSError)
        self._loop_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClient] = WeakKeyDictionary()
        try:
            self._client: Any = redis.Redis.from_url(self._url, **_client_settings())
        except ValueError:  # the URL is not shown: it may hold a password
            raise ConfigurationError(
                "this is not a Redis URL: write redis://host:6379/0, or rediss:// for TLS"
            ) from None

    def with_name(self, name: str) -> "RedisCounters":
        """Return counters under another name, with the same connections."""
        other = copy(self)
        other._name = f"{self._name}:{name}"
        return other

    def claim(self, claims: Sequence[Claim], max_wait_us: int) -> ClaimResult:
        return _claim_result(self._run("claim", *self._claim_args(claims, max_wait_us)))

    async def claim_async(self, claims: Sequence[Claim], max_wait_us: int) -> ClaimResult:
        return _claim_result(await self._run_async("claim", *self._claim_args(claims, max_wait_us)))

    def settle(self, adjustments: Sequence[Adjustment], at: int) -> None:
        self._run("settle", *self._settle_args(adjustments, at))

    async def settle_async(self, adjustments: Sequence[Adjustment], at: int) -> None:
        await self._run_async("settle", *self._settle_args(adjustments, at))

    def apply_notices(self, notices: Sequence[Notice]) -> None:
        self._run("notice", *self._notice_args(notices))

    async def apply_notices_async(self, notices: Sequence[Notice]) -> None:
        await self._run_async("notice", *self._notice_args(notices))

    def close(self) -> None:
        """Close the connections of sync calls."""
        self._client.close()

    async def close_async(self) -> None:
        """Close the connections of sync calls and of this event loop."""
        client = self._loop_clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.end.aclose()
        self.close()

    def _claim_args(self, claims: Sequence[Claim], max_wait_us: int) -> tuple[list[str], list[Any]]:
        numbers = [part for claim in claims for part in (claim.cost, claim.slack, claim.period)]
        return self._keys(claim.key for claim in claims), [self._now(), max_wait_us, *numbers]

    def _settle_args(self, adjustments: Sequence[Adjustment], at: int) -> tuple[list[str], list[Any]]:
        numbers = [part for claim, delta in adjustments for part in (claim.cost, delta, claim.period)]
        return self._keys(claim.key for claim, _ in adjustments), [self._now(), at, *numbers]

    def _notice_args(self, notices: Sequence[Notice]) -> tuple[list[str], list[Any]]:
        numbers = [
            part for _, taken, pause, period in notices for part in ("" if taken is None else taken, pause, period)
        ]
        return self._keys(notice.key for notice in notices), [self._now(), *numbers]

    def _keys(self, keys: Any) -> list[str]:
        """Return the keys of buckets. The part in braces puts all keys into one slot of a cluster."""
        return [f"{{{self._name}}}:limit:{key}" for key in keys]

    def _now(self) -> int | str:
        return "" if self._clock is None else int(self._clock() * 1_000_000)

    def _run(self, script: str, keys: list[str], numbers: list[Any]) -> Any:
        try:
            return self._client.register_script(_read_script(script))(keys=keys, args=numbers)
        except self._failures as error:
            raise _unavailable(error) from None

    async def _run_async(self, script: str, keys: list[str], numbers: list[Any]) -> Any:
        try:
            client = await self._loop_client()
            running: Awaitable[Any] = client.register_script(_read_script(script))(keys=keys, args=numbers)
            return await running
        except self._failures as error:
            raise _unavailable(error) from None

    async def _loop_client(self) -> Any:
        """Return the client of this event loop, which owns its connections and closes them at its end."""
        loop = asyncio.get_running_loop()
        client = self._loop_clients.get(loop)
        if client is None:
            client = self._loop_clients[loop] = _LoopClient(
                self._async_client_class.from_url(self._url, **_client_settings())
            )
            await anext(client.end)
        return client.redis


class _LoopClient:
    """A client of one event loop. `asyncio.run` and its kin close every suspended async generator before they close
    the loop: that of a sync bulk run would leave its connections open."""

    def __init__(self, redis: Any) -> None:
        self.redis = redis
        self.end = _close_at_end(redis)


async def _close_at_end(redis: Any) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await redis.aclose()


def _client_settings() -> dict[str, Any]:
    return {"socket_timeout": _TIMEOUT, "socket_connect_timeout": _TIMEOUT}


def _claim_result(values: Sequence[Any]) -> ClaimResult:
    granted, at, wait, blocking = map(int, values)
    return ClaimResult(bool(granted), at, wait, blocking)


def _unavailable(error: Exception) -> LimitsUnavailableError:
    return LimitsUnavailableError(
        f"the server that holds the counters of the limits cannot be reached: {mask_secrets(str(error))}"
    )


@cache
def _read_script(script: str) -> str:
    return files("dragoman.limits").joinpath(f"{script}.lua").read_text(encoding="utf-8")
