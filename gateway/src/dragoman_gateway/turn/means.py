"""What a request is asked with: the places, in order, and the rules of the gateway."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dragoman import AsyncClient
from dragoman.answers import StateSealer, StateStore
from dragoman.errors import DragomanError
from dragoman_gateway.access import Middleware
from dragoman_gateway.models.deployments import (
    Deployment,
    Deployments,
    FallbackQuota,
    costs_nothing,
    may_help_elsewhere,
)
from dragoman_gateway.turn.other_wire import OtherWireSettings


@dataclass(slots=True, kw_only=True)
class Means:
    """``client_for`` returns the client of a place under which the caller asks. ``may_ask`` says whether the caller may
    use a model; None allows all."""

    deployments: Deployments
    client_for: Callable[[AsyncClient], AsyncClient]
    quota: FallbackQuota
    may_ask: Callable[[str], bool] | None = None
    admit: Middleware | None = None
    state_store: StateStore | None = None
    state_sealer: StateSealer | None = None
    strict: bool = False
    other_wire: OtherWireSettings = field(default_factory=OtherWireSettings)

    def places(self) -> Sequence[Deployment]:
        """Return the places in the order in which to ask them."""
        self.quota.earn()
        places = self.deployments.in_order()
        if self.may_ask is None:
            return places
        return [place for place in places if self.may_ask(place.model)]

    def may_ask_again(self, error: Exception) -> bool:
        """Return whether another place may be asked after that error."""
        return may_help_elsewhere(error) and (costs_nothing(error) or self.quota.spend())

    def report(self, place: Deployment, error: Exception | None) -> None:
        """Note how a request to a place ended."""
        if error is None or isinstance(error, DragomanError):
            self.deployments.report(place, error)
