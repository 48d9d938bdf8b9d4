"""The contents of a cassette: requests and their responses.

A repr shows the method or status and the size, never the content.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """``path`` has no host but includes the query. ``provider`` is None if unknown.

    ``host`` is set on a live request and never written.
    """

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    provider: str | None = None
    host: str | None = None

    def __repr__(self) -> str:
        return f"RecordedRequest({self.method}, {len(self.body)} bytes)"


@dataclass(frozen=True, slots=True)
class RecordedResponse:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"RecordedResponse({self.status}, {len(self.body)} bytes)"


@dataclass(frozen=True, slots=True)
class Exchange:
    request: RecordedRequest
    response: RecordedResponse
