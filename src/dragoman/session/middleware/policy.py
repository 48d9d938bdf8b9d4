"""The middleware of a policy: which of its checks runs at which effect of a turn."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from dragoman.adapter.contract import Adapter
from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.message import Message, Role
from dragoman.effects import Abandoned, Replied, SendOutcome, carry_out, intercept
from dragoman.policy.conversation.hooks import PolicyHooks
from dragoman.policy.conversation.stream_filter import StreamFilter
from dragoman.session.effects import Admit, Choose, Effect, Keep, RunTools, Send, ToolRun, Turn
from dragoman.session.history import first_new


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
        self._handlers = _HANDLERS if hooks.pipeline.plugins else _HANDLERS_WITHOUT_PLUGINS

    def __call__(self, turn: Turn) -> Turn:
        return intercept(turn, self._handle)

    def _handle(self, effect: Effect) -> Generator[Effect, Any, Any] | None:
        """Effects that a policy does not look at pass as they are: most do."""
        handle = self._handlers.get(type(effect))
        return None if handle is None else handle(self, effect)

    def _admit(self, effect: Admit) -> Generator[Effect, Any, Any]:
        if effect.opens_turn:
            self._hooks.begin_turn(effect.extensions)
        prompt = yield effect
        return (yield from carry_out(self._hooks.admit(self._history, prompt, effect.adapter)))

    def _note_route(self, effect: Choose) -> Generator[Effect, Any, Any]:
        route = yield effect
        self._adapter = self._adapter if route is None else route.adapter
        return route

    def _check_request(self, send: Send) -> Generator[Effect, Any, SendOutcome]:
        messages, tools, options = send.messages, send.tools, send.options
        if self._hooks.judges_input:
            new = first_new(send.history)
            messages = yield from carry_out(self._hooks.check_input(send.adapter, send.history, messages, new))
            tools, options = yield from carry_out(self._hooks.check_parts(send.adapter, tools, options))
        options = self._hooks.add_headers(send.adapter, options)
        outcome: SendOutcome
        if not self._hooks.judges_replies:
            unchanged = messages is send.messages and tools is send.tools and options is send.options
            outcome = yield send if unchanged else replace(send, messages=messages, tools=tools, options=options)
            return self._note_reply(send, outcome)
        stage = StreamFilter(self._hooks, send.adapter, self._session_id)
        outcome = yield replace(send, messages=messages, tools=tools, options=options, stages=(*send.stages, stage))
        if isinstance(outcome, Abandoned) and outcome.partial is not None:
            kept = yield from carry_out(self._hooks.check_partial(send.adapter, outcome.partial))
            return replace(outcome, partial=kept, billed=outcome.partial if kept is None else None)
        return outcome

    def _note_kept(self, keep: Keep) -> None:
        self._hooks.note_kept(keep.messages)

    def _note_reply(self, send: Send, outcome: SendOutcome) -> SendOutcome:
        """Record a reply that no plugin judges."""
        reply = outcome.message if isinstance(outcome, Replied) else getattr(outcome, "partial", None)
        if reply is not None:
            self._hooks.note_reply(send.adapter, reply)
        return outcome

    def _check_calls(self, effect: RunTools) -> Generator[Effect, Any, Sequence[ToolRun]]:
        allowed, refused = yield from carry_out(self._hooks.check_calls(effect.calls))
        runs: Sequence[ToolRun] = (yield replace(effect, calls=tuple(allowed))) if allowed else ()
        by_call_id = {run.call.id: run for run in runs}
        for call in effect.calls:
            if call.id in refused:
                by_call_id[call.id] = ToolRun(call, self._new_tool_message(refused[call.id]))
        ordered = [by_call_id[call.id] for call in effect.calls if call.id in by_call_id]  # the others wait
        messages = yield from carry_out(self._hooks.admit_results(effect.adapter, [each.message for each in ordered]))
        return [replace(each, message=message) for each, message in zip(ordered, messages, strict=True)]

    def _check_kept(self, keep: Keep) -> Generator[Effect, Any, Any]:
        """Check a reply that no provider sent, because a middleware of the program provided it."""
        if self._adapter is None or self._hooks.seen.is_judged(keep.messages):
            return (yield keep)
        messages = list(keep.messages)
        for index, message in enumerate(messages):
            if message.role is Role.ASSISTANT and not self._hooks.seen.is_judged((message,)):
                messages[index] = yield from carry_out(self._hooks.check_reply(self._adapter, message))
        unchanged = all(map(is_, messages, keep.messages))
        return (yield keep if unchanged else replace(keep, messages=tuple(messages)))


_HANDLERS: dict[type[Any], Callable[[PolicyMiddleware, Any], Generator[Effect, Any, Any]]] = {
    Admit: PolicyMiddleware._admit,
    Choose: PolicyMiddleware._note_route,
    Send: PolicyMiddleware._check_request,
    RunTools: PolicyMiddleware._check_calls,
    Keep: PolicyMiddleware._check_kept,
}
_HANDLERS_WITHOUT_PLUGINS: dict[type[Any], Callable[[PolicyMiddleware, Any], Generator[Effect, Any, Any] | None]] = {
    Admit: PolicyMiddleware._admit,
    RunTools: PolicyMiddleware._check_calls,
    Keep: PolicyMiddleware._note_kept,
}
"""What is done at each effect, if there are plugins and if there are none.

A table in each middleware would be a cycle, which only the garbage collector frees."""
