"""Decompresses the bodies of requests, within a limit: a small body may hold gigabytes."""

import zlib

import zstandard

from dragoman_gateway.errors import BodyTooLargeError, ClientError, ContentTypeError

_MAX_WINDOW = 64 * 1024 * 1024
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def inflate(body: bytes, encodings: str, cap: int) -> bytes:
    """Return the body without its compressions, the last one first.

    Raises BodyTooLargeError, ClientError if the data is damaged, and ContentTypeError for an unknown compression.
    """
    names = [name.strip().lower() for name in encodings.split(",")]
    if len(names) > 2:
        raise ContentTypeError("a body may be compressed twice at most")
    for name in reversed(names):
        if name in _WINDOWS:
            body = _inflate_zlib(body, _WINDOWS[name], cap)
        elif name == "zstd":
            body = _inflate_zstd(body, cap)
        elif name not in ("", "identity"):
            raise ContentTypeError(f"the compression {name!r:.40} is unknown: send zstd, gzip or deflate")
    return body


def _inflate_zlib(body: bytes, window: int, cap: int) -> bytes:
    inflater = zlib.decompressobj(window)
    try:
        plain = inflater.decompress(body, cap + 1)
    except zlib.error as error:
        raise ClientError(f"the compressed body is damaged: {error}") from None
    if len(plain) > cap:
        raise BodyTooLargeError(cap)
    if not inflater.eof:
        raise ClientError("the compressed body is incomplete")
    return plain


def _inflate_zstd(body: bytes, cap: int) -> bytes:
    reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(body, read_across_frames=True)
    try:
        plain = reader.read(cap + 1)
    except zstandard.ZstdError as error:
        raise ClientError(f"the compressed body is damaged: {error!s:.100}") from None
    if len(plain) > cap:
        raise BodyTooLargeError(cap)
    return plain
