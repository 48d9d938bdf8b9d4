"""Media by URL in sessions: nothing is fetched by default, and a fetched file is sent again unchanged."""

import base64
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from dragoman.adapter.errors import RequestError, SwapRefusedError
from dragoman.adapter.facts.capabilities import AdapterCapabilities, Support
from dragoman.canonical.blocks import AudioBlock, ContentBlock, DocumentBlock, ImageBlock, MediaSource, VideoBlock
from dragoman.session import Session, tool
from dragoman.session.media import MediaFiles
from dragoman.transport.fetch import FetchedMedia, Fetcher, FetchError
from tests.unit.session.drivers import ANTHROPIC, Driver, Wire, texts
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic, handwritten_ollama

SEES = "ollama:qwen3-vl:8b"
"""A model that takes images, but none by URL."""
URL = "https://example.org/a.png?key=very-secret"
SEEN, SEEN_BY_CLAUDE = handwritten_ollama("Seen."), handwritten_anthropic("Seen.")
ALL = frozenset({"image", "audio", "video", "document"})


def by_url(url: str = URL) -> MediaSource:
    return MediaSource(kind="url", data=url)


IMAGE = ImageBlock(source=by_url())


class Fetch:
    """A fetcher that returns numbered pictures, or the given replies."""

    def __init__(self, found: FetchedMedia | None = None, error: Exception | None = None) -> None:
        self._found, self._error = found, error
        self.urls: list[str] = []
        self.threads: set[int] = set()

    def __call__(self, url: str) -> FetchedMedia:
        self.urls.append(url)
        self.threads.add(threading.get_ident())
        if self._error is not None:
            raise self._error
        return self._found or FetchedMedia(f"picture {len(self.urls)}".encode(), "image/png")


