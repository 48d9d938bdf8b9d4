"""A history as a log of simonw/llm: what it holds comes back, and llm's own code finds no fault."""

import sqlite3
from contextlib import closing
from pathlib import Path

from dragoman import Message, TextBlock
from dragoman.canonical.blocks import ProviderBlock, ThinkingBlock
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


def test_a_model_without_a_name_is_llm_s_default(tmp_path: Path) -> None:
    """A name that is made up here would be unknown to llm."""
    reply = Message.assistant("Ho.", metadata=MessageMetadata(model="anthropic:unnamed"))
    with closing(sqlite3.connect(_write_log(tmp_path, [Message.user("Hi."), reply]))) as database:
        assert database.execute("select model from turns").fetchall() == [(None,)]


def test_a_thread_without_a_reply_can_be_continued(tmp_path: Path) -> None:
    """llm looks for its model among the turns, or in the table of older versions."""
    path = _write_log(tmp_path, [Message.user("Hi.")])
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("select id from conversations").fetchall() == database.execute(
            "select id from threads").fetchall()  # fmt: skip
    assert [message.text for message in read(path).messages] == ["Hi."]


def test_llm_s_own_parts_return(tmp_path: Path) -> None:
    """Calls that a provider ran are stored as llm had them."""
    data = {"name": "web_search", "arguments": {"query": "a"}, "tool_call_id": "srv_1", "server_executed": True}
    reply = Message.assistant([ProviderBlock(provider="llm", kind="tool_call", data=data), TextBlock(text="Ho.")])
    found = read(_write_log(tmp_path, [Message.user("Hi."), reply])).messages[-1]
    assert found.content == reply.content
