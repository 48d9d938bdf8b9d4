"""The limits of keys, users and teams: counters in this process, or in Redis for all replicas."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dragoman.errors import LimitsUnavailableError
from dragoman.limits import Grant, Limits
from dragoman.logs import get_logger
from dragoman.messages import TokenUsage
from dragoman_gateway.errors import UncountedError
from dragoman_gateway.keys.amounts import KeyLimit, OnOutage

logger = get_logger("dragoman.gateway")

_MAX_SCOPES = 50_000


@dataclass(slots=True)
class Grants:
    """What one request was granted."""

    held: list[tuple[Limits, Grant]] = field(default_factory=list)


class Rates:
    """``limits`` has the connection of the counters, and the longest wait; its own limits are not used.

    ``timeout`` is the number of seconds that the counters' server may take, and ``pause`` the number of seconds for
    which it is not asked again after it failed.
    """

    def __init__(self, limits: Limits, *, timeout: float = 0.5, pause: float = 2.0) -> None:
        self._limits = limits
        self._timeout = timeout
        self._pause = pause
        self._retry_at = 0.0
        self._scopes: OrderedDict[str, Limits] = OrderedDict()
        self.uncounted = 0
        """Requests that passed while their limits could not be counted."""

    @property
    def is_available(self) -> bool:
        """Whether the counters answered, or the pause after a failure is over."""
        return time.monotonic() >= self._retry_at

    async def acquire(
        self, limits: Mapping[str, Sequence[KeyLimit]], model: str, input_tokens: int, output_tokens: int
    ) -> Grants:
        """Wait until the limits of all scopes let the request start.

        Raises LimitReachedError, with nothing counted, and UncountedError if the counters cannot be reached and one of
        the limits is closed then.
        """
        grants = Grants()
        wait = 0.0
        try:
            for scope, declared in limits.items():
                grant = await self._reserve(scope, declared, model, input_tokens, output_tokens)
                if grant is not None:
                    grants.held.append(grant)
                    wait = max(wait, grant[1].wait)
            if wait > 0:
                await asyncio.sleep(wait)
        except BaseException:
            await self.settle(grants, None, requests=0)
            raise
        return grants

    async def settle(self, grants: Grants, usage: TokenUsage | None, *, requests: int = 1) -> None:
        """Replace what was reserved by what was used. The reply is valid without it, so a failure is only logged."""
        held, grants.held = grants.held, []
        if not self.is_available:
            return
        for limits, grant in held:
            try:
                async with asyncio.timeout(self._timeout):
                    counted = await limits.settle_async(grant, usage, requests=requests)
            except TimeoutError:
                counted = False
            if not counted:
                self._note_failure()

    async def close(self) -> None:
        await self._limits.close_async()

    async def _reserve(
        self, scope: str, declared: Sequence[KeyLimit], model: str, input_tokens: int, output_tokens: int
    ) -> tuple[Limits, Grant] | None:
        limits = self._limits_of(scope, declared)
        try:
            if not self.is_available:
                raise LimitsUnavailableError("the counters do not answer")
            async with asyncio.timeout(self._timeout):
                return limits, await limits.reserve_async(model, input_tokens, output_tokens)
        except (LimitsUnavailableError, TimeoutError):
            self._note_failure()
            if any(limit.on_outage is OnOutage.CLOSED for limit in declared if limit.matches(model)):
                raise UncountedError("the limits of this key cannot be checked at the moment") from None
            self.uncounted += 1
            return None

    def _limits_of(self, scope: str, declared: Sequence[KeyLimit]) -> Limits:
        limits = self._scopes.get(scope)
        if limits is None or limits.limits != tuple(declared):
            limits = self._scopes[scope] = self._limits.with_limits(declared, name=scope)
        self._scopes.move_to_end(scope)
        if len(self._scopes) > _MAX_SCOPES:
            self._scopes.popitem(last=False)
        return limits

    def _note_failure(self) -> None:
        if self.is_available:
            logger.warning("the server with the counts of the limits does not answer: limits are not counted")
            self._retry_at = time.monotonic() + self._pause
