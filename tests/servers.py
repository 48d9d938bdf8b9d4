"""The faulty server as the tests use it: as users do, and with ``received`` for its requests."""

from dragoman.testing.faults import server
from dragoman.testing.faults.server import (
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


class FaultyServer(server.FaultyServer):
    """Its requests under the name that says from whose side they are seen."""

    @property
    def received(self) -> list[ReceivedRequest]:
        return self.requests
