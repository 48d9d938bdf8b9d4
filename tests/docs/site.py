"""The documentation site: built as it is published, and read page by page."""

import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.packaging.wheel import PROJECT, ROOT

SITE = ROOT / ".site"
"""Where `mkdocs.yml` puts it."""
ADDRESS = str(PROJECT["project"]["urls"]["Documentation"])
_REFERENCES = {"a": "href", "link": "href", "img": "src", "script": "src"}


def build() -> Path:
    """Build the site, and return its folder. Raises subprocess.CalledProcessError if a page has a fault."""
    command = [sys.executable, "-m", "zensical", "build", "-f", "mkdocs.yml", "--strict"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return SITE


@dataclass
class Page(HTMLParser):
    """What a page refers to, and the anchors that it has."""

    references: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.anchors |= {name for key in ("id", "name") if (name := attributes.get(key))}
        if reference := attributes.get(_REFERENCES.get(tag, "")):
            self.references.append(reference)


def read_pages(site: Path) -> dict[Path, Page]:
    """Return the pages of a built site by their paths."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = Page()
        pages[path].feed(path.read_text(encoding="utf-8"))
    return pages


def broken_links(site: Path) -> list[str]:
    """Return each reference to a page, a file or an anchor of the site that is not there. No network is used."""
    pages = read_pages(site)
    return [
        f"{path.relative_to(site)}: {reference}"
        for path, page in pages.items()
        if path.name != "404.html"  # its links begin at the root of the server
        for reference in page.references
        if not _resolves(reference.replace(ADDRESS, f"{'../' * len(path.relative_to(site).parents[:-1])}"), path, pages)
    ]


def _resolves(reference: str, source: Path, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(reference)
    if parts.scheme or parts.netloc:
        return True
    target = (source.parent / unquote(parts.path)).resolve() if parts.path else source
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return False
    return not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].anchors
