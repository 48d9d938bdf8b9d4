"""Citations in code, tests, data and pages: where they are, and whether they lead to a heading that exists."""

import ast
import io
import re
import tokenize
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

FOLDERS = ("src", "adapters", "tests", "docs", "examples", "pricing", "cassettes", ".github")
SUFFIXES = frozenset({".py", ".toml", ".md", ".yml", ".sh"})
"""Recordings are .yaml, and are evidence, not documentation."""
RESERVED_DOMAINS = (".invalid", ".test", ".example", ".localhost", ".internal", ".intranet")
"""Domains of made-up and local servers, which need no TLS."""
NAMESPACES = frozenset({"www.w3.org", "internal.amazon.com"})
"""Hosts in names of XML and of error types, which are not addresses."""

_PAGE = re.compile(r"(?<![\w./:<*{}-])((?:\.{0,2}[\w-]+/|\.\./)*[\w.-]+\.md)(#[\w-]*)?(?![\w/])")
_URL = re.compile(r"https?://[^\s\"'`<>()\[\]|\\]+")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_UNFOLLOWABLE = re.compile(
    r"\b(?i:spec(?:ification)?(?: section| part)?|section|part)\s+[A-Z]?\d+(?:\.\d+)*\b|\bDESIGN\b"
    r"|(?<![\w-])[A-E]\d{1,2}(?:\.\d{1,2})*(?![\w-])"
)
"""A section of a document that is not in this repository: a letter and a number, or the word section and a number."""


class Passage(NamedTuple):
    """Text in which a citation counts: a page, a data file, or a docstring or comment of code."""

    path: Path
    line: int
    text: str


def iter_passages(root: Path) -> Iterator[Passage]:
    """Yield the passages of a checkout. Recordings and strings of code that are not documentation are left out."""
    for path in [*root.glob("*.md"), *root.glob("*.toml"), *_files(root)]:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            yield from _python_passages(path, text)
        else:
            yield Passage(path, 1, text)


def _files(root: Path) -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES:
                yield path


def _python_passages(path: Path, source: str) -> Iterator[Passage]:
    if not (".md" in source or "://" in source or _UNFOLLOWABLE.search(source)):
        return  # reading comments takes most of the time, and here none can cite anything
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Passage(path, node.lineno, node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Passage(path, token.start[0], token.string)


def find_broken_pages(passage: Passage, root: Path) -> list[str]:
    """Return the cited pages that do not exist, or that lack the cited heading."""
    text = passage.text if passage.path.suffix == ".py" else _FENCE.sub("", passage.text)
    text = _URL.sub("", text)
    return [found[0] for found in _PAGE.finditer(text) if not _resolves(found[1], found[2] or "", passage.path, root)]


def _resolves(page: str, fragment: str, source: Path, root: Path) -> bool:
    places = (
        root / page,
        source.parent / page,
        *(parent / page for parent in source.parents if root in parent.parents),
    )
    existing = [place for place in places if place.is_file()]
    return any(not fragment or fragment[1:] in anchors(place) for place in existing)


def find_unfollowable(passage: Passage) -> list[str]:
    """Return citations of a specification's sections in code, which name no page of this repository."""
    return [found[0] for found in _UNFOLLOWABLE.finditer(passage.text)] if passage.path.suffix == ".py" else []


def find_bad_urls(passage: Passage) -> list[str]:
    """Return the URLs that are malformed, or that name a public server without TLS."""
    return [
        url for url in (found[0].rstrip(".,;:!?…") for found in _URL.finditer(passage.text)) if not is_good_url(url)
    ]


def is_good_url(url: str) -> bool:
    """Whether a URL is https with a full domain name, or names a local or made-up server. Placeholders are left out."""
    if "{" in url or "$" in url or "OWNER" in url:
        return True
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    is_local = "." not in host or host.endswith(RESERVED_DOMAINS) or re.fullmatch(r"[\d.:]+", host) is not None
    is_domain = re.fullmatch(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}", host) is not None
    return bool(host) and (is_local or host in NAMESPACES or (is_domain and parts.scheme == "https"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors that the documentation site gives the headings of a page."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    counts: Counter[str] = Counter()
    found = []
    for heading in _HEADING.findall(text):
        slug = slugify(heading)
        found.append(f"{slug}_{counts[slug]}" if counts[slug] else slug)
        counts[slug] += 1
    return frozenset(found)


def slugify(heading: str) -> str:
    """Return a heading's anchor, as Python-Markdown makes it: https://python-markdown.github.io/extensions/toc/"""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    letters = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", letters).strip().lower())
