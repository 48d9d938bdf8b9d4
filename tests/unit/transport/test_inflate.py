"""Compressed bodies, cut anywhere, of any number of members, and of any size."""

import gzip
import zlib
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import MalformedReplyError, StreamTruncatedError
from dragoman.transport.inflate import Inflater, inflater_for

PIECE = 256 * 1024


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


COMPRESSORS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "zlib": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "members": ("gzip", lambda data: b"".join(gzip.compress(data[at : at + 9]) for at in range(0, len(data), 9))),
    "padded": ("x-gzip", lambda data: gzip.compress(data) + b"\0" * 40),
}


def inflate(encoding: str, chunks: list[bytes]) -> bytes:
    inflater = Inflater(encoding)
    data = b"".join(piece for chunk in chunks for piece in inflater.feed(chunk))
    inflater.finish()
    return data


@pytest.mark.parametrize("name", COMPRESSORS)
@given(data=st.binary(min_size=1, max_size=400), size=st.integers(1, 50))
def test_chunk_borders_do_not_matter(name: str, data: bytes, size: int) -> None:
    """However the compressed bytes are cut, the same plain bytes come out."""
    encoding, compress = COMPRESSORS[name]
    compressed = compress(data)
    assert inflate(encoding, [compressed[at : at + size] for at in range(0, len(compressed), size)]) == data


@pytest.mark.parametrize("name", ["gzip", "zlib", "raw deflate"])
def test_every_truncation_is_noticed(name: str) -> None:
    """A body cut at any byte but its start is a StreamTruncatedError at the end."""
    encoding, compress = COMPRESSORS[name]
    compressed = compress(b"hello hello hello")
    for cut in range(1, len(compressed)):
        with pytest.raises(StreamTruncatedError):
            inflate(encoding, [compressed[:cut]])


def test_pieces_are_bounded() -> None:
    """A hundred megabytes from one small chunk come in pieces of 256 KiB, one at a time."""
    inflater = Inflater("gzip")
    total = 0
    for piece in inflater.feed(gzip.compress(bytes(100_000_000), compresslevel=1)):
        assert len(piece) <= PIECE
        total += len(piece)
    inflater.finish()
    assert total == 100_000_000


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_stream_is_inflated_within_a_ratio(encoding: str) -> None:
    """Text of any kind fits; a megabyte and a hundred times the compressed bytes are the limit."""
    compress = gzip.compress if encoding == "gzip" else zlib.compress
    text = b"".join(b'data: {"type": "delta", "text": "%d"}\n\n' % number for number in range(200_000))
    assert b"".join(Inflater(encoding, max_ratio=100).feed(compress(text))) == text
    bomb = compress(b"\n" * 60_000_000)
    pieces: list[bytes] = []
    with pytest.raises(MalformedReplyError, match="over 100 times its size"):
        pieces.extend(Inflater(encoding, max_ratio=100).feed(bomb))
    assert 1_000_000 < sum(map(len, pieces)) <= 1024 * 1024 + 100 * len(bomb)


def test_a_stream_has_a_limit_of_members() -> None:
    """Each member costs work although it may hold nothing."""
    assert list(Inflater("gzip", max_ratio=100).feed(gzip.compress(b"") * 1024)) == []
    with pytest.raises(MalformedReplyError, match="over 2048 parts"):
        list(Inflater("gzip", max_ratio=100).feed(gzip.compress(b"") * 2050))


def test_a_thousand_members_are_one_body() -> None:
    """A gzip body may have several members, and none is dropped."""
    assert inflate("gzip", [gzip.compress(b"abc") * 1024]) == b"abc" * 1024


@given(st.sampled_from(["gzip", "deflate"]), st.lists(st.binary(max_size=60), max_size=4))
def test_malformed_data_are_a_typed_error(encoding: str, chunks: list[bytes]) -> None:
    """Any bytes are decompressed, or refused as malformed or truncated."""
    with suppress(MalformedReplyError, StreamTruncatedError):
        inflate(encoding, chunks)


@pytest.mark.parametrize(("encoding", "needs_inflater"), [("", False), ("Identity", False), (" GZIP ", True)])
def test_plain_bodies_pass_untouched(encoding: str, needs_inflater: bool) -> None:
    """An empty encoding, and identity, need no decompressor."""
    assert (inflater_for(encoding) is not None) is needs_inflater


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress", "x" * 5000])
def test_an_unrequested_encoding_is_refused(encoding: str) -> None:
    """The message is bounded."""
    with pytest.raises(MalformedReplyError, match="not requested") as caught:
        inflater_for(encoding)
    assert len(str(caught.value)) < 200
