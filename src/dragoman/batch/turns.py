"""The turns of a batch, in the events of its client: each request is one, which ends when its answer is fetched."""

from functools import partial

from dragoman.adapter.contract import Adapter
from dragoman.attempt.reports import CallReports, EventIds
from dragoman.batch.handle import BatchEntry
from dragoman.batch.requests import PreparedRequest
from dragoman.batch.results import BatchResult
from dragoman.canonical.message import Message, StopReason
from dragoman.policy.errors import PolicyDeniedError


def report_request(reports: CallReports, adapter: Adapter, request: PreparedRequest) -> None:
    """Report that a turn starts. One that is denied has ended."""
    if not reports.is_on:
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
    if not reports.is_on:
        return
    ids = EventIds(request.session_id, request.turn_id)
    reports.fail(ids, error)
    if isinstance(error, Exception):
        _report_end(reports, ids, None, 0.0)
    else:
        reports.cancel_turn(ids)


def report_result(reports: CallReports, entry: BatchEntry, result: BatchResult, seconds: float) -> None:
    """Report a result that was fetched ``seconds`` after its request was submitted."""
    if not reports.is_on:
        return
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
