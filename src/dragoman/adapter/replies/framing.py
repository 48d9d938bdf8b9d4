"""Splits bytes into frames: server-sent events, JSON lines and JSON arrays, in linear time; and skips or joins the
frames of a text for readers who pass them on.

SSE follows the WHATWG event stream grammar: LF, CRLF and CR end a line, a byte order mark at the start is dropped,
lines that start with a colon are comments, several data lines join with a line feed. U+2028 and similar characters are
data, so nothing here uses `str.splitlines`. Frames stay bytes; the JSON parser checks their UTF-8
(docs/reference/streams.md#framing).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dragoman.adapter.errors import FrameTooLargeError, MalformedReplyError
from dragoman.adapter.wire import DEFAULT_BODY_CAP, DEFAULT_FRAME_CAP
from dragoman.canonical.events import StreamEvent, TextDelta, ThinkingDelta

MAX_EVENT_LINES = 100_000
"""The most data lines of one event."""
MAX_IDLE_LINES = 1_000_000
"""The most lines of one stream that carry no data, such as ids, and blanks between JSON lines."""

_BOM = b"\xef\xbb\xbf"
_EMPTY_LINES = re.compile(rb"\n{3,}")
_COMMENTS = re.compile(rb"(?<=\n):[^\n]*+\n")


@dataclass(slots=True)
class Frame:
    """One ``event`` by its name (empty if it has none), and its ``data``, undecoded."""

    event: str
    data: bytes


class LineSplitter:
    """Splits chunks into lines without line ends. A CR ends a line at once; an LF after it belongs to it.

    Of several empty lines in a row, only some are returned: a server may send millions of them. ``skip_comments``:
    the same for lines that begin with a colon.
    """

    def __init__(self, frame_cap: int, *, skip_comments: bool = False) -> None:
        self._line = bytearray()
        self._after_cr = False
        self._head: bytes | None = b""  # the start, while it may be a byte order mark; then None
        self._frame_cap = frame_cap
        self._skip_comments = skip_comments

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        """Yield the lines that this chunk completes. Raises FrameTooLargeError over the cap."""
        if len(self._line) + len(self._head or b"") + len(chunk) <= self._frame_cap:
            return self._split(chunk)  # the usual case: too short to exceed the cap
        return self._split_within_cap(chunk)

    def _split_within_cap(self, chunk: bytes) -> Iterator[bytes]:
        for line in self._split(chunk, skip=False):  # a comment may be too long
            self._check_line(line)
            yield line
        self._check_line(self._line)

    def finish(self) -> bytes:
        """Return the unfinished last line; empty if there is none. Raises FrameTooLargeError."""
        rest = (self._head or b"") + self._line
        self._check_line(rest)  # half a byte order mark is a line after all
        self._head = None
        self._line.clear()
        return rest

    def _split(self, chunk: bytes, *, skip: bool = True) -> list[bytes]:
        if self._head is not None:
            chunk = self._strip_bom(self._head + chunk)
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if skip:
            if b"\n:" in chunk and self._skip_comments:
                chunk = _COMMENTS.sub(b"", chunk)
            if b"\n\n\n" in chunk:
                chunk = _EMPTY_LINES.sub(b"\n\n", chunk)
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._line += chunk
            return []
        if self._line:
            lines[0] = bytes(self._line + lines[0])
        self._line = bytearray(lines.pop())
        return lines

    def _strip_bom(self, start: bytes) -> bytes:
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._head = start
            return b""
        self._head = None
        return start.removeprefix(_BOM)

    def _check_line(self, line: bytes | bytearray) -> None:
        if len(line) > self._frame_cap:
            raise FrameTooLargeError(f"one line of the reply is over {self._frame_cap} bytes")


class CappedDecoder(ABC):
    """Turns chunks into frames. The frames, and the error after them, do not depend on where the bytes are cut.

    The frames before an error are returned first; the next call raises it.
    """

    def __init__(self, frame_cap: int = DEFAULT_FRAME_CAP, body_cap: int = DEFAULT_BODY_CAP) -> None:
        self.frame_cap = frame_cap
        """The most bytes of one frame. More raises FrameTooLargeError."""
        self.body_cap = body_cap
        """The most bytes of a whole body. More raises FrameTooLargeError."""
        self._total = 0
        self._error: MalformedReplyError | None = None
        self._idle_lines = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that this chunk completes. Raises FrameTooLargeError over either cap, and
        MalformedReplyError for bytes that are not of the framing."""
        frames: list[Frame] = []
        if self._error is None:
            room = self.body_cap - self._total
            self._total += len(chunk)
            try:
                if len(chunk) <= room:
                    self._read(chunk, frames)
                else:
                    self._read(chunk[: max(room, 0)], frames)
                    raise FrameTooLargeError(
                        f"the reply is over {self.body_cap} bytes: raise the body cap if that is meant"
                    )
            except MalformedReplyError as error:
                self._error = error
        return self._raise_or_return(frames)

    def count(self, size: int) -> None:
        """Count bytes of the reply that are not fed."""
        self._total += size

    def finish(self) -> list[Frame]:
        """Return the frame that the end of the bytes leaves unfinished. Raises FrameTooLargeError over either cap.

        The caller uses such a frame only if its data parses: an incomplete JSON object does not, and a reply that lacks
        only its last line feed is complete.
        """
        frames: list[Frame] = []
        if self._error is None:
            try:
                self._flush(frames)
            except FrameTooLargeError as error:
                self._error = error
        return self._raise_or_return(frames)

    def _count_idle_line(self) -> None:
        self._idle_lines += 1
        if self._idle_lines > MAX_IDLE_LINES:
            raise FrameTooLargeError(f"the reply has over {MAX_IDLE_LINES} lines without data")

    def _raise_or_return(self, frames: list[Frame]) -> list[Frame]:
        if self._error is not None and not frames:
            raise self._error
        return frames

    @abstractmethod
    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        """Add the frames that this chunk completes; those before an error are added before it is raised."""

    @abstractmethod
    def _flush(self, frames: list[Frame]) -> None:
        """Add the frame that the end of the bytes leaves unfinished."""


