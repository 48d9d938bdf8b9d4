"""Whatever is planted in whichever field: it stays text, and the page stays as it was."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from dragoman import Message
from dragoman.canonical.evolve import read_message
from dragoman.view import page
from tests.unit.formats.documents import everything
from tests.unit.view.document import Element
from tests.unit.view.handwritten_conversation import conversation
from tests.unit.view.planting import FIXED, PAYLOADS, dumped, planted
from tests.unit.view.promises import checked

_PICTURES = {0: "\u2400", 8: "\u2408"}
"""No document holds these characters: they are shown by their pictures."""
HISTORIES = {"every-block": everything(), "conversation": conversation()}


def _fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _fields(inner, (*path, index))
    elif isinstance(value, str) and not (set(path) & FIXED):
        yield path


def _with(value: Any, path: tuple[Any, ...], text: str) -> Any:
    if not path:
        return text
    changed = value.copy()
    changed[path[0]] = _with(value[path[0]], path[1:], text)
    return changed


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("which", HISTORIES)
def test_a_payload_everywhere_changes_nothing_but_words(which: str, payload: str) -> None:
    """The elements and attributes are those of the same history with a plain word in the payload's place."""
    hostile = _page_with(which, payload)
    assert hostile.shape == _page_with(which, "plain").shape
    assert payload.translate(_PICTURES) in hostile.text
    assert hostile.one("h1").text == payload.translate(_PICTURES)


@cache
def _page_with(which: str, text: str) -> Element:
    history = [read_message(planted(message, text)) for message in dumped(HISTORIES[which])]
    return checked(page(history, title=text, next_model=text))


@pytest.mark.parametrize("place", range(len(everything())))
def test_a_payload_in_one_field_stays_text(place: int) -> None:
    """In each field of each block and of the metadata, alone: the others still have their meaning."""
    payload, messages = PAYLOADS[1] + PAYLOADS[3], dumped(everything())
    tried = 0
    for path in _fields(messages[place]):
        try:
            changed = read_message(_with(messages[place], path, payload))
        except ValueError:
            continue  # a word of a closed set
        before = [read_message(message) for message in messages[:place]]
        checked(page([*before, changed]))
        tried += 1
    assert tried > 2


def test_a_fence_does_not_open_the_page() -> None:
    """Code blocks are the one thing that is read in a text."""
    text = "```<b>\n</pre><script>alert(1)</script>\n```\nand ```\n<i>"
    document = checked(page([Message.user(text)]))
    assert document.one("figure.code").one("pre").text.strip() == "</pre><script>alert(1)</script>"
    assert document.one("figure.code").one("figcaption").text == "<b>"
    assert document.one(".text").text == "and ```\n<i>"
