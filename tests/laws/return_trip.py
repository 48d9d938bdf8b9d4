"""The return trip of a history is part of the kit: see `dragoman.testing.conformance.return_trip`."""

from dragoman.testing.conformance.return_trip import Trip, said

_said = said
__all__ = ["Trip", "said"]
