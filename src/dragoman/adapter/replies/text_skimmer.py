"""Skips the text of a stream whose bytes go through: its deltas add nothing to the counts, the ids or the end. Or joins
the text that arrived together, for a reader that passes it on at once.

A frame is skipped or joined only if it is valid, and adds to the same text as the frame that was decoded before it.
"""

import re
from collections.abc import Sequence

from dragoman.canonical.events import StreamEvent, TextDelta, ThinkingDelta

STRING = rb'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
"""A JSON text, as part of a pattern."""
_END = b"\n\n"
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""Half a character. Alone it is an error, and two texts with one half each are two."""


class TextSkimmer:
    """``pattern`` matches a whole frame with its end. Its group ``key`` says to which text the frame adds, its group
    ``text`` is what it adds, as JSON."""

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern
        self._key: bytes | None = None
        """The text to which the last decoded frame has added; None if it has done anything else."""

    def skip(self, chunk: bytes) -> tuple[int, int]:
        """Return where the frames at the start of the chunk end that need no decoding, and their number."""
        end = count = 0
        if self._key is None:
            return 0, 0
        while (frame := self._pattern.match(chunk, end)) and frame["key"] == self._key:
            end, count = frame.end(), count + 1
        return (end, count) if _is_text(chunk[:end]) else (0, 0)

    def join(self, chunk: bytes, cap: int) -> tuple[int, bytes, int]:
        """Return where the frames at the start of the chunk end that add to the text, one frame with all their text,
        and how many it replaces. If they cannot be joined within the cap of a frame, they are returned as they are."""
        frame, end, texts = None, 0, []
        if self._key is None:
            return 0, b"", 0
        while (found := self._pattern.match(chunk, end)) and found["key"] == self._key:
            frame, end = found, found.end()
            texts.append(found["text"][1:-1])
        run = chunk[:end]
        if frame is None or len(texts) == 1 or end > cap or _HALF.search(run) or not _is_text(run):
            return end, run, 0
        begin, stop = frame.span("text")
        return end, b'%b"%b"%b' % (chunk[frame.start() : begin], b"".join(texts), chunk[stop:end]), len(texts) - 1

    def cut(self, chunk: bytes) -> int:
        """Return where the first frame of the chunk ends, or its part."""
        place = chunk.find(_END)
        return len(chunk) if place < 0 else place + len(_END)

    def note(self, piece: bytes, events: Sequence[StreamEvent]) -> None:
        """Note what the decoded piece has done."""
        frame = self._pattern.fullmatch(piece) if events and isinstance(events[-1], _DELTAS) else None
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
