"""Five wires, ten mistakes of an address, given as an argument, a variable and in a file, at three foreign servers."""

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dragoman import AsyncClient, Client, DragomanError, get_adapter
from dragoman.limits import Budget
from dragoman.testing.faults.server import FaultyServer, HttpReply
from tests.unit.transport.addresses.servers import SERVERS
from tests.unit.transport.loopback_servers import Authority

__all__ = ["authority"]

from tests.unit.transport.loopback_servers import authority

VERSION = {"openai": "/v1", "openai-chat": "/v1", "anthropic": "", "google": "", "ollama": ""}
"""The path of a right base URL."""
MODELS = {
    "openai": "gpt-4o",
    "openai-chat": "gpt-4o",
    "anthropic": "claude-haiku-4-5",
    "google": "gemini-2.5-flash",
    "ollama": "llama3.2",
}
"""With a known price, so that a budget holds for them."""
ENDPOINT = {
    "openai": "/v1/responses",
    "openai-chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "google": "/v1beta/models/gemini-2.5-flash:generateContent",
    "ollama": "/api/chat",
}


@dataclass(frozen=True)
class Ports:
    """Those of one server: of each wire without TLS, of each wire with it, and one where nobody listens."""

    plain: dict[str, int]
    secure: dict[str, int]
    closed: int


@dataclass(frozen=True)
class Mistake:
    name: str
    address: Callable[[str, Ports], str]
    """The address, by wire."""
    hint: Callable[[str, Ports], str]
    """What the error has to contain."""


def _root(wire: str, ports: Ports) -> str:
    return f"http://127.0.0.1:{ports.plain[wire]}"


def _right(wire: str, ports: Ports) -> str:
    return _root(wire, ports) + VERSION[wire]


def _other(wire: str) -> str:
    """The wire of a server that has another API."""
    return "openai-chat" if wire != "openai-chat" else "ollama"


_OTHER_HINT = {
    "openai": "use openai-chat:gpt-4o or compatible:gpt-4o",
    "openai-chat": "or ollama:gpt-4o",
    "anthropic": "use compatible:",
    "google": "use compatible:",
    "ollama": "use compatible:",
}
MISTAKES = [
    Mistake("the version twice", lambda w, p: _right(w, p) + "/v1", _right),
    Mistake("no version, or a wrong one", lambda w, p: _root(w, p) + ("" if VERSION[w] else "/v2"), _right),
    Mistake("another folder", lambda w, p: _root(w, p) + "/openapi", _right),
    Mistake("a whole endpoint", lambda w, p: _root(w, p) + ENDPOINT[w], _right),
    Mistake("no scheme", lambda w, p: _right(w, p).removeprefix("http://"), _right),
    Mistake("TLS to a plain server", lambda w, p: _right(w, p).replace("http:", "https:"), _right),
    Mistake(
        "plain to a server with TLS",
        lambda w, p: f"http://127.0.0.1:{p.secure[w]}{VERSION[w]}",
        lambda w, p: f"https://127.0.0.1:{p.secure[w]}{VERSION[w]}",
    ),
    Mistake(
        "a certificate that nobody trusts",
        lambda w, p: f"https://127.0.0.1:{p.secure[w]}{VERSION[w]}",
        lambda w, p: "SSL_CERT_FILE",
    ),
    Mistake(
        "a port where nobody listens",
        lambda w, p: f"http://127.0.0.1:{p.closed}{VERSION[w]}",
        lambda w, p: "nothing answers there: start the server",
    ),
    Mistake(
        "a host with a typo",
        lambda w, p: f"http://gpu-bax.invalid:{p.plain[w]}{VERSION[w]}",
        lambda w, p: "no computer has that name",
    ),
    Mistake(
        "a server with another API",
        lambda w, p: _root(_other(w), p) + VERSION[w],
        lambda w, p: _OTHER_HINT[w],
    ),
]


