"""A history as a log of simonw/llm: what it holds comes back, and llm's own code finds no fault."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dragoman import Message
from dragoman.canonical.blocks import ThinkingBlock
from dragoman.canonical.message import MessageMetadata
from dragoman.canonical.usage import Usage
from dragoman.formats import read, to_llm_log
from tests.unit.formats.documents import everything
from tests.unit.formats.dump_files import DUMPS


def _write_log(tmp_path: Path, messages: list[Message]) -> Path:
    path = tmp_path / "log.db"
    path.write_bytes(to_llm_log(messages).data)
    return path


def _hashes(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as database:
        return {row[0] for row in database.execute("select hash from messages")}


def test_a_history_comes_back(tmp_path: Path) -> None:
    """Texts, thinking with its signature, calls with their results, media, models and counts; the rest is named."""
    usage = Usage(input_tokens=10, output_tokens=4, cached_input_tokens=20)
    signed = Message.assistant(
        [ThinkingBlock(text="Hm.", signature="c2ln")],
        metadata=MessageMetadata(model="anthropic:claude-opus-5-5", usage=usage),
    )
    history = [*everything(), Message.user("And?"), signed]
    written = to_llm_log(history)
    result = read(_write_log(tmp_path, history))
    assert result.format == "llm"
    assert [str(message.role) for message in result.messages] == [
        "system", "user", "assistant", "tool", "assistant", "user", "assistant"]  # fmt: skip
    last = result.messages[-1]
    assert (last.metadata.model, last.content) == ("anthropic:claude-opus-5-5", signed.content)
    assert last.usage is not None
    assert (last.usage.input_tokens, last.usage.cached_input_tokens, last.usage.output_tokens) == (10, 20, 4)
    call, answer = result.messages[2].tool_uses[0], result.messages[3].tool_results[0]
    assert (call.name, call.input) == (everything()[2].tool_uses[0].name, everything()[2].tool_uses[0].input)
    assert answer.tool_use_id == call.id
    assert {str(loss.kind) for loss in written.losses} >= {"media", "citations", "native_block", "channel"}


def test_messages_are_identified_as_by_llm(tmp_path: Path) -> None:
    """A thread that llm wrote has the same hashes when it is written here, up to its first call, whose id is ours."""
    source = DUMPS / "llm_threads.db"
    theirs = _hashes(source)
    shared = [_hashes(_write_log(tmp_path, each.messages)) & theirs for each in read(source).conversations]
    assert all(shared)


def test_llm_itself_finds_no_fault(tmp_path: Path) -> None:
    """Its hashes agree with the content, and the conversation can be continued."""
    pytest.importorskip("llm.logs", reason="llm is not installed")
    sqlite_utils = pytest.importorskip("sqlite_utils")
    from llm.logs import LogStore

    database = sqlite_utils.Database(_write_log(tmp_path, everything()))
    store = LogStore(database)
    assert store.verify() == []
    (thread,) = database["threads"].rows
    assert [message.role for message in store.load_chain(thread["tip_message_hash"])] == [
        "system", "user", "assistant", "tool", "assistant"]  # fmt: skip
    database.close()
