"""Labels that an earlier version stored hold for every later one, and for an earlier one beside it."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from dragoman import AsyncClient, Message, Session
from dragoman.canonical.extensions.security import RETENTION
from dragoman.policy import Pipeline, PolicyDeniedError
from dragoman.policy.plugins import LabelledModels
from dragoman.store import Store
from dragoman_gateway.stored.call_state import _LABELS, _row_key
from dragoman_gateway.turn.recall import Recall
from tests.compatibility.test_messages import is_contained
from tests.gateway.app.test_labels import MODELS, POLICY, said
from tests.gateway.upstream import KEY, gateway_before, whole_reply
from tests.history import unpack_commit

FOLDER = Path(__file__).parent / "labels"
DIGESTS = {"session.json": "effbc0523ab8ee56", "lines.jsonl": "258c9b7c37e5dffc", "gateway.json": "6418b36b232cc818"}
"""The first 16 hex digits of each file's SHA-256: a fixture never changes."""
OLD = "5766ce88"
"""The first version whose gateway keeps labels from turn to turn."""


@pytest.mark.parametrize("name", DIGESTS)
def test_fixture_is_unchanged(name: str) -> None:
    """A failure here has found an edit, not a bug: add a file instead."""
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest().startswith(DIGESTS[name])


def test_a_dumped_session_has_its_labels() -> None:
    """With what was declassified, and with the end of the data's retention."""
    dumped = json.loads((FOLDER / "session.json").read_text(encoding="utf-8"))
    session = Session.load(json.dumps(dumped), policy=Pipeline(), api_key="none")
    check(session.labels, session.messages)
    assert is_contained(json.loads(session.dump()), dumped)


def test_a_stored_session_has_its_labels(tmp_path: Path) -> None:
    """In a store of this version, into which its lines are imported."""
    lines = (FOLDER / "lines.jsonl").read_text(encoding="utf-8").splitlines()
    with Store(f"sqlite:///{tmp_path / 's.db'}") as store:
        store.import_lines(lines)
        (record,) = store.list().sessions
        session = Session.resume(record.id, store, policy=Pipeline(), api_key="none")
        check(session.labels, session.messages)
        for line, written in zip(lines[1:], [*store.export(record.id)][1:], strict=True):
            assert is_contained(json.loads(written), json.loads(line))
        assert any(RETENTION in (kept or {}) for kept in store.load(record.id).extensions.values())


def check(labels: frozenset[str], messages: Sequence[Message]) -> None:
    assert labels == {"PHI"}
    found = [sorted(message.metadata.labels or ()) for message in messages]
    assert found == [[], [], *[["PHI"]] * 4]


class Ids:
    """The map of tool ids of the request with the fixture's messages."""

    def native_id(self, canonical: str, provider: str) -> str | None:
        return {"tu_1": "toolu_1"}.get(canonical)


def test_the_gateway_finds_labels_under_their_keys() -> None:
    """The key of a block or a call is stored: another one would find no label."""
    fixture = json.loads((FOLDER / "gateway.json").read_text(encoding="utf-8"))
    recall = Recall(Nowhere(), "", SimpleNamespace(tool_ids=Ids()), "anthropic", AsyncClient())
    for each in fixture["messages"]:
        assert sorted(recall._keys(Message.model_validate(each["message"]))) == each["keys"]
    for row in fixture["rows"]:
        assert _row_key(row["owner"], _LABELS + row["key"]) == row["row"]


class Nowhere:
    async def find(self, owner: str, keys: Any) -> dict[str, frozenset[str]]:
        return {}

    async def note(self, owner: str, keys: Any, labels: frozenset[str]) -> None:
        return None


# -- The earlier version, which really runs

