"""The return trip of a history is part of the kit: see `dragoman.testing.conformance.round_trip`."""

from dragoman.testing.conformance.round_trip import RoundTrip, iterate_blocks

_said = iterate_blocks
__all__ = ["RoundTrip", "iterate_blocks"]
