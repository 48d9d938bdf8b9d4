"""One client for each caller: it holds the budgets and limits of the caller's key, user and team."""

from collections import OrderedDict

from dragoman import AsyncClient, Budget, Limit, Limits

_MAX_CLIENTS = 10_000


class CallerClients:
    """Derives clients, which share connections, policy, store and prices."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._known: OrderedDict[tuple[Budget | Limit, ...], AsyncClient] = OrderedDict()

    def client_for(self, bounds: tuple[Budget | Limit, ...]) -> AsyncClient:
        """Return the client under whose budgets and limits the caller asks."""
        if not bounds:
            return self._client
        if (known := self._known.get(bounds)) is not None:
            self._known.move_to_end(bounds)
            return known
        made = self._known[bounds] = self._derive(bounds)
        if len(self._known) > _MAX_CLIENTS:
            self._known.popitem(last=False)
        return made

    def _derive(self, bounds: tuple[Budget | Limit, ...]) -> AsyncClient:
        config = self._client.config
        budgets = tuple(each for each in bounds if isinstance(each, Budget))
        limits = tuple(each for each in bounds if isinstance(each, Limit))
        client = self._client.with_(budgets=(*config.budgets, *budgets)) if budgets else self._client
        if not limits:
            return client
        ours = config.limits
        return client.with_(limits=Limits((*(ours.limits if ours is not None else ()), *limits)))
