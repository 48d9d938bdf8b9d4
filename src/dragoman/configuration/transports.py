"""The transports of a client or of a session: one for each provider, with its settings, timeouts and retries."""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import DragomanError
from dragoman.transport import RetryPolicy, Timing, transport_for
from dragoman.transport.retry import RetryQuota, RetryState

TransportT = TypeVar("TransportT")


class Transports(Generic[TransportT]):
    """Creates the transport of each provider when it is first needed. ``providers`` are the settings by provider."""

    def __init__(self, providers: Mapping[str, Mapping[str, Any]], *, asynchronous: bool) -> None:
        self._providers = providers
        self._asynchronous = asynchronous
        self._open: dict[str, TransportT] = {}
        self._quotas: defaultdict[str, RetryQuota] = defaultdict(RetryQuota)
        self._timeouts: dict[str, float] = {
            provider: math.inf if settings["timeout"] is None else settings["timeout"]
            for provider, settings in providers.items()
            if "timeout" in settings
        }
        """The seconds for a request, if the settings say them: None there means infinite."""

    def get(self, adapter: Adapter) -> TransportT:
        """Return the transport of the adapter's provider. Raises ConfigurationError if its settings do not fit."""
        provider = adapter.provider
        if provider not in self._open:
            # The timeout is passed with each request.
            settings = {name: value for name, value in self._providers.get(provider, {}).items() if name != "timeout"}
            transport: Any = transport_for(adapter, asynchronous=self._asynchronous, **settings)
            return self._open.setdefault(provider, transport)
        return self._open[provider]

    def new_retries(self, adapter: Adapter) -> RetryState:
        """Return the retry state of one request.

        A transport without retries of its own, such as a test's, is used again only after a broken reply.
        """
        try:
            make: Any = getattr(self.get(adapter), "new_retries", None)
        except DragomanError:  # raised again when the request is sent, as the outcome of its attempt
            make = None
        if make is not None:
            state: RetryState = make(adapter, self._timeouts.get(adapter.provider))
            return state
        settings = self._providers.get(adapter.provider, {})
        policy, timing = settings.get("retry") or RetryPolicy(), settings.get("timing") or Timing()
        return RetryState(
            policy, self._quotas[adapter.provider], timing, self._timeouts.get(adapter.provider) or math.inf
        )

    def arguments(self, adapter: Adapter, retries: RetryState) -> dict[str, Any]:
        """Return the keyword arguments for one attempt through the adapter's transport."""
        if hasattr(self.get(adapter), "new_retries"):
            return {"retries": retries}
        return {"timeout": self._timeouts.get(adapter.provider)}

    def take_all(self) -> list[TransportT]:
        """Return the transports that are open, for their owner to close. The next request opens new ones."""
        opened, self._open = list(self._open.values()), {}
        return opened

    def timeout(self, adapter: Adapter) -> float | None:
        """Return the seconds for a request; None leaves it to the transport."""
        return self._timeouts.get(adapter.provider)
