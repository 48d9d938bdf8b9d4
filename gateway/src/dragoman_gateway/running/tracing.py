"""OpenTelemetry spans of the requests, as children of the client's own. It needs the extra ``dragoman[otel]``."""

from collections.abc import Mapping
from typing import Literal

from dragoman.events import EventBus, Telemetry


class Tracing:
    """Makes spans by the library's conventions. They go to the tracer provider that the program has set."""

    def __init__(self, form: Literal["spans", "content"]) -> None:
        """``content`` writes the content of messages into the spans. Raises MissingExtraError without OpenTelemetry."""
        self._telemetry = Telemetry(message_content=form == "content")
        from opentelemetry.context import attach  # imported late: the line before says what to install
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._attach, self._propagator = attach, TraceContextTextMapPropagator()
        self.bus = EventBus()
        self.bus.subscribe(self._telemetry)

    def follow(self, headers: Mapping[str, str]) -> None:
        """Make the client's span the present one of this task. A header that cannot be read changes nothing."""
        if "traceparent" in headers:
            self._attach(self._propagator.extract(headers))

    def close(self) -> None:
        """Write what is left, and end all spans."""
        self.bus.close()
        self._telemetry.close()
