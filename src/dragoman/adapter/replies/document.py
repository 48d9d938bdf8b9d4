"""A reply that was requested as a stream and arrives as one JSON document: some proxies do not stream."""

from collections.abc import Callable

from dragoman.adapter.errors import FrameTooLargeError
from dragoman.adapter.replies.message_events import reply_events
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.message import Message

BLANKS = b" \t\r\n\xef\xbb\xbf"
"""What may precede a document: white space and a byte order mark."""


class Document:
    """Collects the bytes of a body that begins with ``{``, which no line of server-sent events does."""

    def __init__(self, read: Callable[[bytes], Message], cap: int) -> None:
        self._read = read
        self._cap = cap
        self.body = bytearray()
        self.message: Message | None = None
        """The reply, after `events`."""

    def take(self, chunk: bytes) -> bool:
        """Take a chunk if it belongs to a document. Raises FrameTooLargeError over the cap."""
        if not self.body and not chunk.lstrip(BLANKS).startswith(b"{"):
            return False
        self.body += chunk if self.body else chunk.lstrip(BLANKS)
        if len(self.body) > self._cap:
            raise FrameTooLargeError(f"the reply is over {self._cap} bytes: raise the body cap if that is meant")
        return True

    def events(self) -> list[StreamEvent]:
        """Decode the document. Raises the error that it holds, or MalformedReplyError."""
        self.message = self._read(bytes(self.body))
        return reply_events(self.message)
