"""The page in a real browser: what its script does, and that nothing is fetched and nothing planted in it runs."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import Message
from dragoman.canonical.blocks import ImageBlock, MediaSource
from dragoman.canonical.serialization import read_message
from dragoman.view import page
from tests.screenshots.chromium import Browser, browser, find_chromium
from tests.unit.formats.documents import everything
from tests.unit.view.handwritten_conversation import conversation
from tests.unit.view.hostile_payloads import PAYLOADS, dump_history, plant

SHOWN = "[...document.querySelectorAll('article.turn')].filter(each => !each.hidden).map(each => each.id).join(' ')"
PUT_TOGETHER = """new Promise(done => {
    const look = () => document.querySelector('#r8').dataset.same ? setTimeout(look, 10) : done();
    look();
})"""
HERE = "document.querySelector('.here')?.id"


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with browser(path) as opened:
        opened.set_viewport(1280, 900)
        yield opened


@pytest.fixture
def opened(tab: Browser, tmp_path: Path) -> Browser:
    path = tmp_path / "page.html"
    path.write_text(page(conversation(), title="The gauge"), encoding="utf-8")
    tab.open(path)
    return tab


def test_the_script_runs_and_nothing_else_is_asked_for(opened: Browser) -> None:
    """The policy lets the page's own style and script through; the page itself is the one thing that is loaded."""
    assert opened.run("document.documentElement.dataset.ready") == "true"
    assert opened.run("getComputedStyle(document.querySelector('.turn.user')).borderRadius") == "10px"
    assert opened.run("document.querySelector('img').naturalWidth") == 560
    outside = [url for url in opened.requests if not url.startswith("data:")]
    assert [url.rpartition("/")[2] for url in outside] == ["page.html"]
    assert opened.faults == []


def test_keys_walk_through_the_messages(opened: Browser) -> None:
    """Forth and back, from swap to swap, and to the raw wire, which is put together when it is looked at."""
    for key, where in (("j", "m1"), ("j", "m2"), ("j", "m3"), ("j", "m6"), ("k", "m3"), ("s", "s10"), ("s", "s12")):
        opened.press(key)
        assert opened.run(HERE) == where
    opened.run("document.querySelector('#m8').scrollIntoView()")
    for _ in range(5):
        opened.press("j")
    assert opened.run(HERE) == "m8"
    opened.press("r")
    opened.run(PUT_TOGETHER)
    body = opened.run("JSON.parse(document.querySelector('#r8').textContent)")
    assert body["model"] == "claude-opus-5-5"
    assert len(body["messages"]) == 5
    opened.press("?")
    assert opened.run("document.querySelector('#help').open") is True


def test_searching_and_filtering(opened: Browser) -> None:
    """What does not hold the words is hidden, what is folded around them opens, and Escape ends it."""
    opened.press("/")
    opened.send_command("Input.insertText", text="no such words")
    assert opened.run(SHOWN) == ""
    opened.run("document.querySelector('#search').select()")
    opened.send_command("Input.insertText", text="TIDE DOES NOT")
    assert opened.run(SHOWN) == "m3"
    assert opened.run("document.querySelector('#m3 .thinking').open") is True
    assert opened.run("document.querySelector('#found').textContent") == "1 of 10"
    assert opened.run("CSS.highlights.get('found').size") == 1
    opened.press("Escape")
    assert opened.run(SHOWN).count("m") == 10
    assert opened.run("document.querySelector('#m3 .thinking').open") is False
    opened.run("document.querySelector('[data-kind=call]').click()")
    assert opened.run(SHOWN) == "m3 m6 m12"
    opened.run("document.querySelector('[data-kind=thinking]').click()")
    assert opened.run(SHOWN) == "m3 m8 m10"


@pytest.mark.parametrize("dark", [False, True])
def test_dark_and_light(tab: Browser, opened: Browser, dark: bool) -> None:
    """As the system prefers it, until it is told otherwise; a text can be read either way."""
    paper = "getComputedStyle(document.body).backgroundColor"
    tab.set_viewport(1280, 900, dark=dark)
    try:
        first = opened.run(paper)
        assert first == ("rgb(22, 23, 26)" if dark else "rgb(251, 250, 247)")
        opened.press("d")
        assert opened.run(paper) != first
        opened.press("d")
        assert opened.run(paper) == first
    finally:
        tab.set_viewport(1280, 900)


@pytest.mark.parametrize("width", [320, 390, 768])
def test_it_fits_a_telephone(tab: Browser, opened: Browser, width: int) -> None:
    """Nothing makes the page wider than the window."""
    tab.set_viewport(width, 844)
    try:
        assert opened.run("document.documentElement.scrollWidth") <= width
    finally:
        tab.set_viewport(1280, 900)


def test_on_paper_the_tools_are_left_out(tab: Browser, opened: Browser) -> None:
    """And it is dark on light, whatever the screen was."""
    tab.set_viewport(1280, 900, dark=True, media="print")
    try:
        assert opened.run("getComputedStyle(document.querySelector('.bar')).display") == "none"
        assert opened.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    finally:
        tab.set_viewport(1280, 900)


class _RecordingHandler(http.server.BaseHTTPRequestHandler):
    requested_paths: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.requested_paths.append(self.path)
        self.send_response(200)
        self.send_header("content-type", "image/gif")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _RecordingHandler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        _RecordingHandler.requested_paths.clear()
        yield f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()
        thread.join()


def test_what_is_planted_never_runs(tab: Browser, tmp_path: Path) -> None:
    """All payloads at once, in every field that holds a text."""
    history = [read_message(plant(message, " ".join(PAYLOADS[:5]))) for message in dump_history(everything())]
    (tmp_path / "page.html").write_text(page(history, title=PAYLOADS[4]), encoding="utf-8")
    tab.open(tmp_path / "page.html")
    assert tab.run("document.title") == PAYLOADS[4]
    assert tab.run("document.documentElement.dataset.ready") == "true"
    assert tab.run("document.querySelectorAll('script, svg, iframe, object').length") <= 2
    assert tab.faults == []


def test_nothing_is_fetched_from_where_a_message_points(tab: Browser, server: str, tmp_path: Path) -> None:
    """Media that are elsewhere stay there; and even if an element got in, the policy would stop it."""
    link = MediaSource(kind="url", data=f"{server}/a.gif")
    text = page([Message.user([ImageBlock(source=link)]), Message.user(f"<img src='{server}/b.gif'>")])
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    tab.open(tmp_path / "page.html")
    assert server in tab.run("document.querySelector('main').textContent")
    plant = f"<img src='{server}/c.gif'><script>document.title='hacked'</script><b onclick='alert(1)'>"
    (tmp_path / "worse.html").write_text(text.replace("<main", f"{plant}<main"), encoding="utf-8")
    tab.open(tmp_path / "worse.html")
    assert len(tab.faults) >= 2
    assert "hacked" not in tab.run("document.title")
    assert _RecordingHandler.requested_paths == []
    (tmp_path / "open.html").write_text(f"<img src='{server}/d.gif'>", encoding="utf-8")
    tab.open(tmp_path / "open.html")
    assert _RecordingHandler.requested_paths == ["/d.gif"]
