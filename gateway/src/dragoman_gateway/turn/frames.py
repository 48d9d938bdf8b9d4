"""Cuts the bytes of a stream at the ends of its events."""

_MAX_REST = 64 * 1024
"""Bytes. More of one event is passed on before its end."""


class WholeFrames:
    """Holds back the part of an event, so that something else may be written between two."""

    __slots__ = ("_ends", "_rest")

    def __init__(self, ends: tuple[bytes, ...]) -> None:
        """``ends`` are the bytes that end an event."""
        self._ends = ends
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes up to the end of the last whole event."""
        if not self._rest and data.endswith(self._ends):
            return data
        data = self._rest + data
        end = max((place + len(end) for end in self._ends if (place := data.rfind(end)) >= 0), default=0)
        if not end and len(data) > _MAX_REST:
            end = len(data)
        self._rest = data[end:]
        return data[:end]

    def finish(self) -> bytes:
        """Return what is left."""
        rest, self._rest = self._rest, b""
        return rest
