"""Keys and addresses: found in order, bound to one service, never sent elsewhere."""

import pickle
import traceback
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.contract import Endpoint
from dragoman.adapter.errors import ConfigurationError, MissingKeyError
from dragoman.credentials.contract import ApiKey
from dragoman.credentials.target import TargetFinder, validate_base_url
from tests.tables import each_row
from tests.unit.transport.drivers import ADAPTER, PlainAdapter


class OtherAdapter(PlainAdapter):
    provider: ClassVar[str] = "other"
    endpoint: ClassVar[Endpoint] = Endpoint("https://api.other.test", ("OTHER_KEY",))


class LocalhostAdapter(PlainAdapter):
    provider: ClassVar[str] = "nearby"
    endpoint: ClassVar[Endpoint] = Endpoint(
        "http://localhost:11434", ("NEARBY_KEY",), key_required=False, base_url_variable="NEARBY_HOST"
    )


class NowhereAdapter(PlainAdapter):
    provider: ClassVar[str] = "nowhere"
    endpoint: ClassVar[Endpoint] = Endpoint("", (), base_url_variable="NOWHERE_URL")


def key_of(credentials: TargetFinder, adapter: PlainAdapter = ADAPTER) -> str | None:
    key = credentials.target(adapter).key
    return None if key is None else key.reveal()


@pytest.mark.parametrize(
    ("given_key", "environ", "expected"),
    [
        ("arg", {"PLAIN_KEY": "a", "PLAIN_TOKEN": "b"}, "arg"),
        (None, {"PLAIN_KEY": "a", "PLAIN_TOKEN": "b"}, "a"),
        (None, {"PLAIN_TOKEN": "b"}, "b"),
        (None, {"PLAIN_KEY": "", "PLAIN_TOKEN": "b"}, "b"),
        (None, {"PLAIN_KEY": "  ", "PLAIN_TOKEN": "b"}, "b"),
        (None, {"PLAIN_KEY": "a\n"}, "a"),
        (" arg ", {}, "arg"),
    ],
)
def test_the_first_key_found_is_used(given_key: str | None, environ: dict[str, str], expected: str) -> None:
    """Argument before environment, variables in the endpoint's order, empty ones skipped, ends trimmed."""
    assert key_of(TargetFinder(given_key, environ=environ)) == expected


def test_a_missing_key_names_what_to_set() -> None:
    hints = "set PLAIN_KEY or PLAIN_TOKEN, or pass api_key=, or store one with: dragoman keys set plain"
    with pytest.raises(MissingKeyError, match=f"^no API key for plain: {hints}$"):
        TargetFinder(environ={"OTHER_KEY": "k"}).target(ADAPTER)


def test_a_key_may_be_optional_or_come_with_the_request() -> None:
    """If no key is required, or the request has its own, a missing one is not an error."""
    assert key_of(TargetFinder(environ={}), LocalhostAdapter("m")) is None
    assert key_of(TargetFinder(environ={"NEARBY_KEY": "k"}), LocalhostAdapter("m")) == "k"
    assert TargetFinder(environ={"PLAIN_KEY": "k"}).target(ADAPTER, keyless=True).key is None


@pytest.mark.parametrize("bad", ["", "  ", "a b", "a\r\nx-evil: 1", "a\0", "schlüssel", "a\u2028b"])
def test_an_invalid_key_is_refused_without_showing_it(bad: str) -> None:
    """One with blanks, line ends or non-ASCII letters."""
    with pytest.raises(ConfigurationError) as caught:
        TargetFinder(bad, environ={})
    if bad.strip():
        assert bad not in str(caught.value)


def test_the_environment_is_read_at_the_call() -> None:
    """A key that is set after the transport was made is found."""
    environ: dict[str, str] = {}
    credentials = TargetFinder(environ=environ)
    with pytest.raises(MissingKeyError):
        credentials.target(ADAPTER)
    environ["PLAIN_KEY"] = "late"
    assert key_of(credentials) == "late"


def test_a_target_is_kept_until_its_variables_change() -> None:
    """One target serves all requests while the key and the address in the environment stay the same."""
    environ = {"NEARBY_KEY": "first"}
    credentials, adapter = TargetFinder(environ=environ), LocalhostAdapter("m")
    target = credentials.target(adapter)
    assert credentials.target(adapter) is target
    environ["NEARBY_KEY"] = "second"
    assert credentials.target(adapter).headers == {"authorization": "Bearer second"}
    environ["NEARBY_HOST"] = "http://elsewhere.test"
    assert credentials.target(adapter).base_url == "http://elsewhere.test"
    assert credentials.target(adapter, keyless=True).key is None
    del environ["NEARBY_KEY"]
    assert credentials.target(adapter).key is None


