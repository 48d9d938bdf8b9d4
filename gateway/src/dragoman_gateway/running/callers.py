"""One client for each caller: it holds the budgets and limits of the caller that are counted in this process."""

from collections import OrderedDict

from dragoman import AsyncClient, Budget, Limit, Limits

_MAX_CLIENTS = 10_000
Bounds = tuple[Budget | Limit, ...]


class CallerClients:
    """Derives clients, which share connections, policy, store and prices."""

    def __init__(self, limits: Limits | None) -> None:
        """``limits`` apply to every caller."""
        self._common = () if limits is None else limits.limits
        self._limits: OrderedDict[Bounds, Limits | None] = OrderedDict()
        self._clients: OrderedDict[tuple[int, Bounds], AsyncClient] = OrderedDict()

    def client_for(self, client: AsyncClient, bounds: Bounds) -> AsyncClient:
        """Return that client with the budgets and limits of a caller."""
        if not bounds:
            return client
        key = (id(client), bounds)
        if (known := self._clients.get(key)) is not None:
            self._clients.move_to_end(key)
            return known
        made = self._clients[key] = self._derive(client, bounds)
        if len(self._clients) > _MAX_CLIENTS:
            self._clients.popitem(last=False)
        return made

    def _derive(self, client: AsyncClient, bounds: Bounds) -> AsyncClient:
        budgets = tuple(each for each in bounds if isinstance(each, Budget))
        limits = tuple(each for each in bounds if isinstance(each, Limit))
        if budgets:
            client = client.with_(budgets=(*client.config.budgets, *budgets))
        if not limits:
            return client
        if bounds not in self._limits:  # one object counts for all deployments
            self._limits[bounds] = Limits((*self._common, *limits))
            if len(self._limits) > _MAX_CLIENTS:
                self._limits.popitem(last=False)
        return client.with_(limits=self._limits[bounds])
