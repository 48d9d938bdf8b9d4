"""Finds the model that answers: ``provider:model``, an alias, or a name that clients insist on."""

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase

from dragoman import AdapterCapabilities, AsyncClient, get_adapter
from dragoman.errors import DragomanError, NotFoundError, UnknownProviderError
from dragoman_gateway.access import Caller
from dragoman_gateway.errors import ModelDeniedError
from dragoman_gateway.models.deployments import Deployment, Deployments, DeploymentSettings, build

ModelSettings = str | Sequence[DeploymentSettings]
"""A model, or several deployments of it."""


class Models:
    """``names`` are those of the settings: names or patterns, each with the model that answers."""

    def __init__(self, names: Mapping[str, ModelSettings], client: AsyncClient) -> None:
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
