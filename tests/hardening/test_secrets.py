"""An API key is in no frame of a failing configuration or request, and in nothing that the library writes."""

import asyncio
import json
import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from dragoman import AsyncSession, Client, EventBus, Session, Store
from dragoman.bulk import bulk
from dragoman.errors import ConfigurationError, DragomanError, ProviderError
from dragoman.events import JsonLines
from dragoman.testing.cassettes.file import Exchange, RecordedRequest, RecordedResponse, dump_exchanges
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply
from tests.hardening import secret_frames
from tests.hardening.secret_frames import ECHOES, KEY, FrameSearch, variables
from tests.unit.session.handwritten_replies import handwritten_anthropic

MODEL = secret_frames.MODELS["anthropic"]
ECHO = json.dumps({"type": "error", "error": {"type": KEY, "message": f"invalid x-api-key: {KEY}"}}).encode()


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.CRITICAL, "dragoman"):
        yield


@pytest.mark.filterwarnings("ignore")
def test_no_frame_of_a_failing_configuration_holds_a_key() -> None:
    """Each setting of sessions, clients, transports and bulk runs, with a value that it does not take."""
    search = secret_frames.configurations()
    assert search.enough, (search.hits, search.bare)
    assert search.errors > 200


@pytest.mark.exhaustive
def test_no_frame_of_a_failing_request_holds_a_key() -> None:
    """A sample; `python -m tests.hardening` searches all replies. Those that repeat the key leave it in no error."""
    search = secret_frames.requests(("no JSON", "an error that is not an error", "a stream's error", "hung up"))
    assert search.enough, (search.hits[:10], search.bare)
    assert search.errors > 150
    assert set(ECHOES) <= secret_frames.REPLIES.keys()


def test_the_search_finds_a_key() -> None:
    """The search finds a key in a variable of a frame, in a cause, in an error's own text; not in frames of
    the tests.
    """
    own: dict[str, Any] = {"__name__": "library"}
    exec("def fail(key):\n    raise ValueError", own)
    search = FrameSearch("")
    for what, work in (("frame", lambda: own["fail"](KEY)), ("text", lambda: _raise(ValueError(KEY)))):
        try:
            work()
        except ValueError as error:
            search.add(what, error)
    assert search.hits == ["frame: fail, key", "text: error ValueError"]
    cause = ValueError("x")
    cause.__cause__ = ValueError(KEY)
    assert any(KEY in repr(value) for _, value in variables(cause))


def _raise(error: Exception) -> None:
    raise error


def answers(request: ReceivedRequest) -> HttpReply:
    """Every other request is refused with an error that repeats the key."""
    if b"refuse" in request.body:
        return HttpReply(status=400, body=ECHO, headers={"x-echo": KEY, "request-id": "r"})
    return json_reply(json.loads(handwritten_anthropic("Ok.").body))


def settings(url: str) -> dict[str, Any]:
    return {"anthropic": {"api_key": KEY, "base_url": url, "max_retries": 0}}


