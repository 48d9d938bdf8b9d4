"""Redaction of streams: the shown text equals the stored text, for any deltas, and holds no finding."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.events import TextDelta
from dragoman.policy import Pipeline
from dragoman.policy.plugins import Finder, Redaction
from tests.unit.policy.plugins.test_redaction import FINDER, SECRET, find_secret
from tests.unit.session.drivers import SyncDriver, Wire
from tests.unit.session.handwritten_replies import anthropic_event

MESSAGE: dict[str, Any] = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": [],
    "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip


def handwritten_stream(pieces: list[str]) -> list[bytes]:
    """A stream of one text in these deltas."""
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}} for piece in pieces
    ]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": MESSAGE},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    return list(map(anthropic_event, events))


def stream_texts(pieces: list[str], plugin: Redaction) -> tuple[list[str], str]:
    """The deltas that the caller sees, and the text in the history."""
    session = SyncDriver().session({"anthropic": Wire([handwritten_stream(pieces)])}, policy=Pipeline([plugin]))
    with session:
        deltas = [event.text for event in session.stream("Go") if isinstance(event, TextDelta)]
        return deltas, session.messages[-1].text


texts = st.lists(st.sampled_from([SECRET, f"{SECRET}12", "and so on ", "x", " ", "S3C", "\n"]), min_size=1, max_size=30)


@given(texts.map("".join).filter(bool), st.data(), st.sampled_from([10, 25, None]))
def test_redaction_does_not_depend_on_the_deltas(text: str, data: st.DataObject, window: int | None) -> None:
    """Redaction does not depend on the deltas: cut anywhere, with the window of the finder, a longer one, and none."""
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)) | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    finder = Finder(find_secret, window)
    plugin = Redaction([finder])
    deltas, kept = stream_texts(pieces, plugin)
    assert kept == plugin.redact(text)
    assert "".join(deltas) == kept
    assert SECRET not in kept


def test_most_of_a_long_text_is_shown_before_its_end() -> None:
    """Only the window is held back."""
    pieces = ["and so on, "] * 50 + [SECRET[:3], SECRET[3:], "1 and more. "] + ["and so on, "] * 50
    deltas, kept = stream_texts(pieces, Redaction([FINDER]))
    assert len(deltas) > 20
    assert "".join(deltas) == kept
    assert "[secret] and more" in kept
    assert len(stream_texts(pieces, Redaction([find_secret]))[0]) <= len(pieces)


def test_real_finders_work_on_a_stream() -> None:
    pytest.importorskip("kingfisher_sdk", reason="kingfisher-secret-scanner is not installed")
    pytest.importorskip("datafog", reason="datafog is not installed")
    text = "Take ghp_16C7e42F292c6912E7710c838347Ae178B4a and write to ann@example.org, " + "and so on, " * 40
    plugin = Redaction(window=64)
    for size in (1, 7, 40, 1_000):
        deltas, kept = stream_texts([text[start : start + size] for start in range(0, len(text), size)], plugin)
        assert "".join(deltas) == kept == plugin.redact(text)
        assert kept.startswith("Take [github-pat] and write to [email], and so on")
