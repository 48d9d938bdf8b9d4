"""Reads the answers of a batch, puts them into the order of its requests, and reports each request as a turn to the
event bus."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

from dragoman.adapter.contract import Adapter, RequestContext
from dragoman.adapter.errors import (
    InvalidRequestError,
    MalformedReplyError,
    ProviderError,
    RequestCancelledError,
    ServerError,
    StreamTruncatedError,
)
from dragoman.adapter.operations.batch_api import BatchApi, BatchState, BatchStatus
from dragoman.adapter.requests.call_translators import AnswerTool, ToolNames
from dragoman.attempt.reports import CallReports, EventIds
from dragoman.batch.handle import BatchEntry, BatchHandle
from dragoman.batch.requests import PreparedRequest
from dragoman.canonical.events import OutputProblem
from dragoman.canonical.message import Message, MessageMetadata, Role, StopReason
from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.effects import Broken, Failed, Replied, SendOutcome
from dragoman.output.answer_type import AnswerForm
from dragoman.output.check import AnswerCheck
from dragoman.output.errors import OutputError
from dragoman.policy.errors import PolicyDeniedError
from dragoman.pricing import PriceTable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchError:
    """Why a request of a batch has no answer; ``error`` is what the same failure raises in a live call.

    ``usage`` is that of an answer that was billed and cannot be used, or that the client's policy denied.
    """

    custom_id: str
    """The caller's id of the request."""
    error: ProviderError | PolicyDeniedError | OutputError
    usage: Usage | None = None

    @property
    def error_class(self) -> str:
        """The class of a ProviderError, or the name of the other errors."""
        return self.error.error_class if isinstance(self.error, ProviderError) else type(self.error).__name__

    @property
    def error_message(self) -> str:
        """The text of ``error``."""
        return str(self.error)

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed in another batch or in a live call."""
        return isinstance(self.error, ProviderError) and self.error.retryable


BatchResult = Message | BatchError

_STATUS_ERRORS: dict[BatchStatus, tuple[type[ProviderError], str]] = {
    BatchStatus.CANCELLED: (RequestCancelledError, "the batch was cancelled before this request"),
    BatchStatus.EXPIRED: (ServerError, "the batch expired before this request: submit it again"),
    BatchStatus.FAILED: (InvalidRequestError, "the provider rejected the batch"),
}


@dataclass(frozen=True, slots=True)
class BatchPrices:
    """A price table that marks usages as batch usages: not every provider does so in the reply."""

    table: PriceTable

    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage:
        return self.table.price(model_id, usage, at, batch=True)


class ResultReader:
    """Reads the lines of a batch's downloads, one at a time."""

    def __init__(self, adapter: Adapter, wire: BatchApi, handle: BatchHandle, prices: BatchPrices) -> None:
        self._adapter = adapter
        self._wire = wire
        self._handle = handle
        self._prices = prices
        self._pending = {entry.wire_id: entry for entry in handle.entries if entry.denial is None}

    def read(self, line: bytes) -> tuple[str, BatchResult] | None:
        """Return the request's id and its answer. None for a second answer, or an unknown request.

        Raises MalformedReplyError if it is not a line of results.
        """
        wire_id, outcome = self._wire.decode_line(line)
        entry = self._pending.pop(wire_id, None)
        if entry is None:
            return None
        if isinstance(outcome, ProviderError):
            return entry.custom_id, BatchError(entry.custom_id, outcome)
        at = self._handle.submitted_at
        context = RequestContext(
            model=self._handle.model, session_id=entry.session_id, prices=self._prices, clock=lambda: at
        )
        context.tool_names = ToolNames(entry.tool_names) if entry.tool_names else None
        context.answer_tool = AnswerTool() if entry.answers_by_tool else None
        try:
            return entry.custom_id, self._adapter.from_wire_response(outcome, context)
        except ProviderError as error:
            billed = None if error.partial is None else error.partial.usage
            usage = None if billed is None else billed.as_lower_bound()
            return entry.custom_id, BatchError(entry.custom_id, error, usage)

    def iter_denied(self) -> Iterator[tuple[str, BatchResult]]:
        """Yield the requests that the client's policy denied before they were sent."""
        for entry in self._handle.entries:
            if entry.denial is not None:
                yield entry.custom_id, BatchError(entry.custom_id, entry.denial.to_error())

    def iter_missing(self, state: BatchState) -> Iterator[tuple[str, BatchResult]]:
        """Yield the requests that no download has mentioned, with the reason.

        Raises StreamTruncatedError if the provider says that the batch is complete.
        """
        if self._pending and state.status is BatchStatus.COMPLETED:
            raise StreamTruncatedError(
                f"the results lack {len(self._pending):,} of {self._handle.request_count:,} answers: fetch them again",
                provider=self._wire.provider,
            )
        unknown = (ServerError, "the batch has ended without an answer to this request")
        error_class, message = _STATUS_ERRORS.get(state.status, unknown)
        for entry in self._pending.values():
            error = error_class(
                state.problem or message, provider=self._wire.provider, model=self._wire.model, code=state.status
            )
            yield entry.custom_id, BatchError(entry.custom_id, error)


