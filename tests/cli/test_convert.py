"""`dragoman convert`: files and directories between formats, with all losses reported."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dragoman import Message, Session
from dragoman.adapter.errors import DragomanError
from dragoman.cli.app import app
from dragoman.formats import from_acp, from_cmf, from_messages, to_cmf, to_messages
from dragoman.messages import MessageMetadata
from tests.cli.test_commands import command
from tests.unit.formats.documents import everything
from tests.unit.formats.dump_files import DUMPS


def convert(*words: object) -> Result:
    return CliRunner().invoke(app, ["convert", *map(str, words)], env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A history with all kinds of content."""
    path = tmp_path / "history.json"
    path.write_text(json.dumps(to_messages(everything()).data))
    return path


@pytest.mark.parametrize("shape", ["messages", "session", "cmf"])
def test_there_and_back_is_the_same(shape: str, history: Path, tmp_path: Path) -> None:
    """In the formats without lasting losses; what CMF cannot express is still reported."""
    there, back = tmp_path / "there.json", tmp_path / "back.json"
    done = convert(history, there, "--to", shape)
    assert done.exit_code == 0, done.output
    assert ("nothing was lost" in done.output) == (shape != "cmf")
    assert convert(there, back, "--to", "messages").exit_code == 0
    assert from_messages(back.read_bytes()) == everything()


@pytest.mark.parametrize("shape", ["umf", "umf-events", "chatml", "acp", "openai-chat", "anthropic", "google"])
def test_losses_of_a_format_are_listed(shape: str, history: Path, tmp_path: Path) -> None:
    """By kind, with count and reason; the format of the file is detected again."""
    there = tmp_path / f"there.{shape}"
    done = convert(history, there, "--to", shape)
    assert done.exit_code == 0, done.output
    assert "media" in done.output
    assert shape == "anthropic" or ("thinking" in done.output and "native_block" in done.output)
    again = convert(there, tmp_path / "again.json", "--to", "messages")
    assert again.exit_code == 0, again.output
    assert "Done." in (tmp_path / "again.json").read_text(encoding="utf-8")


def test_a_converted_session_can_be_continued(tmp_path: Path) -> None:
    """A history of another library becomes a session of its own model."""
    path = tmp_path / "session.json"
    assert convert(DUMPS / "langchain_anthropic_dicts.json", path, "--to", "session").exit_code == 0
    session = Session.load(path.read_bytes())
    assert session.model == "anthropic:claude-sonnet-4-6"
    assert session.messages[-1].text == "Rain in Bern, sun in Ulm."


def test_nothing_is_overwritten_silently(history: Path, tmp_path: Path) -> None:
    """Neither the target nor the source itself; on request, it is."""
    there = tmp_path / "there.json"
    there.write_text("mine")
    assert convert(history, there, "--to", "cmf").exit_code != 0
    assert convert(history, history, "--to", "cmf").exit_code != 0
    assert there.read_text() == "mine"
    assert from_messages(history.read_bytes()) == everything()
    assert convert(history, there, "--to", "cmf", "--overwrite").exit_code == 0
    assert from_cmf(there.read_bytes()) == everything()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history.json", "there.json"]


def test_several_conversations_go_into_a_directory(tmp_path: Path) -> None:
    """Several conversations go into a directory under their names; or one of them into a file."""
    log = DUMPS / "llm_threads.db"
    done = convert(log, tmp_path / "talks", "--to", "acp")
    assert done.exit_code == 0, done.output
    names = sorted(path.stem for path in (tmp_path / "talks").iterdir())
    assert len(names) == 2
    assert convert(log, tmp_path / "one.json", "--to", "acp").exit_code != 0
    assert convert(log, tmp_path / "one.json", "--to", "acp", "--only", names[0]).exit_code == 0
    one, talk = (
        from_acp(path.read_bytes()) for path in (tmp_path / "one.json", tmp_path / "talks" / f"{names[0]}.json")
    )
    assert [message.text for message in one] == [message.text for message in talk]


