"""One key in every place where people put keys, and no text of the library that shows it."""

# ruff: noqa: PT017 -- most cases may end either way, and an error is judged where it is caught.

import logging
import pickle
import traceback
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import vcr

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.adapter.registry import adapter_class, providers
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.credentials.target import TargetFinder
from dragoman.session import AsyncSession, Session
from dragoman.testing.cassettes import file, vcrpy
from dragoman.testing.faults.server import FaultyServer, HttpReply
from dragoman.transport import AsyncHttpTransport, HttpTransport, RetryPolicy
from tests.unit.transport.drivers import ADAPTER, BODY

CANARY = "sk-canary-7b1e0c5d9f3a4468"
"""It looks like a key, so it is masked even if it is not declared as one."""
ADAPTERS = [kind("m") for name in providers() if (kind := adapter_class(name)).transport == "http"]
ECHOES = [
    HttpReply(status=401, body=f'{{"error":{{"message":"Incorrect API key provided: {CANARY}."}}}}'.encode()),
    HttpReply(status=400, body=f'{{"error":{{"code":"{CANARY}","type":"{CANARY}","message":"no"}}}}'.encode()),
    HttpReply(status=403, body=f"<html>{CANARY}</html>".encode(), headers={"content-type": "text/html"}),
    HttpReply(status=400, body=f'{{"message":"Authorization: Bearer {CANARY}","param":["{CANARY}"]}}'.encode()),
    HttpReply(status=404, body=f'{{"detail":"http://h/x?key={CANARY}"}}'.encode()),
    HttpReply(status=302, headers={"location": f"http://127.0.0.1:9/?key={CANARY}"}),
    HttpReply(status=400, body=(b"x" * 590 + CANARY.encode()) * 40),
    HttpReply(status=200, body=f'{{"error":"{CANARY}"}}'.encode()),
    HttpReply(status=200, body=f"{CANARY} is not JSON".encode()),
]


@pytest.fixture
def log_records() -> Iterator[list[logging.LogRecord]]:
    """All records of our own loggers, at the finest level."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler(logging.DEBUG)
    handler.emit = records.append  # type: ignore[method-assign]
    logger = logging.getLogger()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield records
    logger.setLevel(before)
    logger.removeHandler(handler)


def describe_error(error: BaseException) -> str:
    """Everything that programs show of an error and its causes: texts, reprs, fields, pickles."""
    pickled = pickle.dumps(error)
    back = pickle.loads(pickled)
    texts = [str(error), repr(error), str(vars(error)), str(back), str(vars(back)), pickled.decode("latin-1")]
    return "\n".join([*texts, *traceback.format_exception(error)])


def records(log_records: list[logging.LogRecord]) -> str:
    """The log; httpcore writes, at DEBUG, the headers of replies as they come."""
    ours = (record for record in log_records if not record.name.startswith("httpcore"))
    return "\n".join(f"{record.getMessage()} {record.__dict__}" for record in ours)


def keyless(adapter: Any) -> bool:
    return not adapter.endpoint.key_variables


@pytest.mark.exhaustive
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_reply_that_repeats_the_key(stream: bool, log_records: list[logging.LogRecord]) -> None:
    """Every provider's error masks a key that is an argument, in the environment or in a header."""
    errors = 0

    def answer(request: httpx.Request) -> httpx.Response:
        assert CANARY in repr(request.headers.raw)
        reply = ECHOES[int(request.headers["x-case"])]
        return httpx.Response(reply.status, headers=dict(reply.headers), content=reply.body)

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        for adapter in ADAPTERS:
            endpoint = adapter.endpoint
            header = {endpoint.key_header: endpoint.key_prefix + CANARY}
            ways: list[tuple[dict[str, Any], dict[str, str]]] = [({"api_key": CANARY}, {}), ({}, header)]
            if not keyless(adapter):
                ways.append(({"environ": {endpoint.key_variables[0]: CANARY}}, {}))
            for settings, headers in ways:
                transport = HttpTransport(
                    **{"environ": {}, **settings},
                    base_url="http://h.test",
                    client=client,
                    retry=RetryPolicy(max_retries=0),
                )
                assert CANARY not in repr(transport) + str(vars(transport)) + repr(adapter)
                for case in range(len(ECHOES)):
                    request = WireRequest("POST", "/chat", BODY, {**headers, "x-case": str(case)}, stream=stream)
                    assert CANARY not in repr(request)
                    try:
                        if stream:
                            with transport.stream(adapter, request) as reply:
                                *_, last = adapter.iter_stream(reply.chunks, RequestContext(model="a:m"))
                            raise getattr(last, "error")  # noqa: B009
                        adapter.from_wire_response(transport.send(adapter, request), RequestContext(model="a:m"))
                    except ProviderError as error:
                        errors += 1
                        assert CANARY not in describe_error(error), adapter
    assert errors >= 500
    assert CANARY not in records(log_records)


