"""EmbeddingAdapter: one embedding model behind one wire, its vectors, and how inputs become requests within its limits
(docs/reference/contract.md#embeddings).
"""

import binascii
import math
import sys
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import Field

from dragoman.adapter import wirejson
from dragoman.adapter.errors import (
    UNREADABLE_ERRORS,
    ContextOverflowError,
    MalformedReplyError,
    ProviderError,
    RequestError,
)
from dragoman.adapter.facts.capabilities import ABSENT, FactTable, Support, deep_merge, merge_rows
from dragoman.adapter.facts.token_estimate import estimate_tokens
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.replies.error_context import malformed_reply
from dragoman.adapter.replies.reply_builder import UsageReader
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.blocks import FrozenModel, ImageBlock
from dragoman.canonical.ids import ModelId
from dragoman.canonical.message import Message
from dragoman.canonical.usage import TokenUsage

Purpose = Literal["query", "document"]
"""The purpose of a vector: to search, or to be found."""
Truncate = Literal["end", "start"]
"""Which part of an input that is too long is left out."""


class EmbeddingCapabilities(FrozenModel):
    """One model's abilities and limits. None is unknown."""

    dimensions: int | None = None
    """The length of a vector if a request asks for no other."""
    dimension_range: tuple[int, int] | None = None
    """The shortest and the longest vector that a request may ask for."""
    dimension_choices: tuple[int, ...] = ()
    """The lengths that a request may ask for, if only some are allowed."""
    max_input_tokens: int | None = None
    """The most tokens of one input."""
    max_inputs: int = Field(default=1, ge=1)
    """The most inputs of one request."""
    max_images: int | None = None
    """The most images of one request, if fewer than inputs."""
    max_request_tokens: int | None = None
    """The most tokens of all inputs of one request."""
    purposes: dict[Purpose, str] = Field(default_factory=dict)
    """The provider's words for the purposes."""
    prefixes: dict[Purpose, str] = Field(default_factory=dict)
    """The prefix of a text for each purpose, for models that read the purpose from the text."""
    default_purpose: Purpose | None = None
    """The purpose to send if the caller names none and the wire requires one."""
    media: tuple[Literal["text", "image"], ...] = ("text",)
    """What the model takes as an input."""
    image_types: tuple[str, ...] = ("image/png", "image/jpeg", "image/webp", "image/gif")
    """The IANA types of images that the model takes, if it takes images."""
    normalized: Literal["always", "full_length", "never"] | None = None
    """Whether vectors have the length 1; ``full_length``: unless they are shortened."""
    truncates: tuple[Truncate, ...] = ()
    """Where the provider cuts inputs that are too long, if it is asked to."""
    refuses_long_inputs: Support = ABSENT
    """Whether the provider refuses an input that is too long; some cut it silently."""
    wire: dict[str, Any] = Field(default_factory=dict)
    """Facts that only this adapter's encoder reads, e.g. the name of a field."""
    evidence: dict[str, str] = Field(default_factory=dict)
    """The source of a declaration."""

    @property
    def can_shorten(self) -> bool:
        """Whether a request may ask for another length than ``dimensions``."""
        return bool(self.dimension_choices) or self.dimension_range is not None

    def accepts_dimensions(self, dimensions: int) -> bool:
        """Whether a request may ask for that length. A model of unknown dimensions accepts any."""
        if self.dimension_choices:
            return dimensions in self.dimension_choices
        if self.dimension_range is not None:
            return self.dimension_range[0] <= dimensions <= self.dimension_range[1]
        return self.dimensions in (None, dimensions)

    def is_normalized(self, dimensions: int) -> bool | None:
        """Whether vectors of that length have the length 1; None is unknown."""
        if self.normalized == "full_length":
            return dimensions == self.dimensions
        return None if self.normalized is None else self.normalized == "always"


class EmbeddingTable(FactTable[EmbeddingCapabilities]):
    """embeddings.toml, whose rows select models by their whole id, ``provider:name``."""

    file = "embeddings.toml"

    def _find(self, model: str) -> EmbeddingCapabilities:
        return EmbeddingCapabilities.model_validate(merge_rows(self._default, self._rows, model))


if TYPE_CHECKING:
    Vector: TypeAlias = array[float]