class SseDecoder(CappedDecoder):
    """Server-sent events. Ids and retry times are ignored: no provider uses them."""

    def __init__(self, frame_cap: int = DEFAULT_FRAME_CAP, body_cap: int = DEFAULT_BODY_CAP) -> None:
        super().__init__(frame_cap, body_cap)
        self._lines = LineSplitter(frame_cap, skip_comments=True)
        self._event = b""
        self._data: list[bytes] = []
        self._size = 0

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        for line in self._lines.feed(chunk):
            if line[:6] == b"data: ":  # nearly every line is one of these three
                self._add(line[6:])
            elif line[:7] == b"event: ":
                self._event = line[7:]
            elif line:
                self._field(line)
            else:
                if self._data:
                    frames.append(self._take())
                self._event = b""

    def _flush(self, frames: list[Frame]) -> None:
        if line := self._lines.finish():
            self._field(line)
        if self._data:
            frames.append(self._take())

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._add(value.removeprefix(b" "))
        elif name == b"event":
            self._event = value.removeprefix(b" ")
        elif name:
            self._count_idle_line()

    def _add(self, data: bytes) -> None:
        self._size += len(data) + 1 if self._data else len(data)  # plus the line feed that joins it to the one before
        if self._size > self.frame_cap:
            raise FrameTooLargeError(f"one event of the reply is over {self.frame_cap} bytes")
        if len(self._data) >= MAX_EVENT_LINES:
            raise FrameTooLargeError(f"one event of the reply has over {MAX_EVENT_LINES} lines")
        self._data.append(data)

    def _take(self) -> Frame:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        frame = Frame(self._event.decode("utf-8", "replace"), data)
        self._data.clear()
        self._size = 0
        self._event = b""
        return frame


class NdjsonDecoder(CappedDecoder):
    """One JSON value a line; blank lines are skipped."""

    def __init__(self, frame_cap: int = DEFAULT_FRAME_CAP, body_cap: int = DEFAULT_BODY_CAP) -> None:
        super().__init__(frame_cap, body_cap)
        self._lines = LineSplitter(frame_cap)

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        for line in self._lines.feed(chunk):
            if line.strip():
                frames.append(Frame("", line))
            elif line:
                self._count_idle_line()

    def _flush(self, frames: list[Frame]) -> None:
        line = self._lines.finish()
        if line.strip():
            frames.append(Frame("", line))


_SEPARATORS = re.compile(rb"[\s,\xef\xbb\xbf]*")
"""The bytes that separate elements; a byte order mark counts as blank."""
_MARK_IN_STRING = re.compile(rb'["\\]')
_MARK_IN_CONTAINER = re.compile(rb'["{}\[\]]')
_MARK_IN_SCALAR = re.compile(rb'["{}\[\],\s]')


