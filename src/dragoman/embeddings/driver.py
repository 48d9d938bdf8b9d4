"""Embeds many inputs, sync and async, under the settings of a client."""

import asyncio
import contextvars
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError, DragomanError, RequestError
from dragoman.adapter.losses import Loss, LossKind, log_losses
from dragoman.adapter.operations.embeddings.capabilities import Purpose, Truncate
from dragoman.adapter.operations.embeddings.contract import (
    EmbeddingAdapter,
    EmbeddingInput,
    EmbeddingOptions,
    EmbeddingReply,
)
from dragoman.adapter.operations.embeddings.plan import plan_requests
from dragoman.adapter.operations.embeddings.vectors import Vector, check_lengths
from dragoman.adapter.registry import get_adapter
from dragoman.batch.governance import Work, carry_out, carry_out_async
from dragoman.canonical.blocks import ImageBlock
from dragoman.canonical.message import Message
from dragoman.embeddings.governance import EmbeddingGovernance, Sender
from dragoman.embeddings.result import Embeddings, PartialEmbeddings, sum_usage
from dragoman.runtime import ClientConfig
from dragoman.runtime.call_settings import read_call_settings
from dragoman.runtime.providers import merge_providers
from dragoman.runtime.transports import Transports
from dragoman.session.identity import Pseudonyms, resolve_identity
from dragoman.transport.settings import Providers, seal_keys

CONCURRENCY = 8
"""Requests of one call at a time, by default."""