else:
    Vector = array  # it takes no parameters before Python 3.12

_FLOAT_SIZE = 4
_HIGH_EXPONENTS = frozenset((0x7F, 0xFF))
_OTHER_BYTES = bytes(byte for byte in range(256) if byte not in _HIGH_EXPONENTS)


def read_vector(value: Any) -> Vector:
    """Return a vector from a list of numbers, or from base64 of 32-bit floats in little-endian order.

    Raises MalformedReplyError for anything else, for an empty vector, and for NaN and infinity.
    """
    vector = array("f")
    if isinstance(value, str):
        try:
            data = binascii.a2b_base64(value, strict_mode=True)
        except ValueError:
            raise MalformedReplyError("a vector of the reply is not base64") from None
        if len(data) % _FLOAT_SIZE:
            raise MalformedReplyError("a vector of the reply is cut inside a number")
        vector.frombytes(data)
        if sys.byteorder == "big":
            vector.byteswap()
    elif isinstance(value, list):
        try:
            vector.fromlist(value)
        except (TypeError, OverflowError):
            raise MalformedReplyError("a vector of the reply holds something other than numbers") from None
    else:
        raise MalformedReplyError("a vector of the reply is neither a list of numbers nor base64")
    if not vector:
        raise MalformedReplyError("a vector of the reply is empty")
    if not is_finite(vector):
        raise MalformedReplyError("a vector of the reply holds NaN or infinity")
    return vector


def is_finite(vector: Vector) -> bool:
    """Whether the vector has neither NaN nor infinity."""
    # Only numbers of 2**127 and over have these bits in their highest byte, and embeddings have none.
    data = vector.tobytes()
    high = data[3::_FLOAT_SIZE] if sys.byteorder == "little" else data[::_FLOAT_SIZE]
    return not high.translate(None, _OTHER_BYTES) or all(map(math.isfinite, vector))


def check_lengths(vectors: Sequence[Vector], count: int, dimensions: int | None) -> None:
    """Raise MalformedReplyError if there is not one vector for each input, or if their lengths are wrong."""
    if len(vectors) != count:
        raise MalformedReplyError(f"the reply has {len(vectors):,} vectors for {count:,} inputs")
    lengths = {len(vector) for vector in vectors}
    if len(lengths) > 1:
        raise MalformedReplyError(f"the vectors of the reply have different lengths: {sorted(lengths)!r:.80}")
    if dimensions is not None and lengths != {dimensions}:
        raise MalformedReplyError(f"the vectors of the reply have {lengths.pop():,} dimensions, not {dimensions:,}")


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
        own_headers = {name.lower(): value for name, value in options.headers.items()}
        headers = {"content-type": "application/json", **own_headers}
        return WireRequest("POST", path, wirejson.dumps(body), headers, losses=losses)

    def from_wire_response(
        self, response: WireResponse, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions
    ) -> EmbeddingReply:
        """Decode the reply to these inputs.

        Raises the provider's error for a status of 400 and over, and MalformedReplyError for vectors that do not fit
        the request; its ``embedded`` is then a reply without vectors, with the usage that was billed.
        """
        try:
            if response.status >= 400:
                raise self.error(response.status, response.body, response.headers)
            native = self.decode(wirejson.loads_object(response.body), response)
            try:
                if not isinstance(native.vectors, list):
                    raise MalformedReplyError("the reply has no list of vectors")
                vectors = list(map(read_vector, native.vectors))
                check_lengths(vectors, len(inputs), options.dimensions)
            except MalformedReplyError as error:
                error.provider, error.model = self.provider, self.model
                error.embedded = EmbeddingReply([], native.usage)
                raise
            return EmbeddingReply(vectors, native.usage, native.truncated)
        except UNREADABLE_ERRORS as error:
            raise malformed_reply(self.provider, error) from error

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


_TOLERANCE = 1.25
"""A provider that counts the tokens itself is asked, unless an estimate is over its limit by this factor."""
_MARGIN = 0.9
"""The share of a limit that estimated tokens fill."""
_SHORT = 40
"""Characters of a text whose tokens are not estimated."""
_MARKERS = 8
"""Tokens that a model may add to each text."""


