"""What a client governs in its batches: policy, labels, limits, budgets, events and store."""

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError, EventOverflowError, ProviderError
from dragoman.batch.handle import BatchDenial, BatchEntry, BatchHandle
from dragoman.batch.requests import PreparedRequest
from dragoman.batch.results import BatchPrices, BatchResult
from dragoman.canonical.extensions.message_labels import with_message_labels
from dragoman.canonical.ids import new_message_id, new_session_id, new_ulid
from dragoman.canonical.message import Message, Role, StopReason
from dragoman.canonical.usage import CostStatus
from dragoman.limits.budget import BudgetAccounts, Budgets, Reservation, Spend
from dragoman.policy.errors import PolicyDeniedError
from dragoman.runtime import ClientConfig
from dragoman.session.effects import Perform

if TYPE_CHECKING:
    from dragoman.batch.judge import BatchJudge
    from dragoman.events.event import Payload

ResultT = TypeVar("ResultT")
Work = Generator[Perform, Any, ResultT]
"""Work that may wait: each effect is carried out by `carry_out` or `carry_out_async`."""


def carry_out(work: Work[ResultT]) -> ResultT:
    try:
        effect = next(work)
        while True:
            try:
                outcome = effect.work()
            except Exception as error:
                effect = work.throw(error)
            else:
                effect = work.send(outcome)
    except StopIteration as done:
        result: ResultT = done.value
        return result


async def carry_out_async(work: Work[ResultT]) -> ResultT:
    try:
        effect = next(work)
        while True:
            try:
                outcome = await effect.work_async()
            except Exception as error:
                effect = work.throw(error)
            else:
                effect = work.send(outcome)
    except StopIteration as done:
        result: ResultT = done.value
        return result


