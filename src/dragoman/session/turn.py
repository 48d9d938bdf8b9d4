"""One turn as a generator without I/O: it yields effects and receives their outcomes.

`Session` and `AsyncSession` are its two drivers. The result of an effect is sent into the generator; its failure is
thrown into it.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from dragoman.adapter.contract import Adapter, AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.errors import DragomanError, MissingExtraError, MissingKeyError, ProviderError, TurnLimitError
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageStatus, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import Usage
from dragoman.limits.budget import Budgets, Reservation
from dragoman.session.events import ToolAnswered
from dragoman.session.routes import Route


class PolicyChecks(Protocol):
    """The checks that a session's policy makes in a turn; most sessions have none."""

    def check_input(
        self, adapter: Adapter, history: Sequence[Message], filled: Sequence[Message]
    ) -> Generator[Any, Any, list[Message]]: ...

    def add_headers(self, adapter: Adapter, options: AdapterOptions) -> AdapterOptions: ...

    def check_calls(
        self, calls: Sequence[ToolUseBlock]
    ) -> Generator[Any, Any, tuple[list[ToolUseBlock], dict[str, ToolResultBlock]]]: ...

    def admit_results(
        self, adapter: Adapter, results: Sequence[Message]
    ) -> Generator[Any, Any, tuple[Message, ...]]: ...


@dataclass(frozen=True, slots=True)
class Send:
    """Send the request, read the reply and add it to the history; the result is the reply.

    ``new_messages`` are the messages that the reply answers and that are not in the history yet: they are added
    together with the reply. None keeps the reply out of the history as well.
    """

    adapter: Adapter
    request: WireRequest
    context: RequestContext
    new_messages: tuple[Message, ...] | None
    reservation: Reservation
    """The budget reservation of the request; settled when the reply is complete."""


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these calls concurrently; the result is one ToolResultBlock for each, in the same order. ``adapter`` belongs
    to the model that reads the results."""

    adapter: Adapter
    calls: tuple[ToolUseBlock, ...]


@dataclass(frozen=True, slots=True)
class Keep:
    """Add these messages to the history, then emit their events; no result."""

    messages: tuple[Message, ...]
    events: tuple[ToolAnswered, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait that many seconds before the next request to the provider; no result."""

    seconds: float
    provider: str


@dataclass(frozen=True, slots=True)
class Read:
    """Read the files that the history refers to; the result is the history as it is sent to that model."""

    adapter: Adapter
    history: Sequence[Message]


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """Run steps of the session's policy; the result is theirs."""

    steps: Generator[Any, Any, Any]


Effect = Read | Send | RunTools | Keep | Wait | RunPolicy
Turn = Generator[Effect, Any, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlan:
    """The inputs of a turn: its route, the history and the prompt, and its limits."""

    route: Route
    history: Callable[[], Sequence[Message]]
    """Returns the history as it is sent; called when the turn begins."""
    prompt: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]
    options: AdapterOptions
    new_context: Callable[[Route], RequestContext]
    new_tool_message: Callable[[ToolResultBlock], Message]
    max_rounds: int
    retry_delay: Callable[[str, ProviderError, int], float | None]
    """Returns the seconds until the next request to that provider, after an error of that attempt (from 1); None for no
    retry."""
    budgets: Budgets
    on_broken_reply: Callable[[ProviderError], Usage | None]
    """Records a broken reply and returns its billed usage, if it reported any."""
    policy_hooks: PolicyChecks | None = None

    @property
    def adapter(self) -> Adapter:
        return self.route.adapter


def run_turn(plan: TurnPlan) -> Turn:
    """Requests a reply, runs the tools that it calls, and repeats until a reply calls none.

    Until the caller receives an event of the first reply, a fallback model may replace the first; from then on the
    model stays. A turn whose first request fails leaves the history as it was. Raises ProviderError as the driver
    reports it, and TurnLimitError after ``max_rounds`` rounds of tools.
    """
    history, new_messages = [*plan.history(), *plan.prompt], plan.prompt
    options = plan.options
    for number in range(plan.max_rounds):
        if number == 0:
            plan, reply = yield from _first_reply(plan, history, new_messages, options)
        else:
            reply = yield from request_reply(plan, history, new_messages, options)
        if not _has_calls_to_run(reply):
            return
        answers = yield from _run_tools(plan, reply.tool_uses)
        names = (call.name for call in reply.tool_uses)
        yield Keep(answers, tuple(map(ToolAnswered, names, (answer.tool_results[0] for answer in answers))))
        history += (reply, *answers)
        new_messages, options = (), _without_forced_choice(options)
    raise TurnLimitError(
        f"the model still calls tools after {plan.max_rounds} rounds: raise max_rounds, or ask(None) to go on"
    )


