"""What is known of a wire apart from its adapter: see `dragoman.testing.conformance.wire`."""

from dragoman.testing.conformance.wire import Wire, compact, line, sse

__all__ = ["Wire", "compact", "line", "sse"]