def test_a_directory_is_converted_file_by_file(tmp_path: Path) -> None:
    """An unreadable file is named with its fault, and the rest is done."""
    source, target = tmp_path / "from", tmp_path / "to"
    (source / "deep").mkdir(parents=True)
    shutil.copy(DUMPS / "langchain_chat_dumpd.json", source / "a.json")
    shutil.copy(DUMPS / "vcr_chat.yaml", source / "deep" / "b.yaml")
    shutil.copy(DUMPS / "llm_responses.db", source / "logs.db")
    (source / "broken.json").write_text('[{"kind": "request", "parts": 5}]')
    (source / "other.json").write_text('{"a": 1}')
    (source / "picture.png").write_bytes(b"\x89PNG")
    done = convert(source, target, "--to", "cmf")
    assert done.exit_code == 1
    assert "4 conversations of 3 files converted, 2 files failed" in done.output
    assert "broken.json: $[0].parts: parts must be a list, not a number (read as pydantic-ai)" in done.output
    assert "other.json cannot be detected" in done.output
    made = sorted(str(path.relative_to(target)) for path in target.rglob("*.json"))
    assert made[:2] == ["a.json", "deep/b.json"]
    assert [Path(name).parent.name for name in made[2:]] == ["logs", "logs"]
    again = convert(source, target, "--to", "cmf")
    assert "0 conversations of 0 files converted, 5 files failed" in again.output


def test_two_files_with_one_target_are_not_overwritten(tmp_path: Path) -> None:
    """The second of them fails, even if overwriting is allowed."""
    source, target = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    for name in ("a.json", "a.jsonl"):
        (source / name).write_text(json.dumps(to_messages([Message.user(name)]).data))
    done = convert(source, target, "--to", "cmf", "--overwrite")
    assert "1 conversations of 1 files converted, 1 files failed" in done.output
    assert from_cmf((target / "a.json").read_bytes())[0].text == "a.json"


def test_a_message_body_is_one_message(tmp_path: Path, history: Path) -> None:
    """More messages do not fit into it."""
    one = tmp_path / "one.json"
    one.write_text(json.dumps(to_cmf([Message.user("Hi.")]).data))
    assert convert(one, tmp_path / "body.json", "--to", "message-body").exit_code == 0
    assert json.loads((tmp_path / "body.json").read_bytes())[0]["content"] == "Hi."
    assert convert(history, tmp_path / "bodies.json", "--to", "message-body").exit_code != 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.json", "b.json", "--to", "cmf"), "there is no file 'nowhere.json'"),
        (("{dump}", "b.json", "--to", "no-such-shape"), "there is no format 'no-such-shape'"),
        (("{dump}", "b.json", "--to", "vcr"), "vcr can be read but not written"),
        (("{dump}", "b.json", "--to", "cmf", "--from", "cmf"), "$[0]"),
        (("{dump}", "b.json", "--to", "cmf", "--only", "other"), "holds no conversation 'other'"),
    ],
)
def test_errors_of_conversions_are_reported(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    """Nothing is written."""
    named = [word.replace("{dump}", str(DUMPS / "langchain_chat_dumpd.json")) for word in words]
    named[1] = str(tmp_path / named[1])
    error = convert(*named).exception
    assert isinstance(error, DragomanError)
    assert message in str(error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
def test_an_error_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = command("convert", str(DUMPS), str(tmp_path / "a"), "--to", "no-such-shape", COLUMNS="400")
    assert done.returncode == 2
    assert "there is no format 'no-such-shape'" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_the_reader_leaves_out_is_listed(tmp_path: Path) -> None:
    """Together with what the writer leaves out."""
    path = tmp_path / "ui.json"
    parts = [{"type": "text", "text": "Hi.", "mood": "good"}]
    path.write_text(json.dumps([{"id": "1", "role": "user", "parts": parts}]))
    done = convert(path, tmp_path / "there.json", "--to", "messages")
    assert done.exit_code == 0, done.output
    assert "does not know the field 'mood'" in done.output
    assert "nothing was lost" not in done.output


def test_an_unknown_format_is_not_guessed(tmp_path: Path) -> None:
    """The error says what is closest and why it is not that; a name reads it anyway."""
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "Hi.", "blocks": [1]}]))
    error = convert(path, tmp_path / "there.json", "--to", "messages").exception
    assert isinstance(error, DragomanError)
    assert "the closest is openai-chat" in str(error)
    assert "'blocks' ($[0]). Name it with --from" in str(error)
    assert convert(path, tmp_path / "there.json", "--to", "messages", "--from", "openai-chat").exit_code == 0


