"""One turn: request a reply, run the tools that it calls, and repeat until a reply calls none.

No I/O: `run_turn` yields effects (`dragoman.session.effects`) and receives their outcomes.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.adapter.contract import Adapter, AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.errors import (
    ExpiredReferenceError,
    MissingExtraError,
    MissingKeyError,
    ProviderError,
    TurnLimitError,
)
from dragoman.canonical.events import ErrorEvent, MessageComplete, StreamEvent
from dragoman.canonical.log import get_logger
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.effects import Abandoned, Broken, Failed, Perform, Replied, SendOutcome, Stage
from dragoman.session.effects import (
    AbandonedTurnError,
    Admit,
    Choose,
    Effect,
    Keep,
    Read,
    RunTools,
    Send,
    ToolRun,
    Turn,
    Wait,
)
from dragoman.session.history import next_step
from dragoman.session.turn.routes import Route
from dragoman.transport.retry import RetryState

if TYPE_CHECKING:
    from dragoman.canonical.extensions.extensions import Extensions
    from dragoman.session.turn.answers import Answers

logger = get_logger("dragoman.transport")

_ROUNDS_WITHOUT_TOOLS = 2
"""How often calls are answered if there are no tools: a model may recover once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """What the requests of a turn have in common: tools, options, and how to create contexts and retries."""

    tools: tuple[ToolDefinition, ...]
    options: AdapterOptions
    new_context: Callable[..., RequestContext]
    """Returns the context of one attempt, from its ``model`` and ``routing``."""
    new_retries: Callable[[Adapter], RetryState]
    record_billed: Callable[..., object]
    """Receives a reply that is not kept and may have been billed, and the error that broke it, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """The inputs of a turn."""

    prompt: tuple[Message, ...]
    known_adapter: Adapter | None
    """The adapter of the turn's model; None if a router chooses it."""
    choose: Callable[[tuple[Message, ...]], Route]
    """Chooses the model for a prompt."""
    history: Callable[[], Sequence[Message]]
    """Returns the history to send, without the prompt. It is called after the model is chosen."""
    requests: Requests
    max_rounds: int
    answers: "Callable[[], Answers] | None" = None
    """Returns the results of calls that wait, for a turn that goes on with them. Raises CallNotPendingError. None if no
    call waits."""
    save: Perform | None = None
    """Saves the session; None without a store."""
    correct: Callable[[Message], Message | None] | None = None
    """Returns the request to answer again if an answer is not of the requested type; None if it is. Raises OutputError
    after the last retry. None if any text is an answer."""
    extensions: "Extensions | None" = None
    """What the program says of this turn to the plugins of its policy."""
    is_valid: Callable[[Message], bool] | None = None
    """Returns whether a reply may be of the requested type; None if any text is an answer."""


def run_turn(plan: TurnPlan) -> Turn:
    """Yield the effects of one turn.

    Until the caller receives an event of the first reply, a fallback model may replace the first; from then on the
    model stays. A turn whose first request fails leaves the history as it was. A reply that pauses is sent back as it
    came, and the provider goes on with it. An answer that is not of the requested type stays in the history, and the
    model is asked again.

    Raises ProviderError, OutputError, and TurnLimitError after ``max_rounds`` rounds of tools or pauses. Without tools,
    two rounds of calls are enough: a model that calls tools nobody has may go on for ever, and each round is paid.
    """
    rounds, calls_left = plan.max_rounds, plan.max_rounds if plan.requests.tools else _ROUNDS_WITHOUT_TOOLS
    prompt: tuple[Message, ...] = yield Admit(plan.prompt, plan.known_adapter, extensions=plan.extensions)
    route: Route = yield Choose(partial(plan.choose, prompt))
    if plan.answers is not None and not (yield from _keep_answers(plan.answers(), plan.save, route)):
        return
    requests, new_messages = plan.requests, prompt if route.prompt is None else route.prompt
    history = [*plan.history(), *new_messages]
    is_first = True
    while rounds > 0:
        if is_first:
            route, reply = yield from _first_reply(plan, route, history, new_messages)
        else:
            reply = yield from request_reply(requests, route, history, new_messages)
        ends_turn = plan.correct is None and next_step(reply) == "end"
        *_, reply = yield Keep((*new_messages, reply), ends_turn=ends_turn)
        history.append(reply)
        is_first = False
        if (step := next_step(reply)) == "ask_again":
            new_messages, rounds = (), rounds - 1
            continue
        if step == "run_calls":
            runs: Sequence[ToolRun] = yield RunTools(route.adapter, reply.tool_uses)
            some_wait = len(runs) < len(reply.tool_uses)
            history += yield Keep(tuple(run.message for run in runs), reply.tool_uses, ends_turn=some_wait)
            if some_wait:
                return
            new_messages, rounds, calls_left = (), rounds - 1, calls_left - 1
            if calls_left == 0:
                break
        else:
            correction = None if plan.correct is None else plan.correct(reply)
            if correction is None:
                return
            new_messages = yield Admit((correction,), route.adapter, opens_turn=False)
            history += new_messages
        requests = replace(requests, options=_without_forced_choice(requests.options))
    raise _too_many_rounds(plan, reply)