class BatchGovernance:
    """What the client of one `Batches` governs. A client without settings governs nothing, and costs nothing."""

    def __init__(
        self, client: ClientConfig, adapter: Adapter, prices: BatchPrices, now: Callable[[], datetime]
    ) -> None:
        self.client = client
        self._adapter = adapter
        self._now = now
        self._prices = prices
        self._accounts = BudgetAccounts(client.budgets)
        self._reservations: dict[tuple[str, str], Reservation] = {}
        """Of requests that were submitted and not fetched yet, by batch and request."""
        self._judge = _new_judge(client, adapter)

    def admit(self, request: PreparedRequest) -> Work[PreparedRequest]:
        """Return the request as it may be sent, or with the reason why it may not."""
        if self._judge is None and request.labels:
            raise ConfigurationError("labels are for a policy or a router: use a client that has one")
        if self.client.events is not None:
            request = replace(request, turn_id=f"turn_{new_ulid()}")
        if self.client.store is not None:  # saved as a session of its own
            session_id = new_session_id()
            messages = tuple(each.model_copy(update={"session_id": session_id}) for each in request.messages)
            request = replace(request, session_id=session_id, messages=messages)
        if self._judge is None:
            return request
        from dragoman.session.middleware.policy_hooks import perform

        try:
            judged: PreparedRequest = yield perform(self._judge.prompt(request))
        except PolicyDeniedError as error:
            return replace(request, denial=BatchDenial.of(error))
        return judged

    def reserve(self, requests: Sequence[PreparedRequest]) -> dict[str, Reservation]:
        """Reserve the highest possible cost of each request, or of none. Raises BudgetExceededError."""
        reservations: dict[str, Reservation] = {}
        try:
            for each in requests:
                accounts = self._accounts.for_turn(None, None, Spend)
                budgets = Budgets(accounts, self._prices, self._now)
                reservations[each.custom_id] = budgets.reserve(self._adapter, each.messages, each.tools, each.options)
        except BaseException:
            release(reservations)
            raise
        return reservations

    def save_prompts(self, requests: Sequence[PreparedRequest]) -> Work[None]:
        """Save each request that is to be sent as a new session."""
        store = self.client.store
        if store is None:
            return
        model = str(self._adapter.model_id)
        for each in requests:
            labels = frozenset(each.labels)
            messages = [with_message_labels(message, labels) for message in each.messages]
            yield _in_thread(partial(store.create, model, messages, session_id=each.session_id))

    def send(self, post: Callable[[], Any]) -> Work[str]:
        """Submit the batch when the limits allow one more request. Return the provider's id."""
        limits, model = self.client.limits, str(self._adapter.model_id)
        if limits is not None:
            # The tokens of a batch do not count: providers count those apart.
            grant = yield Perform(partial(limits.acquire, model), partial(limits.acquire_async, model))
        try:
            batch_id: str = yield Perform(post, post)
        finally:
            if limits is not None:
                yield Perform(partial(limits.settle, grant, None), partial(limits.settle_async, grant, None))
        return batch_id

    def submitted(
        self, handle: BatchHandle, requests: Sequence[PreparedRequest], reservations: dict[str, Reservation]
    ) -> None:
        self._reservations.update(((handle.batch_id, name), each) for name, each in reservations.items())
        if self.client.events is not None:
            for each in requests:
                self._report_request(each)

    def receive(self, handle: BatchHandle, entry: BatchEntry, result: BatchResult) -> Work[BatchResult]:
        """Return a result as the caller may receive it, and settle, report and save it."""
        if self._judge is not None and entry.denial is None:
            from dragoman.session.middleware.policy_hooks import perform

            result = yield perform(self._judge.answer(entry, result))
        if isinstance(result, Message):
            result = with_message_labels(result, frozenset(entry.labels) | (result.metadata.labels or frozenset()))
        reservation = self._reservations.pop((handle.batch_id, entry.custom_id), None)
        if reservation is not None:
            reservation.release() if result.usage is None else reservation.settle(result.usage)
        if self.client.events is not None and entry.denial is None:
            self._report_result(handle, entry, result)
        if self.client.store is not None and isinstance(result, Message):
            yield _in_thread(partial(self._save_answer, entry.session_id, result))
        return result

    def _save_answer(self, session_id: str, answer: Message) -> None:
        """Add the answer to its session, unless an earlier fetch did."""
        from dragoman.store.errors import SessionNotFoundError

        store = self.client.store
        assert store is not None
        try:
            stored = store.load(session_id)
        except SessionNotFoundError:  # submitted by a client without this store
            store.create(str(self._adapter.model_id), (answer,), session_id=session_id)
            return
        if not stored.messages or stored.messages[-1].role is not Role.ASSISTANT:
            store.append(session_id, (answer,), expected_version=stored.version)

    def _report_request(self, request: PreparedRequest) -> None:
        from dragoman.events.catalogue import LlmCallStarted, PolicyDenied, TurnStarted

        ids = (request.session_id, request.turn_id)
        self._emit(ids, partial(TurnStarted.of, request.messages[-1], request.messages[:-1]))
        if request.denial is not None:
            self._emit(ids, partial(PolicyDenied.model_validate, request.denial.model_dump(exclude={"description"})))
            self._emit(ids, partial(_turn_completed, None, StopReason.ERROR, 0.0))
            return
        tokens = self._adapter.estimate_input_tokens(request.messages, request.tools)
        model = {"model": str(self._adapter.model_id), "provider": self._adapter.provider}
        self._emit(ids, partial(LlmCallStarted, **model, estimated_input_tokens=tokens, request_id=new_message_id()))

    def _report_result(self, handle: BatchHandle, entry: BatchEntry, result: BatchResult) -> None:
        from dragoman.events.catalogue import LlmCallCompleted, LlmCallFailed, PolicyDenied

        ids = (entry.session_id, entry.turn_id)
        seconds = max((self._now() - handle.submitted_at).total_seconds(), 0.0)
        if isinstance(result, Message):
            self._emit(ids, partial(LlmCallCompleted.of, result))
            self._emit(ids, partial(_turn_completed, result, result.stop_reason, seconds))
            return
        error = result.error
        if isinstance(error, ProviderError):
            self._emit(ids, partial(LlmCallFailed.of, handle.model, error))
        elif isinstance(error, PolicyDeniedError):
            denial = BatchDenial.of(error)
            self._emit(ids, partial(PolicyDenied.model_validate, denial.model_dump(exclude={"description"})))
        self._emit(ids, partial(_turn_completed, result, StopReason.ERROR, seconds))

    def _emit(self, ids: tuple[str, str | None], make: "Callable[[], Payload]") -> None:
        session_id, turn_id = ids
        assert self.client.events is not None
        with suppress(EventOverflowError):
            self.client.events.emit(make, session_id=session_id, turn_id=turn_id)


def _new_judge(client: ClientConfig, adapter: Adapter) -> "BatchJudge | None":
    if client.policy is None and client.router is None:
        return None
    from dragoman.batch.judge import BatchJudge

    return BatchJudge(client, adapter)


def release(reservations: dict[str, Reservation]) -> None:
    for each in reservations.values():
        each.release()


def _turn_completed(result: BatchResult | None, stop_reason: StopReason | None, seconds: float) -> "Payload":
    from dragoman.events.catalogue import TurnCompleted

    usage = None if result is None else result.usage
    known = usage is not None and usage.cost_status in (CostStatus.PRICED, CostStatus.FREE)
    return TurnCompleted(
        stop_reason=stop_reason,
        llm_call_count=int(isinstance(result, Message)),
        tool_call_count=0,
        total_input_tokens=None if usage is None else usage.prompt_tokens,
        total_output_tokens=None if usage is None else usage.output_tokens,
        total_cost_usd=usage.cost_usd if usage is not None and known else None,
        wall_time_seconds=seconds,
    )


def _in_thread(work: Callable[[], Any]) -> Perform:
    return Perform(work, partial(asyncio.to_thread, work))
