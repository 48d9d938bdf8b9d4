"""The page in a real browser: its script works, nothing is fetched and no payload runs."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import Message
from dragoman.canonical.blocks import ImageBlock, MediaSource
from dragoman.canonical.message import read_message
from dragoman.view import page
from tests.docs.screenshots.chromium import Browser, browser, find_chromium
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
    with browser(path) as open_page:
        open_page.set_viewport(1280, 900)
        yield open_page


@pytest.fixture
def open_page(tab: Browser, tmp_path: Path) -> Browser:
    path = tmp_path / "page.html"
    path.write_text(page(conversation(), title="The gauge"), encoding="utf-8")
    tab.open(path)
    return tab


def test_the_script_runs_and_nothing_else_is_requested(open_page: Browser) -> None:
    """The policy allows the page's own style and script; only the page itself is loaded."""
    assert open_page.run("document.documentElement.dataset.ready") == "true"
    assert open_page.run("getComputedStyle(document.querySelector('.turn.user')).borderRadius") == "10px"
    assert open_page.run("document.querySelector('img').naturalWidth") == 560
    outside = [url for url in open_page.requests if not url.startswith("data:")]
    assert [url.rpartition("/")[2] for url in outside] == ["page.html"]
    assert open_page.faults == []


def test_keys_move_between_messages(open_page: Browser) -> None:
    """Forwards and backwards, from swap to swap, and to the raw wire, which is assembled on demand."""
    for key, where in (("j", "m1"), ("j", "m2"), ("j", "m3"), ("j", "m6"), ("k", "m3"), ("s", "s10"), ("s", "s12")):
        open_page.press(key)
        assert open_page.run(HERE) == where
    open_page.run("document.querySelector('#m8').scrollIntoView()")
    for _ in range(5):
        open_page.press("j")
    assert open_page.run(HERE) == "m8"
    open_page.press("r")
    open_page.run(PUT_TOGETHER)
    body = open_page.run("JSON.parse(document.querySelector('#r8').textContent)")
    assert body["model"] == "claude-opus-5-5"
    assert len(body["messages"]) == 5
    open_page.press("?")
    assert open_page.run("document.querySelector('#help').open") is True


def test_searching_hides_other_messages(open_page: Browser) -> None:
    """Messages without the words are hidden, folded ones with them open, and Escape ends it."""
    open_page.press("/")
    open_page.send_command("Input.insertText", text="no such words")
    assert open_page.run(SHOWN) == ""
    open_page.run("document.querySelector('#search').select()")
    open_page.send_command("Input.insertText", text="TIDE DOES NOT")
    assert open_page.run(SHOWN) == "m3"
    assert open_page.run("document.querySelector('#m3 .thinking').open") is True
    assert open_page.run("document.querySelector('#found').textContent") == "1 of 10"
    assert open_page.run("CSS.highlights.get('found').size") == 1
    open_page.press("Escape")
    assert open_page.run(SHOWN).count("m") == 10
    assert open_page.run("document.querySelector('#m3 .thinking').open") is False
    open_page.run("document.querySelector('[data-kind=call]').click()")
    assert open_page.run(SHOWN) == "m3 m6 m12"
    open_page.run("document.querySelector('[data-kind=thinking]').click()")
    assert open_page.run(SHOWN) == "m3 m8 m10"


@pytest.mark.parametrize("dark", [False, True])
def test_dark_and_light_follow_the_system(tab: Browser, open_page: Browser, dark: bool) -> None:
    """Until they are set explicitly; text is readable in both."""
    paper = "getComputedStyle(document.body).backgroundColor"
    tab.set_viewport(1280, 900, dark=dark)
    try:
        first = open_page.run(paper)
        assert first == ("rgb(22, 23, 26)" if dark else "rgb(251, 250, 247)")
        open_page.press("d")
        assert open_page.run(paper) != first
        open_page.press("d")
        assert open_page.run(paper) == first
    finally:
        tab.set_viewport(1280, 900)


