"""Spans of requests join the client's trace, and hold no content unless the settings ask for it."""

from collections.abc import Sequence

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.gateway.upstream import gateway_before, question, streamed_reply, whole_reply

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


def spans_of(exporter: InMemorySpanExporter, telemetry: str, *, stream: bool = False) -> Sequence[ReadableSpan]:
    reply = streamed_reply("chat") if stream else whole_reply("chat")
    with gateway_before(reply, models={"house": "openai-chat:m"}, telemetry=telemetry) as (url, _):
        asked = question("chat", "house", stream=stream)
        assert httpx.post(f"{url}/v1/chat/completions", json=asked, headers=HEADERS).status_code == 200
    return exporter.get_finished_spans()


@pytest.mark.parametrize("stream", [False, True])
def test_the_spans_are_children_of_the_client_s(exporter: InMemorySpanExporter, stream: bool) -> None:
    spans = {span.name: span for span in spans_of(exporter, "spans", stream=stream)}
    assert set(spans) == {"invoke_agent", "chat m"}
    turn, call = spans["invoke_agent"], spans["chat m"]
    assert turn.context is not None
    assert call.parent is not None
    assert turn.parent is not None
    assert (f"{turn.context.trace_id:032x}", f"{turn.parent.span_id:016x}") == (TRACE, PARENT)
    assert call.parent.span_id == turn.context.span_id
    assert (call.attributes or {})["gen_ai.usage.output_tokens"] == 9


def test_content_is_written_only_if_the_settings_say_so(exporter: InMemorySpanExporter) -> None:
    assert "Bern" not in "".join(span.to_json() for span in spans_of(exporter, "spans"))
    exporter.clear()
    assert "Where is Bern?" in "".join(span.to_json() for span in spans_of(exporter, "content"))


def test_without_the_setting_there_are_no_spans(exporter: InMemorySpanExporter) -> None:
    assert spans_of(exporter, "off") == ()


def test_a_header_that_is_no_trace_begins_a_new_one(exporter: InMemorySpanExporter) -> None:
    with gateway_before(whole_reply("chat"), models={"house": "openai-chat:m"}, telemetry="spans") as (url, _):
        asked = question("chat", "house")
        assert httpx.post(f"{url}/v1/chat/completions", json=asked, headers={"traceparent": "x"}).status_code == 200
    (turn,) = [span for span in exporter.get_finished_spans() if span.name == "invoke_agent"]
    assert turn.parent is None
