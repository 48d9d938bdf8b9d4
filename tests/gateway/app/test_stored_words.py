"""What a policy takes out or denies is nowhere: in no database, log, trace or file of the gateway."""

import json
import logging
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dragoman import Client, EventBus, Message, Store
from dragoman.events import Telemetry
from dragoman.policy import PolicyDeniedError
from dragoman.testing import cassette
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest
from dragoman.transport import RetryPolicy
from tests.gateway.app.test_policy import no_bern, redaction
from tests.gateway.upstream import (
    KEY,
    PATHS,
    PATIENCE,
    PROVIDERS,
    gateway_before,
    question,
    streamed_reply,
    whole_reply,
)
from tests.unit.batch.handwritten_provider import Provider as BatchProvider
from tests.unit.batch.handwritten_provider import serve_provider

ASKED, ANSWERED, DENIED = "S-104234", "S-104299", "zebra-77"
MODEL = "anthropic:claude-haiku-4-5"


def body_of(wire: str, text: str, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(question(wire, "house", **more)).replace("Where is Bern?", text))
    if wire == "responses":
        return {**body, "store": True, "instructions": f"Ask {ASKED}.", "metadata": {"who": ASKED}}
    return body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("behind", ["its own wire", "another wire"])
@pytest.mark.parametrize("wire", PATHS)
def test_no_word_that_a_policy_takes_out_is_stored(
    wire: str, behind: str, stream: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    provider = PROVIDERS[wire] if behind == "its own wire" else PROVIDERS["messages" if wire == "chat" else "chat"]
    upstream = next(name for name, each in PROVIDERS.items() if each == provider)
    text = f"{ANSWERED} is new."
    reply = streamed_reply(upstream, text[:5], text[5:]) if stream else whole_reply(upstream, text)
    events: list[str] = []
    bus, store = EventBus(), Store(f"sqlite:///{tmp_path / 'chats.db'}")
    bus.subscribe(lambda event: events.append(repr(event)), name="all")
    exporter, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    bus.subscribe(Telemetry(message_content=True, tracer_provider=tracers))
    client = {"policy": [redaction(), no_bern], "store": store, "events": bus}
    settings = {"models": {"house": f"{provider}:m"}, "database": f"sqlite:///{tmp_path / 'gateway.db'}"}
    with gateway_before(reply, client=client, **settings) as (url, server):
        asked = [body_of(wire, f"Who is {ASKED}?", stream=stream)]
        denied = [body_of(wire, f"Bern {DENIED}?", stream=stream)]
        if wire == "responses":
            asked.append({**asked[0], "background": True})
            denied.append({**denied[0], "background": True})
        for body in asked:
            answer = httpx.post(url + PATHS[wire], json=body)
            assert answer.status_code == 200, answer.text
            if body.get("background") and not stream:
                _wait(f"{url}/v1/responses/{answer.json()['id']}")
        for body in denied:
            assert httpx.post(url + PATHS[wire], json=body).status_code == 400
        sent = b" ".join(request.body for request in server.requests)
    bus.flush()
    store.close()
    spans = " ".join(span.to_json() for span in exporter.get_finished_spans())
    files = b"".join(each.read_bytes() for each in sorted(tmp_path.iterdir()))
    for word in (ASKED, ANSWERED, DENIED):
        assert word.encode() not in sent
        assert word.encode() not in files, word
        assert word not in caplog.text
        assert word not in " ".join(events)
        assert word not in spans
    assert b"staff_number" in files
    assert "staff_number" in spans


def _wait(url: str) -> None:
    ends = time.monotonic() + PATIENCE
    while httpx.get(url).json()["status"] in ("queued", "in_progress"):
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.mark.parametrize("road", ["session", "bulk", "batch"])
def test_no_word_that_a_policy_takes_out_is_stored_without_a_gateway(
    road: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the store, the manifest of a run, a recording of what was sent, the log, the events and the spans."""
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []
    exporter, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    with ExitStack() as stack:
        bus = stack.enter_context(EventBus())
        bus.subscribe(lambda event: seen.append(repr(event)), name="all")
        bus.subscribe(Telemetry(message_content=True, tracer_provider=tracers))
        store = stack.enter_context(Store(f"sqlite:///{tmp_path / 'chats.db'}"))
        url = stack.enter_context(serve_provider(BatchProvider()) if road == "batch" else FaultyServer(_answer))
        stack.enter_context(cassette(tmp_path / "tape.yaml", "all"))
        address = url if isinstance(url, str) else url.url
        providers = {"anthropic": {"base_url": address, "api_key": KEY, "retry": RetryPolicy(max_retries=0)}}
        client = stack.enter_context(
            Client(policy=[redaction(), no_bern], store=store, events=bus, providers=providers)
        )
        asked = [f"Who is {ASKED}?", f"Bern {DENIED}?"]
        if road == "session":
            given = [Message.user(f"I am {ASKED}."), Message.assistant("Hello.")]
            with client.session(MODEL, messages=given) as session:
                session.ask(asked[0])
                with pytest.raises(PolicyDeniedError):
                    session.ask(asked[1])
        else:
            run = {"batch": True, "poll_every": 0.001} if road == "batch" else {}
            manifest = tmp_path / "manifest.db"
            with client.bulk(asked, MODEL, manifest=manifest, **run) as report:
                assert (report.finished, report.errors) == (True, 1)
        bus.flush()
    files = b"".join(each.read_bytes() for each in sorted(tmp_path.iterdir()))
    spans = " ".join(span.to_json() for span in exporter.get_finished_spans())
    for word in (ASKED, DENIED):
        for where in (files.decode("latin-1"), caplog.text, " ".join(seen), spans):
            assert word not in where
    assert files.count(b"staff_number") > 1


def _answer(request: ReceivedRequest) -> HttpReply:
    return whole_reply("messages", "Somebody.")