@pytest.mark.parametrize(
    "base_url",
    [
        f"https://{CANARY}@h.test", f"https://user:{CANARY}@h.test/v1", f"https://h.test?key={CANARY}",
        f"https://h.test/v1#{CANARY}", f"https://{CANARY}:443443", f"ftp://{CANARY}", f"https://[{CANARY}",
        f"https://h.test/\n{CANARY}", f"{CANARY}@", f"https://h.test/../{CANARY}", f"https://h[{CANARY}]",
    ],
)  # fmt: skip
def test_a_key_in_an_address(base_url: str, log_records: list[logging.LogRecord]) -> None:
    """A key as user, password, query or fragment is refused, and not repeated."""
    for settings in ({"base_url": base_url, "environ": {}}, {"environ": {"PLAIN_URL": base_url}}):
        with pytest.raises(DragomanError) as caught:
            HttpTransport(api_key="key", **settings).send(ADAPTER, WireRequest("POST", "/chat", BODY))
        assert CANARY not in describe_error(caught.value)
    assert CANARY not in records(log_records)


def test_an_invalid_key() -> None:
    """A key with a line end is refused, naming its place."""
    for find in (
        lambda: TargetFinder(f"{CANARY}\nx"),
        lambda: TargetFinder(environ={"PLAIN_KEY": f"{CANARY} x"}),
    ):
        with pytest.raises(DragomanError) as caught:
            find().target(ADAPTER)
        assert CANARY not in describe_error(caught.value)


def test_objects_show_no_content() -> None:
    """Sessions, transports and requests show neither key nor conversation."""
    settings = {"anthropic": {"api_key": CANARY}}
    sessions = [Session("anthropic:m", providers=settings), AsyncSession("anthropic:m", providers=settings)]
    transports = [HttpTransport(api_key=CANARY), AsyncHttpTransport(api_key=CANARY)]
    for thing in [*sessions, *transports]:
        assert CANARY not in f"{thing!r}{thing!s}{[thing]}"
    for adapter in ADAPTERS:
        headers = {adapter.provider: {"x-api-key": CANARY}}
        options = AdapterOptions(headers=headers, context=RequestContext(model="a:m"))
        request = adapter.to_wire([Message.user(f"my secret {CANARY}")], [], options)
        assert CANARY in request.body.decode()
        assert CANARY not in f"{request!r}{request!s}"
    assert CANARY not in repr(WireResponse(200, CANARY.encode(), {"x-key": CANARY}))


def test_a_cassette_holds_no_key() -> None:
    """Recorded as pytest-recording does it: headers by an allow list, the query's key and a body's refused."""
    recorder = vcr.VCR()
    vcrpy.register(recorder, server="s")
    with FaultyServer(HttpReply(body=b"{}", headers={"set-cookie": CANARY, "x-echo": CANARY})) as server:
        with recorder.use_cassette("unused.yaml", record_mode="all", **vcrpy.config()) as cassette:
            cassette._save = lambda force=False: None
            with HttpTransport(api_key=CANARY, base_url=server.url) as transport:
                transport.send(ADAPTER, WireRequest("POST", "/chat", b"{}", {"x-extra": CANARY}))
        written = vcrpy.serialize(_interactions(cassette), "s")
    assert "/chat" in written
    assert CANARY not in written
    for place in ("path", "request", "response"):
        exchange = file.Exchange(
            file.RecordedRequest(
                "POST", f"/x?key={CANARY}" if place == "path" else "/x", CANARY.encode() if place == "request" else b""
            ),
            file.RecordedResponse(401, CANARY.encode() if place == "response" else b""),
        )
        with pytest.raises(DragomanError) as caught:
            file.dump_exchanges([exchange], server="s")
        assert CANARY not in str(caught.value)


def _interactions(cassette: Any) -> dict[str, Any]:
    return {
        "interactions": [
            {
                "request": {"method": r.method, "uri": r.uri, "body": r.body, "headers": dict(r.headers)},
                "response": answer,
            }
            for r, answer in zip(cassette.requests, cassette.responses, strict=True)
        ]
    }
