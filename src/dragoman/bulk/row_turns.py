"""Runs each row as the turn of a session of its own: the client's policy judges it, its router checks the labels, its
events report it, and its store saves it.

The session sends through the run's requester, which is in this process or in the workers of a cluster. Limits, budgets
and retries stay with the run.
"""

from collections.abc import Generator
from functools import partial
from typing import Any, NoReturn, cast

from dragoman.adapter.contract import Adapter, Prices
from dragoman.adapter.errors import ConfigurationError, DragomanError, ProviderError
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.batch.judge import check_labels
from dragoman.bulk.attempts import RowAttempts, is_fatal
from dragoman.bulk.requester import Requester
from dragoman.bulk.state.records import Outcome
from dragoman.canonical.message import Message, Role
from dragoman.open_turns import TurnStep
from dragoman.output.errors import OutputError
from dragoman.policy.errors import PolicyDeniedError, PolicyError
from dragoman.runtime import ClientConfig
from dragoman.session import AsyncSession
from dragoman.session.effects import Broken, Effect, Failed, Perform, Replied, Send, SendOutcome, intercept
from dragoman.session.middleware import Middleware
from dragoman.session.middleware.no_policy import UnreadLabels
from dragoman.store.errors import StoreError
from dragoman.transport import RetryPolicy
from dragoman.transport.retry import RetryQuota, RetryState


class RowTurns:
    """``client`` is the client of the run."""

    def __init__(self, client: ClientConfig, prices: Prices) -> None:
        self.client = client
        # The run has the limits, the budgets and the routes. What remains is the policy, the events and the store.
        self.session_client = client.with_(limits=None, budgets=(), router=None, prices=prices)

    async def run(self, attempts: RowAttempts) -> Outcome | None:
        """Return the outcome of the row, or None if the run stops first.

        Raises errors that every row would meet, StoreError among them.
        """
        prompt, *system = attempts.pending.texts
        async with RowSession(self, attempts, *system) as session:
            try:
                run, output = attempts.run, cast("Any", attempts.run.form)
                reply = await session.ask(prompt, output=output, output_retries=run.output_retries)
            except OutputError as error:
                return await attempts.failed(error)
            except StoreError:
                raise
            except DragomanError as error:
                if is_fatal(error):
                    raise
                judged, text = await self._judge_error(session, error)
                return await attempts.failed(judged, text)
            return attempts.answered(reply.message)

    async def _judge_error(self, session: AsyncSession, error: DragomanError) -> tuple[DragomanError, str | None]:
        """Return the error of the row and its text, as the policy leaves it: a provider may quote the conversation."""
        if self.client.policy is None or isinstance(error, PolicyError):
            return error, None
        try:
            message = await session.apply_policy("llm_output", Message.assistant(str(error) or type(error).__name__))
        except PolicyDeniedError as denial:
            return denial, None
        return error, message.text


class RowSession(AsyncSession):
    """The session of one row."""

    def __init__(self, turns: RowTurns, attempts: RowAttempts, system: str | None = None) -> None:
        requester = attempts.run.requester
        self._row_labels = attempts.pending.labels
        self._attempts = attempts
        self._router = turns.client.router
        super().__init__(
            requester.model,
            system=system,
            client=turns.session_client,
            options=requester.options,
            labels=self._row_labels,
            durability="turn",
        )
        self._transports: Any = _RequesterTransports(requester, attempts)

    def _save(self, step: TurnStep | None = None, new: tuple[Message, ...] = ()) -> int | None:
        """Save a row that has an answer, or one that was billed."""
        if self.attempts or any(message.role is Role.ASSISTANT for message in (*self.messages, *new)):
            return super()._save(step, new)
        return None

    def _build_middlewares(self) -> tuple[Middleware, ...]:
        labels, attempts = partial(intercept, handle=self._check_labels), partial(intercept, handle=self._record)
        return (labels, *super()._build_middlewares(), attempts)

    @property
    def _unread_labels(self) -> UnreadLabels:
        """The run refuses labels that neither its policy nor its router reads."""
        return "read"

    def _check_labels(self, effect: Effect) -> Generator[Effect, Any, Any]:
        """Check the labels when the policy has seen the prompt, because plugins may add some."""
        if isinstance(effect, Send) and self._router is not None:
            labels = self._row_labels | self.labels
            check_labels(self._router, effect.adapter, effect.messages, effect.options, labels)
        return (yield effect)

    def _record(self, effect: Effect) -> Generator[Effect, Any, Any]:
        """Record each request in the manifest before it is sent, and settle it by its outcome."""
        if not isinstance(effect, Send):
            return (yield effect)
        yield _perform(self._attempts.begin, list(effect.messages))
        outcome: SendOutcome = yield effect
        match outcome:
            case Replied():
                headers = {} if outcome.response is None else outcome.response.headers
                yield _perform(self._attempts.succeed, outcome.message.usage, headers)
            case Failed(error=DragomanError() as error) | Broken(error=ProviderError() as error):
                wait = yield _perform(self._attempts.fail, error)
                if wait is not None and isinstance(error, ProviderError):
                    effect.retries.next_wait = wait
                    return Failed(error)
            case Broken():  # the policy denied the reply
                usage = None if outcome.partial is None else outcome.partial.usage
                headers = {} if outcome.response is None else outcome.response.headers
                yield _perform(self._attempts.succeed, usage, headers)
            case _:
                pass
        return outcome


class _RequesterTransports:
    """Stands in for the transports of a session: it sends through the requester, and the run decides about retries."""

    def __init__(self, requester: Requester, attempts: RowAttempts) -> None:
        self._requester = requester
        self._timing = attempts.run.controller.timing

    def get(self, adapter: Adapter) -> "_RequesterTransports":
        return self

    def new_retries(self, adapter: Adapter) -> RetryState:
        return RetryState(RetryPolicy(max_retries=0), RetryQuota(), self._timing)

    def arguments(self, adapter: Adapter, retries: RetryState) -> dict[str, Any]:
        return {}

    async def send(self, adapter: Adapter, request: WireRequest) -> WireResponse:
        return await self._requester.send(request)


def _perform(work: Any, *arguments: Any) -> Perform:
    return Perform(_refuse_sync, partial(work, *arguments))


def _refuse_sync() -> NoReturn:
    raise ConfigurationError("the rows of a bulk run are async")
