"""The HTTP response of a reply: its status, headers, attempts and times."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman.adapter.replies.error_context import REQUEST_ID_HEADERS
from dragoman.adapter.replies.rate_limit_headers import read_remaining
from dragoman.adapter.wire import AttemptRecord, Headers


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
        return read_remaining(self.headers).get("requests")

    @property
    def remaining_tokens(self) -> int | None:
        """The tokens that the provider still allows now, if it says so."""
        return read_remaining(self.headers).get("tokens")
