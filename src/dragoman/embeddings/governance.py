"""What a client governs when it embeds: policy, limits, budgets, events, prices and store."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from dragoman.adapter.context import bundled_prices
from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import ConfigurationError, DragomanError, EventOverflowError, ProviderError, RequestError
from dragoman.adapter.operations.embeddings.contract import (
    EmbeddingAdapter,
    EmbeddingInput,
    EmbeddingOptions,
    EmbeddingReply,
)
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.batch.governance import Work
from dragoman.batch.judge import BatchJudge
from dragoman.batch.requests import PreparedRequest
from dragoman.canonical.blocks import ImageBlock, TextBlock
from dragoman.canonical.ids import new_message_id, new_session_id, new_ulid
from dragoman.canonical.message import Message, MessageMetadata, MessageStatus, Role
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.limits.budget import BudgetAccounts, Budgets, Spend
from dragoman.limits.limits import Grant
from dragoman.policy.errors import PolicyDeniedError
from dragoman.runtime import ClientConfig
from dragoman.runtime.transports import Transports
from dragoman.session.effects import Perform
from dragoman.session.identity import with_identity
from dragoman.session.middleware.policy_hooks import perform
from dragoman.transport.retry import RetryState

logger = logging.getLogger("dragoman.embeddings")


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends a request through the transport of a provider, one attempt at a time."""

    adapter: Adapter
    transports: Transports[Any]

    def retries(self) -> RetryState:
        return self.transports.new_retries(self.adapter)

    def attempt(self, request: WireRequest, retries: RetryState) -> Perform:
        send = partial(self._send, request, retries)
        return Perform(send, send)

    def _send(self, request: WireRequest, retries: RetryState) -> Any:
        transport = self.transports.get(self.adapter)
        return transport.send(self.adapter, request, **self.transports.arguments(self.adapter, retries))


