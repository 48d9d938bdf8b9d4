"""Logs of simonw/llm, old and new; and files that are not such log."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ImageBlock
from dragoman.formats import FormatError, from_llm_logs
from tests.unit.formats.dump_files import DUMPS

LOGS = ("llm_threads.db", "llm_responses.db")
logs = pytest.mark.parametrize("name", LOGS)


@logs
def test_a_log_holds_its_conversations(name: str) -> None:
    """The same in both versions: system, question, calls and results, attachments, fragments before a prompt."""
    talk, alone = from_llm_logs(DUMPS / name)
    roles = ["system", "user", "assistant", "tool", "tool", "assistant", "user", "assistant"]
    assert [str(message.role) for message in talk.messages] == roles
    assert talk.messages[2].text == "Let me look."
    calls = talk.messages[2].tool_uses
    assert [call.input for call in calls] == [{"city": "Bern"}, {"city": "Ulm"}]
    results = [message.tool_results[0] for message in talk.messages[3:5]]
    assert [result.tool_use_id for result in results] == [call.id for call in calls]
    assert [result.is_error for result in results] == [False, True]
    pixel, url = (block for block in talk.messages[6].content if isinstance(block, ImageBlock))
    assert (pixel.source.kind, pixel.source.data, pixel.media_type) == ("base64", "iVBORw0KGgo=", "image/png")
    assert (url.source.kind, url.source.data) == ("url", "https://example.org/a.png")
    assert [message.text for message in alone.messages[:2]] == [
        "Be kind.", "A fragment that is used again.\nSum it up.",
    ]  # fmt: skip


@logs
def test_replies_have_model_tokens_and_time(name: str) -> None:
    """As in the log, which does not name the provider of a model."""
    for conversation in from_llm_logs(DUMPS / name):
        for message in conversation.messages:
            assert message.session_id == conversation.name
            assert message.created_at.year == 2026
            if message.role == "assistant":
                assert (message.metadata.model, message.metadata.provider) == ("echo", None)
                assert message.usage is not None


@logs
def test_the_log_is_not_changed(name: str, tmp_path: Path) -> None:
    """Not by a byte, and no file is left next to it."""
    copied = tmp_path / "my logs?.db"
    shutil.copy(DUMPS / name, copied)
    from_llm_logs(copied)
    assert copied.read_bytes() == (DUMPS / name).read_bytes()
    assert list(tmp_path.iterdir()) == [copied]


def _break_log(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        database = sqlite3.connect(path)
        database.execute(statement)
        database.commit()
        database.close()

    return change


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (lambda path: path.write_bytes(b"no database, but long enough to be looked at" * 50), r"\$: this is not a log"),
        (_break_log("update messages set parent_hash = hash"), r"\$.threads\[.*\]: the thread refers .* itself"),
        (_break_log("update messages set parent_hash = 'b2:nowhere' where parent_hash is null"), "missing message"),
        (_break_log("update messages set role = 'king'"), r"\$.messages\[.*\].role: unknown role 'king'"),
        (
            _break_log("update parts set payload = '{' where type = 'tool_call'"),
            r"\$.parts\[\d+\].payload: .* not valid JSON",
        ),
        (_break_log("update parts set payload = '[]' where type = 'tool_call'"), r"\$.parts\[\d+\].payload: .* object"),
        (_break_log("delete from attachments"), r"\$.parts\[\d+\]: the attachment is missing"),
        (_break_log("alter table parts rename column position to place"), "no such column"),
        (_break_log("alter table turns drop column model"), "no column 'model'"),
        (_break_log("drop table parts"), "no such table"),
    ],
)  # fmt: skip
def test_a_broken_log_is_refused(change: Callable[[Path], None], pattern: str, tmp_path: Path) -> None:
    """A broken log is refused with table and row, and fast: cyclic threads end."""
    path = tmp_path / "logs.db"
    shutil.copy(DUMPS / "llm_threads.db", path)
    change(path)
    with pytest.raises(FormatError, match=pattern):
        from_llm_logs(path)


def test_another_database_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    _break_log("create table birds (name)")(path)
    with pytest.raises(FormatError, match="neither threads nor responses"):
        from_llm_logs(path)
    with pytest.raises(ConfigurationError, match="there is no file"):
        from_llm_logs(tmp_path / "none.db")