def _too_many_rounds(plan: TurnPlan, reply: Message) -> TurnLimitError:
    limit = plan.max_rounds
    if next_step(reply) == "ask_again":
        return TurnLimitError(f"the reply still pauses after {limit} rounds: raise max_rounds, or go on with ask(None)")
    if not plan.requests.tools:
        limit = min(limit, _ROUNDS_WITHOUT_TOOLS)
        return TurnLimitError(f"the model called tools in {limit} rounds, but the session has none: register its tools")
    return TurnLimitError(
        f"the model still calls tools after {limit} rounds: raise max_rounds, or continue with ask(None)"
    )


def _keep_answers(answers: "Answers", save: Perform | None, route: Route) -> Generator[Effect, Any, bool]:
    """Keep results that come from elsewhere, and run the other calls. Return whether all calls of the reply have one
    now.

    They are saved before anything is sent: of two programs that answer the same call, one gets a ConflictError.
    """
    runs: Sequence[ToolRun] = yield RunTools(route.adapter, answers.calls, answers.results, answers.labels)
    complete = answers.complete and len(runs) == len(answers.calls)
    yield Keep(tuple(run.message for run in runs), answers.calls, ends_turn=not complete and answers.rest_waits)
    if save is not None:
        yield save
    return complete


def request_reply(
    requests: Requests, route: Route, history: Sequence[Message], new_messages: tuple[Message, ...] | None
) -> Generator[Effect, Any, Message]:
    """Return one reply of the route's model.

    ``new_messages`` are those of the history that are not kept yet: if the caller leaves, they are kept with the part
    of the reply that had arrived. If it is None, nothing is kept. Raises BudgetExceededError, before anything is sent,
    if a budget has too little left.
    """
    try:
        return (yield from _request_with_retries(requests, route, history, new_messages))
    except _RequestFailedError as failed:
        raise failed.error from None


def _first_reply(
    plan: TurnPlan, route: Route, history: Sequence[Message], new_messages: tuple[Message, ...]
) -> Generator[Effect, Any, tuple[Route, Message]]:
    """Return the first reply and the route of its model. If a model fails, or if its reply has a fault, the router may
    name a fallback. The cost of a reply with a fault is counted."""
    requests, failures = plan.requests, []
    while True:
        held = _HeldReply(route, plan.is_valid) if route.has_fallbacks and route.may_reject else None
        try:
            reply = yield from _request_with_retries(requests, route, history, new_messages, held)
            fault = None if held is None else held.judge(reply)
            choose = None if fault is None else route.fallback_chooser(fault, seen=False)
            instead = None if choose is None else (yield Choose(choose))
            if instead is None:
                return route, reply
            requests.record_billed(reply)
            failures.append(f"{route.record.chosen_model}: {fault}")
            route = instead
            continue
        except _RequestFailedError as failed:
            error, seen = failed.error, failed.seen
        fallback = None
        if isinstance(error, (ProviderError, MissingKeyError, MissingExtraError)):
            choose_fallback = route.fallback_chooser(error, seen=seen)
            fallback = None if choose_fallback is None else (yield Choose(choose_fallback))
        if fallback is None:
            if failures:
                error.add_note("before that, these models failed:\n  " + "\n  ".join(failures))
            raise error
        failures.append(f"{route.record.chosen_model}: {error}")
        route = fallback


