"""What holds conversations or keys is created for its owner alone, whatever the umask is."""

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.testclient import TestClient

from dragoman import AsyncClient, Store
from dragoman.bulk import bulk
from dragoman.bulk.vector_file import _Parts
from dragoman.credentials.contract import ApiKey
from dragoman.credentials.stored_keys import StoredKeys
from dragoman.events.json_lines import JsonLines
from dragoman.store.database import default_url
from dragoman.testing.cassettes.recorder import cassette
from dragoman.testing.faults.server import FaultyServer, json_reply
from dragoman_gateway.database import Database as GatewayDatabase
from dragoman_gateway.server.recording import Recorder
from tests.bulk.provider import HAIKU, Provider
from tests.cli.test_truthful import run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no such rights")


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    """The umask takes no right away: whatever is private is so by itself."""
    before = os.umask(0)
    yield
    os.umask(before)


def write_store(folder: Path) -> None:
    folder.mkdir(0o700)
    with Store(f"sqlite:///{folder}/chats.db") as store:
        assert not store.list().sessions
        check_files(folder, {"chats.db", "chats.db-wal", "chats.db-shm"})


def write_default_store(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("platformdirs.user_data_path", lambda name, **_: folder / "share" / name)
        with Store(default_url()) as store:
            assert not store.list().sessions


def write_manifest(folder: Path) -> None:
    with bulk(["a"], HAIKU, manifest=folder / "run" / "rows.manifest", providers=Provider().settings) as report:
        assert report.finished
        check_files(folder / "run", {"rows.manifest", "rows.manifest-wal", "rows.manifest-shm", "rows.manifest.lock"})


def write_gateway(folder: Path) -> None:
    database = GatewayDatabase(f"sqlite:///{folder}/data/gateway.db")
    database.run(lambda _: None)
    check_files(folder / "data", {"gateway.db", "gateway.db-wal", "gateway.db-shm"})
    database.close()


def write_recordings(folder: Path) -> None:
    async def app(scope: object, receive: object, send: object) -> None:
        request = Request(scope, receive)  # type: ignore[arg-type]
        await request.body()
        response: Response = PlainTextResponse("an answer")
        await response(scope, receive, send)  # type: ignore[arg-type]

    recorder = Recorder(app, folder / "traffic" / "monday", AsyncClient)
    TestClient(recorder).post("/v1/messages", json={"model": "a", "messages": []})
    assert len(list((folder / "traffic" / "monday").glob("*.yaml"))) == 1


def write_imported_cassette(folder: Path) -> None:
    request = {"method": "POST", "uri": "https://api.openai.com/v1/responses", "body": "{}", "headers": {}}
    response = {"status": {"code": 200}, "headers": {}, "body": {"string": "{}"}}
    folder.mkdir(0o700)
    source = folder / "theirs.json"
    source.write_text(json.dumps({"interactions": [{"request": request, "response": response}]}), encoding="utf-8")
    source.chmod(0o600)
    assert run("cassette", "import", source, "--into", folder / "ours").exit_code == 0
    assert list((folder / "ours").glob("*.yaml"))


def write_cassette(folder: Path) -> None:
    with FaultyServer(json_reply({})) as server, cassette(folder / "mine" / "a.yaml", "once"):
        assert httpx.post(f"{server.url}/v1/messages", json={"model": "a"}).status_code == 200


def write_vectors(folder: Path) -> None:
    """The parts of a run that was interrupted."""
    folder.mkdir(0o700)
    _Parts(folder / "rows.jsonl", {})
    (folder / "rows.jsonl.parts" / "run.json").chmod(0o600)  # its folder protects it


def write_events(folder: Path) -> None:
    folder.mkdir(0o700)
    JsonLines(folder / "events.jsonl").close()


def write_keys(folder: Path) -> None:
    StoredKeys(folder / "config" / "dragoman" / "keys.json").set("anthropic", ApiKey("a-key-for-tests"))


WRITERS: list[Callable[[Path], None]] = [
    write_store, write_default_store, write_manifest, write_gateway, write_recordings, write_imported_cassette,
    write_cassette, write_vectors, write_events, write_keys,
]  # fmt: skip


def check_files(folder: Path, names: set[str]) -> None:
    """The files exist at this moment, and others cannot use them."""
    assert names <= {each.name for each in folder.iterdir()}
    check(folder)


def check(root: Path) -> None:
    for each in (root, *root.rglob("*")):
        rights = stat.S_IMODE(each.stat().st_mode)
        assert rights == (0o700 if each.is_dir() else 0o600), f"{each} has {rights:o}"


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__.removeprefix("write_"))
def test_what_is_created_is_private(write: Callable[[Path], None], tmp_path: Path) -> None:
    """Files, and folders that did not exist."""
    write(tmp_path / "new")
    assert any(each.is_file() for each in (tmp_path / "new").rglob("*"))
    check(tmp_path / "new")


def test_what_exists_keeps_its_rights(tmp_path: Path) -> None:
    """Somebody may share it on purpose: a database with a group, a cassette with everybody."""
    database, recording = tmp_path / "shared.db", tmp_path / "a.yaml"
    database.touch(0o640)
    tmp_path.chmod(0o750)
    with Store(f"sqlite:///{database}") as store:
        assert not store.list().sessions
        rights = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert rights == dict.fromkeys(("shared.db", "shared.db-wal", "shared.db-shm"), 0o640)
    for number in range(2):
        with FaultyServer(json_reply({})) as server, cassette(recording, "new_episodes"):
            httpx.post(f"{server.url}/v1/messages", json={"model": str(number)})
        assert stat.S_IMODE(recording.stat().st_mode) == (0o644 if number else 0o600)
        recording.chmod(0o644)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750


@pytest.mark.parametrize("url", ["sqlite:///file:{}?uri=true", "sqlite:///{}"])
def test_a_database_by_any_name_is_private(url: str, tmp_path: Path) -> None:
    """A URI, and a link to a file that does not exist yet."""
    link, target = tmp_path / "link.db", tmp_path / "target.db"
    link.symlink_to(target)
    with Store(url.format(link)) as store:
        assert not store.list().sessions
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
