"""Each message of a long conversation takes little work and memory; `python -m tests.hardening` converts 200,000."""

import copy
import pickle
import tracemalloc
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic_core import to_json

from dragoman import Message
from dragoman.cli.io.convert.files import convert_history
from dragoman.formats.native import from_native
from dragoman.formats.own_messages import to_messages
from dragoman.formats.registry import iter_text
from dragoman.messages import MessageMetadata
from tests.hardening.conversions import write_history
from tests.laws.streams.call_counts import calls_of

COUNT = 2_000


@pytest.fixture
def history(tmp_path: Path) -> bytes:
    path = tmp_path / "history.json"
    write_history(path, COUNT)
    return path.read_bytes()


def test_a_message_of_a_long_history_is_small(history: bytes) -> None:
    """It took 3,000 bytes: pydantic's sets of field names and metadata without notes were most of it."""
    from_native("openai-chat", history)  # caches that are made once
    tracemalloc.start()
    try:
        messages = from_native("openai-chat", history)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(messages) == COUNT
    assert size / COUNT < 1_500


def test_a_message_of_a_long_history_is_little_work(history: bytes) -> None:
    """It took 240 calls, most of them to compare a plain text with itself."""
    from_native("openai-chat", history)
    assert calls_of(lambda: from_native("openai-chat", history)) / COUNT < 140


def test_the_names_of_given_fields_are_shared() -> None:
    """Copies that pydantic makes without validation have their own: pydantic adds to them."""
    first, second = Message.user("a"), Message.user("b")
    assert first.model_fields_set is second.model_fields_set
    assert first.model_copy(update={"channel": "final"}).model_fields_set >= {"channel", "content"}
    for copied in (BaseModel.model_copy(first), copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert copied.model_fields_set == first.model_fields_set
        copied.model_fields_set.add("added")
    assert first.model_fields_set == second.model_fields_set == {"role", "content"}
    assert Message.user("a", metadata=MessageMetadata(model="a:b")).metadata.model_fields_set == {"model"}


@pytest.mark.parametrize("count", [0, 1, 1_024, 1_025, 3_000])
def test_pieces_of_a_file_are_the_whole(count: int) -> None:
    """As if the whole list was written at once."""
    entries = [{"a": ["x\n]", {}], "b": []}, {}, {"c": "é"}] * (count // 3 + 1)
    entries = entries[:count]
    assert "".join(iter_text(entries)) == to_json(entries, indent=1).decode() + "\n"


@pytest.mark.exhaustive
def test_messages_are_written_without_a_second_copy_of_the_history() -> None:
    """The dicts of all messages took more memory than the messages."""
    history = [Message.user(f"message {number}", session_id="s") for number in range(10_000)]
    tracemalloc.start()
    try:
        whole = to_messages(history).data
        _, peak_of_the_whole = tracemalloc.get_traced_memory()
        expected = to_json(whole, indent=1).decode() + "\n"
        del whole
        tracemalloc.reset_peak()
        base, _ = tracemalloc.get_traced_memory()
        size = sum(len(piece) for piece in convert_history(history, "messages", None).data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size == len(expected)
    assert peak - base < peak_of_the_whole / 3
    assert "".join(convert_history(history, "messages", None).data) == expected
