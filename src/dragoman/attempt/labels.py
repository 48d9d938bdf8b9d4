"""The decision where a request leaves: whether content with its labels may go to the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.limits.reservation import NOTHING_RESERVED, Reservation
from dragoman.limits.use import MeasureUse
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.plugin import Hook
from dragoman.routing import Router, RouteRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelGovernor:
    """Refuses a request whose labels the rules of the router keep from the model, whoever chose that model."""

    router: Router
    adapter: Adapter
    messages: Sequence[Message]
    tools: Sequence[ToolDefinition] = ()
    options: AdapterOptions
    labels: frozenset[str]

    def reserve(self, measure: MeasureUse) -> Reservation:
        """Raise PolicyDeniedError, or hold nothing."""
        self.check()
        return NOTHING_RESERVED

    def check(self) -> None:
        """Raise PolicyDeniedError if the content may not go to the model."""
        if not self.labels:
            return
        model = str(self.adapter.model_id)
        request = RouteRequest.of(self.messages[:-1], self.messages[-1:], self.tools, self.options, labels=self.labels)
        if not self.router.labels_allow(model, request):
            reason = f"content with the labels {', '.join(sorted(self.labels))} may not go to {model}"
            raise PolicyDeniedError(Hook.LLM_INPUT, "the router", "label_forbidden", f"{reason:.300}")