def test_no_traceback_of_an_address_shows_the_key() -> None:
    """Tools that report errors show the variables of each frame: a wrong address is no reason to show the key."""
    credentials = TargetFinder(environ={"NEARBY_KEY": "canary-key", "NEARBY_HOST": "http://user@host"})
    with pytest.raises(ConfigurationError) as caught:
        credentials.target(LocalhostAdapter("m"))
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert len(shown.stack) > 1
    assert "canary" not in "".join(str(frame.locals) for frame in shown.stack[1:])


@pytest.mark.parametrize("arguments", [{"api_key": "k"}, {"base_url": "https://gateway.test"}])
def test_arguments_serve_one_service(arguments: dict[str, str]) -> None:
    """A key or an address given for one service is never used for another, which would reveal the key."""
    credentials = TargetFinder(**arguments, environ={"OTHER_KEY": "o", "PLAIN_KEY": "p"})
    credentials.target(ADAPTER)
    credentials.target(PlainAdapter("another model"))
    with pytest.raises(ConfigurationError, match="other is another service"):
        credentials.target(OtherAdapter("m"))


def test_each_service_has_its_own_key_by_default() -> None:
    """Keys of the environment go to their own endpoint only, in any order of use."""
    credentials = TargetFinder(environ={"OTHER_KEY": "o", "PLAIN_KEY": "p"})
    for _ in range(2):
        for adapter, base_url, key in (
            (ADAPTER, "https://api.plain.test/v1", "p"),
            (OtherAdapter("m"), "https://api.other.test", "o"),
        ):
            target = credentials.target(adapter)
            assert target.key is not None
            assert (target.base_url, target.key.reveal()) == (base_url, key)


def test_base_urls_are_found_in_order() -> None:
    """Base URLs are found in order: argument, then the endpoint's variable, then the endpoint."""
    environ = {"PLAIN_KEY": "k", "PLAIN_URL": "https://env.test/"}
    assert (
        TargetFinder(base_url="https://arg.test/x/", environ=environ).target(ADAPTER).base_url == "https://arg.test/x"
    )
    assert TargetFinder(environ=environ).target(ADAPTER).base_url == "https://env.test"
    assert TargetFinder(environ={**environ, "PLAIN_URL": ""}).target(ADAPTER).base_url == "https://api.plain.test/v1"


def test_an_endpoint_without_an_address_names_what_to_set() -> None:
    """The address of a service that has no default comes from the caller."""
    with pytest.raises(ConfigurationError, match="no address for nowhere: set NOWHERE_URL, or pass base_url="):
        TargetFinder("k", environ={}).target(NowhereAdapter("m"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu-box", "http://gpu-box:11434"),
        ("gpu-box:9", "http://gpu-box:9"),
        (":9", "http://localhost:9"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:9", "http://127.0.0.1:9"),
        ("[::]:9", "http://[::1]:9"),
        ("[::1]", "http://[::1]:11434"),
        ("http://gpu-box", "http://gpu-box"),
        ("https://gpu-box/ollama/", "https://gpu-box/ollama"),
        ("gpu-box/ollama", "http://gpu-box:11434/ollama"),
        ("HTTPS://Gpu-Box", "https://gpu-box"),
    ],
)
def test_a_bare_host_takes_the_rest_from_the_endpoint(text: str, expected: str) -> None:
    """Scheme, port and path that it leaves out are the endpoint's own."""
    target = TargetFinder(environ={"NEARBY_HOST": text}).target(LocalhostAdapter("m"))
    assert target.base_url == expected


@each_row(
    "bad",
    [
        "ftp://host", "file:///etc/passwd", "https://", "https:///v1", "https://user:pass@host", "https://key@host",
        "https://host?key=1", "https://host#x", "https://host\r\nx", "https://ho st", "https://host\\@evil",
        "https://höst", "https://host:port", "https://host:99999999", "javascript:alert(1)", "https://[::1", "\0",
        "https://a..b", "https://.", "https://" + "a" * 64, "https://a<b>", "https://a,b",
        "https://" + "a." * 200,
    ],
)  # fmt: skip
def test_a_base_url_is_scheme_host_and_path(bad: str) -> None:
    """Anything else is refused without being repeated: it may hold a password."""
    with pytest.raises(ConfigurationError) as caught:
        validate_base_url(bad, "https://api.plain.test")
    assert "pass@" not in str(caught.value)


@given(st.text(max_size=40))
def test_any_text_is_a_base_url_or_a_configuration_error(text: str) -> None:
    try:
        url = validate_base_url(text, "https://api.plain.test")
    except ConfigurationError:
        return
    assert url.startswith(("http://", "https://"))


def test_neither_repr_nor_pickle_hold_a_key() -> None:
    key = ApiKey("secret-value")
    assert "secret" not in f"{key!r} {key} {[key]}"
    with pytest.raises(TypeError):
        pickle.dumps(key)
