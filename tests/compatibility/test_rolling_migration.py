"""A new version migrates a store while programs of an older version have it open, and both work on.

The older version really runs: its source comes from the history of this repository. It is the last one whose stores
have the version 0001.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.message import Message
from dragoman.store import ConflictError, Store, StoreError, StoreVersionError
from dragoman.store.schema import HEAD
from tests.history import unpack_commit
from tests.store.load import integrity

OLD = "3559d00"
OLD_PROGRAM = """
import json, sys
from dragoman.canonical.message import Message
from dragoman.store import Store
from dragoman.store.schema import HEAD

with Store(sys.argv[1]) as store:
    print(json.dumps({"head": HEAD}), flush=True)
    for line in sys.stdin:
        name, *words = json.loads(line)
        try:
            if name == "create":
                done = store.create("anthropic:claude-opus-5-5", [Message.user(words[1])], session_id=words[0]).version
            elif name == "append":
                done = store.append(words[0], [Message.user(words[1])], expected_version=words[2])
            elif name == "search":
                done = [hit.message.text for hit in store.search(words[0])]
            else:
                done = [message.text for message in store.load(words[0]).messages]
        except Exception as error:
            done = type(error).__name__
        print(json.dumps(done), flush=True)
"""

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def old_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the older version's package."""
    folder = tmp_path_factory.mktemp("old")
    try:
        unpack_commit(OLD, folder, "src/dragoman", "pricing", "pyproject.toml")
    except OSError:
        pytest.skip("git is not installed")
    except subprocess.CalledProcessError:
        pytest.skip("the history of this repository is not here")
    return folder / "src"


@contextmanager
def old_program(source: Path, url: str) -> Iterator[Ask]:
    """The older version, in a process of its own, with the store open."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    with subprocess.Popen(
        [sys.executable, "-c", OLD_PROGRAM, url], env=environment, text=True, encoding="utf-8",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        sent, received = process.stdin, process.stdout

        def ask(*request: object) -> Any:
            sent.write(json.dumps(request) + "\n")
            sent.flush()
            return json.loads(received.readline())

        first = received.readline()
        assert first, process.stderr.read()
        assert json.loads(first) == {"head": "0001"}
        yield ask
        sent.close()
        assert process.wait(60) == 0


@pytest.mark.exhaustive
def test_old_and_new_programs_share_a_store_during_a_migration(old_source: Path, tmp_path: Path) -> None:
    """Neither loses a turn, each reads what the other wrote, and of two writers at one version one is refused."""
    url = f"sqlite:///{tmp_path / 'chats.db'}"
    with old_program(old_source, url) as old:
        assert old("create", "sess_old", "one") == 1
        with pytest.raises(StoreVersionError, match="store migrate"):
            Store(url, migrates=False)
        with Store(url) as new:
            assert [message.text for message in new.load("sess_old").messages] == ["one"]
            for round_ in range(5):
                version = new.append("sess_old", [Message.user(f"new {round_}")], expected_version=None)
                assert old("append", "sess_old", f"old {round_}", version) == version + 1
                assert old("append", "sess_old", "late", version) == "ConflictError"
                with pytest.raises(ConflictError):
                    new.append("sess_old", [Message.user("late")], expected_version=version)
            new.create("openai:gpt-6.1-sol", [Message.user("nouveau")], session_id="sess_new")
            expected = ["one", *(f"{who} {number}" for number in range(5) for who in ("new", "old"))]
            assert old("load", "sess_old") == expected
            assert [message.text for message in new.load("sess_old").messages] == expected
            assert old("search", "NOUVEAU") == ["nouveau"]
            assert {hit.message.text for hit in new.search("old 4")} == {"old 4"}
            assert integrity.faults(new) == []
            Store(url, migrates=False).close()


def test_an_old_program_that_starts_later_is_refused(old_source: Path, tmp_path: Path) -> None:
    """It says which version is needed, and changes nothing."""
    url = f"sqlite:///{tmp_path / 'chats.db'}"
    with Store(url) as new:
        new.create("openai:gpt-6.1-sol", [Message.user("Hi")], session_id="sess_new")
    before = (tmp_path / "chats.db").read_bytes()
    with pytest.raises(AssertionError, match=f"of version {HEAD}"), old_program(old_source, url):
        pass
    assert (tmp_path / "chats.db").read_bytes() == before


def test_only_an_explicit_migration_changes_a_store(tmp_path: Path) -> None:
    """``migrates=False`` makes no tables either."""
    with pytest.raises(StoreError, match="not a store"):
        Store(f"sqlite:///{tmp_path / 'none.db'}", migrates=False)