def images(request: Mapping[str, Any]) -> list[str]:
    """The pictures in a request to Ollama."""
    return [base64.b64decode(image).decode() for message in request["messages"] for image in message.get("images", ())]


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records every name lookup and every connection attempt; none succeeds."""
    tried: list[str] = []

    def note(*args: Any, **_: Any) -> Any:
        tried.append(repr(args))
        raise OSError("no network here")

    monkeypatch.setattr(socket, "getaddrinfo", note)
    monkeypatch.setattr(socket, "create_connection", note)
    monkeypatch.setattr(Fetcher, "__call__", note)
    return tried


@pytest.mark.parametrize("model", [SEES, ANTHROPIC, "openai-chat:gpt-5", "bedrock:anthropic.claude-opus-5-5-v1:0"])
def test_nothing_is_fetched_by_default(model: str, no_network: list[str]) -> None:
    """A wire without URLs loses the picture."""
    session = Session(ANTHROPIC)
    session = Session.load(session.dump())
    session._history.messages.append(session._factory.user_message(IMAGE))
    losses = session.preview(model).losses
    assert no_network == []
    taken = model in (ANTHROPIC, "openai-chat:gpt-5")
    assert [str(loss.kind) for loss in losses if "URL" in loss.reason] == ([] if taken else ["media"])


def test_without_a_fetcher_a_session_fetches_nothing(driver: Driver, no_network: list[str]) -> None:
    """The request goes out without the picture."""
    wire = Wire([SEEN])
    session = driver.session({"ollama": wire}, SEES)
    driver.ask(session, IMAGE)
    assert no_network == []
    assert images(wire.requests[0]) == []
    assert "takes no media by URL" in wire.requests[0]["messages"][0]["content"]


def test_a_fetched_picture_is_sent_again_unchanged(driver: Driver) -> None:
    """Fetched once a session; the history keeps the URL, and a new session fetches it again."""
    wire, fetch = Wire([SEEN, SEEN, SEEN]), Fetch()
    session = driver.session({"ollama": wire}, SEES, fetch=fetch)
    driver.ask(session, IMAGE)
    driver.stream(session, ImageBlock(source=by_url()))
    assert [images(request) for request in wire.requests] == [["picture 1"], ["picture 1", "picture 1"]]
    assert fetch.urls == [URL]
    assert session.messages[0].content == (IMAGE,)
    assert b"picture" not in session.dump()
    assert base64.b64encode(b"picture 1") not in session.dump()
    back = type(session).load(session.dump(), fetch=fetch, providers=session.providers)
    driver.ask(back, "Still?")
    assert images(wire.requests[2]) == ["picture 2", "picture 2"]


def test_a_model_that_takes_urls_gets_them(driver: Driver) -> None:
    """The fetcher is not used until the session moves to a model without URLs; after moving back, the URL is sent."""
    claude, ollama, fetch = Wire([SEEN_BY_CLAUDE, SEEN_BY_CLAUDE]), Wire([SEEN]), Fetch()
    session = driver.session({"anthropic": claude, "ollama": ollama}, fetch=fetch)
    driver.ask(session, IMAGE)
    assert fetch.urls == []
    session.swap(SEES)
    driver.ask(session, "And you?")
    session.swap(ANTHROPIC)
    driver.ask(session, "And again?")
    assert images(ollama.requests[0]) == ["picture 1"]
    sent = [request["messages"][0]["content"][0]["source"] for request in claude.requests]
    assert [(source["type"], source["url"]) for source in sent] == [("url", URL)] * 2
    assert fetch.urls == [URL]


def test_a_failed_fetch_stops_the_request(driver: Driver) -> None:
    """Before anything is sent, and with nothing kept; a swap is refused with the reason."""
    wire, claude = Wire([SEEN]), Wire([SEEN_BY_CLAUDE])
    fetch = Fetch(error=FetchError("the URL on example.org leads to an address that is not public", "address"))
    session = driver.session({"ollama": wire}, SEES, fetch=fetch)
    for ask in (driver.ask, driver.stream):
        with pytest.raises(FetchError, match="not public"):
            ask(session, IMAGE)
    assert (wire.requests, session.messages) == ([], ())
    moving = driver.session({"anthropic": claude}, fetch=fetch)
    driver.ask(moving, IMAGE)
    with pytest.raises(SwapRefusedError, match="not public"):
        moving.swap(SEES)


def test_a_tool_answer_may_contain_a_url(driver: Driver) -> None:
    """A refused one becomes an error for the model, and later requests still work."""

    @tool(side_effects="read")
    def find(url: str) -> ImageBlock:
        """Find a picture."""
        return ImageBlock(source=by_url(url))

    def fetch(url: str) -> FetchedMedia:
        if "127" in url:
            raise FetchError("the URL on 127.0.0.1 is not public", "address")
        return FetchedMedia(b"found", "image/png")

    calls = [Call("t1", "find", {"url": URL}), Call("t2", "find", {"url": "https://127.0.0.1/"})]
    wire = Wire([handwritten_ollama(*calls), SEEN, SEEN])
    session = driver.session({"ollama": wire}, SEES, tools=[find], fetch=fetch)
    driver.ask(session, "Find it.")
    driver.ask(session, "And?")
    assert [images(request) for request in wire.requests] == [[], ["found"], ["found"]]
    results = [result for message in session.messages for result in message.tool_results]
    assert [result.is_error for result in results] == [False, True]
    assert "not public" in texts(session)[3][1]


def test_an_event_loop_is_not_blocked(driver: Driver) -> None:
    """With await, another thread waits for the network."""
    fetch = Fetch()
    driver.ask(driver.session({"ollama": Wire([SEEN])}, SEES, fetch=fetch), IMAGE)
    assert (threading.get_ident() in fetch.threads) is (driver.name == "sync")


NATIVE, ABSENT = Support.NATIVE, Support.ABSENT


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        ({"supports_images": NATIVE}, set()),
        ({"supports_images": NATIVE, "supports_media_urls": ABSENT}, {"image"}),
        ({"supports_media_urls": ABSENT}, set()),
        ({"supports_images": NATIVE, "supports_audio": NATIVE, "media_sources": {"audio": ("base64",)}}, {"audio"}),
        ({"supports_documents": NATIVE, "media_sources": {"document": ("url", "base64")}}, set()),
    ],
)
def test_only_media_that_need_it_are_fetched(facts: dict[str, Any], kinds: set[str]) -> None:
    """Not those that are sent as URLs, nor those that the model does not accept; without a fetcher none."""
    assert MediaFiles(None, fetch=Fetch()).inlined_kinds(AdapterCapabilities(**facts)) == kinds
    assert MediaFiles(None).inlined_kinds(AdapterCapabilities(**facts)) == set()


@pytest.mark.parametrize(
    ("make", "declared", "served_type", "sent"),
    [
        (ImageBlock, None, "image/webp", "image/webp"),
        (ImageBlock, "image/png", "image/jpeg", "image/jpeg"),
        (ImageBlock, "image/gif", "application/octet-stream", "image/gif"),
        (ImageBlock, None, "application/octet-stream", "image/png"),
        (ImageBlock, "image/png", "text/html", None),
        (ImageBlock, None, "application/pdf", None),
        (AudioBlock, None, "audio/mpeg", "audio/mpeg"),
        (VideoBlock, None, "audio/mpeg", None),
        (DocumentBlock, None, "application/pdf", "application/pdf"),
        (DocumentBlock, None, "text/plain", "text/plain"),
        (DocumentBlock, "application/pdf", "text/html", None),
        (DocumentBlock, None, "image/png", None),
    ],
)
def test_the_media_type_is_that_of_the_server(
    make: Callable[..., ContentBlock], declared: str | None, served_type: str, sent: str | None
) -> None:
    """Or that of the block or of the name in the URL, if the server states none; any other kind of media is refused."""
    files = MediaFiles(None, fetch=Fetch(FetchedMedia(b"hi", served_type)))
    block = make(source=by_url(), media_type=declared)
    if sent is None:
        with pytest.raises(RequestError, match="check its URL") as caught:
            files.inline_blocks([block], ALL)
        assert "very-secret" not in str(caught.value)
        return
    (filled,) = files.inline_blocks([block], ALL)
    source = (
        MediaSource(kind="text", data="hi") if sent.startswith("text/") else MediaSource(kind="base64", data="aGk=")
    )
    assert filled == make(source=source, media_type=sent)
