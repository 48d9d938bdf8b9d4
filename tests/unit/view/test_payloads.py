"""A payload in any field stays text and changes nothing else on the page."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from dragoman import Message
from dragoman.canonical.message import read_message
from dragoman.view import page
from tests.unit.formats.documents import everything
from tests.unit.view.document import Element
from tests.unit.view.handwritten_conversation import conversation
from tests.unit.view.hostile_payloads import CLOSED_FIELDS, PAYLOADS, dump_history, plant
from tests.unit.view.page_checks import check_page

_PICTURES = {0: "\u2400", 8: "\u2408"}
"""No document holds these characters: pages show their pictures instead."""
HISTORIES = {"every-block": everything(), "conversation": conversation()}


def _fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _fields(inner, (*path, index))
    elif isinstance(value, str) and not (set(path) & CLOSED_FIELDS):
        yield path


def _replace_at(value: Any, path: tuple[Any, ...], text: str) -> Any:
    if not path:
        return text
    changed = value.copy()
    changed[path[0]] = _replace_at(value[path[0]], path[1:], text)
    return changed


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("history_name", HISTORIES)
def test_payloads_in_all_fields_change_only_words(history_name: str, payload: str) -> None:
    """Elements and attributes are those of the same history with a plain word instead of the payload."""
    hostile = _page_with(history_name, payload)
    assert hostile.shape == _page_with(history_name, "plain").shape
    assert payload.translate(_PICTURES) in hostile.text
    assert hostile.one("h1").text == payload.translate(_PICTURES)


@cache
def _page_with(history_name: str, text: str) -> Element:
    history = [read_message(plant(message, text)) for message in dump_history(HISTORIES[history_name])]
    return check_page(page(history, title=text, next_model=text))


@pytest.mark.parametrize("index", range(len(everything())))
def test_a_payload_in_one_field_stays_text(index: int) -> None:
    """In each field of each block and of the metadata, alone: the others keep their meaning."""
    payload, messages = PAYLOADS[1] + PAYLOADS[3], dump_history(everything())
    checked_fields = 0
    for path in _fields(messages[index]):
        try:
            changed = read_message(_replace_at(messages[index], path, payload))
        except ValueError:
            continue  # a word of a closed set
        before = [read_message(message) for message in messages[:index]]
        check_page(page([*before, changed]))
        checked_fields += 1
    assert checked_fields > 2


def test_a_fence_does_not_break_out_of_the_page() -> None:
    """Code blocks are the only markup that is read in a text."""
    text = "```<b>\n</pre><script>alert(1)</script>\n```\nand ```\n<i>"
    document = check_page(page([Message.user(text)]))
    assert document.one("figure.code").one("pre").text.strip() == "</pre><script>alert(1)</script>"
    assert document.one("figure.code").one("figcaption").text == "<b>"
    assert document.one(".text").text == "and ```\n<i>"