def _run_tools(plan: TurnPlan, calls: Sequence[ToolUseBlock]) -> Generator[Effect, Any, tuple[Message, ...]]:
    """Run these calls and return the messages with their results, as the history stores them."""
    results: Sequence[ToolResultBlock]
    if plan.policy_hooks is None:
        results = yield RunTools(plan.adapter, tuple(calls))
        return tuple(map(plan.new_tool_message, results))
    allowed, refused = yield RunPolicy(plan.policy_hooks.check_calls(calls))
    results = (yield RunTools(plan.adapter, tuple(allowed))) if allowed else ()
    by_call_id = {result.tool_use_id: result for result in results} | refused
    answers: tuple[Message, ...] = yield RunPolicy(
        plan.policy_hooks.admit_results(plan.adapter, [plan.new_tool_message(by_call_id[call.id]) for call in calls])
    )
    return answers


def advance(turn: Turn, outcome: Any) -> Effect | None:
    """Return the next effect, or None at the end. ``outcome`` is the result of the last effect, or its exception."""
    try:
        return turn.throw(outcome) if isinstance(outcome, Exception) else turn.send(outcome)
    except StopIteration:
        return None


def _has_calls_to_run(reply: Message) -> bool:
    """Whether the calls of the reply are run.

    A reply that reached its length limit may end in half a call, which is answered with an error so that the model can
    try again. Nothing is run after a refusal, or when the context is full and no result would fit.
    """
    ended = reply.stop_reason in (StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW)
    return bool(reply.tool_uses) and reply.metadata.status is MessageStatus.COMPLETE and not ended


def _without_forced_choice(options: AdapterOptions) -> AdapterOptions:
    """A forced tool choice applies to the first reply only; otherwise the turn would never end."""
    forced = options.tool_choice == "required" or isinstance(options.tool_choice, NamedTool)
    return replace(options, tool_choice=None) if forced else options


def _first_reply(
    plan: TurnPlan, history: Sequence[Message], new_messages: tuple[Message, ...], options: AdapterOptions
) -> Generator[Effect, Any, tuple[TurnPlan, Message]]:
    """Return the first reply and the plan of its model. If a model fails, the router may name a fallback."""
    failures: list[str] = []
    while True:
        error: DragomanError
        try:
            reply = yield from _request_with_retries(plan, history, new_messages, options)
            return plan, reply
        except BrokenReplyError as broken_error:
            error, seen = broken_error.error, broken_error.seen
        except (ProviderError, MissingKeyError, MissingExtraError) as raised:
            error, seen = raised, False
        route = plan.route.choose_fallback(error, seen=seen)
        if route is None:
            if failures:
                error.add_note("before that, these were asked and failed:\n  " + "\n  ".join(failures))
            raise error
        failures.append(f"{plan.route.record.chosen_model}: {error}")
        plan = replace(plan, route=route)


def request_reply(
    plan: TurnPlan, history: Sequence[Message], new_messages: tuple[Message, ...] | None, options: AdapterOptions
) -> Generator[Effect, Any, Message]:
    """Return one reply of the plan's model.

    Raises BudgetExceededError before a request for which a budget has too little left.
    """
    try:
        return (yield from _request_with_retries(plan, history, new_messages, options))
    except BrokenReplyError as broken_error:
        raise broken_error.error from None


def _request_with_retries(
    plan: TurnPlan, history: Sequence[Message], new_messages: tuple[Message, ...] | None, options: AdapterOptions
) -> Generator[Effect, Any, Message]:
    """Retry a reply that breaks before the caller received an event, as the retry policy allows, and report the final
    outcome to the route. Raises BrokenReplyError as well.
    """
    attempt = 0
    while True:
        filled: Sequence[Message] = yield Read(plan.adapter, history)
        if plan.policy_hooks is not None:
            filled = yield RunPolicy(plan.policy_hooks.check_input(plan.adapter, history, filled))
        context = plan.new_context(plan.route)
        send_options = options if plan.policy_hooks is None else plan.policy_hooks.add_headers(plan.adapter, options)
        request = plan.adapter.to_wire(filled, plan.tools, send_options.with_context(context))
        attempt += 1
        reservation = plan.budgets.reserve(plan.adapter, filled, plan.tools, options)
        try:
            reply: Message = yield Send(plan.adapter, request, context, new_messages, reservation)
            plan.route.report_outcome(None)
            return reply
        except ProviderError as error:
            plan.route.report_outcome(error)
            raise
        except BrokenReplyError as broken_error:
            billed = plan.on_broken_reply(broken_error.error)
            if billed is not None or broken_error.seen:
                reservation.settle(billed)
            delay = None if broken_error.seen else plan.retry_delay(plan.adapter.provider, broken_error.error, attempt)
            if delay is None:
                plan.route.report_outcome(broken_error.error)
                raise
        finally:
            reservation.release()
        yield Wait(delay, plan.adapter.provider)


class BrokenReplyError(Exception):
    """A reply with a success status and an invalid body. The transport's retries are exhausted.

    ``seen``: the caller has already received events of it.
    """

    def __init__(self, error: ProviderError, *, seen: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.seen = seen