def test_nothing_that_is_written_holds_a_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Events, stores, dumps, reprs, tracebacks, logs and bulk files of requests that succeed, and that are refused."""
    shown: list[str] = []
    with FaultyServer(answers) as server, caplog.at_level(logging.DEBUG):
        bus = EventBus()
        bus.subscribe(JsonLines(tmp_path / "events.jsonl"))
        store = Store("sqlite:///chats.db")
        client = Client(providers=settings(server.url), events=bus, store=store)
        for prompt in ("Hi", "refuse"):
            with client.session(MODEL) as session:
                try:
                    shown.append(repr(session.ask(prompt)))
                except ProviderError as error:
                    shown += [*traceback.format_exception(error), repr(error), repr(vars(error))]
                shown += [repr(session), str(session.attempts), session.dump().decode(), repr(session.messages)]
        with bulk(["Hi", "refuse"], MODEL, client=client, to=tmp_path / "answers.jsonl") as report:
            shown += [repr(report), str(report), repr(client), repr(client.config)]
        shown += [line for each in store.list().sessions for line in store.export(each.id)]
        store.close()
        client.close()
        bus.close()
        sent = repr([request.headers for request in server.requests])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sent.count(KEY) == 4
    assert {"chats.db", "answers.jsonl", "events.jsonl"} <= {path.name for path in files}
    assert "llm.call_failed" in (tmp_path / "events.jsonl").read_text()
    assert [path.name for path in files if KEY.encode() in path.read_bytes()] == []
    assert [text[:200] for text in shown if KEY in text] == []
    ours = [record for record in caplog.records if record.name.startswith("dragoman")]
    assert [record.name for record in ours if KEY in f"{record.getMessage()} {record.__dict__}"] == []


def test_spans_and_metrics_hold_no_key() -> None:
    """Spans and metrics hold no key, also for a request that was refused with the key in its error."""
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    exporters = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    from dragoman.events import Telemetry

    exporter, tracers = memory.InMemorySpanExporter(), trace.TracerProvider()
    tracers.add_span_processor(exporters.SimpleSpanProcessor(exporter))
    bus = EventBus()
    bus.subscribe(Telemetry(tracer_provider=tracers))
    with FaultyServer(answers) as server, Session(MODEL, providers=settings(server.url), events=bus) as session:
        session.ask("Hi")
        with pytest.raises(ProviderError):
            session.ask("refuse")
    bus.close()
    spans = [span.to_json() for span in exporter.get_finished_spans()]
    assert len(spans) >= 4
    assert [span for span in spans if KEY in span] == []


def test_commands_show_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key comes from the environment, or from the configuration file."""
    from dragoman.cli.app import app

    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("DRAGOMAN_CONFIG", str(tmp_path / "dragoman.toml"))
    with FaultyServer(lambda request: HttpReply(status=401, body=ECHO)) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        path, run = tmp_path / "dragoman.toml", CliRunner().invoke
        path.write_text("[providers.anthropic]\nmax_retries = 0\n")
        ran = [run(app, words) for words in (["ask", MODEL, "Hi"], ["models", "anthropic"], ["keys", "list"])]
        assert len(server.requests) == 1
        path.write_text(f'[providers.anthropic]\napi_key = "{KEY}"\n')
        ran += [run(app, words) for words in (["config", "show"], ["config", "check"], ["ask", MODEL, "Hi"])]
    assert isinstance(ran[0].exception, (DragomanError, SystemExit))
    shown = [f"{each.output}{each.exception}" for each in ran]
    assert [text for text in shown if KEY in text] == []


def test_a_cassette_holds_no_key_of_a_request() -> None:
    """Headers are recorded by an allow list; tests/laws/hardening has answers that repeat a key."""
    request = RecordedRequest("POST", "/v1/messages", b'{"model":"m"}', {"x-api-key": KEY})
    text = dump_exchanges([Exchange(request, RecordedResponse(200, b"{}"))], server="s")
    assert KEY not in text


def test_an_async_stream_that_breaks_shows_no_key() -> None:
    """An async stream that breaks shows no key: the error of the event loop's own frames, too."""
    reply = secret_frames.REPLIES["a broken stream"]

    async def stream(url: str) -> None:
        async with AsyncSession(MODEL, providers=settings(url)) as session, session.stream("Hi") as events:
            async for _ in events:
                pass

    with FaultyServer(reply) as server, pytest.raises((ProviderError, httpx.HTTPError)) as caught:
        asyncio.run(stream(server.url))
    assert [place for place, value in variables(caught.value) if KEY in secret_frames.render(value)] == []


def test_prices_of_another_class_are_refused() -> None:
    """By sessions, clients and bulk runs; so are providers beside a key, and budgets beside those of a client."""
    nothing: Any = object()
    for refused in (
        lambda: Session(MODEL, prices=nothing),
        lambda: Client(prices=nothing),
        lambda: bulk(["Hi"], MODEL, prices=nothing),
        lambda: bulk(["Hi"], MODEL, options=nothing),
        lambda: bulk(["Hi"], MODEL, limits=nothing),
        lambda: Session(MODEL, api_key=KEY, providers=nothing),
        lambda: Client().session(MODEL, budgets=nothing),
    ):
        with pytest.raises(ConfigurationError):
            refused()
