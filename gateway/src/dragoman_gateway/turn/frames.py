"""Cuts the bytes of a stream at the ends of its events."""

_MAX_REST = 64 * 1024
"""Bytes. More of one event is passed on before its end."""


class WholeFrames:
    """Holds back the part of an event, so that something else may be written between two."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes up to the end of the last whole event."""
        if not self._rest and data.endswith(b"\n\n"):
            return data
        data = self._rest + data
        end = max(data.rfind(b"\n\n") + 2, data.rfind(b"\r\n\r\n") + 4)
        if end < 4 and len(data) > _MAX_REST:
            end = len(data)
        self._rest = data[end:] if end >= 4 else data
        return data[:end] if end >= 4 else b""

    def finish(self) -> bytes:
        """Return what is left."""
        rest, self._rest = self._rest, b""
        return rest
