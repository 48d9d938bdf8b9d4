"""What may go into a header or a path, judged by the bytes that a server received."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import ConfigurationError, DragomanError, RequestError
from dragoman.adapter.wire import WireRequest
from dragoman.testing.faults.server import FaultyServer, json_reply
from dragoman.transport.call import validate_headers, validate_path
from tests.unit.transport.drivers import BODY, ENGINES, KEY, Driver

_INJECTED = "x-evil: 1"
_LINE_ENDS = [
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    "\0",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x85",
    "\u2028",
    "\u2029",
    "\x7f",
]
_LETTERS = ["é", "你", "\U0001f600", "\ud800", "\u0131", "\u202e", "\ufeff", "\xa0", "\u010a", "\u560a\u560d"]

HEADER_VALUES = [
    *(f"a{end}{_INJECTED}" for end in _LINE_ENDS),
    *(f"{end}{_INJECTED}" for end in _LINE_ENDS),
    *(f"a{end}" for end in _LINE_ENDS),
    *(f"a{end} folded" for end in _LINE_ENDS),
    *_LETTERS,
    *(f"a{letter}{_INJECTED}" for letter in _LETTERS),
    " leading", "trailing ", "\ttab", "tab\t",
]  # fmt: skip
HEADER_NAMES = [
    *(f"x-a{end}x-evil" for end in _LINE_ENDS),
    "", " ", "x a", "x:a", "x-a:", ":path", "x-é", "x(a)", "x,a", "x;a", "x=a", "x\ta", '"x"', "x/a", "x[a]",
    "x{a}", "@x",
]  # fmt: skip
FRAMING = [
    "Host", "host", "Content-Length", "content-length", "Transfer-Encoding", "Connection", "Upgrade", "TE", "Trailer",
    "Keep-Alive", "Expect", "Accept-Encoding",
]  # fmt: skip
PATHS = [
    *(f"/chat{end}{_INJECTED}" for end in _LINE_ENDS),
    *(f"/chat{letter}" for letter in _LETTERS),
    "", "chat", "//evil.test/chat", "/\\evil.test", "\\\\evil.test", "http://evil.test/", "https:evil", "@evil.test/",
    ":80/",
    "/../v2/chat", "/chat/../../admin", "/chat/..", "/.", "/./chat", "/chat/.", "/..", "/%2e%2e/v2", "/%2E%2E%2Fv2",
    "/..%2fv2", "/chat%2f..%2f..%2fadmin", "/.%2e/x", "/chat%5c..%5cx", "/chat#frag", "/chat?a=b#frag", "/chat%0d%0ax",
    "/chat%0a", "/chat%00", "/chat?x=%0d%0a", "/chat?x=%00", "/a b", "/chat?a b", "/<script>", '/"', "/{model}", "/|",
    "/^", "/`",
]  # fmt: skip


@pytest.mark.parametrize("driver", ENGINES, ids=lambda driver: driver.name)
def test_no_payload_reaches_the_wire(driver: Driver) -> None:
    """Every payload in a header, a path or a method is a RequestError, and the server receives nothing."""
    requests = [
        *(WireRequest("POST", "/chat", BODY, {"x-a": value}) for value in HEADER_VALUES),
        *(WireRequest("POST", "/chat", BODY, {"x-api-key": value}) for value in HEADER_VALUES),
        *(WireRequest("POST", "/chat", BODY, {name: "1"}) for name in HEADER_NAMES),
        *(WireRequest("POST", "/chat", BODY, {name: "1"}) for name in FRAMING),
        *(WireRequest("POST", path, BODY) for path in PATHS),
        *(WireRequest(f"POST{end}", "/chat", BODY) for end in ["\r\n", " /x HTTP/1.1\r\n", "\0"]),
    ]
    assert len(requests) >= 200
    with FaultyServer(json_reply({})) as server:
        for request in requests:
            result = driver.call(request, base_url=server.url)
            assert type(result.error) is RequestError, request
            assert KEY not in str(result.error)
        assert server.connections == 0
        assert driver.call(base_url=server.url).status == 200
        assert b"evil" not in server.requests[0].head


@pytest.mark.parametrize("driver", ENGINES, ids=lambda driver: driver.name)
@pytest.mark.parametrize(
    "path",
    [
        "/chat", "/chat/", "/models/gemini-3:streamGenerateContent?alt=sse", "/model/arn%3Aaws%2Fprofile/invoke",
        "/a%20b",
        "/m/v1.5...2/x", "/%C3%A9", "/chat?api-version=2026-10-21&x=a%2Fb",
    ],
)  # fmt: skip
def test_a_valid_path_arrives_as_written(driver: Driver, path: str) -> None:
    """Quoting is the adapter's, and stays."""
    with FaultyServer(json_reply({})) as server:
        assert driver.call(WireRequest("POST", path, b"{}"), base_url=server.url + "/v1").error is None
    assert server.requests[0].path == "/v1" + path


@pytest.mark.parametrize("driver", ENGINES, ids=lambda driver: driver.name)
@pytest.mark.parametrize("host", ["xn--0", "xn--a", "xn--", "xn--zz-"])
def test_an_invalid_international_host_is_refused(driver: Driver, host: str) -> None:
    assert type(driver.call(base_url=f"https://{host}").error) is ConfigurationError


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=12), max_size=3))
def test_headers_are_valid_or_refused(headers: dict[str, str]) -> None:
    """Whatever passes is printable ASCII on one line."""
    try:
        checked = validate_headers(headers)
    except RequestError:
        return
    for name, value in checked.items():
        assert f"{name}: {value}".isascii()
        assert f"{name}: {value}".isprintable() or "\t" in value


@given(st.text(alphabet="/.%2ef5c\\?#@:a\r\n", max_size=12))
def test_a_path_stays_below_the_base(path: str) -> None:
    """Whatever passes starts with one slash and has no parent segments."""
    try:
        validate_path(path)
    except DragomanError:
        return
    assert path.startswith("/")
    assert not path.startswith("//")
    assert ".." not in path.partition("?")[0].replace("%2e", ".").replace("%2f", "/").split("/")
