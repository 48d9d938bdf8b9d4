"""The middleware of a policy: which of its checks runs at which effect of a turn."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from dragoman.adapter.contract import Adapter
from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.message import Message, Role
from dragoman.session.effects import (
    Abandoned,
    Admit,
    Choose,
    Effect,
    Keep,
    Perform,
    RunTools,
    Send,
    SendOutcome,
    ToolRun,
    Turn,
    intercept,
)
from dragoman.session.middleware.policy_hooks import PolicyHooks, perform
from dragoman.session.middleware.stream_filter import StreamFilter


class PolicyMiddleware:
    """``history`` is the session's list of messages. The policy may replace its messages before they are sent."""

    def __init__(
        self,
        hooks: PolicyHooks,
        session_id: str,
        history: list[Message],
        new_tool_message: Callable[[ToolResultBlock], Message],
    ) -> None:
        self._hooks = hooks
        self._session_id = session_id
        self._history = history
        self._new_tool_message = new_tool_message
        self._adapter: Adapter | None = None

    def __call__(self, turn: Turn) -> Turn:
        return intercept(turn, self._handle)

    def _handle(self, effect: Effect) -> Generator[Effect, Any, Any]:
        match effect:
            case Admit():
                prompt = yield effect
                return (yield perform(self._hooks.admit(self._history, prompt, effect.adapter)))
            case Choose():
                route = yield effect
                self._adapter = self._adapter if route is None else route.adapter
                return route
            case Send():
                return (yield from self._check_request(effect))
            case RunTools():
                return (yield from self._check_calls(effect))
            case Keep():
                return (yield from self._check_kept(effect))
            case _:
                return (yield effect)

    def _check_request(self, send: Send) -> Generator[Effect, Any, SendOutcome]:
        messages = yield perform(self._hooks.check_input(send.adapter, send.history, send.messages))
        options = self._hooks.add_headers(send.adapter, send.options)
        stage = PolicyStage(StreamFilter(self._hooks, send.adapter, self._session_id))
        outcome: SendOutcome = yield replace(send, messages=messages, options=options, stages=(*send.stages, stage))
        if isinstance(outcome, Abandoned) and outcome.partial is not None:
            kept = yield perform(self._hooks.check_partial(send.adapter, outcome.partial))
            return replace(outcome, partial=kept, billed=outcome.partial if kept is None else None)
        return outcome

    def _check_calls(self, effect: RunTools) -> Generator[Effect, Any, Sequence[ToolRun]]:
        allowed, refused = yield perform(self._hooks.check_calls(effect.calls))
        runs: Sequence[ToolRun] = (yield replace(effect, calls=tuple(allowed))) if allowed else ()
        by_call_id = {run.call.id: run for run in runs}
        for call in effect.calls:
            if call.id in refused:
                by_call_id[call.id] = ToolRun(call, self._new_tool_message(refused[call.id]))
        ordered = [by_call_id[call.id] for call in effect.calls if call.id in by_call_id]  # the others wait
        messages = yield perform(self._hooks.admit_results(effect.adapter, [each.message for each in ordered]))
        return [replace(each, message=message) for each, message in zip(ordered, messages, strict=True)]

    def _check_kept(self, keep: Keep) -> Generator[Effect, Any, Any]:
        """Check a reply that no provider sent, because a middleware of the program provided it."""
        messages = list(keep.messages)
        for index, message in enumerate(messages):
            if message.role is Role.ASSISTANT and self._adapter is not None and not self._hooks.has_checked(message):
                messages[index] = yield perform(self._hooks.check_reply(self._adapter, message))
        return (yield replace(keep, messages=tuple(messages)))


class PolicyStage:
    """A `StreamFilter` as a stage of a reply."""

    def __init__(self, stream_filter: StreamFilter) -> None:
        self._filter = stream_filter

    def __call__(self, event: StreamEvent, /) -> Sequence[StreamEvent] | Perform:
        events = self._filter.try_fast(event)
        return perform(self._filter.apply(event)) if events is None else events
