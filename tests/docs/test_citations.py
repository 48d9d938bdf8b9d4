"""Every citation leads somewhere: to a page and a heading of this repository, or to a well-formed public address."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs import citations
from tests.docs.citations import Passage

ROOT = Path(__file__).resolve().parents[2]


@cache
def passages() -> tuple[Passage, ...]:
    """All of this repository. Reading them takes seconds, so no run that only collects tests does."""
    return tuple(citations.iter_passages(ROOT))


def describe(passage: Passage, found: list[str]) -> list[str]:
    return [f"{passage.path.relative_to(ROOT)}:{passage.line}: {each}" for each in found]


@pytest.mark.exhaustive
def test_every_cited_page_and_heading_exists() -> None:
    broken = [line for each in passages() for line in describe(each, citations.find_broken_pages(each, ROOT))]
    assert broken == []


@pytest.mark.exhaustive
def test_no_rule_is_cited_by_a_section_that_is_not_here() -> None:
    """A section of a specification is of no use to readers who do not have it: cite the page under docs/reference."""
    assert [line for each in passages() for line in describe(each, citations.find_unfollowable(each))] == []


@pytest.mark.exhaustive
def test_every_url_is_well_formed() -> None:
    """Public addresses are https. No network is used."""
    assert [line for each in passages() for line in describe(each, citations.find_bad_urls(each))] == []


@pytest.mark.exhaustive
def test_the_passages_are_those_of_the_whole_repository() -> None:
    """An empty search would find no fault."""
    cited = {
        found[0]
        for each in passages()
        for found in re.finditer(r"docs/reference/[\w/-]+\.md#[\w-]+", each.text)
        if each.path.suffix == ".py"
    }
    assert len(cited) > 50
    assert {each.path.relative_to(ROOT).parts[0] for each in passages()} >= {*citations.FOLDERS, "README.md"}


@pytest.mark.parametrize(
    "text",
    [
        "docs/reference/nowhere.md",
        "docs/reference/cmf.md#nowhere",
        "Source: docs/reference/wires/anthropic.md#no-such-heading.",
        "[a page](reference/nowhere.md)",
    ],
)
@pytest.mark.parametrize("name", ["page.md", "code.py"])
def test_a_broken_citation_is_found(name: str, text: str) -> None:
    """A page that does not exist, and a heading that a page does not have."""
    assert len(citations.find_broken_pages(Passage(ROOT / "docs" / name, 1, text), ROOT)) == 1


@pytest.mark.parametrize(
    "text",
    ["docs/reference/cmf.md#globs", "See README.md.", "`docs/reference/wires/<name>.md`", "reference/umf.md#events"],
)
def test_a_citation_that_can_be_followed_passes(text: str) -> None:
    """From the root or from the page's own folder; a placeholder is not a citation."""
    assert citations.find_broken_pages(Passage(ROOT / "docs" / "page.md", 1, text), ROOT) == []


@pytest.mark.parametrize(
    "text", ["Specification D" + "6.1", "see spec A" + "4.2", "DES" + "IGN", "Section " + "5.3 says", "(B" + "2, B3)"]
)
def test_a_section_of_a_document_elsewhere_is_found(text: str) -> None:
    """Whichever way it is written."""
    assert citations.find_unfollowable(Passage(ROOT / "code.py", 1, text))


@pytest.mark.parametrize("url", ["http://docs.python.org/3/", "https://-a.com/", "https:///path", "https://a.com:b/"])
def test_a_malformed_url_is_found(url: str) -> None:
    assert citations.find_bad_urls(Passage(ROOT / "page.md", 1, f"See {url}."))


@pytest.mark.exhaustive
def test_anchors_are_those_of_the_site() -> None:
    """As Python-Markdown makes them, which renders the site."""
    markdown = pytest.importorskip("markdown")
    pytest.importorskip("pymdownx")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        renderer = markdown.Markdown(extensions=["toc", "tables", "pymdownx.superfences"])
        renderer.convert(page.read_text(encoding="utf-8"))
        assert citations.anchors(page) == _ids(renderer.toc_tokens), page


def _ids(tokens: list[dict[str, object]]) -> set[str]:
    """The anchors of a table of contents, at every level."""
    found: set[str] = set()
    for token in tokens:
        found.add(str(token["id"]))
        children = token["children"]
        assert isinstance(children, list)
        found |= _ids(children)
    return found
