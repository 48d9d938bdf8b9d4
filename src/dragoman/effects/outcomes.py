"""How one attempt of a request ends: `Replied`, `Failed`, `Broken` or `Abandoned`, with the response that it got."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman.adapter.replies.error_context import REQUEST_ID_HEADERS
from dragoman.adapter.wire import AttemptRecord, Headers
from dragoman.canonical.message import Message


@dataclass(frozen=True, slots=True)
class ResponseDetails:
    """The response to one request.

    ``attempts`` are all attempts of the request, the last one included. ``seconds`` is the time from sending the
    request to the end of the reply, and ``first_event_seconds`` to the first content of a stream; neither contains the
    time that the request waited for a limit.
    """

    status: int
    """The HTTP status of the last attempt."""
    headers: Mapping[str, str] = field(default_factory=Headers, repr=False)
    """The response's headers. Names compare without case."""
    attempts: tuple[AttemptRecord, ...] = field(default=(), repr=False)
    first_event_seconds: float | None = None
    seconds: float | None = None

    @property
    def request_id(self) -> str | None:
        """The provider's id of the request, to quote in a support case."""
        return next((self.headers[name] for name in REQUEST_ID_HEADERS if name in self.headers), None)

    @property
    def remaining_requests(self) -> int | None:
        """The requests that the provider still allows now, if it says so."""
        from dragoman.adapter.replies.rate_limit_headers import read_remaining  # imported late: few programs ask

        return read_remaining(self.headers).get("requests")

    @property
    def remaining_tokens(self) -> int | None:
        """The tokens that the provider still allows now, if it says so."""
        from dragoman.adapter.replies.rate_limit_headers import read_remaining

        return read_remaining(self.headers).get("tokens")


@dataclass(frozen=True, slots=True)
class Replied:
    """The whole reply. ``response`` is None if a middleware provided the reply and nothing was sent."""

    message: Message
    """The complete reply."""
    response: ResponseDetails | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt gave no reply: the request could not be sent, or the provider refused it."""

    error: Exception
    """Why there is no reply: a DragomanError, or what a middleware raised."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A reply began and cannot be used. ``partial`` is what had arrived; ``seen`` says whether the caller saw any of
    that."""

    error: Exception
    """Why the reply broke off, such as StreamTruncatedError."""
    partial: Message | None
    seen: bool
    response: ResponseDetails | None = None
    """Status, headers and times; None if nothing of the response is known."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The caller left. ``partial`` is what had arrived, with status cancelled.

    If no content can be kept, ``billed`` is a message with the usage of the reply. ``sent`` is False if nothing was
    sent yet.
    """

    partial: Message | None = None
    billed: Message | None = None
    response: ResponseDetails | None = None
    """Status, headers and times; None if no response had arrived."""
    sent: bool = True


SendOutcome = Replied | Failed | Broken | Abandoned
