"""Decompresses the bodies of requests, within limits: a small body may hold gigabytes."""

import zlib

import zstandard

from dragoman_gateway.errors import BodyTooLargeError, ClientError, ContentTypeError

_MAX_WINDOW = 64 * 1024 * 1024
_MAX_MEMBERS = 100
"""Parts of a gzip body. Each costs a copy of what follows it."""
_GZIP = b"\x1f\x8b"
_FREE = 8 * 1024 * 1024
"""Bytes to which each body may grow: agents repeat themselves, and so small a body costs little."""
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def inflate(body: bytes, encodings: str, cap: int, growth: float) -> bytes:
    """Return the body without its compressions, the last one first. ``growth`` is how many times its size it may have.

    Raises BodyTooLargeError, ClientError if the data is damaged, and ContentTypeError for an unknown compression.
    """
    names = [name.strip().lower() for name in encodings.split(",")]
    if len(names) > 2:
        raise ContentTypeError("a body may be compressed twice at most")
    allowed = int(max(_FREE, growth * len(body)))
    most = min(cap, allowed)
    limit = f"{cap} bytes" if cap <= allowed else f"{growth:g} times its size and {_FREE} bytes"
    too_large = BodyTooLargeError(f"the body is larger than {limit} when it is decompressed")
    for name in reversed(names):
        if name in _WINDOWS:
            body = _inflate_zlib(body, _WINDOWS[name], most, too_large)
        elif name == "zstd":
            body = _inflate_zstd(body, most, too_large)
        elif name not in ("", "identity"):
            raise ContentTypeError(f"the compression {name!r:.40} is unknown: send zstd, gzip or deflate")
    return body


def _inflate_zlib(body: bytes, window: int, cap: int, too_large: Exception) -> bytes:
    """A gzip body may have several members (RFC 1952, section 2.2)."""
    pieces: list[bytes] = []
    left = cap
    for _ in range(_MAX_MEMBERS):
        inflater = zlib.decompressobj(window)
        try:
            plain = inflater.decompress(body, left + 1)
        except zlib.error as error:
            raise ClientError(f"the compressed body is damaged: {error}") from None
        if len(plain) > left:
            raise too_large
        if not inflater.eof:
            raise ClientError("the compressed body is incomplete")
        body = inflater.unused_data
        if not pieces and not body:
            return plain
        pieces.append(plain)
        left -= len(plain)
        if not body.startswith(_GZIP):
            return b"".join(pieces)
    raise ClientError(f"the compressed body has more than {_MAX_MEMBERS} parts")


def _inflate_zstd(body: bytes, cap: int, too_large: Exception) -> bytes:
    reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(body, read_across_frames=True)
    try:
        plain = reader.read(cap + 1)
    except zstandard.ZstdError as error:
        raise ClientError(f"the compressed body is damaged: {error!s:.100}") from None
    if len(plain) > cap:
        raise too_large
    return plain
