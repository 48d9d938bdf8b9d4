"""What a cassette holds: requests and the responses to them.

Their reprs say what they are and how large, and show nothing that was said or sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """``path`` is without host and with its query. ``provider`` is who was asked, where that is known; ``host`` is set
    on a request that is asked, and never written."""

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
