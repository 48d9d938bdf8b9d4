"""Sends the requests to one model of a run, one attempt each."""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import ConfigurationError, NetworkError
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.credentials.contract import ApiKey
from dragoman.transport import AsyncTransport, RetryPolicy, transport_for
from dragoman.transport.settings import seal_keys

_RUN_RETRY = RetryPolicy(max_retries=4, max_retry_after=600.0)


class WorkerLostError(NetworkError):
    """The worker that sent the request was lost: it is unknown whether the request was answered."""


class ModelConfig(NamedTuple):
    """The settings of requests to a model. The workers of a cluster get them pickled, with the key.

    ``settings`` are those of the transport, as for a session.
    """

    model: str
    options: AdapterOptions
    settings: Mapping[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        key = self.settings.get("api_key")
        settings = {**self.settings, "api_key": key.reveal()} if isinstance(key, ApiKey) else dict(self.settings)
        return _unpickle_config, (self.model, self.options, settings)


def _unpickle_config(model: str, options: AdapterOptions, settings: Mapping[str, Any]) -> ModelConfig:
    return ModelConfig(model, options, seal_keys(settings))


Send = Callable[[WireRequest], Awaitable[WireResponse]]
"""Sends one request that is encoded. Raises ProviderError."""


class Requester:
    """Sends requests to one model, from this process or with ``send``. Raises UnknownProviderError and, if this process
    sends, ConfigurationError and MissingKeyError.

    The run retries, not the transport: each attempt is recorded before it is sent.
    """

    def __init__(self, config: ModelConfig, send: Send | None = None) -> None:
        self.adapter = get_adapter(config.model)
        self.model = str(self.adapter.model_id)
        self.options = replace(config.options, stream=False)
        self.settings = dict(config.settings)
        self.retry: RetryPolicy = config.settings.get("retry") or _RUN_RETRY
        self._transport: AsyncTransport | None = None
        self.send: Send = self._open_transport() if send is None else send

    def _open_transport(self) -> Send:
        settings = dict(self.settings)
        timeout = settings.pop("timeout", 0)
        if self.adapter.transport == "http":
            settings["retry"] = RetryPolicy(max_retries=0)
        try:
            self._transport = transport = transport_for(self.adapter, asynchronous=True, **settings)
        except TypeError as error:
            raise ConfigurationError(f"the settings of {self.adapter.provider} are wrong: {error}") from None
        return partial(transport.send, self.adapter, timeout=math.inf if timeout is None else timeout or None)

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.close()
