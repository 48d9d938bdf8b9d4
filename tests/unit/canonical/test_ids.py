"""Ids grow, in all threads, with all clocks and after forks."""

import itertools
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dragoman.canonical import ids
from dragoman.canonical.ids import (
    ModelId,
    UlidFactory,
    format_ulid,
    new_message_id,
    new_session_id,
    new_tool_use_id,
    new_ulid,
)

ULID = r"[0-7][0-9A-HJKMNP-TV-Z]{25}"


@pytest.mark.parametrize(
    ("mint", "prefix"), [(new_message_id, ""), (new_tool_use_id, "tu_"), (new_session_id, "sess_")]
)
def test_ids_have_their_format(mint: Callable[[], str], prefix: str) -> None:
    """Ids have their format: a ULID of 26 Crockford characters after the prefix of its kind."""
    assert re.fullmatch(prefix + ULID, mint())


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0" * 26), (31, "0" * 25 + "Z"), (32, "0" * 24 + "10"), (2**128 - 1, "7" + "Z" * 25)]
)
def test_a_ulid_is_base_32_of_its_bits(value: int, text: str) -> None:
    """The characters sort as the numbers do."""
    assert format_ulid(value) == text


def test_the_first_ten_characters_encode_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Milliseconds since 1970; the example is that of the ULID specification."""
    monkeypatch.setattr(time, "time_ns", lambda: 1_469_918_176_385_999_999)
    assert UlidFactory()().startswith("01ARYZ6S41")


@pytest.mark.parametrize(
    "clock",
    [
        itertools.repeat(1_000_000_000_000),
        iter(range(10**12, 0, -(10**8))),
        itertools.cycle([2 * 10**12, 10**12]),
    ],
    ids=["stands still", "steps back", "jumps"],
)
def test_ids_grow_with_any_clock(clock: Iterator[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a millisecond, and when the clock goes backwards."""
    monkeypatch.setattr(time, "time_ns", lambda: next(clock))
    mint = UlidFactory()
    minted = [mint() for _ in range(1000)]
    assert all(earlier < later for earlier, later in itertools.pairwise(minted))


def test_ids_grow_past_their_last_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six characters count within a millisecond. After the last of them, the next millisecond begins."""
    monkeypatch.setattr(time, "time_ns", lambda: 31_000_000)
    drawn = [("M" * 10, 0), ("K" * 10, (1 << 30) - 2)]
    monkeypatch.setattr(ids, "_draw", lambda: drawn)
    mint = UlidFactory()
    assert [mint()[8:] for _ in range(3)] == [
        "0Z" + "K" * 10 + "ZZZZZY",
        "0Z" + "K" * 10 + "ZZZZZZ",
        "10" + "M" * 10 + "000000",
    ]


def test_random_parts_differ_and_leave_room_to_count() -> None:
    """No two ids share their random characters."""
    drawn = [part for _ in range(20) for part in ids._draw()]
    assert len({letters for letters, _ in drawn}) == len(drawn) == 1280
    assert len({number for _, number in drawn}) > 1000
    assert all(re.fullmatch("[0-9A-HJKMNP-TV-Z]{10}", letters) and 0 <= number < 1 << 29 for letters, number in drawn)


def test_ids_grow_across_threads() -> None:
    """In eight threads: each sees its own ids grow, and no id appears twice."""
    minted: list[list[str]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def work(own: list[str]) -> None:
        start.wait()
        own += [new_ulid() for _ in range(2000)]

    threads = [threading.Thread(target=work, args=(own,)) for own in minted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(own == sorted(own) for own in minted)
    assert len({one for own in minted for one in own}) == 16_000


FORK = """
import os, time
from dragoman.canonical import ids
time.time_ns = lambda: 10**18
before = ids.new_ulid()
child = os.fork()
minted = [ids.new_ulid() for _ in range(50)]
os.write(1, ("\\n".join(minted) + "\\n").encode())
if child:
    os.waitpid(child, 0)
    os.write(1, (before + "\\n").encode())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_a_forked_process_makes_other_ids() -> None:
    """Parent and child never make the same id in the same millisecond from the same state."""
    output = subprocess.run([sys.executable, "-c", FORK], capture_output=True, check=True, text=True).stdout.split()
    assert len(set(output)) == len(output) == 101
    assert min(output) == output[-1]


@pytest.mark.parametrize(
    ("text", "provider", "name"),
    [
        ("openai:gpt-6.1-sol", "openai", "gpt-6.1-sol"),
        ("openrouter:anthropic/claude-opus-5-5", "openrouter", "anthropic/claude-opus-5-5"),
        ("ollama:qwen3:8b", "ollama", "qwen3:8b"),
        ("local:/models/My Model.gguf", "local", "/models/My Model.gguf"),
    ],
)
def test_a_model_id_is_split_at_its_first_colon(text: str, provider: str, name: str) -> None:
    """The rest is the provider's own name, with colons and slashes."""
    assert ModelId.parse(text) == (provider, name)
    assert str(ModelId.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "gpt-6", ":gpt-6", "openai:", ":", "a:gpt\r\nx-key: 1", "openai:a\ud800", 5, None]
)
def test_anything_else_is_no_model_id(text: Any) -> None:
    """The error shows the format."""
    with pytest.raises(ValueError, match="write it as 'provider:model'"):
        ModelId.parse(text)
