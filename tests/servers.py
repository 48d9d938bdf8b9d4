"""The faulty server as the tests use it: as users do, and with ``received`` for its requests."""

from dragoman.testing import faulty_server
from dragoman.testing.faulty_server import (
    HANG_UP,
    RESET,
    STALL,
    ConnectionFault,
    HttpReply,
    Pause,
    ReceivedRequest,
    ReplyStep,
    json_reply,
    sse_reply,
)

__all__ = [
    "HANG_UP",
    "RESET",
    "STALL",
    "ConnectionFault",
    "FaultyServer",
    "HttpReply",
    "Pause",
    "ReceivedRequest",
    "ReplyStep",
    "json_reply",
    "sse_reply",
]


class FaultyServer(faulty_server.FaultyServer):
    """Its requests under the name that says from whose side they are seen."""

    @property
    def received(self) -> list[ReceivedRequest]:
        return self.requests
