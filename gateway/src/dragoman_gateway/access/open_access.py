"""Access without keys, for a gateway that only programs of this computer can reach."""

from collections.abc import Mapping

from dragoman.limits import Budget, Governor, Limit, MeasureUsage
from dragoman_gateway.access.contract import Caller, Prices
from dragoman_gateway.access.page_rules import PageRules

_ANYONE = Caller()


class OpenAccess:
    """Lets every program in, and no web page of another site, which ``rules`` recognize. `dragoman serve` refuses to
    listen on other addresses than loopback with it.
    """

    def __init__(self, rules: PageRules | None = None) -> None:
        self.rules = rules or PageRules()

    async def authenticate(self, headers: Mapping[str, str], resumed: str | None = None) -> Caller:
        self.rules.check(headers)
        return _ANYONE

    async def limits_for(self, caller: Caller) -> tuple[Budget | Limit, ...]:
        return ()

    def governor_for(self, caller: Caller, prices: Prices) -> Governor | None:
        return None

    async def check(self, caller: Caller, prices: Prices, measure: MeasureUsage | None = None) -> None:
        """Refuse nothing."""