class JsonArrayDecoder(CappedDecoder):
    """Splits a JSON array into frames, one for each element. A single value counts as an array of one.

    Only the start and the end of elements are parsed. Data outside of the array is a frame as well, so that the JSON
    parser refuses it. ``closed`` is set at the array's end.
    """

    def __init__(self, frame_cap: int = DEFAULT_FRAME_CAP, body_cap: int = DEFAULT_BODY_CAP) -> None:
        super().__init__(frame_cap, body_cap)
        self.closed = False
        self._opened = False
        self._element = bytearray()
        self._inside = False
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def _read(self, chunk: bytes, frames: list[Frame]) -> None:
        position = 0
        while position < len(chunk):
            if not self._inside:
                position = self._begin(chunk, position)
                continue
            end, ended = self._scan(chunk, position)
            self._element += chunk[position:end]
            position = end
            if len(self._element) > self.frame_cap:
                raise FrameTooLargeError(f"one element of the reply is over {self.frame_cap} bytes")
            if ended:
                frames.append(self._take())

    def _flush(self, frames: list[Frame]) -> None:
        if self._inside:
            frames.append(self._take())

    def _begin(self, chunk: bytes, position: int) -> int:
        """Skip to an element's first byte, and over the brackets of the array itself."""
        found = _SEPARATORS.match(chunk, position)
        position = found.end() if found else position
        mark = chunk[position : position + 1]
        if mark == b"[" and not self._opened and not self.closed:
            self._opened = True
            return position + 1
        if mark == b"]" and self._opened and not self.closed:
            self.closed = True
            return position + 1
        self._inside = bool(mark)
        if mark in (b"]", b"}"):  # closes nothing: a frame that no parser accepts
            self._depth = 1
        return position

    def _scan(self, chunk: bytes, position: int) -> tuple[int, bool]:
        """Return the end of the element in this chunk, and whether it is complete."""
        while position < len(chunk):
            if self._escaped:
                self._escaped = False
                position += 1
                continue
            pattern = _MARK_IN_STRING
            if not self._in_string:
                pattern = _MARK_IN_CONTAINER if self._depth else _MARK_IN_SCALAR
            found = pattern.search(chunk, position)
            if found is None:
                return len(chunk), False
            mark, position = found.group(), found.end()
            if mark == b"\\":
                self._escaped = True
            elif mark == b'"':
                self._in_string = not self._in_string
            elif mark in (b"{", b"["):
                self._depth += 1
            elif self._depth:
                self._depth -= 1
            else:  # what ends a number or a word is not part of it
                return found.start(), True
            if not (self._escaped or self._in_string or self._depth):
                return position, True
        return position, False

    def _take(self) -> Frame:
        frame = Frame("", bytes(self._element))
        self._element.clear()
        self._inside, self._depth, self._in_string, self._escaped = False, 0, False, False
        self.closed = self.closed or not self._opened
        return frame


STRING = rb'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*"'
"""A JSON text, as part of a pattern."""
_END = b"\n\n"
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""Half a character. Alone it is an error, and two texts with one half each are two."""


class TextFrame:
    """The form of a whole frame that adds to a text and does nothing else, as patterns of its parts: ``key`` says to
    which text it adds, what it adds stands between ``between`` and ``after`` as a JSON text, and ``after`` ends the
    frame. Most frames begin with the same bytes as the one before them, which is the quickest to match."""

    def __init__(self, before: bytes, key: bytes, between: bytes, after: bytes) -> None:
        end = STRING + after
        self.one = re.compile(b"%b(?P<key>%b)%b(?P<text>%b)%b" % (before, key, between, STRING, after))
        self.run = re.compile(
            b"(?P<begin>%b(?P<key>%b)%b)%b" % (before, key, between, end)
            + b"(?:(?:(?P=begin)|%b(?P=key)%b)%b)*" % (before, between, end)
        )
        """Frames in a row that add to the same text."""


class TextSkimmer:
    def __init__(self, frame: TextFrame) -> None:
        self._frame = frame
        self._key: bytes | None = None
        """The text to which the last decoded frame has added; None if it has done anything else."""

    def skip(self, chunk: bytes) -> tuple[int, int]:
        """Return where the frames at the start of the chunk end that need no decoding, and their number."""
        run = self._run(chunk)
        return (len(run), run.count(_END)) if _is_text(run) else (0, 0)

    def join(self, chunk: bytes, cap: int) -> tuple[int, bytes, int]:
        """Return where the frames at the start of the chunk end that add to the text, one frame with all their text,
        and how many it replaces. If they cannot be joined within the cap of a frame, they are returned as they are."""
        run = self._run(chunk)
        count = run.count(_END)
        if count < 2 or len(run) > cap or _HALF.search(run) or not _is_text(run):
            return len(run), run, 0
        text = b"".join(text[1:-1] for _, text in self._frame.one.findall(run))
        last = self._frame.one.fullmatch(run, run.rindex(_END, 0, -len(_END)) + len(_END))
        assert last is not None
        begin, end = last.span("text")
        return len(run), b'%b"%b"%b' % (run[last.start() : begin], text, run[end:]), count - 1

    def _run(self, chunk: bytes) -> bytes:
        """Return the frames at the start of the chunk that add to the same text as the last decoded one."""
        if self._key is None:
            return b""
        found = self._frame.run.match(chunk)
        return b"" if found is None or found["key"] != self._key else found[0]

    def cut(self, chunk: bytes) -> int:
        """Return where the first frame of the chunk ends, or its part."""
        place = chunk.find(_END)
        return len(chunk) if place < 0 else place + len(_END)

    def note(self, piece: bytes, events: Sequence[StreamEvent]) -> None:
        """Note what the decoded piece has done."""
        frame = self._frame.one.fullmatch(piece) if events and isinstance(events[-1], _DELTAS) else None
        self._key = None if frame is None else frame["key"]


_DELTAS = (TextDelta, ThinkingDelta)


def _is_text(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
