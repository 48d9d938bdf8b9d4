"""Embeds many inputs, sync and async, under the settings of a client."""

import asyncio
import contextvars
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import ConfigurationError, DragomanError, ProviderError, RequestError
from dragoman.adapter.losses import Loss, LossKind, log_losses
from dragoman.adapter.operations.embeddings import (
    EmbeddingAdapter,
    EmbeddingInput,
    EmbeddingOptions,
    EmbeddingReply,
    Purpose,
    Truncate,
    Vector,
    check_lengths,
    plan_requests,
)
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.attempt.attempt import exchange_whole, run_attempts
from dragoman.attempt.governance import Governance, read_call_settings
from dragoman.attempt.reports import EventIds
from dragoman.canonical.blocks import ImageBlock, TextBlock
from dragoman.canonical.ids import new_session_id, new_ulid
from dragoman.canonical.message import Message, MessageMetadata, MessageStatus, Role, StopReason
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.effects import (
    Broken,
    Observe,
    Perform,
    Replied,
    ResponseDetails,
    SendOutcome,
    Work,
    drive,
    drive_async,
    in_thread,
)
from dragoman.embeddings.result import Embeddings, PartialEmbeddings, sum_usage
from dragoman.limits.reservation import MaxUsage
from dragoman.session.identity import Pseudonyms, resolve_identity
from dragoman.session.judge import Judge, Prompt
from dragoman.transport.settings import Providers, seal_keys

CONCURRENCY = 8
"""Requests of one call at a time, by default."""


def embedding_adapter(model: str) -> EmbeddingAdapter:
    """Return the embedding adapter for ``provider:model``.

    Raises ConfigurationError if the provider's adapter embeds nothing, and UnknownProviderError.
    """
    adapter = get_adapter(model)
    if (found := adapter.embeddings) is None:
        raise ConfigurationError(f"{adapter.model_id}: its adapter embeds nothing")
    return found


def embed(
    model: str,
    inputs: "Sequence[EmbeddingInput] | EmbeddingInput",
    *,
    dimensions: int | None = None,
    purpose: Purpose | None = None,
    truncate: Truncate | None = None,
    extra: Mapping[str, Any] | None = None,
    resume: PartialEmbeddings | None = None,
    labels: Iterable[str] = (),
    user_id: str | None = None,
    team_id: str | None = None,
    pseudonyms: Pseudonyms | None = None,
    concurrency: int = CONCURRENCY,
    client: Any = None,
    providers: Providers | None = None,
    **settings: Any,
) -> Embeddings:
    """Return one vector for each text or image, in their order.

    ``dimensions`` asks for shorter vectors, for the models that have them. ``purpose`` says whether the texts search or
    are to be found; models that embed both alike ignore it. An input that is too long is refused, unless ``truncate``
    says which part to leave out: ``end`` or ``start``. ``extra`` are body fields. ``labels`` are the security labels of
    the inputs, for the policy and the router of the client. ``user_id`` and ``team_id`` say whose budgets pay and are
    stored; they and ``pseudonyms`` are as for a `Session`. ``concurrency`` is how many requests are sent at a time.
    ``client`` and ``settings`` are as for `dragoman.services.Services`.

    Every request is retried by itself. If one fails for good, requests that have begun still end, the error is raised,
    and its ``embedded`` has the vectors so far: ``resume=error.embedded`` completes them, with the same inputs and
    options.

    Raises RequestError for inputs and options that the model does not accept and ContextOverflowError for an input that
    is too long, both before anything is sent; ConfigurationError, PolicyDeniedError, BudgetExceededError, and any
    ProviderError.
    """
    identity = resolve_identity(user_id, team_id, pseudonyms)
    options = EmbeddingOptions(dimensions=dimensions, purpose=purpose, truncate=truncate, extra=extra or {})
    sending = _Call(
        model, inputs, options, resume, labels, identity, concurrency, client, providers, settings, asynchronous=False
    )
    return drive(sending.run())


