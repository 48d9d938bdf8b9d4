"""From the model's text to lines: the same for any pieces of the text."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.local.reply import CALL_CLOSE, LocalRequestError, Splitter, StopFilter, call_head, merge_lines

END = {"type": "end", "stop": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}

text_parts = st.text(st.characters(codec="utf-8", exclude_characters="<"), max_size=12) | st.sampled_from(
    ["<", "<tool", "a < b", "</tool_call>", "Sure.\n", "{}"]
)
arguments = st.dictionaries(
    st.text(max_size=5), st.text(max_size=8) | st.sampled_from(["}</tool_call>", '"', "\\", "{"]) | st.integers()
)
calls = st.tuples(st.sampled_from(["read_file", 'a"b', "é"]), arguments)


def call_text(name: str, given: dict[str, object]) -> str:
    return f"{call_head(name)}{json.dumps(given, ensure_ascii=False)}}}{CALL_CLOSE}"


def in_pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


def read_pieces(pieces: list[str], *, finds_calls: bool = True) -> list[dict[str, Any]]:
    splitter = Splitter(calls=finds_calls)
    lines = [line for piece in pieces for line in splitter.feed(piece)] + splitter.finish()
    content: list[dict[str, Any]] = merge_lines([{"type": "start", "model": "m"}, *lines, END])["content"]
    return content


@given(st.lists(text_parts | calls, max_size=5), st.lists(st.integers(0, 500), max_size=8))
def test_text_and_calls_are_told_apart_for_any_pieces(parts: list[object], cuts: list[int]) -> None:
    """Each call is found with its own arguments, in order."""
    text = "".join(part if isinstance(part, str) else call_text(*part) for part in parts)  # type: ignore[misc]
    found = read_pieces(in_pieces(text, cuts))
    assert found == read_pieces([text])
    called = [(part["name"], part["arguments"]) for part in found if part["type"] == "call"]
    assert called == [part for part in parts if isinstance(part, tuple)]


@given(text_parts, st.lists(st.integers(0, 500), max_size=4))
def test_without_allowed_calls_everything_is_text(prefix: str, cuts: list[int]) -> None:
    """A model that may only answer may also write tags."""
    text = prefix + call_text("read_file", {"path": "a"})
    assert read_pieces(in_pieces(text, cuts), finds_calls=False) == [{"type": "text", "text": text}]


def test_line_feeds_between_calls_are_dropped() -> None:
    """The grammar separates calls with them; they are not the model's text."""
    one = call_text("add", {"a": 1})
    assert [part["type"] for part in read_pieces([f"Well.\n{one}\n{one}\n"])] == ["text", "call", "call"]


def test_a_truncated_call_keeps_its_arguments_as_text() -> None:
    """Half an object is never completed."""
    cut = call_text("read_file", {"path": "README.md"})[:-15]
    splitter = Splitter(calls=True)
    lines = [*splitter.feed(cut), *splitter.finish()]
    assert splitter.call_count == 0
    assert merge_lines([{"type": "start", "model": "m"}, *lines, END])["content"] == [
        {"type": "call", "name": "read_file", "arguments": '{"path": "README.md'}
    ]


def test_a_call_truncated_before_its_arguments_is_text() -> None:
    """There is no call without a name, and nothing is dropped."""
    assert read_pieces(['<tool_call>{"name": "rea']) == [{"type": "text", "text": '<tool_call>{"name": "rea'}]


def test_a_call_without_its_closing_tag_is_whole() -> None:
    """Its arguments are complete, and it cannot be anything else."""
    splitter = Splitter(calls=True)
    splitter.feed(call_text("add", {"a": 1})[:-5])
    assert [line["type"] for line in splitter.finish()] == ["call_end"]
    assert splitter.call_count == 1


@given(st.text("abc", max_size=30), st.lists(st.text("abc", min_size=1, max_size=3), max_size=3), st.data())
def test_text_ends_before_the_first_stop_string_for_any_pieces(
    text: str, stops: list[str], data: st.DataObject
) -> None:
    """A possible start of a stop string is held back until it is decided."""
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    stopper = StopFilter(stops)
    passed = "".join([stopper.feed(piece) for piece in in_pieces(text, cuts)]) + stopper.finish()
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    assert passed == (text[: min(places)] if places else text)
    assert stopper.is_stopped == bool(places)


def test_nothing_after_a_stop_string_is_returned() -> None:
    """The runtime may write a little more before it stops."""
    stopper = StopFilter(["END"])
    assert [stopper.feed("a END b"), stopper.feed("c"), stopper.finish()] == ["a ", "", ""]


def test_a_refusal_is_an_error_line_with_a_status() -> None:
    """The adapter reads the same object as a line and as a body."""
    refusal = LocalRequestError("timeout", "too late")
    assert refusal.status == 408
    assert refusal.line == {"type": "error", "error": {"type": "timeout", "message": "too late"}}


def test_an_unknown_line_is_a_bug() -> None:
    """Only our own lines are collected."""
    with pytest.raises(AssertionError, match="unknown type of a reply line"):
        merge_lines([{"type": "surprise"}])
