"""The deployments of a model: several keys and models under one name, weighted, with pauses after failures."""

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dragoman import Adapter, AsyncClient, ConfigurationError, ProviderError, get_adapter
from dragoman.configuration.file import ProviderTable, build_provider
from dragoman.errors import (
    AuthenticationError,
    BillingError,
    ContentFilterError,
    ContextOverflowError,
    DragomanError,
    InvalidRequestError,
    LimitReachedError,
    MissingExtraError,
    MissingKeyError,
    NotFoundError,
    PermissionDeniedError,
    RequestCancelledError,
    UnsupportedToolError,
)
from dragoman.transport import RetryPolicy
from dragoman_gateway.errors import ModelDeniedError, UncountedError

_FINAL = (
    InvalidRequestError,
    ContentFilterError,
    ContextOverflowError,
    RequestCancelledError,
    UncountedError,
    UnsupportedToolError,
)
"""Errors of the request itself, which every deployment would repeat."""
_OWN = (LimitReachedError, ModelDeniedError)
"""Refusals of the gateway to one caller, for one model: nothing was sent, so they say nothing about a deployment."""
_ACCOUNT = (AuthenticationError, BillingError, PermissionDeniedError, NotFoundError, MissingKeyError, MissingExtraError)
"""Errors that last until a person intervenes."""
_ACCOUNT_PAUSE, _FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 2.0, 60.0


def _check_model(model: str) -> str:
    try:
        return str(get_adapter(model).model_id)
    except DragomanError as error:
        raise ValueError(str(error)) from None


KnownModel = Annotated[str, AfterValidator(_check_model)]
"""A model of a provider that is installed: its id, or an alias of it."""


class DeploymentSettings(BaseModel):
    """One deployment of a model, as the settings describe it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: KnownModel
    """The model, as ``provider:model``."""
    weight: int = Field(default=1, ge=0)
    """Its share of the requests; 0 for a deployment that is used only if the others fail."""
    key_variable: str | None = None
    """The environment variable with its key, whose name begins as that of the provider's own variable."""
    provider: ProviderTable = ProviderTable()
    """Settings of its provider for this deployment only, as in ``[providers.NAME]``: credentials, address, region, time
    limits. Paths are relative to the working folder."""


@dataclass(eq=False)
class Deployment:
    """A model with the client that calls it, and its recent failures."""

    model: str
    client: AsyncClient
    weight: int = 1
    failures: int = field(default=0, init=False)
    paused_until: float = field(default=0.0, init=False)

    @cached_property
    def adapter(self) -> Adapter:
        """The adapter of the model, for all requests."""
        return get_adapter(self.model)

    def report(self, error: Exception | None, now: float) -> None:
        """Note how a request ended. After a failure, others are tried first for a while."""
        if error is None:
            self.failures, self.paused_until = 0, 0.0
            return
        self.failures += 1
        pause = min(_FIRST_PAUSE * 2 ** min(self.failures - 1, 10), _LONGEST_PAUSE)
        if isinstance(error, _ACCOUNT):
            pause = _ACCOUNT_PAUSE
        elif isinstance(error, ProviderError) and error.retry_after is not None:
            pause = min(max(error.retry_after, 0.0), _ACCOUNT_PAUSE)
        self.paused_until = now + pause


class FallbackQuota:
    """How many requests of a whole gateway may be sent a second time: a fifth of all, and some more after a calm time.
    If every provider fails, trying each request everywhere would only make it worse."""

    def __init__(self, *, share: float = 0.2, most: float = 50.0) -> None:
        self._share = share
        self._most = self._left = most
        self.requests = 0
        """Those that came since the last fallback."""

    def spend(self) -> bool:
        """Return whether a request may be sent again."""
        self._left, self.requests = min(self._left + self._share * self.requests, self._most), 0
        if self._left < 1:
            return False
        self._left -= 1
        return True


@dataclass(frozen=True, eq=False)
class Deployments:
    """The deployments of one name."""

    all: Sequence[Deployment]
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random

    @property
    def model(self) -> str:
        """The model of the first deployment, which represents all of them."""
        return self.all[0].model

    def in_order(self) -> Sequence[Deployment]:
        """Return the deployments in the order in which to try them: drawn by weight, with paused ones at the end."""
        if len(self.all) == 1:
            return self.all
        now = self.clock()
        ready = [each for each in self.all if each.paused_until <= now]
        paused = sorted((each for each in self.all if each.paused_until > now), key=lambda each: each.paused_until)
        order: list[Deployment] = []
        while ready:
            drawn = self.draw() * sum(each.weight for each in ready)
            # The one in whose part of all weights the number lies; the first one if none has a weight.
            reached = accumulate(each.weight for each in ready)
            picked = next((index for index, end in enumerate(reached) if drawn < end), 0)
            order.append(ready.pop(picked))
        return (*order, *paused)

    def report(self, deployment: Deployment, error: Exception | None) -> None:
        """Note how a request to a deployment ended."""
        if error is None or (may_help_elsewhere(error) and not isinstance(error, _OWN)):
            deployment.report(error, self.clock())


def costs_nothing(error: Exception) -> bool:
    """Whether the request that failed like this was not sent."""
    return isinstance(error, _OWN)


def may_help_elsewhere(error: Exception) -> bool:
    """Whether another deployment may answer a request that failed like this."""
    return isinstance(error, (ProviderError, *_ACCOUNT)) and not isinstance(error, _FINAL)


def build(settings: Sequence[DeploymentSettings], client: AsyncClient, environ: dict[str, str]) -> Deployments:
    """Return the deployments of a name. Raises ConfigurationError."""
    if not settings:
        raise ConfigurationError("a model needs at least one deployment")
    found = []
    for each in settings:
        adapter = get_adapter(each.model)
        changes = build_provider(adapter.provider, each.provider, Path())
        if len(settings) > 1 and "max_retries" not in changes:
            changes["retry"] = RetryPolicy(max_retries=0)  # the next one is asked instead
        if each.key_variable is not None:
            if "credentials" in changes:
                raise ConfigurationError("a deployment has both key_variable and a key of provider: keep one of them")
            changes["api_key"] = _find_key(each.key_variable, adapter.endpoint.key_variables, environ)
        own = client.with_(providers={adapter.provider: changes}) if changes else client
        found.append(Deployment(each.model, own, each.weight))
    return Deployments(found)


def check_key_variables(settings: Iterable[DeploymentSettings], environ: Mapping[str, str]) -> None:
    """Raise ConfigurationError if a deployment names a key that is not there."""
    for each in settings:
        if each.key_variable is not None:
            _find_key(each.key_variable, get_adapter(each.model).endpoint.key_variables, environ)


def _find_key(variable: str, known: tuple[str, ...], environ: Mapping[str, str]) -> str:
    if not any(variable.startswith(name) for name in known):
        raise ConfigurationError(
            f"key_variable {variable!r:.80} does not begin with {' or '.join(known) or 'the variable of the provider'}:"
            " another secret would be sent there"
        )
    if not environ.get(variable, "").strip():
        raise ConfigurationError(f"the environment variable {variable} of a deployment is not set")
    return environ[variable]
