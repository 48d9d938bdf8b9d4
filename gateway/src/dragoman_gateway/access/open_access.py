"""Access without keys, for a gateway that only this computer can reach."""

from collections.abc import Mapping

from dragoman.limits import Budget, Limit
from dragoman_gateway.access.contract import Caller, Middleware

_ANYONE = Caller()


class OpenAccess:
    """Lets everyone in. `dragoman serve` refuses to listen on other addresses than loopback with it."""

    async def authenticate(self, headers: Mapping[str, str]) -> Caller:
        return _ANYONE

    async def limits_for(self, caller: Caller) -> tuple[Budget | Limit, ...]:
        return ()

    def middleware(self, caller: Caller) -> Middleware | None:
        return None
