"""The transports of a client or of a session: one for each provider, with its settings, timeouts and retries."""

import math
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.wire import WireRequest
from dragoman.effects import Work, call
from dragoman.transport import RetryPolicy, Timing, transport_for
from dragoman.transport.retry import RetryQuota, RetryState

TransportT = TypeVar("TransportT")


class PlainTransport:
    """A transport without retries of its own, such as a test's, as if it had some: it is used again only after a broken
    reply. ``timeout`` is the one of the settings in seconds; None leaves it to the transport."""

    def __init__(self, inner: Any, timeout: float | None, settings: Mapping[str, Any]) -> None:
        self._inner = inner
        self._timeout = timeout
        self._policy, self._timing = settings.get("retry") or RetryPolicy(), settings.get("timing") or Timing()
        self._quota = RetryQuota()

    def new_retries(self, adapter: Adapter, timeout: float | None) -> RetryState:
        return RetryState(self._policy, self._quota, self._timing, timeout or math.inf)

    def send(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None, retries: RetryState | None = None
    ) -> Any:
        """Make one attempt."""
        return self._inner.send(adapter, request, timeout=timeout if retries is None else self._timeout)

    def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None, retries: RetryState | None = None
    ) -> Any:
        """Make one attempt, whose reply is entered as a context."""
        return self._inner.stream(adapter, request, timeout=timeout if retries is None else self._timeout)

    def close(self) -> Any:
        """Close the transport, or return an awaitable that does."""
        return self._inner.close()


class Transports(Generic[TransportT]):
    """Creates the transport of each provider when it is first needed. ``providers`` are the settings by provider."""

    def __init__(self, providers: Mapping[str, Mapping[str, Any]], *, asynchronous: bool) -> None:
        self._providers = providers
        self._asynchronous = asynchronous
        self._open: dict[str, TransportT] = {}
        self._timeouts: dict[str, float] = {
            provider: math.inf if settings["timeout"] is None else settings["timeout"]
            for provider, settings in providers.items()
            if "timeout" in settings
        }
        """The seconds for a request, if the settings say them: None there means infinite."""

    def get(self, adapter: Adapter) -> TransportT:
        """Return the transport of the adapter's provider, which takes the ``retries`` of `new_retries`. Raises
        ConfigurationError if its settings do not fit."""
        provider = adapter.provider
        if provider not in self._open:
            # The timeout is passed with each request.
            settings = {name: value for name, value in self._providers.get(provider, {}).items() if name != "timeout"}
            transport: Any = transport_for(adapter, asynchronous=self._asynchronous, **settings)
            if not hasattr(transport, "new_retries"):
                transport = PlainTransport(transport, self._timeouts.get(provider), settings)
            return self._open.setdefault(provider, transport)
        return self._open[provider]

    def new_retries(self, adapter: Adapter) -> RetryState:
        """Return the retry state of one request."""
        try:
            transport: Any = self.get(adapter)
        except DragomanError:  # raised again when the request is sent, as the outcome of its attempt
            return RetryState(RetryPolicy(), RetryQuota(), Timing())
        state: RetryState = transport.new_retries(adapter, self._timeouts.get(adapter.provider))
        return state

    def close(self) -> Work[None]:
        """Close the transports that are open. The next request opens new ones."""
        opened, self._open = list(self._open.values()), {}
        for each in opened:
            transport: Any = each
            yield call(transport.close)

    def timeout(self, adapter: Adapter) -> float | None:
        """Return the seconds for a request; None leaves it to the transport."""
        return self._timeouts.get(adapter.provider)