async def embed_async(
    model: str,
    inputs: "Sequence[EmbeddingInput] | EmbeddingInput",
    *,
    dimensions: int | None = None,
    purpose: Purpose | None = None,
    truncate: Truncate | None = None,
    extra: Mapping[str, Any] | None = None,
    resume: PartialEmbeddings | None = None,
    labels: Iterable[str] = (),
    user_id: str | None = None,
    team_id: str | None = None,
    pseudonyms: Pseudonyms | None = None,
    concurrency: int = CONCURRENCY,
    client: Any = None,
    providers: Providers | None = None,
    **settings: Any,
) -> Embeddings:
    """`embed`, async."""
    identity = resolve_identity(user_id, team_id, pseudonyms)
    options = EmbeddingOptions(dimensions=dimensions, purpose=purpose, truncate=truncate, extra=extra or {})
    sending = _Call(
        model, inputs, options, resume, labels, identity, concurrency, client, providers, settings, asynchronous=True
    )
    return await drive_async(sending.run())


class _Call:
    """The shared part of the sync and the async call: which requests wait, which vectors are there."""

    def __init__(
        self,
        model: str,
        inputs: "Sequence[EmbeddingInput] | EmbeddingInput",
        options: EmbeddingOptions,
        resume: PartialEmbeddings | None,
        labels: Iterable[str],
        identity: tuple[str | None, str | None],
        concurrency: int,
        client: Any,
        providers: Providers | None,
        settings: dict[str, Any],
        *,
        asynchronous: bool,
    ) -> None:
        settings = seal_keys(settings)
        if concurrency < 1:
            raise RequestError("concurrency must be at least 1")
        adapter = get_adapter(model)
        config, own = read_call_settings(adapter.provider, client, providers, settings)
        self._embedding = embedding_adapter(model)
        self._options = options
        self._inputs = [inputs] if isinstance(inputs, (str, ImageBlock)) else list(inputs)
        self._vectors: list[Vector | None] = [None] * len(self._inputs)
        self._labels = frozenset(labels)
        self._restored: tuple[Message, ...] = ()
        self._receipts: dict[int, Message] = {}
        """The receipts of the requests of this call; those of the call that it resumes are in ``_restored``."""
        if resume is not None:
            if (resume.model, resume.key) != (str(self._embedding.model_id), self._key()):
                raise RequestError("resume needs the model, the inputs and the options of the call that failed")
            self._vectors, self._restored = list(resume.vectors), resume.receipts
            self._labels |= resume.labels
        self._concurrency = concurrency
        self._losses: dict[Loss, None] = {}
        self._errors: dict[int, Exception] = {}
        self.waiting: list[tuple[int, list[int]]] = []
        """The requests that have not begun, the first one at the end: the numbers of their inputs."""
        self._owns_transports = bool(own)
        transports = config.lifetime.transports[asynchronous]
        if own:
            transports = config.new_transports(own, asynchronous=asynchronous)
        self._governance = Governance(config, adapter, transports, identity=identity)
        if not asynchronous:
            self._governance.check_coroutines("embed_async, or an AsyncClient")
        self._budgets = self._governance.new_budgets()
        self._ids = EventIds(new_session_id(), f"turn_{new_ulid()}")
        self._judge = Judge(config, adapter, self._governance.reports, self._ids.turn_id)

    @property
    def workers(self) -> int:
        return min(self._concurrency, len(self.waiting))

    def _prepare(self) -> Work[None]:
        """Judge the inputs, set the headers to send, and split the inputs into requests. Raises PolicyDeniedError,
        RequestError for an input that the policy changed too much, and ConfigurationError if nothing in the client
        reads the labels."""
        self._embedding.check(self._inputs, self._options)
        missing = [number for number, each in enumerate(self._vectors) if each is None]
        given, admitted, found = self._governance.client.options or AdapterOptions(), list(self._inputs), self._labels
        for number in missing:
            each = self._inputs[number]
            message = Message.user(each if isinstance(each, str) else [each])
            prompt = Prompt(session_id=self._ids.session_id, messages=(message,), options=given, labels=self._labels)
            judged = yield from self._judge.prompt(prompt)
            content = judged.messages[-1].content if len(judged.messages) == 1 else ()
            if isinstance(each, str) and content and all(isinstance(block, TextBlock) for block in content):
                admitted[number] = "".join(getattr(block, "text", "") for block in content)
            elif not (isinstance(each, ImageBlock) and content == (each,)):
                raise RequestError(f"the policy changed input {number} in a way that cannot be embedded")
            given = judged.options
            found |= judged.labels
        self._labels = found
        self._options = replace(self._options, headers=given.headers.get(self._embedding.provider, {}))
        # A request may have so many tokens that it fits into every limit of the client.
        limits = self._governance.client.limits
        fitting = () if limits is None else (each for each in limits.limits if each.matches(self._governance.model))
        most = min((each.tokens for each in fitting if each.tokens), default=None)
        plan = plan_requests(self._embedding, admitted, self._options, missing, most)
        self._sent = plan.inputs
        self._record(plan.losses)
        self.waiting = list(enumerate(plan.requests))[::-1]

    def run(self) -> Work[Embeddings]:
        """Send all requests, several at a time, and return the vectors."""
        clock = self._governance.new_retries().timing.clock
        started, reports = clock(), self._governance.reports
        if reports.is_on:  # the inputs of the call are the prompt of its turn
            from dragoman.events.catalogue import TurnStarted

            content = [TextBlock(text=each) if isinstance(each, str) else each for each in self._inputs]
            reports.emit(self._ids, partial(TurnStarted.of, Message.user(content)))
        failed: StopReason | None = None
        try:
            yield from self._prepare()
            if self.waiting:
                yield from self._governance.check_store()
            yield Perform(self._send_all, self._send_all_async)
            return (yield from self._finish())
        except BaseException as error:
            failed = StopReason.ERROR if isinstance(error, Exception) else StopReason.CANCELLED
            raise
        finally:
            if failed is StopReason.CANCELLED:
                reports.cancel_turn(self._ids)
            else:
                receipts = list(self._receipts.values())
                usage, seconds = sum_usage(receipts) if receipts else None, clock() - started
                reports.end_turn(self._ids, usage, calls=len(receipts), stop_reason=failed, seconds=seconds)
            if self._owns_transports:
                yield from self._governance.transports.close()

    def _send_all(self) -> None:
        if self.workers <= 1:
            drive(self._work())
            return
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                running = [
                    pool.submit(contextvars.copy_context().run, drive, self._work()) for _ in range(self.workers)
                ]
                for each in running:
                    each.result()
            except BaseException:
                self.waiting.clear()  # the pool waits for its threads
                raise

    async def _send_all_async(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self.workers):
                group.create_task(drive_async(self._work()))

    def _work(self) -> Work[None]:
        """Send requests, one after the other, until none waits or one fails."""
        while True:
            try:
                request, numbers = self.waiting.pop()  # a thread may have taken the last one
            except IndexError:
                return
            try:
                inputs = [self._sent[number] for number in numbers]
                wire = self._embedding.to_wire(inputs, self._options)
                self._record(wire.losses)
                reply = yield from self._fetch(request, wire, inputs)
                known = next((each for each in self._vectors if each is not None), None)
                if known is not None:  # an earlier reply may have had vectors of another length
                    check_lengths(reply.vectors, len(reply.vectors), len(known))
                for number, vector in zip(numbers, reply.vectors, strict=True):
                    self._vectors[number] = vector
                reason = f"{self._embedding.model_id} reports that it cut the input"
                self._record(
                    Loss(LossKind.TRUNCATED, "", numbers[each], reason, block_type="text") for each in reply.truncated
                )
            except Exception as error:
                self._errors[request] = error
                self.waiting.clear()

    def _finish(self) -> Work[Embeddings]:
        """Save what was used. Return the vectors, or raise the error of the first request that failed."""
        store = self._governance.client.store
        billed = [self._receipts[number] for number in sorted(self._receipts)]
        receipts = (*self._restored, *billed)
        try:
            if store is not None and billed:  # the receipts are a session of their own, without content
                user_id, team_id = self._governance.identity
                save = partial(store.create, attempts=billed, user_id=user_id, team_id=team_id)
                yield in_thread(partial(save, session_id=self._ids.session_id), self._governance.model)
            if self._errors:
                raise self._errors[min(self._errors)]
        except DragomanError as error:
            error.embedded = PartialEmbeddings(
                str(self._embedding.model_id), list(self._vectors), self._key(), receipts, self._labels
            )
            raise
        vectors = [each for each in self._vectors if each is not None]
        losses = tuple(sorted(self._losses, key=lambda loss: loss.block_index))
        log_losses(losses, session_id=self._ids.session_id, adapter=self._embedding.provider)
        dimensions = len(vectors[0])
        return Embeddings(
            model=str(self._embedding.model_id),
            vectors=vectors,
            dimensions=dimensions,
            usage=sum_usage(receipts),
            normalized=self._embedding.capabilities.is_normalized(dimensions),
            purpose=self._options.purpose,
            losses=losses,
            receipts=receipts,
            labels=self._labels,
        )

    def _fetch(self, request: int, wire: WireRequest, inputs: Sequence[EmbeddingInput]) -> Work[EmbeddingReply]:
        """Send one request, attempt after attempt, and keep the receipt of what was billed."""
        governance = self._governance
        client = governance.client
        client.lifetime.check()
        needs_estimate = client.limits is not None or client.events is not None or bool(self._budgets.accounts)
        tokens = self._embedding.estimate_tokens(inputs) if needs_estimate else 0
        retries = governance.new_retries()
        clock, started, reply = retries.timing.clock, None, EmbeddingReply([])

        def latency_ms() -> int | None:
            return None if started is None else max(round((clock() - started) * 1000), 0)

        def read(response: WireResponse) -> SendOutcome:
            nonlocal reply
            error: ProviderError | None = None
            try:
                reply = self._embedding.from_wire_response(response, inputs, self._options)
            except ProviderError as unusable:
                error, reply = unusable, unusable.embedded or EmbeddingReply([])
            receipt = self._receipts[request] = self._to_receipt(reply.usage, latency_ms())
            if reply.usage is None:  # what was estimated counts
                receipt = receipt.model_copy(update={"metadata": receipt.metadata.model_copy(update={"usage": None})})
            details = ResponseDetails(response.status, response.headers)
            return Replied(receipt, details) if error is None else Broken(error, receipt, False, details)

        def exchange(observers: tuple[Observe, ...], _: object) -> Work[SendOutcome]:
            nonlocal started
            started = clock()
            return exchange_whole(governance.send(wire, retries), read, observers)

        def attempt() -> Work[SendOutcome]:
            nonlocal started
            started = None
            use = MaxUsage(governance.model, TokenUsage(input_tokens=tokens))
            return governance.reports.follow(
                self._ids, tokens, governance.attempt(exchange, lambda: use, self._budgets), latency_ms
            )

        yield from run_attempts(retries, attempt)
        return reply

    def _to_receipt(self, counted: TokenUsage | None, latency_ms: int | None) -> Message:
        """Return a message without content, with the price. Without counts the price is unknown, unless it is free."""
        governance = self._governance
        usage = governance.prices.price(governance.model, counted or TokenUsage(), governance.now())
        if counted is None and usage.cost_status is not CostStatus.FREE:
            usage = Usage(unread=("usage",))
        usage = usage.model_copy(update={"latency_ms": latency_ms})
        metadata = MessageMetadata(
            status=MessageStatus.COMPLETE, model=governance.model, provider=governance.adapter.provider, usage=usage
        )
        session_id = self._ids.session_id
        return governance.identify(Message(role=Role.ASSISTANT, content=(), session_id=session_id, metadata=metadata))

    def _key(self) -> str:
        """Return what identifies the inputs and the options of the call."""
        digest = hashlib.sha256()
        for each in self._inputs:
            data = each.model_dump_json() if isinstance(each, ImageBlock) else str(each)
            part = data.encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(part) + part)
        options = self._options
        digest.update(wirejson.dumps([options.dimensions, options.purpose, options.truncate]))
        return digest.hexdigest()

    def _record(self, losses: Iterable[Loss]) -> None:
        self._losses.update(dict.fromkeys(losses))
