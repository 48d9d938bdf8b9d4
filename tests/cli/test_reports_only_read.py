"""Reports open what they read for reading only: no byte of it changes, and no file appears next to it."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.message import Message
from dragoman.cli.app import app
from dragoman.store import Store, StoreError
from tests.store.test_read_only import folder_state, make_other
from tests.unit.formats.dump_files import DUMPS


def run(*words: object) -> tuple[BaseException | None, str]:
    done = CliRunner().invoke(app, list(map(str, words)))
    error = None if isinstance(done.exception, SystemExit) and done.exit_code in (0, 1) else done.exception
    return error, done.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store, the log of another library, and another program's database."""
    folder = tmp_path / "data"
    folder.mkdir()
    with Store(f"sqlite:///{folder}/chats.db") as store:
        store.create("openai:o3", [Message.user("Hi"), Message.assistant("Hello.")], session_id="sess_kept")
    for name in ("llm_threads.db", "llm_responses.db"):
        shutil.copy(DUMPS / name, folder / name)
    make_other(folder / "birds.db")
    return folder


@pytest.mark.parametrize("url", ["{}", "sqlite:///{}", "sqlite:///{}?mode=ro"])
def test_a_report_on_a_store_changes_no_byte(folder: Path, tmp_path: Path, url: str) -> None:
    """Whatever the report is."""
    pytest.importorskip("duckdb", reason="the extra `report` is not installed")
    store, before = url.format(folder / "chats.db"), folder_state(folder)
    for words in (
        ("cost", store),
        ("cost", store, "--by", "day", "--json"),
        ("store", "export", tmp_path / "replies", "--store", store),
        ("view", "sess_kept", "--store", store, "-o", tmp_path / "page.html"),
        ("view", store, "-o", tmp_path / "page.html"),
    ):
        assert run(*words)[0] is None, words
        assert folder_state(folder) == before, words


@pytest.mark.parametrize("name", ["llm_threads.db", "llm_responses.db", "birds.db"])
def test_the_database_of_another_program_is_no_store(folder: Path, tmp_path: Path, name: str) -> None:
    """The report says so, and changes nothing."""
    pytest.importorskip("duckdb", reason="the extra `report` is not installed")
    before = folder_state(folder)
    for words in (
        ("cost", folder / name),
        ("cost", f"sqlite:///{folder / name}"),
        ("store", "export", tmp_path / "replies", "--store", folder / name),
        ("view", "sess_kept", "--store", folder / name, "-o", tmp_path / "page.html"),
    ):
        error, _ = run(*words)
        assert isinstance(error, StoreError), words
        assert "not a store of dragoman" in str(error)
    run("view", folder / name, "-o", tmp_path / "page.html")
    run("convert", folder / name, tmp_path / "converted", "--to", "messages")
    assert folder_state(folder) == before
    assert not (tmp_path / "replies").exists()


def test_a_report_creates_no_store_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_data_path", lambda *names, **_: tmp_path / "data" / names[0])
    for words in (("store", "export", tmp_path / "replies"), ("view", "sess_none")):
        error, _ = run(*words)
        assert isinstance(error, ConfigurationError)
        assert "there is no store" in str(error)
    assert list(tmp_path.iterdir()) == []
