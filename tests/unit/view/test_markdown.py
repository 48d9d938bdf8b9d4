"""Answers are shown as people read them: Markdown is rendered, code is coloured, and nothing of a model does harm."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Message
from dragoman.adapter.errors import MissingExtraError
from dragoman.view import markdown, page
from dragoman.view.page import fragment
from tests.unit.view.document import Element, read
from tests.unit.view.page_checks import check_page

ANSWER = """# The port

It is **8080**, as the [manual](https://example.org/manual "not this") says:

| name | port |
| --- | ---: |
| web | 8080 |

1. Open `config.toml`:
   ```toml
   port = 8080
   ```

```python
def port() -> int:
    return 8080  # the default
```

> Never ~~8081~~.
"""
HOSTILE = (
    "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>",
    "a *b* <b onclick=alert(1)>c</b> <style>*{}</style>",
    "[a](javascript:alert(1)) [b](JAVASCRIPT:alert(1)) [c](java\tscript:alert(1)) [d](&#106;avascript:alert(1))",
    "[a](data:text/html;base64,PHNjcmlwdD4=) [b](vbscript:x) [c](file:///etc/passwd) [d](//evil.example) [e](#m1)",
    "<javascript:alert(1)> <data:text/html,x> <https://example.org/'onclick=alert(1)>",
    "![a](https://evil.example/pixel.png) ![b](data:image/svg+xml;base64,PHN2Zz4=) [![c](http://e.example/x)](http://e.example)",
    '[a](https://example.org/"onmouseover="alert(1)) [b](https://example.org "\\" onclick=\\"x")',
    '```"><script>alert(1)</script>\n</pre><script>alert(2)</script>\n```',
    "~~~html onload=alert(1)\n</pre></figure><h1 onclick=x>\n~~~",
    "[r]\n\n[r]: javascript:alert(1)",
    "|<b>|\n|---|\n|<script>x</script>|",
    "*" * 3000 + "[" * 3000 + "`" * 3001,
    "> " * 300 + "deep",
)


@pytest.fixture(scope="module")
def answer() -> Element:
    return check_page(page([Message.assistant(ANSWER)], raw=False)).one("article")


def test_an_answer_is_rendered(answer: Element) -> None:
    """Headings below those of the page, emphasis, links, tables with alignments, lists and quotes."""
    assert answer.one("h3").text == "The port"
    assert answer.one("strong").text == "8080"
    assert answer.one("s").text == "8081"
    assert [(cell.text, cell.classes) for cell in answer.all("td")] == [("web", []), ("8080", ["right"])]
    assert answer.one("ol").one("pre").words == "port = 8080"
    assert "8081" in answer.one("blockquote").text


def test_a_link_shows_where_it_leads(answer: Element) -> None:
    """Its title is its address and not what the model wrote there; the target learns nothing of this page."""
    (link,) = [each for each in answer.all("a") if "number" not in each.classes]
    assert link.attributes == {
        "href": "https://example.org/manual", "title": "https://example.org/manual",
        "rel": "noopener noreferrer nofollow", "target": "_blank",
    }  # fmt: skip


def test_code_has_the_classes_of_pygments(answer: Element) -> None:
    """Blocks have their language as a caption; an unknown one has no colours."""
    figure = answer.one("figure.code")
    assert figure.one("figcaption").text == "python"
    assert {"k", "nf", "c1"} <= {name for span in figure.all("span") for name in span.classes}
    assert figure.one("pre").text.strip() == "def port() -> int:\n    return 8080  # the default"
    assert markdown.color("<b>", "no-such-language") == "&lt;b&gt;"
    assert "<span" not in markdown.color("x = 1\n" * 10_000, "python")


def test_the_source_is_one_click_away(answer: Element) -> None:
    """The source is one click away: character by character, on the page and in a notebook. A text without markup is its
    own source.
    """
    assert answer.one("details.source").one("pre").text.lstrip("\n") == ANSWER
    cell = read(fragment([Message.assistant(ANSWER)]) or "")
    assert cell.one("strong").text == "8080"
    assert cell.one("details").one("pre").text.lstrip("\n") == ANSWER
    assert check_page(page([Message.assistant("Two\n  lines, 2 * 3 * 4.")])).all(".source") == []
    assert check_page(page([Message.assistant("Two\n  lines.")])).one(".text").text == "Two\n  lines."


def test_only_answers_are_markdown() -> None:
    """What a user typed and what a tool returned stay as they are."""
    document = check_page(page([Message.user("**a**"), Message.tool("tu_1", "**b**")]))
    assert [each.text for each in document.all(".text")] == ["**a**", "**b**"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_is_harmless(text: str) -> None:
    """No element, attribute or address of a model's own, whatever it writes; nothing is fetched."""
    document = check_page(page([Message.assistant(text)])).one("main")
    assert document.all("img") == document.all("script") == []
    addresses = [each.attributes["href"] for each in document.all("a") if "number" not in each.classes]
    assert all(each.startswith(("https://example.org", "http://e.example")) for each in addresses)


@given(st.text(st.sampled_from("<>&\"'`*_[]()!|-#:~\\ \n\t/ajsx:1."), max_size=60))
def test_no_text_breaks_out_of_the_page(text: str) -> None:
    """Whatever is rendered is well-formed, and follows the rules of the page."""
    check_page(page([Message.assistant(text)]))


def test_a_very_long_answer_is_shown_as_it_was_written() -> None:
    """Rendering has a limit of size."""
    assert markdown.read_parts("**a** " * 100_000) == []


def test_without_the_renderer_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a notebook shows the repr."""
    markdown._renderer.cache_clear()
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    with pytest.raises(MissingExtraError, match=r"dragoman\[cli\]"):
        page([Message.assistant("**a**")])
    assert fragment([Message.assistant("**a**")]) is None
    monkeypatch.setitem(sys.modules, "pygments", None)
    with pytest.raises(MissingExtraError, match=r"dragoman\[cli\]"):
        markdown.color("a", "python")
