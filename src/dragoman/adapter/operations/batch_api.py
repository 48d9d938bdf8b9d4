"""What an adapter knows about a provider's batch API (docs/reference/contract.md#batches).

A batch holds many requests, answered within a day at a lower price.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from dragoman.adapter import wirejson
from dragoman.adapter.errors import InvalidRequestError, MalformedReplyError, ProviderError
from dragoman.adapter.operations.operation import Operation
from dragoman.adapter.wire import WireRequest, WireResponse


class BatchStatus(StrEnum):
    """Where a batch is, in words that are the same for all providers. ``cancelled``: the answers that came before the
    cancellation can still be fetched."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    EXPIRED = "expired"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether no more answers are to come."""
        return self not in (BatchStatus.QUEUED, BatchStatus.IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class BatchState:
    """The progress of a batch. Counts are of requests, None if the provider does not report them.

    ``problem`` is why the batch failed as a whole; ``raw`` is the provider's own object.
    """

    status: BatchStatus
    """Where the batch is, in words that are the same for all providers."""
    succeeded: int | None = None
    """How many requests have an answer."""
    failed: int | None = None
    """How many requests ended with an error."""
    problem: str | None = None
    raw: Mapping[str, Any] | None = None


class BatchLine(NamedTuple):
    """The answer to one request of a batch: a reply, or the error."""

    wire_id: str
    outcome: WireResponse | ProviderError


class BatchApi(ABC):
    """One provider's batch API, for one model. ``max_requests`` and ``max_bytes`` are the limits of one batch."""

    max_requests: ClassVar[int]
    max_bytes: ClassVar[int]

    def __init__(self, provider: str, model: str) -> None:
        self.provider = provider
        self.model = model

    @abstractmethod
    def accepts(self, custom_id: str) -> bool:
        """Whether the provider accepts this as the id of a request."""

    @abstractmethod
    def encode_line(self, wire_id: str, request: WireRequest) -> bytes:
        """Return one request as an entry of the batch."""

    @abstractmethod
    def submit(self, lines: list[bytes], headers: Mapping[str, str]) -> Operation[str]:
        """Submit the batch with its headers. Returns the provider's id."""

    @abstractmethod
    def poll(self, batch_id: str) -> Operation[BatchState]: ...

    @abstractmethod
    def cancel(self, batch_id: str) -> Operation[BatchState]: ...

    @abstractmethod
    def results(self, batch_id: str) -> Operation[tuple[WireRequest, ...]]:
        """Return the downloads that hold the answers, as JSON lines, in any order."""

    @abstractmethod
    def decode_line(self, line: bytes) -> BatchLine:
        """Decode one line of a download. Raises MalformedReplyError."""

    def headers(self, requests: Sequence[WireRequest]) -> dict[str, str]:
        """Return the headers of the whole batch. Raises InvalidRequestError if its requests need different ones."""
        first = dict(requests[0].headers)
        if any(dict(request.headers) != first for request in requests):
            raise InvalidRequestError(
                "the requests of one batch share their headers, and these need different ones: submit separate batches",
                provider=self.provider,
                model=self.model,
            )
        return first

    def parse_response(self, response: WireResponse) -> dict[str, Any]:
        return wirejson.loads_object(response.body, what="what the provider says of the batch")

    def require_text(self, native: Mapping[str, Any], name: str) -> str:
        """Return a required text. Raises MalformedReplyError."""
        value = native.get(name)
        if not isinstance(value, str) or not value:
            raise MalformedReplyError(f"the batch has no {name}", provider=self.provider, model=self.model)
        return value


def sum_counts(native: Any, *names: str) -> int | None:
    """Return the sum of these counts, or None if none of them is known."""
    found = [native[name] for name in names if isinstance(native, dict) and type(native.get(name)) is int]
    return sum(found) if found else None
