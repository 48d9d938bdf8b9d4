"""The contents of a cassette: requests and their responses.

A repr shows the method or status and the size, never the content.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it is kept in a cassette. ``path`` has no host but includes the query. ``provider`` is None if
    unknown.

    ``host`` is set on a live request and never written.
    """

    method: str
    """The HTTP method, in upper case."""
    path: str
    body: bytes = b""
    """The bytes as they were sent, decompressed."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers that a cassette keeps; secrets are not among them."""
    provider: str | None = None
    host: str | None = None

    def __repr__(self) -> str:
        return f"RecordedRequest({self.method}, {len(self.body)} bytes)"


@dataclass(frozen=True, slots=True)
class RecordedResponse:
    """A response as it is kept in a cassette."""

    status: int
    """The HTTP status."""
    body: bytes = b""
    """The bytes as they arrived, decompressed."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers that a cassette keeps."""

    def __repr__(self) -> str:
        return f"RecordedResponse({self.status}, {len(self.body)} bytes)"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response."""

    request: RecordedRequest
    """What was sent."""
    response: RecordedResponse
    """What came back."""
