"""Whatever a name contains, it stays a name: judged by the bytes that a server received, and by the lines of a log."""

# ruff: noqa: PT017 -- most cases may end either way, and an error is judged where it is caught.

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import ConfigurationError, DragomanError, RequestError
from dragoman.adapter.losses import Loss, LossKind, log_losses
from dragoman.adapter.registry import adapter_class, get_adapter, providers
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Message, read_message
from dragoman.credentials.target import validate_base_url
from dragoman.testing.faults.server import FaultyServer, ReceivedRequest, json_reply
from dragoman.tools import calls
from dragoman.tools.toolbox import Toolbox
from dragoman.transport import HttpTransport
from dragoman.transport.retry import RetryPolicy, RetryQuota, RetryState, Timing
from tests.laws.hardening.payloads import PAYLOADS
from tests.sampling import sample
from tests.tables import each_row
from tests.unit.transport.drivers import BODY, PlainAdapter

MESSAGES = [Message.user("hi")]
PLAIN = "plain-model"
NO_RETRY = RetryPolicy(max_retries=0)
HTTP_PROVIDERS = [name for name in providers() if adapter_class(name).transport == "http"]
"""The providers that are reached over HTTP, not in this process."""
BY_PATH = {"anthropic-vertex", "bedrock", "bedrock-invoke", "google", "google-vertex"}
"""The providers whose path names the model."""


@pytest.fixture(scope="module")
def server() -> Any:
    with FaultyServer(json_reply({})) as running:
        yield running


def request_to(provider: str, model: str, *, stream: bool, **options: Any) -> WireRequest:
    context = RequestContext(model="any:thing")
    adapter = adapter_class(provider)(model)
    return adapter.to_wire(MESSAGES, [], AdapterOptions(stream=stream, max_output_tokens=9, context=context, **options))


def send_and_capture(
    transport: HttpTransport, server: FaultyServer, adapter: Any, request: WireRequest
) -> ReceivedRequest:
    """The request as it arrived. Raises the error of a refused request, of which the server received nothing."""
    before = len(server.requests)
    try:
        transport.send(adapter, request)
    except DragomanError:
        assert len(server.requests) == before
        raise
    assert len(server.requests) == before + 1
    return server.requests.pop()


def lines(received: ReceivedRequest) -> list[bytes]:
    """The request line and the header names, the value of each header apart."""
    first, *headers = received.head.split(b"\r\n")
    assert b"\r" not in received.head.replace(b"\r\n", b"")
    assert b"\n" not in received.head.replace(b"\r\n", b"")
    assert first.count(b" ") == 2
    return [first, *(line.partition(b":")[0].lower() for line in headers)]


def test_there_are_over_two_hundred_payloads() -> None:
    """All of them differ; and the list of providers is not empty by mistake."""
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 200
    assert len(HTTP_PROVIDERS) >= 30
    assert set(HTTP_PROVIDERS) >= BY_PATH


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("provider", sample(HTTP_PROVIDERS, 6))
def test_a_model_name_stays_in_its_segment(provider: str, stream: bool, server: FaultyServer) -> None:
    """The head differs from another model's only in the quoted segment with the name, if the path names the model."""
    usual = request_to(provider, PLAIN, stream=stream)
    before, named, after = usual.path.partition(PLAIN)
    assert bool(named) == (provider in BY_PATH)
    sent, refused = set(), 0
    with HttpTransport(api_key="key", base_url=server.url, retry=NO_RETRY) as transport:
        plain = lines(send_and_capture(transport, server, adapter_class(provider)("m"), usual))
        for payload in PAYLOADS:
            adapter = adapter_class(provider)(payload)
            try:
                request = request_to(provider, payload, stream=stream)
                head = (request.method, request.path, *request.headers.items())
                if head in sent:  # Only the body differs, and it is JSON.
                    continue
                received = send_and_capture(transport, server, adapter, request)
            except RequestError:
                refused += 1
                continue
            sent.add(head)
            first, *names = lines(received)
            assert names == plain[1:], payload
            if not named:
                assert first == plain[0], payload
                continue
            assert received.path.startswith(before), payload
            assert received.path.endswith(after), payload
            middle = received.path[len(before) : len(received.path) - len(after)]
            assert unquote(middle) == unquote(payload), payload
            assert not set(middle) & set("?#\\ \t"), payload
            assert not {".", ".."} & set(unquote(middle).split("/")), payload
    if named:
        assert refused > 50
        assert len(sent) >= 2
    else:
        assert len(sent) == 1


@each_row("provider", HTTP_PROVIDERS)
def test_a_model_id_is_printable(provider: str) -> None:
    """A model id with unprintable characters is refused, with the text escaped."""
    for payload in PAYLOADS:
        try:
            adapter = get_adapter(f"{provider}:{payload}")
        except DragomanError as error:
            assert len(str(error).splitlines()) == 1
            continue
        assert f"{adapter.model_id}{adapter!r}".isprintable()


