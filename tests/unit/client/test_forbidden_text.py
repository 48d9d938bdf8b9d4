"""No file written under a policy holds what it forbids: of a session, a bulk run, a batch and a command."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dragoman import (
    AsyncClient,
    Client,
    Message,
    set_default_client,
)
from dragoman.adapter.errors import DragomanError
from dragoman.bulk import workers
from dragoman.cli.app import app
from dragoman.policy import PolicyDeniedError
from tests.bulk.fake_cluster import Actor, FakeCluster
from tests.unit.client.governed_provider import HARMLESS, LEAK, MODEL, NAMED, PROMPTS, QUOTE, GovernedProvider
from tests.unit.client.runs import DENY, REDACT, run_bulk, store_in, texts
from tests.unit.session.middleware.policy_plugins import SECRET

POLICIES = pytest.mark.parametrize("policy", [DENY, REDACT], ids=["deny", "redact"])


def find_secret(folder: Path) -> list[str]:
    """Return the files of a folder that hold the forbidden word."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files if SECRET.encode() in path.read_bytes()]


def run_session(settings: dict[str, Any]) -> list[str]:
    with Client(**settings) as client:
        return [_outcome(lambda prompt=prompt: client.ask(MODEL, prompt).text) for prompt in PROMPTS]


def run_session_async(settings: dict[str, Any]) -> list[str]:
    async def main() -> list[str]:
        async with AsyncClient(**settings) as client:
            outcomes = []
            for prompt in PROMPTS:
                try:
                    outcomes.append((await client.ask(MODEL, prompt)).text)
                except DragomanError as error:
                    outcomes.append(type(error).__name__)
            return outcomes

    return asyncio.run(main())


def _outcome(work: Callable[[], str]) -> str:
    try:
        return work()
    except DragomanError as error:
        return type(error).__name__


def run_bulk_async(settings: dict[str, Any], folder: Path) -> list[str]:
    async def main() -> list[str]:
        async with AsyncClient(**settings) as client:
            return texts(await client.bulk(list(PROMPTS), MODEL, manifest=folder / "manifest"))

    return asyncio.run(main())


def run_batch(settings: dict[str, Any], folder: Path) -> list[str]:
    with Client(**settings) as client, client.batches(MODEL) as batches:
        handle = batches.submit({f"row-{number}": prompt for number, prompt in enumerate(PROMPTS)})
        (folder / "handle.json").write_text(handle.model_dump_json())
        return _write_results(folder, batches.fetch(handle))


def run_batch_async(settings: dict[str, Any], folder: Path) -> list[str]:
    async def main() -> list[str]:
        async with AsyncClient(**settings) as client, client.batches(MODEL) as batches:
            handle = await batches.submit({f"row-{number}": prompt for number, prompt in enumerate(PROMPTS)})
            (folder / "handle.json").write_text(handle.model_dump_json())
            return _write_results(folder, await batches.fetch(handle))

    return asyncio.run(main())


def _write_results(folder: Path, results: list[Any]) -> list[str]:
    found = [each.text if isinstance(each, Message) else each.error_message for each in results]
    (folder / "results.txt").write_text("\n".join(map(repr, results)) + "\n".join(found))
    return found


def expected(policy: dict[str, Any], *, quote: str) -> list[str]:
    if policy is DENY:
        input_denied, output_denied = (
            f"cmf.llm_{side} is denied by denying: it contains a forbidden word (word)" for side in ("input", "output")
        )
        return [f"re: {HARMLESS}", output_denied, output_denied, input_denied]
    return [f"re: {HARMLESS}", "the word is ***.", quote, "re: what is ***?"]


@POLICIES
@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("ask", [run_session, run_session_async], ids=["sync", "async"])
def test_a_session_writes_nothing_forbidden(
    provider: GovernedProvider, settings: dict[str, Any], tmp_path: Path, policy: dict[str, Any], ask: Any
) -> None:
    """Neither its store nor the log holds the word, and no prompt with it is sent."""
    outcomes = ask({**settings, **policy, "store": store_in(tmp_path)})
    assert outcomes[0] == f"re: {HARMLESS}"
    assert SECRET not in "".join(outcomes)
    assert find_secret(tmp_path) == []
    assert SECRET not in "".join(provider.prompts)


def test_a_session_saves_no_message_that_is_denied(settings: dict[str, Any], tmp_path: Path) -> None:
    """A system prompt is judged with the first turn: until then, and if it is denied, nothing of it is saved."""
    client = Client(**settings, **DENY, store=store_in(tmp_path))
    with client.session(MODEL, system=f"never say {SECRET}"):
        pass
    with client.session(MODEL, system=f"never say {SECRET}") as session, pytest.raises(PolicyDeniedError):
        session.ask(HARMLESS)
    assert find_secret(tmp_path) == []
    with client.session(MODEL, system="be brief") as session:
        session.ask(HARMLESS)
    assert client.resume(session.session_id).messages == session.messages


