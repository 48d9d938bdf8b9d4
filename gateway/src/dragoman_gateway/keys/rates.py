"""The limits of keys, users and teams: counters in this process, or in Redis for all replicas."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from dragoman.errors import LimitsUnavailableError
from dragoman.limits import Grant, Limits
from dragoman.messages import TokenUsage
from dragoman_gateway.errors import UncountedError
from dragoman_gateway.keys.amounts import KeyLimit, OnOutage
from dragoman_gateway.outage import Outage

_MAX_SCOPES = 50_000


Grants = list[tuple[Limits, Grant]]
"""The grants of one request, each with the limits of its scope. Settling them empties the list."""


class Rates:
    """``limits`` has the connection of the counters, and the longest wait; its own limits are not used.

    ``timeout`` is the number of seconds that the counters' server may take, and ``pause`` the number of seconds for
    which it is not asked again after it failed.
    """

    def __init__(self, limits: Limits, *, timeout: float = 0.5, pause: float = 2.0) -> None:
        self._limits = limits
        self._timeout = timeout
        self.outage = Outage("the server with the counts of the limits", "limits are not counted", pause=pause)
        self._scopes: OrderedDict[str, Limits] = OrderedDict()
        self.uncounted = 0
        """Requests that passed while their limits could not be counted."""

    async def acquire(
        self, limits: Mapping[str, Sequence[KeyLimit]], model: str, input_tokens: int, output_tokens: int
    ) -> Grants:
        """Wait until the limits of all scopes let the request start.

        Raises LimitReachedError, with nothing counted, and UncountedError if the counters cannot be reached and one of
        the limits is closed then.
        """
        grants: Grants = []
        wait = 0.0
        try:
            for scope, declared in limits.items():
                grant = await self._reserve(scope, declared, model, input_tokens, output_tokens)
                if grant is not None:
                    grants.append(grant)
                    wait = max(wait, grant[1].wait)
            if wait > 0:
                await asyncio.sleep(wait)
        except BaseException:
            await self.settle(grants, None, requests=0)
            raise
        return grants

    async def settle(self, grants: Grants, usage: TokenUsage | None, *, requests: int = 1) -> None:
        """Replace what was reserved by what was used. The reply is valid without it, so a failure is only logged."""
        held = grants.copy()
        grants.clear()
        if not self.outage.may_ask:
            return
        for limits, grant in held:
            try:
                async with asyncio.timeout(self._timeout):
                    counted = await limits.settle_async(grant, usage, requests=requests)
            except TimeoutError:
                counted = False
            if not counted:
                self.outage.fail("no answer in time")

    async def close(self) -> None:
        await self._limits.close_async()

    async def _reserve(
        self, scope: str, declared: Sequence[KeyLimit], model: str, input_tokens: int, output_tokens: int
    ) -> tuple[Limits, Grant] | None:
        limits = self._scopes.get(scope)
        if limits is None or limits.limits != tuple(declared):
            limits = self._scopes[scope] = self._limits.with_limits(declared, name=scope)
        self._scopes.move_to_end(scope)
        if len(self._scopes) > _MAX_SCOPES:
            self._scopes.popitem(last=False)
        try:
            if not self.outage.may_ask:
                raise LimitsUnavailableError("the counters do not answer")
            async with asyncio.timeout(self._timeout):
                granted = await limits.reserve_async(model, input_tokens, output_tokens)
        except (LimitsUnavailableError, TimeoutError):
            self.outage.fail("no answer in time")
            if any(limit.on_outage is OnOutage.CLOSED for limit in declared if limit.matches(model)):
                raise UncountedError("the limits of this key cannot be checked at the moment") from None
            self.uncounted += 1
            return None
        self.outage.answer()
        return limits, granted
