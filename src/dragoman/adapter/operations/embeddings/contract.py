"""EmbeddingAdapter: one embedding model behind one wire (docs/reference/contract.md#embeddings)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from dragoman.adapter import wirejson
from dragoman.adapter.errors import MalformedReplyError, ProviderError, RequestError
from dragoman.adapter.facts.capabilities import deep_merge
from dragoman.adapter.facts.token_estimate import estimate_tokens
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.operations.embeddings.capabilities import EmbeddingCapabilities, EmbeddingTable, Purpose, Truncate
from dragoman.adapter.operations.embeddings.vectors import Vector, check_lengths, read_vector
from dragoman.adapter.replies.stream_decoder import wrap_malformed
from dragoman.adapter.replies.usage_reader import UsageReader
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.blocks import ImageBlock
from dragoman.canonical.ids import ModelId
from dragoman.canonical.message import Message
from dragoman.canonical.usage import TokenUsage

EmbeddingInput = str | ImageBlock
"""A text, or an image for the models that read images."""
ErrorDecoder = Callable[[int | None, bytes, Mapping[str, str]], ProviderError]
"""`Adapter.error` of the same provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingOptions:
    """The options of a request. None leaves an option to the provider.

    An input that is too long is refused unless ``truncate`` says which part to leave out. ``extra`` are body fields
    that override those of the adapter.
    """

    dimensions: int | None = None
    """The length of each vector; None asks for the model's own."""
    purpose: Purpose | None = None
    """What the vectors are for, such as a query or a document."""
    truncate: Truncate | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further HTTP headers of the request."""
    extra: Mapping[str, Any] = field(default_factory=dict)


class NativeEmbeddings(NamedTuple):
    """A reply whose vectors are not read yet: lists of numbers or base64, in the order of the inputs.

    ``usage`` is None if the provider reports none; ``truncated`` are the numbers of inputs that it reports as cut.
    """

    vectors: Any
    """The vectors in the provider's own form."""
    usage: TokenUsage | None = None
    truncated: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EmbeddingReply:
    """The vectors of one request, in the order of its inputs; the rest is as in `NativeEmbeddings`."""

    vectors: list[Vector]
    """One vector for each input."""
    usage: TokenUsage | None = None
    """The tokens of the request; None if the provider reports none."""
    truncated: tuple[int, ...] = ()
    """The indices of inputs that the provider reports as cut, from 0."""


