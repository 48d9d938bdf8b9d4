"""What users test with: cassettes that replay real traffic."""

from dragoman.testing.cassettes import AsyncCassetteTransport, Cassette, CassetteMissError, CassetteTransport

__all__ = ["AsyncCassetteTransport", "Cassette", "CassetteMissError", "CassetteTransport"]