@pytest.fixture(scope="module", params=sorted(SERVERS))
def ports(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Ports]:
    with ExitStack() as stack, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, and not listening: nobody else takes the port
        start = SERVERS[request.param]
        plain = {wire: stack.enter_context(start(wire)) for wire in VERSION}
        secure = {wire: stack.enter_context(start(wire, authority.server())) for wire in VERSION}
        yield Ports(plain, secure, unused.getsockname()[1])


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE"):
        monkeypatch.setenv(f"{name}_API_KEY", "none")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    find = socket.getaddrinfo

    def no_name(host: Any, *arguments: Any, **more: Any) -> Any:
        if str(host).endswith(".invalid"):  # no test asks a name server
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return find(host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", no_name)


def _by_argument(wire: str, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Client:
    return Client(providers={wire: {"base_url": address, "max_retries": 0}}, budgets=[Budget(usd=1)])


def _by_variable(wire: str, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Client:
    variable = get_adapter(f"{wire}:m").endpoint.base_url_variable
    assert variable is not None
    monkeypatch.setenv(variable, address)
    return Client(providers={wire: {"max_retries": 0}}, budgets=[Budget(usd=1)])


def _by_file(wire: str, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Client:
    file = tmp_path / "dragoman.toml"
    file.write_text(f'[providers.{wire}]\nbase_url = "{address}"\nmax_retries = 0\n', encoding="utf-8")
    return Client.from_config(file, budgets=[Budget(usd=1)])


@pytest.mark.parametrize("give", [_by_argument, _by_variable, _by_file])
def test_the_error_names_the_address_and_what_to_write(
    give: Callable[..., Client], ports: Ports, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In every cell; and nothing was spent on a server that did not answer, whatever the model may cost."""
    wrong: list[str] = []
    for wire in VERSION:
        for mistake in MISTAKES:
            address, hint = mistake.address(wire, ports), mistake.hint(wire, ports)
            if wire == "ollama" and mistake.name == "no scheme" and give is _by_variable:
                continue  # OLLAMA_HOST has no scheme: Ollama itself reads it so
            with monkeypatch.context() as patched:
                error = _ask(give, wire, address, patched, tmp_path)
            named = address if "://" in address else hint
            port = re.search(r":\d+", named)
            assert port is not None
            if hint not in error or port[0] not in error:
                wrong.append(f"{wire}, {mistake.name}: {address}: {error}")
    assert not wrong, "\n".join(wrong)


def _ask(give: Callable[..., Client], wire: str, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    try:
        with give(wire, address, monkeypatch, tmp_path) as client:
            try:
                return f"answered: {client.ask(f'{wire}:{MODELS[wire]}', 'Where?', max_output_tokens=5).text}"
            finally:
                assert not client.cost.usd
    except DragomanError as error:
        return str(error)


@pytest.mark.parametrize("wire", VERSION)
def test_a_right_address_is_answered(wire: str, ports: Ports) -> None:
    """The servers answer, so that an error is that of the address."""
    client = Client(providers={wire: {"base_url": _right(wire, ports), "max_retries": 0}})
    assert client.ask(f"{wire}:{MODELS[wire]}", "Where?").text == "Bern"


_OF_CONNECTIONS = {
    "TLS to a plain server",
    "plain to a server with TLS",
    "a certificate that nobody trusts",
    "a port where nobody listens",
    "a host with a typo",
}


@pytest.mark.parametrize("engine", ["httpx", "aiohttp"])
def test_async_engines_say_the_same(engine: str, ports: Ports) -> None:
    """Each library has its own words for a connection that failed."""
    pytest.importorskip(engine)

    async def ask(mistake: Mistake) -> str:
        settings = {"base_url": mistake.address("openai-chat", ports), "max_retries": 0, "engine": engine}
        async with AsyncClient(providers={"openai-chat": settings}) as client:
            with pytest.raises(DragomanError) as caught:
                await client.ask("openai-chat:gpt-4o", "Where?")
            return str(caught.value)

    for mistake in MISTAKES:
        if mistake.name in _OF_CONNECTIONS:
            assert mistake.hint("openai-chat", ports) in asyncio.run(ask(mistake))


@pytest.mark.parametrize("name", ["another folder", "a port where nobody listens", "TLS to a plain server"])
def test_a_client_of_the_vendor_is_explained_too(name: str, ports: Ports) -> None:
    """Its address is the one of the program's own client."""
    openai = pytest.importorskip("openai")
    mistake = next(each for each in MISTAKES if each.name == name)
    own = openai.OpenAI(api_key="none", base_url=mistake.address("openai", ports))
    client = Client(providers={"openai": {"client": own, "max_retries": 0}})
    with pytest.raises(DragomanError) as caught:
        client.ask("openai:gpt-4o", "Where?")
    assert mistake.hint("openai", ports) in str(caught.value)


@pytest.mark.parametrize("by_vendor", [False, True])
def test_the_page_of_a_web_interface_is_explained(by_vendor: bool) -> None:
    """A server may answer every path with its page, and have its API below another one."""
    html = {"content-type": "text/html; charset=utf-8"}
    with FaultyServer([HttpReply(status=200, headers=html, body=b"<title>Chat</title>")]) as server:
        settings: dict[str, Any] = {"base_url": server.url, "max_retries": 0}
        if by_vendor:
            openai = pytest.importorskip("openai")
            settings = {"client": openai.OpenAI(api_key="none", base_url=server.url), "max_retries": 0}
        with pytest.raises(DragomanError) as caught:
            Client(providers={"openai-chat": settings}).ask("openai-chat:gpt-4o", "Where?")
        assert f"{server.url}/chat/completions answered with a page" in str(caught.value)
        assert f"write base_url='{server.url}/v1'" in str(caught.value)
