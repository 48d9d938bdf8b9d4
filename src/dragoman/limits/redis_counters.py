"""The counters of many processes, in Redis or Valkey: the rules of `LocalCounters` as atomic server scripts.

The server's clock is used, so that processes with different clocks share one limit. Needs the extra
``dragoman[redis]``.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from copy import copy
from functools import cache
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

from dragoman.adapter.errors import ConfigurationError, MissingExtraError, mask_secrets
from dragoman.effects import Perform, Work, call, perform_all
from dragoman.limits.limit import Adjustment, Claim, ClaimResult, Notice
from dragoman.limits.reservation import LimitsUnavailableError

_SETTINGS: dict[str, Any] = {"socket_timeout": 5.0, "socket_connect_timeout": 5.0}
"""Of a client, in seconds."""


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
        self._loop_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[Any, None]]]
        self._loop_clients = WeakKeyDictionary()
        try:
            self._client: Any = redis.Redis.from_url(self._url, **_SETTINGS)
        except ValueError:  # the URL is not shown: it may hold a password
            raise ConfigurationError(
                "this is not a Redis URL: write redis://host:6379/0, or rediss:// for TLS"
            ) from None

    def with_name(self, name: str) -> "RedisCounters":
        """Return counters under another name, with the same connections."""
        other = copy(self)
        other._name = f"{self._name}:{name}"
        return other

    def claim(self, claims: Sequence[Claim], max_wait_us: int) -> Perform:
        return perform_all(self._claim(claims, max_wait_us))

    def _claim(self, claims: Sequence[Claim], max_wait_us: int) -> Work[ClaimResult]:
        numbers = [part for claim in claims for part in (claim.cost, claim.gap, claim.period)]
        result = yield self._call("claim", [claim.key for claim in claims], max_wait_us, *numbers)
        granted, at, wait, blocking = map(int, result)
        return ClaimResult(bool(granted), at, wait, blocking)

    def settle(self, adjustments: Sequence[Adjustment], at: int) -> Perform:
        numbers = [part for claim, delta in adjustments for part in (claim.cost, delta, claim.period)]
        return self._call("settle", [claim.key for claim, _ in adjustments], at, *numbers)

    def apply_notices(self, notices: Sequence[Notice]) -> Perform:
        numbers = [
            part for _, taken, pause, period in notices for part in ("" if taken is None else taken, pause, period)
        ]
        return self._call("notice", [notice.key for notice in notices], *numbers)

    def close(self) -> None:
        """Close the connections of sync calls."""
        self._client.close()

    async def close_async(self) -> None:
        """Close the connections of sync calls and of this event loop."""
        _, end = self._loop_clients.pop(asyncio.get_running_loop(), (None, None))
        if end is not None:
            await end.aclose()
        self.close()

    def _call(self, script: str, buckets: Sequence[str], *numbers: Any) -> Perform:
        """Return the effect that runs a script on the server."""
        return perform_all(self._run(script, buckets, numbers))

    def _run(self, script: str, buckets: Sequence[str], numbers: Sequence[Any]) -> Work[Any]:
        now = "" if self._clock is None else int(self._clock() * 1_000_000)
        keys = [f"{{{self._name}}}:limit:{bucket}" for bucket in buckets]  # braces: all are in one slot of a cluster
        try:
            client = yield Perform(lambda: self._client, self._loop_client)
            return (yield call(client.register_script(_read_script(script)), keys=keys, args=[now, *numbers]))
        except self._failures as error:
            raise LimitsUnavailableError(
                f"the server that holds the counters of the limits cannot be reached: {mask_secrets(str(error))}"
            ) from None

    async def _loop_client(self) -> Any:
        """Return the client of this event loop, which owns its connections and closes them at its end."""
        loop = asyncio.get_running_loop()
        if loop not in self._loop_clients:
            end = _until_the_loop_ends(self._async_client_class.from_url(self._url, **_SETTINGS))
            self._loop_clients[loop] = (await anext(end), end)
        return self._loop_clients[loop][0]


async def _until_the_loop_ends(client: Any) -> AsyncGenerator[Any, None]:
    """Yield the client, and close it at the end. `asyncio.run` and its kin close every suspended async generator before
    they close the loop: that of a sync bulk run would leave its connections open."""
    try:
        yield client
    finally:
        await client.aclose()


@cache
def _read_script(script: str) -> str:
    return files("dragoman.limits").joinpath(f"{script}.lua").read_text(encoding="utf-8")
