"""Each message of a long conversation takes little work and memory; `python -m tests.hardening` converts 200,000."""

import copy
import pickle
import tracemalloc
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic_core import from_json, to_json

from dragoman import AdapterOptions, Message, Role, get_adapter
from dragoman.cli.convert import convert_history
from dragoman.formats.native import from_native, to_native
from dragoman.formats.registry import iter_text, to_messages
from dragoman.formats.umf.convert import to_umf
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
    """Pieces of a file are the whole, as if the whole list was written at once."""
    entries = [{"a": ["x\n]", {}], "b": []}, {}, {"c": "é"}] * (count // 3 + 1)
    entries = entries[:count]
    assert "".join(iter_text(entries)) == to_json(entries, indent=1).decode() + "\n"


LONG = [
    Message.system("Be brief."),
    *(Message.user(f"Wie geht's {n}?\n") if n % 2 else Message.assistant(f"Gut {n}: \u00e9.") for n in range(1, 3_001)),
]


@pytest.mark.parametrize("name", ["openai-chat", "openai", "anthropic", "google", "bedrock", "cohere", "ollama"])
@pytest.mark.parametrize("end", [1, 2, 3, 2_501])
def test_a_history_in_pieces_is_that_of_the_request(name: str, end: int) -> None:
    """The list of a client is read from the JSON of the request, a piece at a time, without the turn at its end."""
    text = "".join(convert_history(LONG[:end], name, None).data)
    adapter = get_adapter(f"{name}:{next(iter(get_adapter(f'{name}:x').listed_models))}")
    ending = [Message.user("the end")] if LONG[end - 1].role is Role.ASSISTANT else []
    body = from_json(adapter.to_wire([*LONG[:end], *ending], [], AdapterOptions()).body)
    entries = body[adapter.history_field]
    entries = [{"role": "user", "content": entries}] if isinstance(entries, str) else entries[: -1 if ending else None]
    fields = {field: body[field] for field in adapter.instruction_fields if body.get(field)}
    whole = {**fields, adapter.history_field: entries} if fields else entries
    assert text == to_json(whole, indent=1).decode() + "\n"
    assert to_native(name, LONG[:end]).data == whole


@pytest.mark.parametrize("end", [1, 1_024, 3_001])
def test_umf_in_pieces_is_umf(end: int) -> None:
    """With the same losses, which are known before the first piece."""
    history = [*LONG[: end - 1], Message.developer("x", channel="final")]
    conversion, whole = convert_history(history, "umf", None), to_umf(history)
    assert whole.losses == conversion.losses != ()
    assert "".join(conversion.data) == to_json(whole.data, indent=1).decode() + "\n"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "share"), [("messages", 1 / 3), ("umf", 1 / 3), ("anthropic", 1 / 2), ("openai-chat", 3 / 4)]
)
def test_a_history_is_written_without_a_second_copy(name: str, share: float) -> None:
    """The dicts of all messages took more memory than the messages. A request has its JSON in memory."""
    history = [Message.user(f"message {n}", session_id="s") for n in range(10_000)]
    history = [message if n % 2 else Message.assistant("ok") for n, message in enumerate(history)]
    writers = {"messages": to_messages, "umf": to_umf}
    write = writers.get(name, lambda messages: to_native(name, messages))
    write(history[:10])  # caches that are made once
    tracemalloc.start()
    try:
        whole = write(history).data
        _, peak_of_the_whole = tracemalloc.get_traced_memory()
        expected = to_json(whole, indent=1).decode() + "\n"
        del whole
        tracemalloc.reset_peak()
        base, _ = tracemalloc.get_traced_memory()
        size = sum(len(piece) for piece in convert_history(history, name, None).data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size == len(expected)
    assert peak - base < peak_of_the_whole * share
    assert "".join(convert_history(history, name, None).data) == expected
