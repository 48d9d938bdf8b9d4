"""The documentation site: its shelves, its pages' first lines, and the site as it is built."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs import site
from tests.docs.screenshots.chromium import browser, find_chromium
from tests.docs.snippets import ROOT

PAGES = sorted((ROOT / "docs").rglob("*.md"))
SHELVES = ("Learn", "Do", "Look up", "Understand")
MOST_ENTRIES = 9
LARGEST_PAGE = 1_000_000
"""Bytes of HTML."""
TIERS = ("Stable", "Provisional", "Experimental")
_FIRST_LINE = re.compile(r"# [^\n]+\n\n(?P<need>(?:When|If) .*?)\n\n", re.DOTALL)


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


@pytest.mark.exhaustive
def test_the_site_as_it_is_built(tmp_path: Path) -> None:
    """No link is broken, its search finds what people type, and its first page fits a phone, in light and dark."""
    pytest.importorskip("zensical", reason="the docs group is not installed")
    built = site.build()
    assert site.broken_links(built) == []
    heavy = {str(page): page.stat().st_size for page in built.rglob("*.html") if page.stat().st_size > LARGEST_PAGE}
    assert heavy == {}, "split the page of the reference"
    entries = json.loads((built / "search.json").read_text(encoding="utf-8"))["items"]
    for words in ("max_tokens", "tool_choice", "429"):
        assert any(words in json.dumps(entry) for entry in entries), words
    path = find_chromium()
    if path is None:
        return
    with browser(path) as tab:
        for page in ("", "learn/first-answer", "sessions", "stability"):
            for width, dark in ((1280, False), (1280, True), (380, False), (380, True)):
                tab.set_viewport(width, 900, dark=dark)
                tab.open(built / page / "index.html")
                tab.run("localStorage.clear()")  # it keeps the colours of the page before
                tab.open(built / page / "index.html")
                scheme = tab.run("document.body.dataset.mdColorScheme")
                assert scheme == ("slate" if dark else "default"), page
                assert tab.run("document.documentElement.scrollWidth") <= width, (page, width)
                assert len(tab.screenshot()) > 10_000
            missing = tab.run(
                "[...document.images].filter(each => each.complete && !each.naturalWidth).map(each => each.src)"
            )
            assert missing == [], page