_ROW = {"messages": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]}


def test_lines_become_lines(tmp_path: Path) -> None:
    """A line that cannot be read is named with its number, and the rest is converted."""
    source, target = tmp_path / "rows.jsonl", tmp_path / "there.jsonl"
    source.write_text("\n".join([json.dumps(_ROW), '{"half', json.dumps(_ROW)]))
    done = convert(source, "--to", "cmf", "-o", target)
    assert done.exit_code == 1
    assert "2 conversations" in done.output
    assert "1 lines and 0 files failed" in done.output
    assert "rows.jsonl:2: $: this is not valid JSON" in done.output
    written = target.read_text(encoding="utf-8").splitlines()
    assert [message.text for message in from_cmf(json.loads(written[1]))] == ["Hi.", "Hello."]
    assert len(written) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.jsonl", "there.jsonl"]


def test_a_folder_becomes_lines(tmp_path: Path) -> None:
    """Of all its files, whatever their formats; also if the target is in the folder."""
    source = tmp_path / "from"
    source.mkdir()
    shutil.copy(DUMPS / "langchain_chat_dumpd.json", source / "a.json")
    shutil.copy(DUMPS / "llm_threads.db", source / "b.db")
    (source / "c.jsonl").write_text("\n".join([json.dumps(_ROW)] * 3))
    (source / "d.json").write_text('{"a": 1}')
    for _ in range(2):
        done = convert(source, "--to", "hf", "-o", source / "data.jsonl", "--overwrite")
        assert done.exit_code == 1
        assert "6 conversations" in done.output
        assert "0 lines and 1 files failed" in done.output
    rows = [json.loads(line) for line in (source / "data.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [len(row["messages"]) for row in rows][-3:] == [2, 2, 2]


def test_lines_become_files(tmp_path: Path) -> None:
    """Lines become files in a directory, by number; one line into one file."""
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join([json.dumps(_ROW)] * 2))
    assert convert(source, tmp_path / "talks", "--to", "cmf").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "talks").iterdir()) == ["1.json", "2.json"]
    error = convert(source, tmp_path / "one.json", "--to", "cmf").exception
    assert isinstance(error, DragomanError)
    assert "several conversations" in str(error)
    assert convert(source, tmp_path / "one.json", "--to", "cmf", "--only", "2").exit_code == 0


def test_one_target_is_named(tmp_path: Path, history: Path) -> None:
    """One target is named, as an argument or as an option, not both and not neither."""
    for words in ((), (tmp_path / "a.json", "-o", tmp_path / "b.json")):
        error = convert(history, *words, "--to", "cmf").exception
        assert isinstance(error, DragomanError)
        assert "name one target" in str(error)
    assert convert(history, "-o", tmp_path / "a.json", "--to", "cmf").exit_code == 0


def test_labels_of_lines_are_kept_beside_the_file(tmp_path: Path) -> None:
    """All of them, before the file appears."""
    source, target = tmp_path / "rows.jsonl", tmp_path / "there.jsonl"
    labelled = Message.user("Hi.").model_copy(update={"metadata": MessageMetadata(labels=frozenset({"secret"}))})
    rows = [to_messages([each]).data for each in (labelled, Message.user("Hi."))]
    source.write_text("\n".join(map(json.dumps, rows)))
    assert convert(source, target, "--to", "hf").exit_code == 0
    beside = target.with_name("there.jsonl.labels.json")
    assert json.loads(beside.read_bytes())["security"]["labels"] == ["secret"]


def test_a_log_of_llm_is_written(tmp_path: Path, history: Path) -> None:
    """A SQLite file, which is detected and read again."""
    there = tmp_path / "logs.db"
    assert convert(history, there, "--to", "llm").exit_code == 0
    assert there.read_bytes().startswith(b"SQLite format 3")
    assert convert(there, tmp_path / "back.json", "--to", "messages").exit_code == 0
    assert from_messages((tmp_path / "back.json").read_bytes())[-1].text == "Done."
