"""What a client governs in requests that no session sends: those of batches, vectors and services."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

from dragoman.adapter.context import bundled_prices
from dragoman.adapter.contract import Adapter, Prices
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.names import check_names
from dragoman.adapter.operations.operation import Operation
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.attempt.attempt import Attempt, Exchange, exchange_whole, run_attempts
from dragoman.attempt.reports import CallReports
from dragoman.canonical.ids import utc_now
from dragoman.canonical.message import Message, MessageMetadata, MessageStatus, Role
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.configuration.config import ClientConfig, client_config, is_client
from dragoman.configuration.transports import Transports
from dragoman.configuration.validation import merge_providers, read_providers
from dragoman.effects import Observe, Perform, Replied, ResponseDetails, SendOutcome, Work, in_thread, intercept
from dragoman.limits.budget import BudgetAccounts, Budgets, Spend
from dragoman.limits.limits import LimitGovernor
from dragoman.limits.reservation import Governor, MaxUsage, MeasureUsage
from dragoman.transport import registered_setting_names
from dragoman.transport.retry import RetryPolicy, RetryState
from dragoman.transport.settings import Providers, ProviderSettings, seal_keys

T = TypeVar("T")

FREE = Message(
    role=Role.ASSISTANT,
    content=(),
    metadata=MessageMetadata(
        status=MessageStatus.COMPLETE, usage=Usage(cost_usd=Decimal(0), cost_status=CostStatus.FREE)
    ),
)
"""The receipt of a request that no model answers: it costs nothing."""


class Governance:
    """The governors of each attempt, the budgets' accounts, the events and the transports.

    A client without settings governs nothing; a request then costs its price alone. ``identity`` are the ids of the
    user and the team that pay.
    """

    def __init__(
        self,
        client: ClientConfig,
        adapter: Adapter,
        transports: Transports[Any],
        *,
        identity: tuple[str | None, str | None] = (None, None),
        prices: Prices | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.client = client
        self.adapter, self.model = adapter, str(adapter.model_id)
        self.transports = transports
        self.identity = identity
        self.prices = prices or client.prices or bundled_prices()
        self.now = now
        self.reports = CallReports(client.events, self.model)
        self._accounts = BudgetAccounts(client.budgets)

    def check_coroutines(self, need: str) -> None:
        """Raise ConfigurationError if a plugin has to wait, and the caller does not: ``need`` is what would."""
        policy = self.client.policy
        if policy is not None and (names := policy.async_names):
            raise ConfigurationError(f"{', '.join(names)}: coroutines need {need}")

    def new_budgets(self) -> Budgets:
        """Return the budgets of one more turn. Raises ConfigurationError if one needs an id that is missing."""
        return Budgets(self._accounts.for_turn(*self.identity, Spend), self.prices, self.now)

    def identify(self, message: Message) -> Message:
        """Return the message with the ids of the user and the team, if there are any."""
        if self.identity == (None, None):
            return message
        user_id, team_id = self.identity
        metadata = message.metadata.model_copy(update={"user_id": user_id, "team_id": team_id})
        return message.model_copy(update={"metadata": metadata})

    def check_store(self) -> Work[None]:
        """Ask the store for a session that it does not have. One that is gone raises its error, before anything is
        bought."""
        store = self.client.store
        if store is None or getattr(store, "never_waits", False):
            return
        from dragoman.store.errors import SessionNotFoundError

        with suppress(SessionNotFoundError, LookupError):
            yield in_thread(store.load, "none")

    def new_retries(self, *, once: bool = False) -> RetryState:
        """Return the attempts of one request: those of the provider's settings, or one."""
        retries = self.transports.new_retries(self.adapter)
        if once:
            retries.policy = RetryPolicy(max_retries=0)
        return retries

    def send(self, request: WireRequest, retries: RetryState) -> Perform:
        """Return the effect that sends a request once."""

        def send() -> Any:
            return self.transports.get(self.adapter).send(self.adapter, request, retries=retries)

        return Perform(send, send)

    def attempt(self, exchange: Exchange, measure: MeasureUsage | None = None, budgets: Budgets | None = None) -> Any:
        """Return one attempt under what the client governs. Without ``measure`` it has no tokens."""
        limits = None if self.client.limits is None else LimitGovernor(self.client.limits, self.model)
        governors: list[Governor] = [each for each in (budgets, limits) if each is not None]
        return Attempt(governors, measure or (lambda: MaxUsage(self.model, TokenUsage()))).run(exchange)

    def run(self, operation: Operation[T], *, once: bool = False) -> Work[T]:
        """Run an operation that costs nothing, and return its result: each of its requests is sent attempt after
        attempt, or ``once``."""
        work: Any = operation
        return intercept(work, lambda request: self._fetch(request, self.new_retries(once=once)))

    def _fetch(self, request: WireRequest, retries: RetryState) -> Work[WireResponse]:
        self.client.lifetime.check()
        responses: list[WireResponse] = []

        def read(response: WireResponse) -> SendOutcome:
            responses.append(response)
            return Replied(FREE, ResponseDetails(response.status, response.headers))

        def exchange(observers: tuple[Observe, ...], _: object) -> Work[SendOutcome]:
            return exchange_whole(self.send(request, retries), read, observers)

        yield from run_attempts(retries, lambda: self.attempt(exchange))
        return responses[-1]


def read_call_settings(
    provider: str, client: Any, providers: Providers | None, settings: Mapping[str, Any]
) -> tuple[ClientConfig, dict[str, dict[str, Any]]]:
    """Return the client's configuration, and the call's own settings by provider, checked.

    ``client`` is a client of this library, or the HTTP client of the provider, which is one of its settings. Other
    ``settings`` are those of the provider. Raises ConfigurationError.
    """
    sealed = seal_keys(settings)
    if (registered := registered_setting_names()) is not None:
        known = {*ProviderSettings.__annotations__, *registered, "options"}
        check_names(sealed, known, "argument", provider=provider)
    if client is not None and not is_client(client):
        sealed["client"], client = client, None
    config = client_config(client) or ClientConfig()
    own = read_providers({provider: sealed}) if sealed else {}
    return config, merge_providers(read_providers(providers), own)
