"""Follows a reply that its provider still works on to its end: asks for its state, reports progress, keeps a deadline.

No I/O: `follow` yields effects, as a turn does. They pass through no middleware, because all of it is one attempt.
"""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import DragomanError, ProviderError, RequestCancelledError, RequestTimeoutError
from dragoman.adapter.replies.message_events import message_events
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.events import BackgroundProgress, MessageComplete, UsageUpdate
from dragoman.canonical.log import get_logger
from dragoman.canonical.message import Message, MessageStatus
from dragoman.effects import Abandoned, Broken, Replied, SendOutcome, call
from dragoman.session.effects import AbandonedTurnError, Effect, Send, Wait, apply_stages

logger = get_logger("dragoman.transport")

FIRST_WAIT, MAX_WAIT, GROWTH = 1.0, 10.0, 1.5
"""Seconds between two requests, and how they grow."""
MAX_FAILURES = 5
"""Requests for the state that may fail in a row: the reply goes on without them."""

GetTransport = Callable[[Adapter], Any]


def is_unfinished(send: Send, outcome: SendOutcome) -> bool:
    """Whether the provider still works on the reply, and can be asked for it."""
    return (
        isinstance(outcome, Replied)
        and outcome.message.metadata.status is MessageStatus.PARTIAL
        and send.adapter.poll_request(outcome.message) is not None
    )


def follow(send: Send, first: Replied, get_transport: GetTransport) -> Generator[Effect, Any, SendOutcome]:
    """Yield effects until the reply has ended. If the caller leaves, or the deadline passes, it is cancelled."""
    timing, reply = send.retries.timing, first.message
    started, wait, failures = timing.clock(), FIRST_WAIT, 0
    waited = 0.0
    limit = send.options.background if type(send.options.background) in (int, float) else None
    context = replace(send.context, new_id=lambda: first.message.id)
    while (request := send.adapter.poll_request(reply)) is not None:
        spent = max(waited, timing.clock() - started)
        if limit is not None and spent >= limit:
            yield from _cancel(send.adapter, reply, get_transport)
            seconds = f"{limit:g} seconds"
            return _broken(
                send, reply, RequestTimeoutError(f"the reply was not complete in {seconds}: it is cancelled")
            )
        wait_now = wait if limit is None else min(wait, limit - spent)
        progress = BackgroundProgress(send.adapter.reply_state(reply), round(spent, 3))
        logger.info("%s: the reply is %s after %.0f s", send.adapter.provider, progress.state, spent)
        try:
            yield Wait(wait_now, timing, (progress,))
            waited, wait = waited + wait_now, min(wait * GROWTH, MAX_WAIT)
            response: WireResponse = yield call(get_transport(send.adapter).send, send.adapter, request)
        except AbandonedTurnError:
            yield from _cancel(send.adapter, reply, get_transport)
            return Abandoned(response=first.response)
        except ProviderError as error:
            failures += 1
            if not error.retryable or failures >= MAX_FAILURES:
                return _broken(send, reply, error)
            continue
        except DragomanError as error:
            return _broken(send, reply, error)
        failures = 0
        try:
            reply = send.adapter.from_wire_response(response, context)
        except DragomanError as error:  # the reply failed
            return _broken(send, reply, error)
    if reply.metadata.status is not MessageStatus.COMPLETE:
        return _broken(send, reply, RequestCancelledError(f"the reply ended as {reply.metadata.status}"))
    try:
        events = yield from apply_stages(send.stages, MessageComplete(reply))
    except Exception as error:
        return Broken(error, reply, True, first.response)
    judged = next(event for event in reversed(events) if isinstance(event, MessageComplete)).message
    usage = () if judged.usage is None else (UsageUpdate(judged.id, judged.usage),)
    yield Wait(0.0, timing, (*usage, *message_events(judged)))
    return replace(first, message=judged)


def _broken(send: Send, reply: Message, error: DragomanError) -> Broken:
    """Return the outcome of a reply that did not end well. It is not asked for again: it may have been billed."""
    if isinstance(error, ProviderError):
        error.provider, error.model = error.provider or send.adapter.provider, error.model or send.adapter.model
        error.partial = reply
    return Broken(error, reply, True)


def _cancel(adapter: Adapter, reply: Message, get_transport: GetTransport) -> Generator[Effect, Any, None]:
    """Ask the provider to stop. A failure is logged: the caller does not wait for the reply any more."""
    request = adapter.cancel_request(reply)
    if request is None:
        return
    try:
        yield call(get_transport(adapter).send, adapter, request)
    except Exception as error:
        logger.warning("%s: the reply could not be cancelled: %s", adapter.provider, error)
