"""The transports of a session: one for each provider, with its settings, timeouts and retries."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError, ProviderError
from dragoman.transport import RetryPolicy, Timing, transport_for

if TYPE_CHECKING:
    from dragoman.session.middleware.limiter import Limiter

TransportT = TypeVar("TransportT")


class TransportsMixin(Generic[TransportT]):
    """Creates the transport of each provider when it is first needed."""

    _asynchronous: ClassVar[bool]
    """Whether tools, approvals, plugins and transports may be coroutines."""

    providers: Mapping[str, Mapping[str, Any]]
    _transports: dict[str, TransportT]
    _limiter: "Limiter | None"

    def _retry_delay(self, provider: str, error: ProviderError, attempt: int) -> float | None:
        policy: RetryPolicy = self._settings(provider).get("retry") or RetryPolicy()
        timing = self._timing(provider)
        return policy.wait(error, {}, attempt, now=timing.now(), roll=timing.roll())

    def _timing(self, provider: str) -> Timing:
        timing: Timing = self._settings(provider).get("timing") or Timing()
        return timing

    def _timeout(self, adapter: Adapter) -> float | None:
        """Seconds for a request; None leaves it to the transport. A timeout setting of None means infinite."""
        settings = self._settings(adapter.provider)
        if "timeout" not in settings:
            return None
        timeout: float | None = settings["timeout"]
        return math.inf if timeout is None else timeout

    def _settings(self, provider: str) -> Mapping[str, Any]:
        return self.providers.get(provider, {})

    def _transport(self, adapter: Adapter) -> TransportT:
        provider = adapter.provider
        if provider not in self._transports:
            # The timeout is passed with each request.
            settings = {name: value for name, value in self._settings(provider).items() if name != "timeout"}
            try:
                transport: Any = transport_for(adapter, asynchronous=self._asynchronous, **settings)
            except TypeError as error:
                raise ConfigurationError(f"the settings in providers[{provider!r}] do not fit: {error}") from None
            self._transports[provider] = (
                transport
                if self._limiter is None
                else self._limiter.wrap_transport(transport, asynchronous=self._asynchronous)
            )
        return self._transports[provider]