PROGRAM = """
import json, socket, sys
from dragoman import AsyncClient, Message, Session
from dragoman.policy import Pipeline, Step, hook, PolicyDeniedError
from dragoman.policy.labels import with_labels
from dragoman.policy.plugins import LabelledModels
from dragoman.store import Store

@hook("llm_input", "tool_post_invoke", name="wards", capabilities=["append_labels"], mode="concurrent")
def wards(step: Step):
    return with_labels(step.extensions, {"PHI"}) if any("ward" in text for text in step.texts()) else None

def session(url, name, model, key, upstream, prompt):
    providers = {model.partition(":")[0]: {"api_key": key, "base_url": upstream}}
    policy = Pipeline([wards, LabelledModels({"PHI": ["anthropic:m"]})])
    with Store(url) as store:
        try:
            with Session.resume(name, store, policy=policy, providers=providers) as session:
                session.swap(model)
                session.ask(prompt)
        except PolicyDeniedError:
            print("denied")
        else:
            print("sent", *sorted(session.labels))

def gateway(database, key, upstream):
    import uvicorn
    from dragoman_gateway import GatewaySettings, create_app
    providers = {"anthropic": {"api_key": key, "base_url": upstream}}
    client = AsyncClient(providers=providers, policy=[wards, LabelledModels({"PHI": ["anthropic:m"]})])
    models = {"house": "anthropic:m", "cloud": "openai-chat:m"}
    app = create_app(GatewaySettings(models=models, database=database), client=client)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none")).run(sockets=[listener])

{"session": session, "gateway": gateway}[sys.argv[1]](*sys.argv[2:])
"""


@pytest.fixture(scope="module")
def old_sources(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folders of the earlier version's packages, as a search path."""
    folder = tmp_path_factory.mktemp("old")
    sources = ("src", "adapters", "gateway/src")
    try:
        unpack_commit(OLD, folder, *sources, "pricing", "pyproject.toml")
    except OSError:
        pytest.skip("git is not installed")
    except subprocess.CalledProcessError:
        pytest.skip("the history of this repository is not here")
    return os.pathsep.join(str(folder / each) for each in sources)


def run_old(sources: str, *arguments: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": sources}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], env=environment, text=True, encoding="utf-8",
        stdout=subprocess.PIPE,
    )  # fmt: skip


@contextmanager
def old_gateway(sources: str, database: str, upstream: str) -> Iterator[str]:
    with run_old(sources, "gateway", database, KEY, upstream) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


@pytest.mark.exhaustive
def test_gateways_of_two_versions_share_the_labels_of_conversations(old_sources: str, tmp_path: Path) -> None:
    """A conversation goes from one to the other and back: an update, a rollback, and both beside each other."""
    database = f"sqlite:///{tmp_path / 'gateway.db'}"
    reply = whole_reply("messages", "A. Jones lies there.")
    with (
        gateway_before(reply, models=MODELS, client=POLICY, database=database) as (new, server),
        old_gateway(old_sources, database, server.url) as old,
    ):
        for first, second in ((old, new), (new, old)):
            asked = said("messages", "house", "Who lies in ward 3?")
            assert httpx.post(f"{first}/v1/messages", json=asked).status_code == 200
            follow_up = said("messages", "cloud", "Who is it?", "A. Jones lies there.", "Since when?")
            before = len(server.requests)
            for gateway in (second, first):
                assert httpx.post(f"{gateway}/v1/messages", json=follow_up).status_code == 400
            assert len(server.requests) == before
            again = {**follow_up, "model": "house"}
            assert httpx.post(f"{second}/v1/messages", json=again).status_code == 200


@pytest.mark.exhaustive
def test_sessions_of_two_versions_share_their_labels(old_sources: str, tmp_path: Path) -> None:
    """A session goes on in the other version, and back: nobody sends its data to a model that may not see it."""
    url = f"sqlite:///{tmp_path / 's.db'}"
    policy = Pipeline([LabelledModels({"PHI": ["anthropic:m"]})])
    with gateway_before(whole_reply("messages", "Fine.")) as (_, server), Store(url) as store:
        providers = {"anthropic": {"api_key": KEY, "base_url": server.url}, "ollama": {"base_url": server.url}}
        with Session(
            "anthropic:m", policy=policy, labels=["PHI"], providers=providers, store=store, session_id="ours"
        ) as session:
            session.ask("Hi")
        store.create("anthropic:m", [Message.user("Hello."), Message.assistant("Hi.")], session_id="theirs")
        denied = ("ollama:m", "denied")
        for name, outcomes in (("ours", [denied]), ("theirs", [("anthropic:m", "sent PHI"), denied])):
            for model, outcome in outcomes:
                prompt = "Who lies in ward 3?" if model == "anthropic:m" else "And?"
                with run_old(old_sources, "session", url, name, model, KEY, server.url, prompt) as process:
                    assert process.stdout is not None
                    assert process.stdout.read().strip() == outcome
            with Session.resume(name, store, policy=policy, providers=providers) as session:
                assert session.labels == {"PHI"}
                session.swap("ollama:m")
                with pytest.raises(PolicyDeniedError):
                    session.ask("And?")
