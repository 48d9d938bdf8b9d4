"""What a request is asked with: the deployments, in order, and the rules of the gateway."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from dragoman import AsyncClient
from dragoman.answers import StateSealer, StateStore
from dragoman.errors import DragomanError
from dragoman.limits import Governor, MeasureUsage
from dragoman_gateway.models.deployments import (
    Deployment,
    Deployments,
    FallbackQuota,
    costs_nothing,
    may_help_elsewhere,
)
from dragoman_gateway.turn.other_wire import OtherWireSettings
from dragoman_gateway.turn.recall import LabelStore, UnknownHistory


@dataclass(slots=True, kw_only=True)
class RequestResources:
    """``client_for`` returns the client of a deployment under which the caller asks. ``may_ask`` says whether the
    caller may use a model; None allows all. ``governors`` let each attempt start, and ``check`` raises what they would
    refuse now."""

    deployments: Deployments
    client_for: Callable[[AsyncClient], AsyncClient]
    quota: FallbackQuota
    check: Callable[[MeasureUsage], Awaitable[None]]
    may_ask: Callable[[str], bool] | None = None
    governors: Sequence[Governor] = ()
    state_store: StateStore | None = None
    state_sealer: StateSealer | None = None
    is_bounded: bool = False
    """Whether a budget or a policy needs to know what the request costs and holds."""
    strict: bool = False
    exact_bytes: bool = False
    labels: LabelStore | None = None
    """Has the labels of conversations in earlier turns; None if nothing reads labels."""
    unknown_history: UnknownHistory = "label"
    other_wire: OtherWireSettings = field(default_factory=OtherWireSettings)

    def in_order(self) -> Sequence[Deployment]:
        """Return the deployments in the order in which to ask them."""
        self.quota.earn()
        found = self.deployments.in_order()
        if self.may_ask is None:
            return found
        return [each for each in found if self.may_ask(each.model)]

    def may_ask_again(self, error: Exception) -> bool:
        """Return whether another deployment may be asked after that error."""
        return may_help_elsewhere(error) and (costs_nothing(error) or self.quota.spend())

    def report(self, deployment: Deployment, error: Exception | None) -> None:
        """Note how a request to a deployment ended."""
        if error is None or isinstance(error, DragomanError):
            self.deployments.report(deployment, error)
