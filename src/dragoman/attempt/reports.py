"""Reports the calls of a model to an event bus: hashes, names and counts, without content."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.adapter.errors import EventOverflowError, RequestCancelledError
from dragoman.adapter.replies.drift import drift_of
from dragoman.canonical.ids import new_message_id
from dragoman.canonical.message import Message, StopReason
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.effects import Broken, Failed, Replied, SendOutcome, Work

if TYPE_CHECKING:
    from dragoman.events.bus import EventBus
    from dragoman.events.event import Payload
    from dragoman.policy.errors import PolicyDeniedError


class EventIds(NamedTuple):
    """What the events of one turn have in common."""

    session_id: str
    turn_id: str | None


class CallReports:
    """Reports the calls of one model, given as ``provider:model``. Without a bus it does nothing."""

    def __init__(self, bus: "EventBus | None", model: str) -> None:
        self._bus = bus
        self.model = model

    @property
    def is_on(self) -> bool:
        return self._bus is not None

    def follow(
        self, ids: EventIds, tokens: int, attempt: Work[SendOutcome], latency_ms: Callable[[], int | None]
    ) -> Work[SendOutcome]:
        """Run an attempt, and report its start and how it ended. ``tokens`` are those of the input, estimated.
        ``latency_ms`` returns the milliseconds since the request was sent, or None."""
        self.start(ids, tokens)
        try:
            outcome = yield from attempt
        except BaseException as error:
            self.fail(ids, error, latency_ms())
            raise
        match outcome:
            case Replied():
                self.complete(ids, outcome.message)
            case Failed() | Broken():
                self.fail(ids, outcome.error, latency_ms())
        return outcome

    def start(self, ids: EventIds, tokens: int) -> None:
        if self.is_on:
            from dragoman.events.catalogue import LlmCallStarted

            model = {"model": self.model, "provider": self.model.partition(":")[0]}
            self.emit(ids, partial(LlmCallStarted, **model, estimated_input_tokens=tokens, request_id=new_message_id()))

    def complete(self, ids: EventIds, message: Message) -> None:
        if self.is_on:
            from dragoman.events.catalogue import LlmCallCompleted

            self.emit(ids, partial(LlmCallCompleted.of, message))
            if drift := drift_of(message):
                from dragoman.events.catalogue import LlmReplyDrifted

                self.emit(ids, partial(LlmReplyDrifted.of, message, drift))

    def fail(self, ids: EventIds, error: BaseException, latency_ms: int | None = None) -> None:
        """Report a call that failed, or that its caller left: that is an error which is not an Exception."""
        if self.is_on:
            from dragoman.events.catalogue import LlmCallFailed

            failure = error if isinstance(error, Exception) else RequestCancelledError("the caller left")
            self.emit(ids, partial(LlmCallFailed.of, self.model, failure, latency_ms=latency_ms))

    def end_turn(
        self, ids: EventIds, usage: Usage | None, *, calls: int, stop_reason: StopReason | None, seconds: float
    ) -> None:
        """Report that a turn ended after so many calls of the model, which used ``usage`` in all."""
        if self.is_on:
            from dragoman.events.catalogue import TurnCompleted

            known = usage is not None and usage.cost_status in (CostStatus.PRICED, CostStatus.FREE)
            totals = partial(
                TurnCompleted,
                stop_reason=stop_reason,
                llm_call_count=calls,
                tool_call_count=0,
                total_input_tokens=None if usage is None else usage.prompt_tokens,
                total_output_tokens=None if usage is None else usage.output_tokens,
                total_cost_usd=usage.cost_usd if usage is not None and known else None,
                wall_time_seconds=seconds,
            )
            self.emit(ids, totals)

    def cancel_turn(self, ids: EventIds) -> None:
        """Report that the caller left."""
        if self.is_on:
            from dragoman.events.catalogue import TurnCancelled

            self.emit(ids, partial(TurnCancelled, reason="user_cancel", partial_llm_calls=1))

    def deny(self, ids: EventIds, denial: "PolicyDeniedError") -> None:
        if self.is_on:
            from dragoman.events.catalogue import PolicyDenied

            facts = {name: str(getattr(denial, name)) for name in ("hook", "plugin", "code", "reason")}
            self.emit(ids, partial(PolicyDenied.model_validate, facts))

    def write_headers(self, ids: EventIds, names: Sequence[str]) -> None:
        if self.is_on:
            from dragoman.events.catalogue import PolicyHeadersWritten

            provider = self.model.partition(":")[0]
            self.emit(ids, partial(PolicyHeadersWritten, provider=provider, names=tuple(names)))

    def emit(self, ids: EventIds, make: "Callable[[], Payload]") -> Any:
        if self._bus is not None:
            with suppress(EventOverflowError):
                self._bus.emit(make, session_id=ids.session_id, turn_id=ids.turn_id)
