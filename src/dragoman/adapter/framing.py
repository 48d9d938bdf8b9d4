"""Bytes to frames: server-sent events and JSON lines, cut anywhere, in linear time.

SSE follows the WHATWG event stream grammar: LF, CRLF and CR end a line, a byte order mark at the start is dropped,
lines that start with a colon are comments, several data lines join with a line feed. U+2028 and its like are data,
which is why nothing here uses `str.splitlines`. Frames stay bytes: the JSON parser checks their UTF-8.
"""

from typing import NamedTuple

from dragoman.adapter.errors import FrameTooLargeError

DEFAULT_FRAME_CAP = 16 * 1024 * 1024
DEFAULT_BODY_CAP = 64 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


class Frame(NamedTuple):
    """One event: its name (empty where the stream gave none) and its data, undecoded."""

    event: str
    data: bytes


class LineSplitter:
    """Lines without their ends. A CR at the end of a chunk waits for the next byte, which may be its LF."""

    def __init__(self, frame_cap: int = DEFAULT_FRAME_CAP, body_cap: int = DEFAULT_BODY_CAP) -> None:
        self._pieces: list[bytes] = []
        self._held = 0
        self._total = 0
        self._after_cr = False
        self._head = b""
        self._started = False
        self._frame_cap = frame_cap
        self._body_cap = body_cap

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes. Raises FrameTooLargeError over either cap."""
        self._total += len(chunk)
        if self._total > self._body_cap:
            raise FrameTooLargeError(f"the reply is over {self._body_cap} bytes: raise the body cap if that is meant")
        if not self._started:
            chunk = self._without_bom(chunk)
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if not chunk:
            return []
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *rest = chunk.split(b"\n")
        if not rest:
            self._hold(first)
            return []
        if self._pieces:
            self._hold(first)
            first = b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        tail = rest.pop()
        if tail:
            self._hold(tail)
        return [first, *rest]

    def rest(self) -> bytes:
        """The unfinished last line."""
        return self._head + b"".join(self._pieces)

    def _without_bom(self, chunk: bytes) -> bytes:
        self._head += chunk
        if len(self._head) < len(_BOM) and _BOM.startswith(self._head):
            return b""
        chunk, self._head, self._started = self._head.removeprefix(_BOM), b"", True
        return chunk

    def _hold(self, piece: bytes) -> None:
        self._held += len(piece)
        if self._held > self._frame_cap:
            raise FrameTooLargeError(f"one line of the reply is over {self._frame_cap} bytes")
        self._pieces.append(piece)


class SseDecoder:
    """Chunks in, frames out. Ids and retry times are read over: no provider of ours uses them."""

    def __init__(self, frame_cap: int = DEFAULT_FRAME_CAP, body_cap: int = DEFAULT_BODY_CAP) -> None:
        self._lines = LineSplitter(frame_cap, body_cap)
        self._event = b""
        self._data: list[bytes] = []
        self._size = 0
        self._cap = frame_cap

    def feed(self, chunk: bytes) -> list[Frame]:
        """Raises FrameTooLargeError over either cap."""
        frames: list[Frame] = []
        for line in self._lines.feed(chunk):
            if line:
                self._field(line)
            else:
                if self._data:
                    frames.append(self._take())
                self._event = b""
        return frames

    def finish(self) -> list[Frame]:
        """What an end without the closing blank line leaves.

        The grammar discards it. We hand it on, because a JSON object says itself whether it is whole: the caller
        takes the frame only if its data parses, so that a reply whose last line feed was lost is not called cut.
        """
        if rest := self._lines.rest():
            self._field(rest)
        return [self._take()] if self._data else []

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value[1:] if value.startswith(b" ") else value
            self._size += len(value)
            if self._size > self._cap:
                raise FrameTooLargeError(f"one event of the reply is over {self._cap} bytes")
            self._data.append(value)
        elif name == b"event":
            self._event = value[1:] if value.startswith(b" ") else value

    def _take(self) -> Frame:
        frame = Frame(
            self._event.decode("utf-8", "replace"),
            self._data[0] if len(self._data) == 1 else b"\n".join(self._data),
        )
        self._data.clear()
        self._size = 0
        self._event = b""
        return frame


class NdjsonDecoder:
    """One JSON value a line; blank lines are skipped."""

    def __init__(self, frame_cap: int = DEFAULT_FRAME_CAP, body_cap: int = DEFAULT_BODY_CAP) -> None:
        self._lines = LineSplitter(frame_cap, body_cap)

    def feed(self, chunk: bytes) -> list[Frame]:
        """Raises FrameTooLargeError over either cap."""
        return [Frame("", line) for line in self._lines.feed(chunk) if line.strip()]

    def finish(self) -> list[Frame]:
        """The last line where its line feed is missing; the caller takes it only if it parses."""
        rest = self._lines.rest()
        return [Frame("", rest)] if rest.strip() else []
