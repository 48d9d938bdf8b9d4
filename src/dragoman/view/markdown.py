"""Markdown of a model as harmless HTML, and code in colours.

A model may write anything, so HTML stays text, a link leads to a web or mail address or stays text, and no image is
fetched: its description and address are shown instead.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from dragoman.adapter.errors import MissingExtraError

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LONGEST_TEXT = 500_000
"""Characters; a longer answer is shown as it was written."""
_LONGEST_CODE = 50_000
"""Characters; longer code has no colours. The expressions of some lexers are slow on code made to be slow."""
_SCHEMES = frozenset({"http", "https", "mailto"})
_PLAIN = frozenset({"paragraph_open", "inline", "paragraph_close", "text", "softbreak"})
_ALIGNMENTS = {"text-align:center": "center", "text-align:right": "right"}
_TOP_HEADING = 3
"""The level of a first heading: the page's own are 1 and 2."""


class Part(NamedTuple):
    """A part of an answer: HTML with its words, or a block of code with the name of its language."""

    html: str = ""
    words: str = ""
    code: str = ""
    language: str = ""


def read_parts(text: str) -> list[Part]:
    """Return the parts of a Markdown text, in order; none if it has no markup, or is too long to render.

    Blocks of code inside of lists and quotes are in the HTML. Raises MissingExtraError without the `cli` extra.
    """
    if len(text) > _LONGEST_TEXT:
        return []
    renderer = _renderer()
    references: dict[str, Any] = {}
    tokens = renderer.parse(text, references)
    if all(token.type in _PLAIN for token in _walk(tokens)):
        return []
    for token in _walk(tokens):
        # Alignments become classes, because the page's policy forbids styles; headings go below those of the page.
        if (style := token.attrs.pop("style", None)) in _ALIGNMENTS:
            token.attrs["class"] = _ALIGNMENTS[str(style)]
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + _TOP_HEADING - 1, 6)}"
        if token.type == "link_open":
            address = str(token.attrs["href"])
            token.attrs |= {"title": address, "rel": "noopener noreferrer nofollow", "target": "_blank"}
    parts: list[Part] = []
    pending: list[Token] = []
    for token in tokens:
        if token.type == "fence" and token.level == 0:
            parts += _html_part(renderer, pending, references)
            parts.append(Part(code=token.content.rstrip("\n"), language=token.info.strip()))
            pending = []
        else:
            pending.append(token)
    return parts + _html_part(renderer, pending, references)


def color(code: str, language: str) -> str:
    """Return HTML with the classes of Pygments; only escaped if the language is not known or the code is long."""
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
        from pygments.util import ClassNotFound
    except ModuleNotFoundError:
        raise _missing() from None
    name = language.split(maxsplit=1)[0] if language else ""
    if not name or len(code) > _LONGEST_CODE:
        return escape(code)
    try:
        lexer = get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return escape(code)
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True))).rstrip("\n")


def _html_part(renderer: "MarkdownIt", tokens: "Sequence[Token]", references: dict[str, Any]) -> list[Part]:
    """Return a list of one part, or of none without tokens."""
    if not tokens:
        return []
    words = " ".join(
        "".join(" " if each.type.endswith("break") else each.content for each in token.children or [token])
        for token in tokens
    )
    return [Part(html=str(renderer.renderer.render(tokens, renderer.options, references)), words=words)]


def _walk(tokens: "Sequence[Token]") -> "Iterator[Token]":
    for token in tokens:
        yield token
        yield from token.children or ()


def _is_harmless(address: str) -> bool:
    """Whether an address is absolute, and of the web or of mail. It runs nothing, and stays out of this page."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in _SCHEMES and bool(parts.netloc or parts.scheme == "mailto")


@cache
def _renderer() -> "MarkdownIt":
    try:
        from markdown_it import MarkdownIt
    except ModuleNotFoundError:
        raise _missing() from None
    renderer = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    renderer.validateLink = _is_harmless  # type: ignore[method-assign, assignment]
    for name, render in {
        "image": _render_image,
        "fence": _render_code,
        "code_block": _render_code,
        "table_open": lambda *_: '<div class="scroll" tabindex="0"><table>\n',
        "table_close": lambda *_: "</table></div>\n",
    }.items():
        renderer.add_render_rule(name, render)
    return renderer


def _render_image(_: Any, tokens: "Sequence[Token]", index: int, *__: Any) -> str:
    image = tokens[index]
    address = escape(str(image.attrs["src"]))
    return f'<span class="image" title="{address}">{escape(image.content) or address}</span>'


def _render_code(_: Any, tokens: "Sequence[Token]", index: int, *__: Any) -> str:
    code = tokens[index]
    return f'<pre class="highlight" tabindex="0">\n{color(code.content, code.info)}</pre>\n'


def _missing() -> MissingExtraError:
    return MissingExtraError("a page needs markdown-it-py and Pygments: pip install 'dragoman[cli]'")
