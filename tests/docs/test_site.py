"""The documentation site: its shelves, its pages' first lines, and the site as it is built."""

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs import site
from tests.docs.screenshots.chromium import Browser, browser, find_chromium
from tests.docs.snippets import ROOT

PAGES = sorted((ROOT / "docs").rglob("*.md"))
SHELVES = ("Learn", "Do", "Look up", "Understand")
MOST_ENTRIES = 9
LARGEST_PAGE = 1_000_000
"""Bytes of HTML."""
TIERS = ("Stable", "Provisional", "Experimental")
PHONE = 380
_MISSING_IMAGES = "[...document.images].filter(each => each.complete && !each.naturalWidth).map(each => each.src)"
_FOCUSED = "document.activeElement.shadowRoot?.activeElement?.tagName === 'INPUT'"
"""Whether the field of the search takes what is typed: it appears some frames after the click."""
_TYPED = "document.activeElement.shadowRoot.activeElement.value"
_RESULTS = """[...document.querySelectorAll('*')].map(each => each.shadowRoot?.textContent ?? '')
    .find(each => /[1-9][0-9]* results?/.test(each))"""
"""The text of the results, once there are some."""
_FIRST_LINE = re.compile(r"# [^\n]+\n\n(?P<need>(?:Read this page|Begin here|Use Dragoman) when .*?)\n\n", re.DOTALL)


class _Loader(yaml.SafeLoader):
    """Reads `mkdocs.yml`, whose values may have tags of Python."""


def shelves() -> dict[str, list[Any]]:
    """Return the entries of the site by shelf, without its first page."""
    nav = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)["nav"]
    return {name: entries for each in nav for name, entries in each.items() if isinstance(entries, list)}


def pages_of(entries: list[Any]) -> list[str]:
    """Return the pages of a shelf, in order."""
    found = []
    for each in entries:
        ((_, inner),) = each.items()
        found += pages_of(inner) if isinstance(inner, list) else [inner]
    return found


def test_there_are_four_shelves_with_nine_entries_at_most() -> None:
    """Every page stands on one of them, once."""
    found = shelves()
    assert tuple(found) == SHELVES
    assert {name: len(entries) for name, entries in found.items() if len(entries) > MOST_ENTRIES} == {}
    shelved = [page for entries in found.values() for page in pages_of(entries)]
    assert sorted([*shelved, "index.md"]) == [path.relative_to(ROOT / "docs").as_posix() for path in PAGES]


@pytest.mark.parametrize("name", ["learn", "reference", ""])
def test_each_page_says_first_when_you_need_it(name: str) -> None:
    """And how stable its part is, with a link to what that means."""
    faults = []
    for path in (
        each for each in PAGES if each.parent.relative_to(ROOT / "docs").parts[:1] == tuple(filter(None, [name]))
    ):
        found = _FIRST_LINE.match(path.read_text(encoding="utf-8"))
        need = "" if found is None else found["need"]
        has_tier = any(f"[{tier}](" in need for tier in TIERS) and "stability.md)" in need
        if not has_tier and path.name not in ("stability.md", "index.md"):
            faults.append(path.name)
        if not need:
            faults.append(f"{path.name} does not say when it is needed")
    assert faults == []


def test_every_part_has_a_tier() -> None:
    """What is experimental is named, on the page and in the README."""
    page = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    table = page.partition("## Parts")[2].partition("\n## ")[0]
    tiers = re.findall(r"^\| .* \| (\w+) \|$", table, re.MULTILINE)
    assert set(tiers[1:]) == {"stable", "provisional", "experimental"}
    for part in ("ACP", "recommender", "GitHub Copilot", "without a recording"):
        assert re.search(rf"^\|.*{part}.*\| experimental \|$", table, re.MULTILINE), part
        assert part in (ROOT / "README.md").read_text(encoding="utf-8"), part


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Ignores the message."""


@contextmanager
def served(built: Path) -> Iterator[str]:
    """Yield the address of the built site on this machine: the worker of its search needs HTTP."""
    handler = partial(_QuietHandler, directory=str(built))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()
        thread.join()


def check_pages_on_a_phone(built: Path, tab: Browser) -> None:
    """At 380 pixels each page scrolls down only, and all of its pictures are there."""
    tab.set_viewport(PHONE, 900)
    pages = sorted(built.rglob("index.html"))
    assert len(pages) == len(PAGES)
    wide, missing = [], []
    for path in pages:
        tab.open(path)
        if tab.run("document.documentElement.scrollWidth") > PHONE:
            wide.append(path.parent.name)
        missing += tab.run(_MISSING_IMAGES)
    assert (wide, missing) == ([], [])


def check_colours(built: Path, tab: Browser) -> None:
    """A page is drawn in the scheme that the system prefers, wide and narrow."""
    for page in ("", "learn/first-answer", "sessions", "stability"):
        for width, dark in ((1280, False), (1280, True), (PHONE, False), (PHONE, True)):
            tab.set_viewport(width, 900, dark=dark)
            tab.open(built / page / "index.html")
            tab.run("localStorage.clear()")  # it keeps the colours of the page before
            tab.open(built / page / "index.html")
            assert tab.run("document.body.dataset.mdColorScheme") == ("slate" if dark else "default"), page
            assert len(tab.screenshot()) > 10_000


def check_search(address: str, tab: Browser) -> None:
    """A person types into the search, and its results show the words; nothing comes from another machine."""
    tab.set_viewport(1280, 900)
    for words in ("max_tokens", "tool_choice", "429"):
        tab.open(address)
        tab.run("document.querySelector('.md-search__button').click()")
        tab.wait_for(_FOCUSED)
        tab.send_command("Input.insertText", text=words)
        assert tab.run(_TYPED) == words
        assert words in tab.wait_for(_RESULTS)
        assert [url for url in tab.requests if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.exhaustive
def test_the_site_as_it_is_built() -> None:
    """It is one test, because the site is built once: no link is broken, and a browser shows and searches it."""
    pytest.importorskip("zensical", reason="the docs group is not installed")
    built = site.build()
    assert site.broken_links(built) == []
    heavy = {str(page): page.stat().st_size for page in built.rglob("*.html") if page.stat().st_size > LARGEST_PAGE}
    assert heavy == {}, "split the page of the reference"
    path = find_chromium()
    if path is None:
        return
    with browser(path) as tab, served(built) as address:
        check_pages_on_a_phone(built, tab)
        check_colours(built, tab)
        check_search(address, tab)
