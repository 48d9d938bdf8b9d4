"""The page in a real browser: it is signed in to, it fits, and it asks for nothing but itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman_gateway.endpoints.dashboard.render import content_security_policy, render_report
from tests.docs.screenshots.chromium import Browser, browser, find_chromium
from tests.gateway.keyed import Start
from tests.gateway.page.sample import sample_report
from tests.gateway.upstream import question, whole_reply

HOSTILE = "<script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with browser(path) as open_page:
        open_page.set_viewport(1280, 900)
        yield open_page


def test_an_admin_signs_in_and_out(tab: Browser, start: Start) -> None:
    running = start(whole_reply("chat"))
    admin = running.create_key(admin=True)[1]
    assert running.http(0).post("/v1/chat/completions", json=question("chat", "house")).status_code == 200
    tab.open(f"{running.url}/gateway/")
    assert tab.wait_for("document.activeElement.id === 'key'")
    tab.send_command("Input.insertText", text=admin)
    tab.submit("document.querySelector('button').click()")
    assert tab.run("location.pathname") == "/gateway/"
    tab.open(f"{running.url}/gateway/?days=1")
    assert tab.run("document.cookie") == ""
    assert "openai-chat:m" in tab.run("document.querySelector('main').innerText")
    assert tab.run("getComputedStyle(document.querySelector('.tiles')).display") == "grid"
    assert [url for url in tab.requests if not url.startswith((running.url, "data:"))] == []
    assert tab.faults == []
    tab.submit("document.querySelector('header button').click()")
    assert tab.run("document.querySelector('#key').type") == "password"


@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_phone_and_desktop_in_light_and_dark(tab: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    shown = tmp_path / "page.html"
    shown.write_text(render_report(sample_report(), signed_in=True), encoding="utf-8")
    tab.set_viewport(width, 844, dark=dark)
    tab.open(shown)
    paper = "rgb(22, 23, 26)" if dark else "rgb(251, 250, 247)"
    assert tab.run("getComputedStyle(document.body).backgroundColor") == paper
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("document.querySelectorAll('.bar svg').length") == 16


@pytest.mark.exhaustive
def test_what_others_wrote_never_runs(tab: Browser, tmp_path: Path) -> None:
    """The policy is in the page here, so that a fault would be reported."""
    policy = content_security_policy().replace("; frame-ancestors 'none'", "")
    text = render_report(sample_report(HOSTILE), signed_in=True)
    shown = tmp_path / "page.html"
    shown.write_text(text.replace("<meta ", f'<meta http-equiv="content-security-policy" content="{policy}"><meta ', 1))
    tab.open(shown)
    assert tab.run("document.title") == "Gateway"
    assert tab.run("document.querySelectorAll('script, img').length") == 0
    assert tab.run("getComputedStyle(document.querySelector('.tiles')).display") == "grid"
    assert tab.faults == []