@dataclass(frozen=True, slots=True)
class EmbeddingPlan:
    """The inputs as they are sent, and the requests: the numbers of the inputs of each."""

    inputs: list[EmbeddingInput]
    requests: list[list[int]]
    losses: tuple[Loss, ...]


def plan_requests(
    adapter: EmbeddingAdapter,
    inputs: Sequence[EmbeddingInput],
    options: EmbeddingOptions,
    numbers: Iterable[int] | None = None,
    max_tokens: int | None = None,
) -> EmbeddingPlan:
    """Return the requests for these inputs, or for those of the given numbers alone. ``max_tokens`` is the caller's own
    limit of one request.

    Raises RequestError for an input or an option that the model does not accept, and ContextOverflowError for an input
    that is too long, before anything is sent.
    """
    adapter.check(inputs, options)
    wanted = list(range(len(inputs)) if numbers is None else numbers)
    sent, losses = list(inputs), []
    limit = adapter.capabilities.max_input_tokens
    if limit is not None:
        for number in wanted:
            text = sent[number]
            if isinstance(text, str) and _most_tokens(text) > limit:
                sent[number], loss = _fit(adapter, number, text, limit, options.truncate)
                losses += [] if loss is None else [loss]
    return EmbeddingPlan(sent, _split(adapter, sent, wanted, max_tokens), tuple(losses))


def _split(
    adapter: EmbeddingAdapter, inputs: Sequence[EmbeddingInput], wanted: Iterable[int], max_tokens: int | None
) -> list[list[int]]:
    facts = adapter.capabilities
    limits = [each for each in (facts.max_request_tokens, max_tokens) if each is not None]
    limit = int(min(limits) * _MARGIN) if limits else None
    max_images = facts.max_inputs if facts.max_images is None else facts.max_images
    requests: list[list[int]] = []
    tokens = images = 0
    kind: type[EmbeddingInput] | None = None
    for number in wanted:
        each = inputs[number]
        image = not isinstance(each, str)
        size = 0
        if limit is not None:
            # The most tokens of a short text are known at once.
            is_short = isinstance(each, str) and len(each) <= _SHORT
            size = _most_tokens(str(each)) if is_short else adapter.estimate_tokens([each])
        full = (
            not requests
            or len(requests[-1]) >= facts.max_inputs
            or images + image > max_images
            or (limit is not None and tokens + size > limit)
            or (facts.wire.get("one_kind") and type(each) is not kind)
        )
        if full:
            requests.append([])
            tokens = images = 0
            kind = type(each)
        requests[-1].append(number)
        tokens, images = tokens + size, images + image
    return requests


def _fit(
    adapter: EmbeddingAdapter, number: int, text: str, limit: int, truncate: Truncate | None
) -> tuple[str, Loss | None]:
    """Return the text as it is sent. Raises ContextOverflowError if it is too long and may not be cut."""
    tokens = adapter.estimate_tokens([text])
    words = f"input {number} has about {tokens:,} tokens, and {adapter.model_id} reads {limit:,}"
    if truncate is None:
        if tokens <= limit * (_TOLERANCE if adapter.capabilities.refuses_long_inputs else 1):
            return text, None
        raise ContextOverflowError(
            f"{words}: split it, or pass truncate='end'", provider=adapter.provider, model=adapter.model
        )
    if tokens <= limit * _MARGIN or (truncate in adapter.capabilities.truncates and tokens <= limit):
        return text, None
    loss = Loss(LossKind.TRUNCATED, "", number, f"{words}: its {truncate} is left out", block_type="text")
    return (text if truncate in adapter.capabilities.truncates else _cut(adapter, text, limit, truncate)), loss


def _cut(adapter: EmbeddingAdapter, text: str, limit: int, truncate: Truncate) -> str:
    """Return the longest part of the text that surely fits."""
    low, high, room = 1, len(text), int(limit * _MARGIN)
    while low < high:
        middle = (low + high + 1) // 2
        part = text[:middle] if truncate == "end" else text[-middle:]
        if adapter.estimate_tokens([part]) <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low] if truncate == "end" else text[-low:]


def _most_tokens(text: str) -> int:
    """Return a number that the tokens of a text never exceed: no token is shorter than one byte."""
    return (len(text) if text.isascii() else 4 * len(text)) + _MARKERS