@pytest.mark.parametrize("provider", ["anthropic", "openai", "bedrock", "google", "ollama"])
def test_an_extra_header_is_one_header(provider: str, server: FaultyServer) -> None:
    """A payload as a header's value or as its name arrives unchanged and adds no other header, or it is refused."""
    arrived = refused = 0
    with HttpTransport(api_key="key", base_url=server.url, retry=NO_RETRY) as transport:
        adapter = adapter_class(provider)(PLAIN)
        plain = lines(send_and_capture(transport, server, adapter, request_to(provider, PLAIN, stream=False)))
        for payload in PAYLOADS:
            for headers in ({"x-trace": payload}, {payload: "1"}):
                try:
                    request = request_to(provider, PLAIN, stream=False, headers={provider: headers})
                    received = send_and_capture(transport, server, adapter, request)
                except RequestError:
                    refused += 1
                    continue
                arrived += 1
                (name,) = headers
                first, *names = lines(received)
                assert first == plain[0]
                assert sorted(names) == sorted([*plain[1:], name.lower().encode()]), payload
                assert received.headers[name.lower()] == headers[name]
    assert arrived > 50
    assert refused > 200


def test_a_key_is_one_value(server: FaultyServer) -> None:
    """A key arrives as it was given, ends trimmed, or is refused without being shown."""
    adapter = PlainAdapter("m")
    request = WireRequest("POST", "/chat", BODY)
    arrived = 0
    for payload in PAYLOADS:
        try:
            with HttpTransport(api_key=payload, base_url=server.url, retry=NO_RETRY) as transport:
                received = send_and_capture(transport, server, adapter, request)
        except ConfigurationError as error:
            assert len(payload.strip()) < 8 or payload.strip() not in str(error)
            continue
        arrived += 1
        assert received.headers["x-api-key"] == payload.strip()
        assert b"evil:" not in b"".join(lines(received))
    assert arrived > 50


@pytest.mark.parametrize("join", ["{url}{payload}", "{url}/{payload}", "{url}/v1/{payload}/x"])
def test_a_base_url_is_used_unchanged(join: str, server: FaultyServer) -> None:
    """The request goes to its host and port, below its path; or the base URL is refused."""
    adapter = PlainAdapter("m")
    request = WireRequest("POST", "/chat", BODY)
    arrived = 0
    with HttpTransport(api_key="key", base_url=server.url, retry=NO_RETRY) as transport:
        plain = lines(send_and_capture(transport, server, adapter, request))
    for payload in PAYLOADS:
        base_url = join.format(url=server.url, payload=payload)
        try:
            with HttpTransport(api_key="key", base_url=base_url, retry=NO_RETRY) as transport:
                received = send_and_capture(transport, server, adapter, request)
        except (ConfigurationError, RequestError):
            continue
        arrived += 1
        assert lines(received)[1:] == plain[1:]
        assert received.headers["host"] == f"127.0.0.1:{server.port}"
        written = (
            base_url.strip().removeprefix(server.url).rstrip("/?#") + "/chat"
        )  # Separators with nothing after them disappear.
        assert unquote(received.path) == unquote(written), payload
        assert not {".", ".."} & set(unquote(received.path).split("/")), payload
    assert arrived >= (3 if join == "{url}{payload}" else 20)


def test_a_host_stays_the_same_host() -> None:
    """An accepted URL is the text as it was given, in ASCII."""
    for payload in PAYLOADS:
        for text in (f"https://{payload}", f"https://api.test{payload}", f"https://{payload}.api.test/v1"):
            try:
                url = validate_base_url(text)
            except ConfigurationError as error:
                assert len(str(error).splitlines()) == 1
                continue
            assert url.isascii()
            assert url.isprintable()
            written = text.strip().lower().rstrip("/?#")
            assert url.lower().replace(":", "") == written.replace(":", "")  # A colon without a port disappears.


class _RecordCollector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter("%(levelname)s %(name)s %(message)s").format(record))


def _message(payload: str) -> None:
    block = {"type": payload, "x": 1}
    read_message({"role": "user", "id": payload, "session_id": payload, "content": [block]})


def _losses(payload: str) -> None:
    loss = Loss(LossKind.OPTION, payload, 0, f"{payload} is left out", block_type=payload)
    log_losses((loss,), session_id=payload, adapter="openai")


def _events(payload: str) -> None:
    for provider in ("anthropic", "openai", "cohere", "google"):
        decoder = adapter_class(provider)("m").decoder(RequestContext(model="any:m", session_id=payload))
        list(decoder.skip_unknown(payload))


def _retries(payload: str) -> None:
    error = ErrorContext("openai", payload, 503).failure(message=payload, code=payload, request_id=payload).error()
    RetryState(RetryPolicy(), RetryQuota(), Timing()).record_failure(error, {})


def _tool_calls(payload: str) -> None:
    def look() -> None:
        raise ValueError(payload)

    call = ToolUseBlock(id="tu_1", name=payload, input={payload: payload})
    calls.run(Toolbox([look]).prepare(call))
    calls.run(Toolbox([look]).prepare(call.model_copy(update={"name": "look"})))


LOG_SOURCES: list[Callable[[str], None]] = [_message, _losses, _events, _retries, _tool_calls]


@pytest.mark.parametrize("log_source", LOG_SOURCES, ids=lambda log_source: log_source.__name__.strip("_"))
def test_a_record_is_one_line(log_source: Callable[[str], None]) -> None:
    """Ids of sessions and messages, names of blocks, events, tools and providers never end a line of the log."""
    collector = _RecordCollector()
    logger = logging.getLogger("dragoman")
    before = logger.level
    logger.addHandler(collector)
    logger.setLevel(logging.INFO)
    try:
        for payload in PAYLOADS:
            try:
                log_source(payload)
            except (DragomanError, ValueError):
                continue
    finally:
        logger.removeHandler(collector)
        logger.setLevel(before)
    for line in collector.lines:
        assert line.isprintable(), line
    assert len(collector.lines) > (100 if log_source is not _tool_calls else 0)