class EmbeddingAdapter(ABC):
    """The embeddings of one model. Subclasses declare ``models`` and implement `encode` and `decode`.

    ``error`` is `Adapter.error` of the same provider, whose address and key hold here too.
    """

    models: ClassVar[EmbeddingTable]

    def __init__(self, provider: str, model: str, error: ErrorDecoder) -> None:
        self.provider = provider
        """The name under which the provider is registered."""
        self.model = model
        """The name of the model, without the provider."""
        self.error = error

    @property
    def model_id(self) -> ModelId:
        """The provider and the model."""
        return ModelId(self.provider, self.model)

    @property
    def capabilities(self) -> EmbeddingCapabilities:
        """What the model can do, from the table in ``models``."""
        return self.models.capabilities(str(self.model_id))

    @abstractmethod
    def encode(self, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of a request."""

    @abstractmethod
    def decode(self, native: dict[str, Any], response: WireResponse) -> NativeEmbeddings:
        """Decode a reply. Raises MalformedReplyError."""

    def to_wire(self, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions) -> WireRequest:
        """Encode a request. The same input gives the same bytes and losses in every process.

        Raises RequestError for inputs and options that the model does not accept. Lengths of texts are not checked:
        `plan_requests` does that, for many requests.
        """
        self.check(inputs, options)
        facts = self.capabilities
        losses: tuple[Loss, ...] = ()
        if options.purpose is not None and options.purpose not in {**facts.purposes, **facts.prefixes}:
            reason = f"{self.model_id} embeds every purpose alike: {options.purpose!r} is not sent"
            losses = (Loss(LossKind.OPTION, "", -1, reason, Severity.INFO),)
        prefix = facts.prefixes.get(options.purpose, "") if options.purpose else ""
        if prefix:
            inputs = [prefix + each if isinstance(each, str) else each for each in inputs]
        path, body = self.encode(inputs, options)
        body = {name: value for name, value in deep_merge(body, options.extra).items() if value is not ...}
        return WireRequest("POST", path, wirejson.dumps(body), _headers(options.headers), losses=losses)

    def from_wire_response(
        self, response: WireResponse, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions
    ) -> EmbeddingReply:
        """Decode the reply to these inputs.

        Raises the provider's error for a status of 400 and over, and MalformedReplyError for vectors that do not fit
        the request; its ``embedded`` is then a reply without vectors, with the usage that was billed.
        """
        with wrap_malformed(self.provider):
            if response.status >= 400:
                raise self.error(response.status, response.body, response.headers)
            native = self.decode(wirejson.loads_object(response.body), response)
            try:
                vectors = _read_vectors(native.vectors)
                check_lengths(vectors, len(inputs), options.dimensions)
            except MalformedReplyError as error:
                error.provider, error.model = self.provider, self.model
                error.embedded = EmbeddingReply([], native.usage)
                raise
            return EmbeddingReply(vectors, native.usage, native.truncated)

    def check(self, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions) -> None:
        """Raise RequestError for inputs and options that the model does not accept."""
        facts = self.capabilities
        if not inputs:
            raise RequestError("there is nothing to embed: pass at least one text")
        for number, each in enumerate(inputs):
            if isinstance(each, str):
                if not each:
                    raise RequestError(f"input {number} is an empty text, which no model embeds: leave it out")
            elif not isinstance(each, ImageBlock):
                raise RequestError(f"input {number} is of the class {type(each).__name__}: pass texts or ImageBlocks")
            elif "image" not in facts.media:
                raise RequestError(f"input {number} is an image, and {self.model_id} reads only texts")
            elif each.source.kind != "base64" or each.media_type not in facts.image_types:
                raise RequestError(
                    f"input {number}: {self.model_id} reads images as base64, of the types"
                    f" {', '.join(facts.image_types)}"
                )
        if options.dimensions is not None and not facts.accepts_dimensions(options.dimensions):
            raise RequestError(
                f"{self.model_id} has no vectors of {options.dimensions} dimensions: {describe_dimensions(facts)}"
            )

    def estimate_tokens(self, inputs: Sequence[EmbeddingInput]) -> int:
        """Estimate the tokens of these inputs locally, at least 1."""
        messages = [Message.user(each if isinstance(each, str) else [each]) for each in inputs]
        return estimate_tokens(str(self.model_id), messages, ())

    def read_usage(self, native: Any, *paths: str) -> TokenUsage | None:
        """Return the input tokens at the first of these paths of a usage object; None if there is none."""
        reader = UsageReader.of(native)
        if reader is None:
            return None
        tokens = reader.optional(*paths)
        if tokens is None and not reader.unread:
            return None
        return TokenUsage(input_tokens=tokens or 0, unread=reader.unread, raw=native)

    def provider_cuts(self, options: EmbeddingOptions) -> bool:
        """Whether the provider is to cut inputs that are too long; otherwise they are cut before they are sent."""
        return options.truncate in self.capabilities.truncates

    def purpose_word(self, options: EmbeddingOptions) -> str | None:
        """Return the provider's word for the purpose; None if nothing is to be sent."""
        facts = self.capabilities
        purpose = options.purpose or facts.default_purpose
        return None if purpose is None else facts.purposes.get(purpose)


def describe_dimensions(facts: EmbeddingCapabilities) -> str:
    if facts.dimension_choices:
        return f"it has {', '.join(map(str, facts.dimension_choices))}"
    if facts.dimension_range is not None:
        return f"it has {facts.dimension_range[0]} to {facts.dimension_range[1]}"
    return f"it has {facts.dimensions} alone"


def _read_vectors(values: Any) -> list[Vector]:
    if not isinstance(values, list):
        raise MalformedReplyError("the reply has no list of vectors")
    return [read_vector(each) for each in values]


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {"content-type": "application/json", **{name.lower(): value for name, value in headers.items()}}