def embedding_adapter(model: str) -> EmbeddingAdapter:
    """Return the embedding adapter for ``provider:model``.

    Raises ConfigurationError if the provider's adapter embeds nothing, and UnknownProviderError.
    """
    return _find(get_adapter(model))


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
    call = _Call(
        model, inputs, options, resume, labels, identity, concurrency, client, providers, settings, asynchronous=False
    )
    try:
        carry_out(call.prepare())
        if call.workers > 1:
            with ThreadPoolExecutor(call.workers) as pool:
                try:
                    running = [pool.submit(contextvars.copy_context().run, call.work) for _ in range(call.workers)]
                    for each in running:
                        each.result()
                except BaseException:
                    call.waiting.clear()  # the pool waits for its threads
                    raise
        else:
            call.work()
        return carry_out(call.finish())
    finally:
        for transport in call.own_transports():
            transport.close()


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
    call = _Call(
        model, inputs, options, resume, labels, identity, concurrency, client, providers, settings, asynchronous=True
    )
    try:
        await carry_out_async(call.prepare())
        if call.workers:
            async with asyncio.TaskGroup() as group:
                for _ in range(call.workers):
                    group.create_task(call.work_async())
        return await carry_out_async(call.finish())
    finally:
        for transport in call.own_transports():
            await transport.close()


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
        self._embedding = _find(adapter)
        self._options = options
        self._inputs = [inputs] if isinstance(inputs, (str, ImageBlock)) else list(inputs)
        self._requested = options
        self._vectors: list[Vector | None] = [None] * len(self._inputs)
        self._restored: tuple[Message, ...] = ()
        self._receipts: dict[int, Message] = {}
        """The receipts of the requests of this call; those of the call that it resumes are in ``_restored``."""
        if resume is not None:
            self._restore(resume)
        self._concurrency = concurrency
        self._losses: dict[Loss, None] = {}
        self._errors: dict[int, Exception] = {}
        self.waiting: list[tuple[int, list[int]]] = []
        """The requests that have not begun, the first one at the end: the numbers of their inputs."""
        transports, self._own = _transports(config, own, asynchronous=asynchronous)
        self._governance = EmbeddingGovernance(
            config, adapter, self._embedding, Sender(adapter, transports), frozenset(labels), identity
        )
        self._governance.check_policy(asynchronous=asynchronous)

    @property
    def workers(self) -> int:
        return min(self._concurrency, len(self.waiting))

    def prepare(self) -> Work[None]:
        """Judge the inputs, and split them into requests."""
        self._embedding.check(self._inputs, self._options)
        missing = [number for number, each in enumerate(self._vectors) if each is None]
        judged, self._options = yield from self._governance.admit(self._inputs, missing, self._options)
        plan = plan_requests(self._embedding, judged, self._options, missing, self._governance.max_request_tokens)
        self._sent = plan.inputs
        self._record(plan.losses)
        self.waiting = list(enumerate(plan.requests))[::-1]

    def work(self) -> None:
        """Send requests, one after the other, until none waits or one fails."""
        while (request := self._next()) is not None:
            try:
                carry_out(self._send(*request))
            except Exception as error:
                self._fail(request[0], error)

    async def work_async(self) -> None:
        while (request := self._next()) is not None:
            try:
                await carry_out_async(self._send(*request))
            except Exception as error:
                self._fail(request[0], error)

    def finish(self) -> Work[Embeddings]:
        """Save what was used. Return the vectors, or raise the error of the first request that failed."""
        try:
            yield from self._governance.save(self._receipts)
            if self._errors:
                raise self._errors[min(self._errors)]
        except DragomanError as error:
            error.embedded = PartialEmbeddings(
                str(self._embedding.model_id), list(self._vectors), self._key(), self._ordered_receipts
            )
            raise
        vectors = [each for each in self._vectors if each is not None]
        losses = tuple(sorted(self._losses, key=lambda loss: loss.block_index))
        log_losses(losses, session_id=self._governance.session_id, adapter=self._embedding.provider)
        dimensions = len(vectors[0])
        return Embeddings(
            model=str(self._embedding.model_id),
            vectors=vectors,
            dimensions=dimensions,
            usage=sum_usage(self._ordered_receipts),
            normalized=self._embedding.capabilities.is_normalized(dimensions),
            purpose=self._options.purpose,
            losses=losses,
            receipts=self._ordered_receipts,
        )

    def own_transports(self) -> list[Any]:
        """Return the transports of this call alone, to close them."""
        return [] if self._own is None else self._own.take_all()

    @property
    def _ordered_receipts(self) -> tuple[Message, ...]:
        return (*self._restored, *(self._receipts[number] for number in sorted(self._receipts)))

    def _next(self) -> tuple[int, list[int]] | None:
        try:
            return self.waiting.pop()
        except IndexError:
            return None

    def _send(self, request: int, numbers: list[int]) -> Work[None]:
        inputs = [self._sent[number] for number in numbers]
        wire = self._embedding.to_wire(inputs, self._options)
        self._record(wire.losses)

        def receive(receipt: Message) -> None:
            self._receipts[request] = receipt

        reply: EmbeddingReply = yield from self._governance.send(wire, inputs, self._options, receive)
        self._check_lengths(reply.vectors)
        for number, vector in zip(numbers, reply.vectors, strict=True):
            self._vectors[number] = vector
        reason = f"{self._embedding.model_id} reports that it cut the input"
        self._record(Loss(LossKind.TRUNCATED, "", numbers[each], reason, block_type="text") for each in reply.truncated)

    def _check_lengths(self, vectors: Sequence[Vector]) -> None:
        """Raise MalformedReplyError if an earlier reply had vectors of another length."""
        known = next((each for each in self._vectors if each is not None), None)
        if known is not None:
            check_lengths(vectors, len(vectors), len(known))

    def _key(self) -> str:
        return _digest(self._inputs, self._requested)

    def _fail(self, request: int, error: Exception) -> None:
        self._errors[request] = error
        self.waiting.clear()

    def _record(self, losses: Iterable[Loss]) -> None:
        self._losses.update(dict.fromkeys(losses))

    def _restore(self, resume: PartialEmbeddings) -> None:
        if (resume.model, resume.key) != (str(self._embedding.model_id), self._key()):
            raise RequestError("resume needs the model, the inputs and the options of the call that failed")
        self._vectors, self._restored = list(resume.vectors), resume.receipts


def _find(adapter: Adapter) -> EmbeddingAdapter:
    found = adapter.embeddings
    if found is None:
        raise ConfigurationError(f"{adapter.model_id}: its adapter embeds nothing")
    return found


def _transports(
    config: ClientConfig, own: Mapping[str, Mapping[str, Any]], *, asynchronous: bool
) -> tuple[Transports[Any], Transports[Any] | None]:
    """Return the transports of the client, or those of this call if it has settings of its own."""
    if not own:
        return config.connections.transports(asynchronous=asynchronous), None
    created: Transports[Any] = Transports(merge_providers(config.providers or {}, own), asynchronous=asynchronous)
    return created, created


def _digest(inputs: Sequence[EmbeddingInput], options: EmbeddingOptions) -> str:
    """Return what identifies the inputs and the options of a call."""
    digest = hashlib.sha256()
    for each in inputs:
        data = each if isinstance(each, str) else each.model_dump_json() if isinstance(each, ImageBlock) else repr(each)
        part = data.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(part) + part)
    digest.update(wirejson.dumps([options.dimensions, options.purpose, options.truncate]))
    return digest.hexdigest()
