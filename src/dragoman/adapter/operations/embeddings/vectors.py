"""Reads vectors from a reply, as numbers or as base64, and checks them.

A vector is an ``array("f")``: 32-bit floats.
"""

import binascii
import math
import sys
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dragoman.adapter.errors import MalformedReplyError

if TYPE_CHECKING:
    Vector: TypeAlias = array[float]
else:
    Vector = array  # it takes no parameters before Python 3.12

_FLOAT_SIZE = 4
_HIGH_EXPONENTS = frozenset((0x7F, 0xFF))
_OTHER_BYTES = bytes(byte for byte in range(256) if byte not in _HIGH_EXPONENTS)


def read_vector(value: Any) -> Vector:
    """Return a vector from a list of numbers, or from base64 of 32-bit floats in little-endian order.

    Raises MalformedReplyError for anything else, for an empty vector, and for NaN and infinity.
    """
    vector = _decode_base64(value) if isinstance(value, str) else _decode_numbers(value)
    if not vector:
        raise MalformedReplyError("a vector of the reply is empty")
    if not is_finite(vector):
        raise MalformedReplyError("a vector of the reply holds NaN or infinity")
    return vector


def is_finite(vector: Vector) -> bool:
    """Whether the vector has neither NaN nor infinity."""
    # Only numbers of 2**127 and over have these bits in their highest byte, and embeddings have none.
    data = vector.tobytes()
    high = data[3::_FLOAT_SIZE] if sys.byteorder == "little" else data[::_FLOAT_SIZE]
    return not high.translate(None, _OTHER_BYTES) or all(map(math.isfinite, vector))


def check_lengths(vectors: Sequence[Vector], count: int, dimensions: int | None) -> None:
    """Raise MalformedReplyError if there is not one vector for each input, or if their lengths are wrong."""
    if len(vectors) != count:
        raise MalformedReplyError(f"the reply has {len(vectors):,} vectors for {count:,} inputs")
    lengths = {len(vector) for vector in vectors}
    if len(lengths) > 1:
        raise MalformedReplyError(f"the vectors of the reply have different lengths: {sorted(lengths)!r:.80}")
    if dimensions is not None and lengths != {dimensions}:
        raise MalformedReplyError(f"the vectors of the reply have {lengths.pop():,} dimensions, not {dimensions:,}")


def _decode_base64(text: str) -> Vector:
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise MalformedReplyError("a vector of the reply is not base64") from None
    if len(data) % _FLOAT_SIZE:
        raise MalformedReplyError("a vector of the reply is cut inside a number")
    vector = array("f")
    vector.frombytes(data)
    if sys.byteorder == "big":
        vector.byteswap()
    return vector


def _decode_numbers(value: Any) -> Vector:
    if not isinstance(value, list):
        raise MalformedReplyError("a vector of the reply is neither a list of numbers nor base64")
    try:
        return array("f", value)
    except (TypeError, OverflowError):
        raise MalformedReplyError("a vector of the reply holds something other than numbers") from None
