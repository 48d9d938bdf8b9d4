"""Answers on a terminal: Markdown in complete blocks, and its last lines as they arrive."""

import io
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.io.console import console
from dragoman.cli.io.terminal import MarkdownBlocks, MarkdownWriter, PlainWriter, answer_writer

DOCUMENT = """# Title

A paragraph
of two lines.

- one

- two

  more of two

Text

    indented code

```python
x = 1

y = 2
```

~~~~
```

~~~~

1. first

2. second

| a | b |
|---|---|
| 1 | 2 |
"""
BLOCKS = [
    "# Title",
    "A paragraph\nof two lines.",
    "- one\n\n- two\n\n  more of two",
    "Text\n\n    indented code",
    "```python\nx = 1\n\ny = 2\n```",
    "~~~~\n```\n\n~~~~",
    "1. first\n\n2. second",
    "| a | b |\n|---|---|\n| 1 | 2 |",
]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def terminal_console() -> tuple[Terminal, Any]:
    file = Terminal()
    environ = {"TERM": "xterm-256color"}
    made = type(console())(file=file, width=60, height=20, color_system=None, _environ=environ)
    return file, made


def split(pieces: list[str]) -> list[str]:
    blocks = MarkdownBlocks()
    found = [block for piece in pieces for block in blocks.feed(piece)]
    return [block.strip("\n") for block in [*found, blocks.rest]]


@given(st.sets(st.integers(1, len(DOCUMENT) - 1), max_size=12))
def test_blocks_do_not_depend_on_the_pieces(cuts: set[int]) -> None:
    """Fences, lists and indented parts stay whole."""
    edges = [0, *sorted(cuts), len(DOCUMENT)]
    pieces = [DOCUMENT[start:end] for start, end in pairwise(edges)]
    assert split(pieces) == BLOCKS


@given(st.text("ab \n`-1.#", max_size=60))
def test_no_text_is_lost(text: str) -> None:
    """Whatever it is, only empty lines between blocks are."""
    assert "".join("".join(split([text])).split()) == "".join(text.split())


def test_a_terminal_shows_markdown() -> None:
    """A terminal shows Markdown without its marks, links with their addresses, and escape sequences without effect."""
    file, out = terminal_console()
    writer = MarkdownWriter(out)
    for piece in ("# Ti", "tle\n\nSome **bold** [words](https://example.com/x)", ".\n\nlast \x1b]0;title\x07 line"):
        writer.write(piece)
    writer.end()
    *_, shown = file.getvalue().rpartition("\x1b[?25h")
    assert "Some bold words (https://example.com/x)." in shown
    assert "last ␛]0;title" in shown
    assert "\x1b]" not in file.getvalue()
    assert file.getvalue().count("\x1b[?25l") == file.getvalue().count("\x1b[?25h")


def test_only_an_able_terminal_gets_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pipe, also if FORCE_COLOR is set; no dumb terminal; none without UTF-8."""
    _, out = terminal_console()
    assert isinstance(answer_writer(out), MarkdownWriter)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(answer_writer(type(console())(file=io.StringIO())), PlainWriter)
    dumb = type(console())(file=Terminal(), _environ={"TERM": "dumb"})
    assert isinstance(answer_writer(dumb), PlainWriter)
    latin = Terminal()
    latin.encoding = "latin-1"
    assert isinstance(answer_writer(type(console())(file=latin, _environ={"TERM": "xterm"})), PlainWriter)


def test_a_file_gets_the_exact_text() -> None:
    """A file gets the exact text with one line end after it, and none without an answer."""
    file = io.StringIO()
    writer = PlainWriter(file)
    writer.end()
    writer.write("a\x1b[2J")
    writer.write("")
    writer.end()
    writer.end()
    assert file.getvalue() == "a\x1b[2J\n"
