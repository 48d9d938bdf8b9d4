"""Finds the model that answers for a name: ``provider:model``, an alias, or one that clients insist on. A name may have
several deployments, with keys and models of their own, weighted, and with pauses after failures.
"""

import difflib
import os
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from dragoman import Adapter, AdapterCapabilities, AsyncClient, ConfigurationError, ProviderError, get_adapter
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
    UnknownProviderError,
    UnsupportedToolError,
)
from dragoman.transport import RetryPolicy
from dragoman_gateway.access import Caller
from dragoman_gateway.errors import ModelDeniedError, UncountedError
from dragoman_gateway.toml import SettingsTable

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


class DeploymentSettings(SettingsTable):
    """One deployment of a model, as the settings describe it."""

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

    def allows(self, error: Exception) -> bool:
        """Return whether a request that failed like this may be sent to another deployment. What was not sent costs
        nothing."""
        return may_help_elsewhere(error) and (isinstance(error, _OWN) or self.spend())

    def spend(self) -> bool:
        """Return whether a request may be sent again."""
        self._left, self.requests = min(self._left + self._share * self.requests, self._most), 0
        if self._left < 1:
            return False
        self._left -= 1
        return True


@dataclass(eq=False)
class Deployments:
    """The deployments of one name."""

    all: Sequence[Deployment]
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        self.model = self.all[0].model
        """The model of the first deployment, which represents all of them."""

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


class Models:
    """``names`` are those of the settings: names or patterns, each with the model that answers."""

    def __init__(self, names: Mapping[str, str | Sequence[DeploymentSettings]], client: AsyncClient) -> None:
        self._client = client
        self._deployments = {
            name: self._alone(places) if isinstance(places, str) else build(places, client, dict(os.environ))
            for name, places in names.items()
        }
        self._exact = {name: each for name, each in self._deployments.items() if not _is_pattern(name)}
        self._patterns = tuple((name, each) for name, each in self._deployments.items() if _is_pattern(name))
        router = client.config.router
        self._aliases = None if router is None else router.aliases

    def resolve(self, name: str, caller: Caller) -> Deployments:
        """Return the deployments for the name.

        Raises NotFoundError with the nearest names, and PermissionDeniedError if the caller may not use the model.
        """
        found = self._exact.get(name) or self._find(name)
        if caller.models and not self._allows(caller, name, found.model):
            raise ModelDeniedError(f"{name!r:.120}")
        return found

    @property
    def places(self) -> tuple[Deployment, ...]:
        """All deployments that the names of the settings may use."""
        return tuple(place for each in self._deployments.values() for place in each.all)

    def rule_for(self, name: str, caller: Caller) -> Callable[[str], bool] | None:
        """Return the rule that each model has to pass that is asked for the name, by a caller who may not use all; None
        for no rule.

        A caller who may use the name gets whatever the settings mean by it. One who may use some models gets no others
        by a name, a rule of the router or a fallback.
        """
        patterns = caller.models
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return None
        return lambda model: any(fnmatchcase(model, pattern) for pattern in patterns)

    def names(self, caller: Caller) -> tuple[str, ...]:
        """Return the names that the caller may use: those of the settings, and the program's own aliases."""
        own = () if self._aliases is None else tuple(self._aliases.custom)
        known = dict.fromkeys((*self._exact, *own))
        return tuple(name for name in known if not caller.models or self._allows(caller, name, self.target(name)))

    def target(self, name: str) -> str:
        """Return the model that answers for the name. Raises NotFoundError."""
        return (self._exact.get(name) or self._find(name)).model

    def _alone(self, model: str) -> Deployments:
        """Return the only deployment of a model."""
        return Deployments((Deployment(model, self._client),))

    def _allows(self, caller: Caller, name: str, model: str) -> bool:
        return any(fnmatchcase(each, pattern) for pattern in caller.models for each in (name, model))

    def _find(self, name: str) -> Deployments:
        """Return the deployments for a name that the settings do not have literally.

        A pattern without a colon matches no ``provider:model``, so that ``*`` applies only to other names.
        """
        is_model, reason = ":" in name, ""
        if is_model:
            try:
                get_adapter(name)
            except UnknownProviderError as error:
                is_model, reason = False, str(error)
        for pattern, deployments in self._patterns:
            if fnmatchcase(name, pattern) and (not is_model or ":" in pattern):
                return deployments
        if is_model:
            return self._alone(name)
        with suppress(UnknownProviderError):
            return self._alone(
                str(get_adapter(name).model_id) if self._aliases is None else self._aliases.resolve(name)
            )
        near = ", ".join(difflib.get_close_matches(name, self._exact, n=3, cutoff=0.4))
        hint = f"near names are {near}" if near else "name it as provider:model, such as anthropic:claude-opus-5-5"
        raise NotFoundError(reason or f"there is no model {name!r:.120}; {hint}")


def facts_of(model: str) -> AdapterCapabilities | None:
    """Return what is known of a model; None if its provider is not installed, as that of an alias may be."""
    with suppress(DragomanError):
        return get_adapter(model).capabilities
    return None


def _is_pattern(name: str) -> bool:
    return any(character in name for character in "*?[")