def _request_with_retries(
    requests: Requests,
    route: Route,
    history: Sequence[Message],
    new_messages: tuple[Message, ...] | None,
    held: "_HeldReply | None" = None,
) -> Generator[Effect, Any, Message]:
    """Return one reply. A request that fails before the caller received an event is retried as the retry policy allows;
    each attempt is one `Send`. The final outcome is reported to the route. ``held`` holds the events back until the
    reply is judged. Raises _RequestFailedError.
    """
    retries, options = requests.new_retries(route.adapter), requests.options
    while True:
        messages: Sequence[Message] = yield Read(route.adapter, history)
        outcome: SendOutcome = yield Send(
            adapter=route.adapter,
            context=requests.new_context(model=route.record.chosen_model, routing=route.record),
            history=history,
            messages=messages,
            tools=requests.tools,
            options=options,
            retries=retries,
            new_messages=new_messages,
            stages=() if held is None else (held.begin(),),
        )
        match outcome:
            case Replied():
                _report_outcome(route, None)
                return outcome.message
            case Abandoned():
                if outcome.partial is not None and new_messages is not None:
                    yield Keep((*new_messages, outcome.partial), ends_turn=True)
                else:
                    requests.record_billed(outcome.partial or outcome.billed)
                raise AbandonedTurnError
            case Broken(error=error, seen=seen):
                requests.record_billed(outcome.partial, error)
            case Failed(error=error):
                seen = False
        wait = retries.wait_after(outcome)
        if wait is None:
            if not seen and options is requests.options and (lost := _lost_reference(error, route.adapter, requests)):
                logger.warning("%s: the %s is gone: asked again without it", route.adapter.provider, lost)
                options = _without_reference(options, lost, route.adapter.provider)
                continue
            if isinstance(error, ProviderError):
                _report_outcome(route, error)
            raise _RequestFailedError(error, seen=seen)
        yield Wait(wait, retries.timing)


def _report_outcome(route: Route, error: ProviderError | None) -> None:
    """Report to the router how a call ended, retries included; None is success."""
    if (router := route.routes.router) is not None:
        router.availability.report(route.record.chosen_model, error, route.routes.clock())


class _HeldReply:
    """Holds the events of a reply back until the whole of it is judged. Of one with a fault, the caller gets none."""

    def __init__(self, route: Route, is_valid: Callable[[Message], bool] | None) -> None:
        self._route = route
        self._is_valid = is_valid
        self._judged: tuple[str, str | None] | None = None

    def begin(self) -> Stage:
        """Return the stage of one attempt."""
        events: list[StreamEvent] = []

        def hold(event: StreamEvent) -> Sequence[StreamEvent]:
            events.append(event)
            match event:
                case MessageComplete(message=message):
                    return (event,) if self.judge(message) is not None else events
                case ErrorEvent():
                    return (event,)
                case _:
                    return ()

        return hold

    def judge(self, reply: Message) -> str | None:
        """Return the fault of a reply, if another model can be asked. It is judged once: what a policy changed in it
        is not judged again."""
        if self._judged is None or self._judged[0] != reply.id:
            self._judged = reply.id, self._route.find_fault(reply, self._is_valid)
        return self._judged[1]


def _without_forced_choice(options: AdapterOptions) -> AdapterOptions:
    """Remove a forced tool choice: applied to every reply, it would never let the turn end."""
    forced = options.tool_choice == "required" or isinstance(options.tool_choice, NamedTool)
    return replace(options, tool_choice=None) if forced else options


def _lost_reference(error: Exception, adapter: Adapter, requests: Requests) -> str | None:
    """Return what is gone if the request can go without it: the container of an earlier reply, which the request
    carried on, or the history that the provider stored. A container that the program names is not replaced."""
    if not isinstance(error, ExpiredReferenceError):
        return None
    provider = adapter.provider
    if error.reference in ("response", "conversation"):
        return None if requests.options.server_state is None else error.reference
    if error.reference != "container":
        return None
    named = "container" in requests.options.extra.get(provider, {}) or any(
        provider in (getattr(tool, "container", None) or ()) for tool in requests.tools
    )
    return "container" if adapter.server_tools.containers and not named else None


def _without_reference(options: AdapterOptions, reference: str, provider: str) -> AdapterOptions:
    """Return the options for a request that names no container, or that sends the whole history."""
    if reference != "container":
        return replace(options, server_state=None)
    return replace(options, extra={**options.extra, provider: {**options.extra.get(provider, {}), "container": ...}})


class _RequestFailedError(Exception):
    """A request failed for good. ``seen``: the caller has already received events of the reply."""

    def __init__(self, error: Exception, *, seen: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.seen = seen
