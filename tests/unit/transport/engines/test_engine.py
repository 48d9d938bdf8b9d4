"""Which engine a transport takes, and what it reports if settings contradict each other."""

import ssl
import subprocess
import sys
from importlib.machinery import ModuleSpec
from typing import Any

import httpx
import pytest

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.transport import AsyncHttpTransport, HttpTransport
from dragoman.transport.engines import engine as engines
from tests.unit.transport.drivers import DRIVERS, KEY, Driver, requires

PROXY = "http://me:canary-secret@127.0.0.1:9"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The libraries that are installed, as far as the choice can see; a test adds to them."""
    found = ["httpx"]
    monkeypatch.setattr(engines, "find_spec", lambda library: ModuleSpec(library, None) if library in found else None)
    monkeypatch.setattr(engines, "_is_installed", engines._is_installed.__wrapped__)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return found


def engine_name(kind: type[HttpTransport | AsyncHttpTransport], **settings: Any) -> str:
    return kind(api_key=KEY, **{"environ": {}, **settings})._engine.name


def test_the_fastest_installed_engine_is_chosen(installed: list[str]) -> None:
    """aiohttp for async calls, once it is installed; httpx for all others, httpx2 on request."""
    assert (engine_name(HttpTransport), engine_name(AsyncHttpTransport)) == ("httpx", "httpx")
    installed += ["aiohttp", "httpx2"]
    assert (engine_name(HttpTransport), engine_name(AsyncHttpTransport)) == ("httpx", "aiohttp")
    for engine in ("httpx", "httpx2"):
        assert engine_name(HttpTransport, engine=engine) == engine_name(AsyncHttpTransport, engine=engine) == engine


def test_the_environment_may_name_an_engine(installed: list[str]) -> None:
    """It applies to all transports that can use it; an argument outranks it."""
    installed += ["aiohttp", "httpx2"]
    for name, sync in (("httpx", "httpx"), ("httpx2", "httpx2"), ("aiohttp", "httpx")):
        environ = {"DRAGOMAN_ENGINE": name}
        assert engine_name(HttpTransport, environ=environ) == sync
        assert engine_name(AsyncHttpTransport, environ=environ) == name
        assert engine_name(AsyncHttpTransport, environ=environ, engine="httpx") == "httpx"
        assert engine_name(AsyncHttpTransport, environ=environ, http2=True) == sync
    for kind in (HttpTransport, AsyncHttpTransport):
        with pytest.raises(ConfigurationError, match="DRAGOMAN_ENGINE is 'curl'; there are aiohttp, httpx, httpx2"):
            engine_name(kind, environ={"DRAGOMAN_ENGINE": "curl"})


def test_a_missing_engine_is_named_with_its_extra(installed: list[str]) -> None:
    """An engine of the caller or the environment is never replaced silently."""
    for settings in ({"engine": "aiohttp"}, {"environ": {"DRAGOMAN_ENGINE": "aiohttp"}}):
        with pytest.raises(MissingExtraError, match=r'aiohttp is not installed: pip install "dragoman\[speed\]"'):
            engine_name(AsyncHttpTransport, **settings)
    with pytest.raises(ConfigurationError, match="engine is 'aiohttp'; for synchronous calls there are httpx, httpx2"):
        engine_name(HttpTransport, engine="aiohttp")
    with pytest.raises(ConfigurationError, match="engine is none of the engines; known are aiohttp, httpx, httpx2"):
        engine_name(AsyncHttpTransport, engine="requests")


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({"http2": True}, "HTTP/2"),
        ({"proxy": "socks5://127.0.0.1:9"}, "support for a proxy of the kind socks5"),
        ({"proxy": "https://127.0.0.1:9"}, "support for a proxy of the kind https"),
    ],
)
def test_unsupported_settings_use_httpx(installed: list[str], settings: dict[str, Any], missing: str) -> None:
    """No setting is lost: httpx is the default for them, and an explicit other engine is an error."""
    installed.append("aiohttp")
    assert engine_name(AsyncHttpTransport, **settings) == "httpx"
    with pytest.raises(ConfigurationError, match=f"the engine aiohttp has no {missing}: omit engine"):
        engine_name(AsyncHttpTransport, engine="aiohttp", **settings)


def test_a_proxy_of_the_environment_counts(installed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A SOCKS proxy for all requests leads to httpx; an HTTP proxy does not, and an argument outranks both."""
    installed.append("aiohttp")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "socks5://odd,localhost")
    assert engine_name(AsyncHttpTransport) == "aiohttp"
    monkeypatch.setenv("https_proxy", "socks5h://127.0.0.1:9")
    assert engine_name(AsyncHttpTransport) == "httpx"
    assert engine_name(AsyncHttpTransport, proxy=PROXY) == "aiohttp"


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_invalid_settings_are_refused(driver: Driver) -> None:
    """Invalid settings are refused: an invalid proxy address and an invalid TLS context, without the password in the
    message.
    """
    for proxy in ("ftp://me:canary-secret@host", "http://[me:canary-secret", "socks4://host:1", "host:3128", ""):
        with pytest.raises(ConfigurationError, match="proxy must be an address such as") as caught:
            driver.transport(proxy=proxy)
        assert "canary" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"verify must be an ssl.SSLContext, .* class bool"):
        driver.transport(verify=False)
    assert "canary" not in repr(vars(driver.transport(proxy=PROXY)))


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_a_client_has_its_own_settings(driver: Driver) -> None:
    """Settings next to a client would do nothing, so they are refused; its own engine may be named."""
    client: Any = driver.client(lambda _: httpx.Response(200))
    context = ssl.create_default_context()
    for settings, own in (
        ({"proxy": PROXY}, "proxy"),
        ({"verify": context, "http2": True}, "verify and http2"),
    ):
        with pytest.raises(ConfigurationError, match=f"a client has its own {own}: set that on the client"):
            driver.transport(client=client, **settings)
    assert driver.transport(client=client, engine="httpx")._engine.name == "httpx"


@requires("aiohttp")
def test_a_client_of_another_library_is_refused() -> None:
    """A session of aiohttp is for async calls, and the engine of a client is its own."""
    kind = type("Session", (), {"__module__": "aiohttp.client", "auth": None})
    with pytest.raises(ConfigurationError, match="a client of aiohttp is asynchronous"):
        HttpTransport(client=kind())
    with pytest.raises(ConfigurationError, match="the client is of httpx, but the engine is aiohttp"):
        AsyncHttpTransport(client=httpx.AsyncClient(), engine="aiohttp")


def test_a_missing_part_of_httpx_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its package for HTTP/2 or SOCKS, the first call says what to install."""
    for settings, module, extra in (
        ({"http2": True}, "h2", r"httpx\[http2\]"),
        ({"proxy": "socks5://127.0.0.1:9"}, "socksio", r"httpx\[socks\]"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        for driver in DRIVERS:
            result = driver.call(base_url="http://127.0.0.1:9", **settings)
            assert type(result.error) is ConfigurationError
            assert result.error.args
            with pytest.raises(ConfigurationError, match=extra):
                raise result.error


def test_making_a_transport_imports_no_library() -> None:
    """The first call loads httpx or aiohttp, and only the chosen engine."""
    code = (
        "import sys; from dragoman.transport import AsyncHttpTransport, HttpTransport\n"
        "HttpTransport(api_key='none'), AsyncHttpTransport(api_key='none')\n"
        "print([name for name in ('httpx', 'httpx2', 'aiohttp') if name in sys.modules])"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"
