"""`dragoman view`: a page of any file that contains a conversation."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dragoman import Session
from dragoman.adapter.errors import DragomanError
from dragoman.cli.app import app
from dragoman.formats import from_messages
from dragoman.store import Store
from tests.cli.test_commands import command
from tests.unit.formats.dump_files import DUMPS
from tests.unit.view.document import Element
from tests.unit.view.handwritten_conversation import GEMINI, OPUS, conversation
from tests.unit.view.page_checks import check_page

ROOT = Path(__file__).resolve().parents[2]
COMPATIBILITY = ROOT / "tests" / "compatibility"


def view(*words: object) -> Result:
    return CliRunner().invoke(app, ["view", *map(str, words)], env={"COLUMNS": "200", "NO_COLOR": "1"})


def render_page(tmp_path: Path, *words: object) -> Element:
    page = tmp_path / "page.html"
    done = view(*words, "-o", page)
    assert done.exit_code == 0, done.output or done.exception
    assert str(page) in done.output
    return check_page(page.read_text(encoding="utf-8"))


def speakers(document: Element) -> list[str]:
    return [each.all("h2")[0].words for each in document.all("article")]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "session.json"
    path.write_bytes(Session(OPUS, messages=conversation(), session_id="sess_tide").dump())
    return path


def test_a_session_becomes_a_page(session: Path, tmp_path: Path) -> None:
    """With its tool ids, so the raw requests are those that were sent; and its current model."""
    document = render_page(tmp_path, session)
    assert document.one("h1").words == "session"
    assert document.one("#snext").one("strong").words == OPUS
    older = render_page(tmp_path, COMPATIBILITY / "session_v1.json", "--title", "From the museum")
    assert older.one("h1").words == "From the museum"
    assert '"id": "toolu_A"' in older.one("main").text
    messages = from_messages((COMPATIBILITY / "session_v1.json").read_bytes())
    assert len(older.all("article")) == sum(message.role != "tool" for message in messages)


def test_a_session_of_a_store_becomes_a_page(tmp_path: Path) -> None:
    """If the store has only one; otherwise by id."""
    path = tmp_path / "chats.db"
    with Store(f"sqlite:///{path}") as store:
        store.create(GEMINI, conversation(), session_id="sess_tide", title="The tide")
        assert render_page(tmp_path, path).one("h1").words == "The tide"
        store.create(OPUS, [], session_id="sess_other")
    assert len(speakers(render_page(tmp_path, path, "--only", "sess_tide"))) == 10
    assert len(speakers(render_page(tmp_path, "sess_tide", "--store", path))) == 10
    assert len(speakers(render_page(tmp_path, f"sqlite:///{path}", "--only", "sess_tide"))) == 10
    assert "sess_other" in str(view(path, "-o", tmp_path / "a.html").exception)
    assert view("sess_none", "--store", path).exit_code != 0


def test_our_cassette_becomes_a_page(tmp_path: Path) -> None:
    """The conversation of the demo uses three wires."""
    document = render_page(tmp_path, ROOT / "cassettes" / "llama-server" / "swap" / "three_wires.yaml", "--only", "1")
    assert "qwen2.5-coder-0.5b" in speakers(document)
    assert document.all(".call")


@pytest.mark.parametrize(
    "name", ["vcr_chat.yaml", "langchain_anthropic_dicts.json", "langchain_chat_dumpd.json", "llm_responses.db"]
)
def test_other_formats_are_detected(name: str, tmp_path: Path) -> None:
    """Several conversations are listed by name."""
    done = view(DUMPS / name, "-o", tmp_path / "page.html")
    if done.exit_code:
        named = str(done.exception).rpartition(": ")[2].split(", ")
        document = render_page(tmp_path, DUMPS / name, "--only", named[0])
    else:
        document = check_page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert len(speakers(document)) > 1


def test_the_page_overwrites_no_other_file(session: Path, tmp_path: Path) -> None:
    """By default it has the source's name, in the current folder; a named page may be made again."""
    work = tmp_path / "work"
    work.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work)
        assert view(session).exit_code == 0
        assert [path.name for path in work.iterdir()] == ["session.html"]
        assert "exists already" in str(view(session).exception)
    assert view(session, "-o", work).exit_code == 0
    assert view(session, "-o", work / "session.html", "--no-raw").exit_code == 0
    assert check_page((work / "session.html").read_text(encoding="utf-8")).all(".raw") == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("nowhere.json", "there is no file 'nowhere.json'"),
        ("{folder}", "is a folder"),
        ("sqlite:///nowhere.db", "there is no store 'nowhere.db'"),
        ("{other}", "cannot be detected"),
    ],
)
def test_errors_of_views_are_reported(source: str, expected: str, tmp_path: Path) -> None:
    """Nothing is written."""
    (tmp_path / "other.json").write_text('{"a": 1}')
    named = source.format(folder=tmp_path, other=tmp_path / "other.json")
    error = view(named, "-o", tmp_path / "page.html").exception
    assert isinstance(error, DragomanError)
    assert expected in str(error)
    assert not (tmp_path / "page.html").exists()


@pytest.mark.exhaustive
def test_the_output_is_one_line(tmp_path: Path) -> None:
    """Although models lose content on the way."""
    shutil.copy(COMPATIBILITY / "session_v1.json", tmp_path / "old.json")
    done = command("view", str(tmp_path / "old.json"), "-o", str(tmp_path / "old.html"), COLUMNS="400")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout == f"{tmp_path / 'old.html'}, 14 messages\n"
