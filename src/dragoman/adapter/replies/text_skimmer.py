"""Skips the text of a stream whose bytes are passed on unchanged: its deltas add nothing to the counts, the ids or the
end. It can also join the text that arrived together, for a reader that passes it on at once.

A frame is skipped or joined only if it is valid, and adds to the same text as the frame that was decoded before it.
"""

import re
from collections.abc import Sequence

from dragoman.canonical.events import StreamEvent, TextDelta, ThinkingDelta

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