def to_outcome(result: BatchResult) -> SendOutcome:
    """Return how the request ended, for what is reserved for it."""
    if isinstance(result, Message):
        return Replied(result)
    if result.usage is None and not isinstance(result.error, MalformedReplyError):
        return Failed(result.error)
    billed = Message(role=Role.ASSISTANT, content=(), metadata=MessageMetadata(usage=result.usage))
    return Broken(result.error, billed, seen=False)


def read_output(custom_id: str, result: BatchResult, form: AnswerForm[T]) -> "T | BatchError":
    """Return the value of an answer, or why there is none."""
    if isinstance(result, BatchError):
        return result
    check = AnswerCheck(form, 0)
    try:
        check.correction(result)
    except OutputError as error:
        return BatchError(custom_id, error, result.usage)
    if check.values:
        return check.values[0]
    problem = OutputProblem((), "the reply calls tools: a batch does not run them")
    return BatchError(custom_id, OutputError([problem], result.text), result.usage)


def sort_results(handle: BatchHandle, results: Iterable[tuple[str, BatchResult]]) -> list[BatchResult]:
    by_id = dict(results)
    return [by_id[custom_id] for custom_id in handle.custom_ids]


# Each request of a batch is a turn in the events of its client, which ends when its answer is fetched.


def report_request(reports: CallReports, adapter: Adapter, request: PreparedRequest) -> None:
    """Report that a turn starts. One that is denied has ended."""
    if not reports.is_on:  # the tokens take long to estimate
        return
    from dragoman.events.catalogue import TurnStarted

    ids = EventIds(request.session_id, request.turn_id)
    reports.emit(ids, partial(TurnStarted.of, request.messages[-1], request.messages[:-1]))
    if request.denial is None:
        reports.start(ids, adapter.estimate_input_tokens(request.messages, request.tools))
    else:
        reports.deny(ids, request.denial.to_error())
        _report_end(reports, ids, None, 0.0)


def report_failure(reports: CallReports, request: PreparedRequest, error: BaseException) -> None:
    """Report that a request was not submitted. An error that is not an Exception is a caller who left."""
    ids = EventIds(request.session_id, request.turn_id)
    reports.fail(ids, error)
    if isinstance(error, Exception):
        _report_end(reports, ids, None, 0.0)
    else:
        reports.cancel_turn(ids)


def report_result(reports: CallReports, entry: BatchEntry, result: BatchResult, seconds: float) -> None:
    """Report a result that was fetched ``seconds`` after its request was submitted."""
    ids = EventIds(entry.session_id, entry.turn_id)
    if isinstance(result, Message):
        reports.complete(ids, result)
    elif isinstance(result.error, PolicyDeniedError):
        reports.deny(ids, result.error)
    else:
        reports.fail(ids, result.error)
    _report_end(reports, ids, result, seconds)


def _report_end(reports: CallReports, ids: EventIds, result: BatchResult | None, seconds: float) -> None:
    reports.end_turn(
        ids,
        None if result is None else result.usage,
        calls=int(isinstance(result, Message)),
        stop_reason=result.stop_reason if isinstance(result, Message) else StopReason.ERROR,
        seconds=seconds,
    )
