"""Forwards a request to another address of a provider unchanged; its reply is not read here
(docs/answers.md#forwarding)."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.wire import WireRequest
from dragoman.answers.provider_request import receipt
from dragoman.attempt.attempt import Attempt
from dragoman.canonical.usage import Usage
from dragoman.configuration.config import ClientConfig
from dragoman.configuration.transports import PlainTransport
from dragoman.effects import Abandoned, Broken, Failed, Replied, SendOutcome, iterate_async
from dragoman.limits.limits import LimitGovernor
from dragoman.limits.reservation import Governor, MeasureUsage
from dragoman.transport.contract import AsyncStreamedReply
from dragoman.transport.retry import RetryPolicy, RetryQuota, RetryState, Timing

_SECONDS = 600.0
_NO_RETRIES = RetryPolicy(max_retries=0)


@asynccontextmanager
async def forward(
    config: ClientConfig,
    adapter: Adapter,
    request: WireRequest,
    *,
    governors: Iterable[Governor],
    measure: MeasureUsage,
    used: Callable[[], Usage],
) -> AsyncIterator[AsyncStreamedReply]:
    """Send a request, and yield its reply as it arrives. It is sent once: who sent it decides on another attempt.

    ``governors`` and the limits of the client let it start, ``measure`` estimates for them what it may use, and
    ``used`` says what the reply used, when it has ended or was left. The reply may have any type.

    Raises ProviderError, RequestError, MissingKeyError, ConfigurationError, and what governors raise.
    """
    config.lifetime.check()
    transports = config.lifetime.transports[True]
    transport, timeout = transports.get(adapter), transports.timeout(adapter)
    if isinstance(transport, PlainTransport):
        raise ConfigurationError("the transport of this provider forwards nothing")
    retries = RetryState(_NO_RETRIES, RetryQuota(), Timing(), _SECONDS if timeout is None else timeout)
    outcome: SendOutcome = Abandoned()
    has_begun = False
    limits = () if config.limits is None else (LimitGovernor(config.limits, str(adapter.model_id)),)
    request = replace(request, any_type=True)
    steps: AsyncGenerator[Any, Any] = iterate_async(_attempt(Attempt((*governors, *limits), measure)))
    async with aclosing(steps) as work:
        observers = await anext(work)
        try:
            async with transport.stream(adapter, request, retries=retries) as reply:
                has_begun = True
                for observe in observers:
                    await observe(reply.headers).work_async()
                yield reply
            outcome = Replied(receipt(used()))
        except (GeneratorExit, asyncio.CancelledError):
            outcome = Abandoned(billed=receipt(used()))  # the provider may go on
            raise
        except Exception as error:
            outcome = Broken(error, receipt(used()), seen=True) if has_begun else Failed(error)
            raise
        finally:
            with suppress(StopAsyncIteration):
                await work.asend(outcome)


def _attempt(attempt: Attempt) -> Generator[Any, Any, SendOutcome]:
    """Run the attempt. Raises the error of a governor: then nothing was sent."""
    is_sent = False

    def exchange(observers: Any, stages: Any) -> Generator[Any, Any, SendOutcome]:
        nonlocal is_sent
        is_sent = True
        outcome: SendOutcome = yield observers
        return outcome

    outcome = yield from attempt.run(exchange)
    if isinstance(outcome, Failed) and not is_sent:
        raise outcome.error
    return outcome