@pytest.mark.parametrize("width", [320, 380, 390, 768])
def test_the_page_fits_a_phone(tab: Browser, open_page: Browser, width: int) -> None:
    """Nothing makes the page wider than the window."""
    tab.set_viewport(width, 844)
    try:
        assert open_page.run("document.documentElement.scrollWidth") <= width
    finally:
        tab.set_viewport(1280, 900)


def test_printing_leaves_the_controls_out(tab: Browser, open_page: Browser) -> None:
    """And is dark on light, whatever the screen shows."""
    tab.set_viewport(1280, 900, dark=True, media="print")
    try:
        assert open_page.run("getComputedStyle(document.querySelector('.bar')).display") == "none"
        assert open_page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    finally:
        tab.set_viewport(1280, 900)


def test_an_answer_is_readable_on_a_phone(tab: Browser, tmp_path: Path) -> None:
    """Wide tables and code scroll in their own frame, code has colours, and the source opens with one click."""
    wide = "| " + " | ".join(["column"] * 30) + " |\n" + "| --- " * 30 + "|"
    history = [Message.assistant(f"{wide}\n\n```python\ndef {'long' * 60}(): pass\n```\n\n{'word' * 90}")]
    (tmp_path / "page.html").write_text(page(history), encoding="utf-8")
    tab.set_viewport(380, 844)
    try:
        tab.open(tmp_path / "page.html")
        assert tab.run("document.documentElement.scrollWidth") <= 380
        colors = "getComputedStyle(document.querySelector('.highlight .k')).color"
        assert tab.run(colors) != tab.run("getComputedStyle(document.querySelector('.highlight')).color")
        tab.run("document.querySelector('.source summary').click()")
        assert tab.run("document.querySelector('.source').open") is True
        assert tab.run("document.documentElement.scrollWidth") <= 380
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
        """Ignores the message."""


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _RecordingHandler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        _RecordingHandler.requested_paths.clear()
        yield f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()
        thread.join()


def test_payloads_never_run(tab: Browser, tmp_path: Path) -> None:
    """All at once, in every field that holds a text."""
    history = [read_message(plant(message, " ".join(PAYLOADS[:5]))) for message in dump_history(everything())]
    (tmp_path / "page.html").write_text(page(history, title=PAYLOADS[4]), encoding="utf-8")
    tab.open(tmp_path / "page.html")
    assert tab.run("document.title") == PAYLOADS[4]
    assert tab.run("document.documentElement.dataset.ready") == "true"
    assert tab.run("document.querySelectorAll('script, svg, iframe, object').length") <= 2
    assert tab.faults == []


@pytest.mark.exhaustive
def test_remote_media_are_not_fetched(tab: Browser, server: str, tmp_path: Path) -> None:
    """Even if an element got in, the policy would stop it."""
    link = MediaSource(kind="url", data=f"{server}/a.gif")
    answer = Message.assistant(f"![b]({server}/e.gif) <img src='{server}/f.gif'> [c]({server}/g.gif)")
    text = page([Message.user([ImageBlock(source=link)]), Message.user(f"<img src='{server}/b.gif'>"), answer])
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    tab.open(tmp_path / "page.html")
    assert server in tab.run("document.querySelector('main').textContent")
    plant = f"<img src='{server}/c.gif'><script>document.title='hacked'</script><b onclick='alert(1)'>"
    (tmp_path / "worse.html").write_text(text.replace("<main", f"{plant}<main"), encoding="utf-8")
    tab.open(tmp_path / "worse.html")
    for _ in range(100):  # the console may be behind the page
        if len(tab.faults) >= 2:
            break
        tab.wait_for_frame()
    assert len(tab.faults) >= 2
    assert "hacked" not in tab.run("document.title")
    assert _RecordingHandler.requested_paths == []
    (tmp_path / "open.html").write_text(f"<img src='{server}/d.gif'>", encoding="utf-8")
    tab.open(tmp_path / "open.html")
    assert _RecordingHandler.requested_paths == ["/d.gif"]