class EmbeddingGovernance:
    """One call. A client without settings governs nothing; a request then costs its price alone."""

    def __init__(
        self,
        client: ClientConfig,
        adapter: Adapter,
        embedding: EmbeddingAdapter,
        sender: Sender,
        labels: frozenset[str] = frozenset(),
        identity: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """``labels`` are those of all inputs, ``identity`` the ids of the user and the team. Raises ConfigurationError
        if nothing in the client reads them.
        """
        self._client = client
        self._adapter = adapter
        self._embedding = embedding
        self._sender = sender
        self._model = str(embedding.model_id)
        self._judge = None if client.policy is None and client.router is None else BatchJudge(client, adapter)
        self._labels = labels
        if self._judge is None and labels:
            raise ConfigurationError("labels are for a policy or a router: use a client that has one")
        self._prices = client.prices or bundled_prices()
        self._user_id, self._team_id = identity
        accounts = BudgetAccounts(client.budgets).for_turn(self._user_id, self._team_id, Spend)
        self._budgets = Budgets(accounts, self._prices, _now)
        self.session_id = new_session_id()
        self._turn_id = f"turn_{new_ulid()}"

    def check_policy(self, *, asynchronous: bool) -> None:
        """Raise ConfigurationError if a plugin needs an event loop and there is none."""
        policy = self._client.policy
        if not asynchronous and policy is not None and (names := policy.async_names):
            raise ConfigurationError(f"{', '.join(names)}: coroutines need embed_async, or an AsyncClient")

    def admit(
        self, inputs: Sequence[EmbeddingInput], numbers: Sequence[int], options: EmbeddingOptions
    ) -> Work[tuple[list[EmbeddingInput], EmbeddingOptions]]:
        """Return the inputs as they may be sent, with the headers to send. Raises PolicyDeniedError."""
        given = self._client.options or AdapterOptions()
        admitted = list(inputs)
        if self._judge is not None:
            for number in numbers:
                request = self._to_request(inputs[number], given)
                try:
                    judged: PreparedRequest = yield perform(self._judge.prompt(request))
                except PolicyDeniedError as denial:
                    self._report_denial(denial)
                    raise
                admitted[number] = _judged_input(number, inputs[number], judged.messages)
                given = judged.options
        return admitted, replace(options, headers=given.headers.get(self._adapter.provider, {}))

    @property
    def max_request_tokens(self) -> int | None:
        """The tokens that one request may have, so that it fits into every limit of the client."""
        limits = () if self._client.limits is None else self._client.limits.limits
        return min((each.tokens for each in limits if each.tokens and each.matches(self._model)), default=None)

    def send(
        self,
        wire: WireRequest,
        inputs: Sequence[EmbeddingInput],
        options: EmbeddingOptions,
        receive: Callable[[Message], None],
    ) -> Work[EmbeddingReply]:
        """Send one request, attempt after attempt. ``receive`` is called with the receipt of what was billed."""
        self._client.lifetime.check()
        tokens = self._estimate(inputs)
        retries = self._sender.retries()
        while True:
            reservation = self._budgets.reserve_input(self._model, tokens)
            try:
                grant = yield from self._acquire(tokens)
                self._report_start(tokens)
                started = retries.timing.clock()
                outcome = yield from self._attempt(wire, retries, grant)
                if isinstance(outcome, WireResponse):
                    reply, error = self._read(outcome, inputs, options)
                    receipt = self._to_receipt(reply.usage, started, retries)
                    receive(receipt)
                    reservation.settle(None if reply.usage is None else receipt.usage)
                    yield from self._settle(grant, receipt.usage, 1)
                    if error is None:
                        self._report_reply(receipt)
                        return reply
                    self._report_failure(error, started, retries)
                    raise error  # it was billed: a second attempt would be, too
                self._report_failure(outcome, started, retries)
            finally:
                reservation.release()
            if retries.next_wait is None:
                raise outcome
            wait = retries.next_wait
            yield Perform(partial(retries.timing.sleep, wait), partial(retries.timing.sleep_async, wait))

    def save(self, receipts: Mapping[int, Message]) -> Work[None]:
        """Save the receipts of the call as a session of its own, without content."""
        store = self._client.store
        if store is None or not receipts:
            return
        billed = [receipts[number] for number in sorted(receipts)]
        save = partial(store.create, self._model, session_id=self.session_id, attempts=billed)
        yield Perform(save, partial(asyncio.to_thread, save))

    def _acquire(self, tokens: int) -> Work[Grant | None]:
        if (limits := self._client.limits) is None:
            return None
        grant: Grant = yield Perform(
            partial(limits.acquire, self._model, tokens), partial(limits.acquire_async, self._model, tokens)
        )
        return grant

    def _attempt(
        self, wire: WireRequest, retries: RetryState, grant: Grant | None
    ) -> Work[WireResponse | ProviderError]:
        """Return the response or the error of one attempt. Raises what is no attempt, such as a missing key."""
        try:
            response: WireResponse = yield self._sender.attempt(wire, retries)
        except ProviderError as error:
            yield from self._observe(error)
            yield from self._settle(grant, None, 1)
            return error
        except DragomanError:
            yield from self._settle(grant, None, 0)
            raise
        yield from self._observe(response.headers)
        return response

    def _read(
        self, response: WireResponse, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions
    ) -> tuple[EmbeddingReply, ProviderError | None]:
        """Return the reply. If it cannot be used, return what is known of its usage, and the error."""
        try:
            return self._embedding.from_wire_response(response, inputs, options), None
        except ProviderError as error:
            return error.embedded or EmbeddingReply([]), error

    def _to_receipt(self, counted: TokenUsage | None, started: float, retries: RetryState) -> Message:
        """Return a message without content, with the price. Without counts the price is unknown, unless it is free."""
        usage = self._prices.price(self._model, counted or TokenUsage(), _now())
        if counted is None and usage.cost_status is not CostStatus.FREE:
            usage = Usage(unread=("usage",))
        usage = usage.model_copy(update={"latency_ms": max(round((retries.timing.clock() - started) * 1000), 0)})
        metadata = MessageMetadata(
            status=MessageStatus.COMPLETE, model=self._model, provider=self._adapter.provider, usage=usage
        )
        metadata = with_identity(metadata, self._user_id, self._team_id)
        return Message(role=Role.ASSISTANT, content=(), session_id=self.session_id, metadata=metadata)

    def _settle(self, grant: Grant | None, usage: Usage | None, requests: int) -> Work[None]:
        if (limits := self._client.limits) is not None and grant is not None:
            settle = partial(limits.settle, grant, usage, requests=requests)
            yield _log_errors(settle, partial(limits.settle_async, grant, usage, requests=requests))

    def _estimate(self, inputs: Sequence[EmbeddingInput]) -> int:
        """Return the estimated tokens, if anything needs them."""
        client = self._client
        if client.limits is None and client.events is None and not self._budgets.accounts:
            return 0
        return self._embedding.estimate_tokens(inputs)

    def _to_request(self, each: EmbeddingInput, options: AdapterOptions) -> PreparedRequest:
        message = Message.user(each if isinstance(each, str) else [each])
        name = self.session_id
        return PreparedRequest(
            custom_id=name,
            wire_id=name,
            session_id=name,
            messages=(message,),
            tools=(),
            options=options,
            labels=self._labels,
        )

    def _observe(self, headers_or_error: Mapping[str, str] | ProviderError) -> Work[None]:
        if (limits := self._client.limits) is not None:
            observe = partial(limits.observe, self._model, headers_or_error)
            yield _log_errors(observe, partial(limits.observe_async, self._model, headers_or_error))

    def _report_start(self, tokens: int) -> None:
        if self._client.events is not None:
            from dragoman.events.catalogue import LlmCallStarted

            model = {"model": self._model, "provider": self._adapter.provider}
            self._emit(partial(LlmCallStarted, **model, estimated_input_tokens=tokens, request_id=new_message_id()))

    def _report_reply(self, receipt: Message) -> None:
        if self._client.events is not None:
            from dragoman.events.catalogue import LlmCallCompleted

            self._emit(partial(LlmCallCompleted.of, receipt))

    def _report_failure(self, error: ProviderError, started: float, retries: RetryState) -> None:
        if self._client.events is not None:
            from dragoman.events.catalogue import LlmCallFailed

            latency = max(round((retries.timing.clock() - started) * 1000), 0)
            self._emit(partial(LlmCallFailed.of, self._model, error, latency_ms=latency))

    def _report_denial(self, denial: PolicyDeniedError) -> None:
        if self._client.events is not None:
            from dragoman.batch.handle import BatchDenial
            from dragoman.events.catalogue import PolicyDenied

            fields = BatchDenial.of(denial).model_dump(exclude={"description"})
            self._emit(partial(PolicyDenied.model_validate, fields))

    def _emit(self, make: Callable[[], Any]) -> None:
        assert self._client.events is not None
        with suppress(EventOverflowError):
            self._client.events.emit(make, session_id=self.session_id, turn_id=self._turn_id)


def _judged_input(number: int, before: EmbeddingInput, messages: Sequence[Message]) -> EmbeddingInput:
    """Return the input as a policy leaves it. Raises RequestError if it cannot be embedded any more."""
    content = messages[-1].content if len(messages) == 1 else ()
    if isinstance(before, str) and content and all(isinstance(block, TextBlock) for block in content):
        return "".join(getattr(block, "text", "") for block in content)
    if isinstance(before, ImageBlock) and content == (before,):
        return before
    raise RequestError(f"the policy changed input {number} in a way that cannot be embedded")


def _log_errors(work: Callable[[], Any], work_async: Callable[[], Any]) -> Perform:
    """Return the work as an effect that logs an error of the counters: the vectors are valid without them."""

    def run() -> None:
        try:
            work()
        except DragomanError as error:
            logger.warning("the limits could not count a request: %s", error)

    async def run_async() -> None:
        try:
            await work_async()
        except DragomanError as error:
            logger.warning("the limits could not count a request: %s", error)

    return Perform(run, run_async)


def _now() -> datetime:
    return datetime.now(UTC)