@POLICIES
@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("run", [run_bulk, run_bulk_async], ids=["sync", "async"])
def test_a_bulk_run_writes_nothing_forbidden(
    provider: GovernedProvider, settings: dict[str, Any], tmp_path: Path, policy: dict[str, Any], run: Any
) -> None:
    """Neither manifest, store nor log holds the word: a denied row is an error, and the others are answered."""
    answers = run({**settings, **policy, "store": store_in(tmp_path)}, tmp_path)
    assert answers == expected(policy, quote="anthropic: no *** here (status 400, code invalid_request_error)")
    assert find_secret(tmp_path) == []
    assert SECRET not in "".join(provider.prompts)


@POLICIES
@pytest.mark.usefixtures("log")
def test_the_output_of_a_bulk_run_holds_nothing_forbidden(
    settings: dict[str, Any], tmp_path: Path, policy: dict[str, Any]
) -> None:
    """The columns that the run adds are judged; a row's own columns are the caller's."""
    rows = [{"prompt": prompt} for prompt in PROMPTS if prompt != NAMED]
    with Client(**settings, **policy) as client:
        client.bulk(rows, MODEL, to=tmp_path / "out.jsonl").close()
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["prompt"] for line in lines] == [HARMLESS, LEAK, QUOTE]
    assert {path.name for path in tmp_path.iterdir()} >= {"all.log", "out.jsonl", "out.jsonl.manifest"}
    assert find_secret(tmp_path) == []


@POLICIES
def test_the_workers_of_a_cluster_only_send(
    provider: GovernedProvider,
    settings: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: dict[str, Any],
) -> None:
    """The policy, which cannot be pickled, judges in the process of the run."""
    actors: list[Actor] = []
    monkeypatch.setattr(FakeCluster, "actors", actors, raising=False)
    monkeypatch.setattr(workers, "Cluster", FakeCluster)
    monkeypatch.setattr(workers, "GATHER_SECONDS", 0.0)
    answers = run_bulk({**settings, **policy}, tmp_path, ray="fake")
    assert answers == expected(policy, quote="anthropic: no *** here (status 400, code invalid_request_error)")
    assert len(actors) == 2
    assert find_secret(tmp_path) == []
    assert SECRET not in "".join(provider.prompts)


@POLICIES
@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("run", [run_batch, run_batch_async], ids=["sync", "async"])
def test_a_batch_writes_nothing_forbidden(
    provider: GovernedProvider, settings: dict[str, Any], tmp_path: Path, policy: dict[str, Any], run: Any
) -> None:
    """Neither handle, results, store nor log holds the word, and a denied request is not submitted."""
    results = run({**settings, **policy, "store": store_in(tmp_path)}, tmp_path)
    assert results == expected(policy, quote="anthropic: no *** here (code invalid_request_error)")
    assert find_secret(tmp_path) == []
    assert SECRET not in "".join(provider.prompts)


@POLICIES
@pytest.mark.usefixtures("log")
def test_a_bulk_run_by_batches_writes_nothing_forbidden(
    provider: GovernedProvider, settings: dict[str, Any], tmp_path: Path, policy: dict[str, Any]
) -> None:
    """A later process fetches and judges the answers."""
    governed = {**settings, **policy}
    assert set(run_bulk(governed, tmp_path, batch=True, wait=False)) == {"in a batch that is not fetched yet"}
    answers = run_bulk(governed, tmp_path, batch=True)
    assert answers == expected(policy, quote="anthropic: no *** here (code invalid_request_error)")
    assert find_secret(tmp_path) == []
    assert SECRET not in "".join(provider.prompts)


@POLICIES
@pytest.mark.usefixtures("log")
def test_the_commands_write_nothing_forbidden(
    provider: GovernedProvider, settings: dict[str, Any], tmp_path: Path, policy: dict[str, Any]
) -> None:
    """The default client governs ask, chat and bulk: their output and their files hold nothing of it."""
    set_default_client(Client(**settings, **policy, store=store_in(tmp_path)))
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(json.dumps({"prompt": prompt}) for prompt in (HARMLESS, LEAK, QUOTE)))
    runner = CliRunner()
    done = [
        runner.invoke(app, ["bulk", str(rows), "-m", MODEL, "-q"]),
        runner.invoke(app, ["ask", MODEL, LEAK, "-q"]),
        runner.invoke(app, ["ask", MODEL, NAMED, "-q"]),
        runner.invoke(app, ["chat", MODEL], input=f"{LEAK}\n{NAMED}\n/save {tmp_path}/saved.json\n/quit\n"),
    ]
    assert [each.exit_code for each in done] == ([4, 1, 1, 0] if policy is DENY else [4, 0, 0, 0])
    printed = "".join(each.output for each in done)
    # The chat echoes nothing, and an error names the reason alone.
    assert SECRET not in printed
    assert (tmp_path / "saved.json").exists()
    assert (tmp_path / "rows.answers.jsonl").exists()
    assert find_secret(tmp_path) == []
    assert SECRET not in "".join(provider.prompts)
