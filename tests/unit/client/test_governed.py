"""A client's policy, limits, budgets, events and store hold in bulk runs, batches and commands, too."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dragoman import (
    AsyncClient,
    AsyncSession,
    Budget,
    Client,
    Limit,
    Limits,
    Message,
    Router,
    Store,
    set_default_client,
)
from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import BudgetExceededError, ConfigurationError, DragomanError
from dragoman.batch import AsyncBatches, BatchError, Batches, BatchHandle, BatchRequest
from dragoman.bulk import BulkReport, bulk
from dragoman.bulk.workers import cluster as cluster_module
from dragoman.bulk.workers import worker_pool
from dragoman.cli.app import app
from dragoman.events import EventBus
from dragoman.limits import LimitReachedError
from dragoman.policy import Pipeline, PolicyDeniedError
from dragoman.policy.plugins import LabelledModels
from dragoman.pricing import price_table
from dragoman.routing import label_rules
from dragoman.testing.faults.server import FaultyServer, json_reply
from dragoman.transport import RetryPolicy
from tests.unit.bulk.fake_cluster import Actor, FakeCluster
from tests.unit.client.governed_provider import HARMLESS, LEAK, MODEL, NAMED, PROMPTS, QUOTE, GovernedProvider
from tests.unit.session.handwritten_replies import handwritten_anthropic
from tests.unit.session.policy_plugins import SECRET, DenyingPlugin, RecordingPlugin, RedactingPlugin

OTHER = "anthropic:claude-sonnet-4-6"
DENY = {"policy": Pipeline([DenyingPlugin(SECRET)])}
REDACT = {"policy": Pipeline([RedactingPlugin(SECRET)])}
POLICIES = pytest.mark.parametrize("policy", [DENY, REDACT], ids=["deny", "redact"])


@pytest.fixture
def provider() -> GovernedProvider:
    return GovernedProvider()


@pytest.fixture
def settings(provider: GovernedProvider) -> Iterator[dict[str, Any]]:
    retry = RetryPolicy(max_retries=1, initial_wait=0.001, max_wait=0.002)
    with provider.serve() as server:
        yield {"providers": {"anthropic": {"base_url": server.url, "api_key": "none", "retry": retry}}}
    set_default_client(None)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[None]:
    """Everything that is logged goes to a file."""
    handler = logging.FileHandler(tmp_path / "all.log")
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield
    root.removeHandler(handler)
    root.setLevel(level)
    handler.close()


def find_secret(folder: Path) -> list[str]:
    """Return the files of a folder that hold the forbidden word."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files if SECRET.encode() in path.read_bytes()]


def store_in(folder: Path) -> Store:
    return Store(f"sqlite:///{folder}/chats.db")


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


def labelled(*labels: str) -> list[dict[str, Any]]:
    return [{"prompt": f"row {number}", "secrecy": each} for number, each in enumerate(labels)]


def _outcome(work: Callable[[], str]) -> str:
    try:
        return work()
    except DragomanError as error:
        return type(error).__name__


def texts(report: BulkReport) -> list[str]:
    with report:
        return [row["answer"] or row["error"] for row in report]


def run_bulk(settings: dict[str, Any], folder: Path, **others: Any) -> list[str]:
    # Rows are copied to the output as they are: the word in a row's own prompt is not the run's doing.
    rows = [{"prompt": prompt} for prompt in PROMPTS]
    others.setdefault("manifest", folder / "manifest")
    with Client(**settings) as client:
        return texts(client.bulk(rows, MODEL, **others))


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
        client.bulk(rows, MODEL, output=tmp_path / "out.jsonl").close()
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
    monkeypatch.setattr(cluster_module, "Cluster", FakeCluster)
    monkeypatch.setattr(worker_pool, "GATHER_SECONDS", 0.0)
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
    assert [each.exit_code for each in done] == ([0, 1, 1, 0] if policy is DENY else [0, 0, 0, 0])
    printed = "".join(each.output for each in done)
    # The chat echoes nothing, and an error names the reason alone.
    assert SECRET not in printed
    assert (tmp_path / "saved.json").exists()
    assert (tmp_path / "rows.answers.jsonl").exists()
    assert find_secret(tmp_path) == []
    assert SECRET not in "".join(provider.prompts)


def test_what_is_denied_is_billed_and_counted(settings: dict[str, Any]) -> None:
    """A denied answer was paid for, so the row has its cost; a denied prompt costs nothing."""
    with Client(**settings, **DENY).bulk([LEAK, NAMED], MODEL) as report:
        assert [row["cost"] for row in report] == [Decimal("0.0015"), None]
        assert (report.errors, report.finished, report.cost_usd) == (2, True, Decimal("0.0015"))


def test_a_denied_row_is_asked_again_on_request(
    provider: GovernedProvider, settings: dict[str, Any], tmp_path: Path
) -> None:
    """With another policy it may be answered; until then its error stays."""
    run_bulk({**settings, **DENY}, tmp_path)
    assert run_bulk({**settings, **REDACT}, tmp_path) == run_bulk({**settings, **DENY}, tmp_path)
    answers = run_bulk({**settings, **REDACT}, tmp_path, retry_errors=True)
    assert answers == expected(REDACT, quote="anthropic: no *** here (status 400, code invalid_request_error)")
    assert provider.prompts.count(HARMLESS) == 1


def test_temporary_errors_are_retried_in_one_turn(settings: dict[str, Any], tmp_path: Path) -> None:
    """Each request is recorded before it is sent, and the turn ends once."""
    bus, seen = EventBus(), []
    bus.subscribe(lambda event: seen.append(event.type))
    calls = iter(range(100))

    def answer(request: Any) -> Any:
        if next(calls) == 0:
            return json_reply({"type": "error", "error": {"type": "api_error", "message": "later"}}, status=500)
        return json_reply(json.loads(handwritten_anthropic("Ok.").body))

    with FaultyServer(answer) as server:
        settings["providers"]["anthropic"]["base_url"] = server.url
        with Client(**settings, events=bus).bulk([HARMLESS], MODEL) as report:
            assert [row["answer"] for row in report] == ["Ok."]
            assert report.models[0].answered == 1
    bus.flush()
    assert seen == [
        "turn.started", "route.decided", "llm.call_started", "llm.call_failed", "llm.call_started",
        "llm.call_completed", "turn.completed",
    ]  # fmt: skip


def test_each_row_is_a_session_of_the_store(settings: dict[str, Any], tmp_path: Path) -> None:
    """With its prompt and its answer; a row that failed is not saved."""
    store = store_in(tmp_path)
    with Client(**settings, store=store) as client:
        client.bulk([HARMLESS, QUOTE], MODEL, system="be brief").close()
        with client.batches(MODEL) as batches:
            handle = batches.submit({"one": HARMLESS})
            (first,) = batches.fetch(handle)
            batches.fetch(handle)
    saved = [[message.text for message in store.load(each.id).messages] for each in store.list().sessions]
    assert sorted(saved) == [["be brief", HARMLESS, f"re: {HARMLESS}"], [HARMLESS, f"re: {HARMLESS}"]]
    assert isinstance(first, Message)
    assert first.session_id == handle.entries[0].session_id


ROUTER = Router(rules=label_rules({"secret": ["local:smollm2-135m"], "internal": [MODEL, "local:smollm2-135m"]}))
FORBIDDEN = f"content with the labels internal, secret may not go to {MODEL} (label_forbidden)"


def test_labels_of_rows_rule_the_choice_of_model(provider: GovernedProvider, settings: dict[str, Any]) -> None:
    """A row whose labels keep it from the model is denied; labels without a rule rule nothing."""
    rows = labelled("", "internal", "internal, secret", "other")
    with Client(**settings, router=ROUTER) as client:
        answers = texts(client.bulk(rows, MODEL, labels="secrecy"))
        assert [answer.startswith("re: ") for answer in answers] == [True, True, False, True]
        assert answers[2].endswith(FORBIDDEN)
        answers = texts(client.bulk(rows, MODEL, labels=lambda row: row["secrecy"].replace("secret", "x").split(", ")))
        assert [answer.startswith("re: ") for answer in answers] == [True, True, True, True]
        requests = [BatchRequest(custom_id="a", messages="Hi", labels=frozenset({"internal", "secret"}))]
        with client.batches(MODEL) as batches:
            (denied,) = batches.fetch(batches.submit(requests))
    assert isinstance(denied, BatchError)
    assert (denied.error_class, denied.retryable) == ("PolicyDeniedError", False)
    assert denied.error_message.endswith(FORBIDDEN)
    assert len(provider.prompts) == 7


def test_labels_reach_the_plugins(settings: dict[str, Any]) -> None:
    """As the security labels of the extensions, for prompts and for answers, in rows and in batches."""
    recording = RecordingPlugin(capabilities=("read_labels",))
    policy = Pipeline([recording, LabelledModels({"secret": ["local:**"]})])
    with Client(**settings, policy=policy) as client:
        answers = texts(client.bulk(labelled("internal", "secret"), MODEL, labels="secrecy"))
        assert answers[0] == "re: row 0"
        assert "model_not_allowed" in answers[1]
        with client.batches(MODEL) as batches:
            handle = batches.submit([BatchRequest(custom_id="a", messages="Hi", labels=frozenset({"internal"}))])
            handle = BatchHandle.model_validate_json(handle.model_dump_json())
            batches.fetch(handle)
    labels = [step.extensions.security.labels if step.extensions.security else None for step in recording.steps]
    allowed = [found for step, found in zip(recording.steps, labels, strict=True) if "row 1" not in step.message.text]
    assert allowed
    assert set(allowed) == {frozenset({"internal"})}


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ("absent", "the row has no column 'absent' with its labels"),
        (lambda row: [3], "the labels of the row must be texts"),
    ],
)
def test_a_row_without_readable_labels_is_not_sent(
    provider: GovernedProvider, settings: dict[str, Any], labels: Any, problem: str
) -> None:
    """It is an error in its row: without labels it could go anywhere."""
    with Client(**settings, router=ROUTER) as client:
        (answer,) = texts(client.bulk([HARMLESS], MODEL, labels=labels))
    assert problem in answer
    assert provider.prompts == []


def test_labels_that_nothing_reads_are_refused(settings: dict[str, Any]) -> None:
    """A client without a policy and a router would forget them."""
    with Client(**settings) as client:
        with pytest.raises(ConfigurationError, match="labels are for a policy or a router"):
            client.bulk([HARMLESS], MODEL, labels="secrecy")
        with client.batches(MODEL) as batches, pytest.raises(ConfigurationError, match="labels are for a policy"):
            batches.submit([BatchRequest(custom_id="a", messages="Hi", labels=frozenset({"secret"}))])


def test_the_budgets_of_a_client_stop_a_run(provider: GovernedProvider, settings: dict[str, Any]) -> None:
    """The run is one session of the budget, beside the budget of the run itself; each row is a turn."""
    options = AdapterOptions(max_output_tokens=100)
    with Client(**settings, budgets=[Budget(tokens=2_500)], options=options) as client:
        with client.bulk(["a", "b", "c", "d"], MODEL, budget="5", concurrency=1) as report:
            assert report.stopped is not None
            assert "2,500 tokens" in report.stopped
        assert len(provider.prompts) == 3
        tight = client.with_(budgets=[Budget(tokens=10, per="turn")])
        for batch in (False, True):
            (answer,) = texts(tight.bulk(["a"], MODEL, batch=batch))
            assert "budget per turn" in answer
    assert len(provider.prompts) == 3


def test_a_budget_of_a_user_counts_runs_batches_and_sessions(
    provider: GovernedProvider, settings: dict[str, Any]
) -> None:
    """What one of them spends, the others cannot."""
    budget = Budget(tokens=3_400, per="user")
    client = Client(**settings, budgets=[budget], options=AdapterOptions(max_output_tokens=100))
    client.ask(MODEL, HARMLESS)
    client.bulk([HARMLESS], MODEL).close()
    with client.batches(MODEL) as batches:
        batches.fetch(batches.submit({"one": HARMLESS}))
        assert budget.spend_of(None).tokens == 3_300
        with pytest.raises(BudgetExceededError):
            batches.submit({"one": HARMLESS})
    assert len(provider.prompts) == 3


def test_the_limits_of_a_client_hold_in_a_run_and_cannot_be_replaced(settings: dict[str, Any]) -> None:
    """As in a session: a setting that contradicts the client is refused."""
    limits = Limits([Limit(requests=1, seconds=86_400)], max_wait=0)
    client = Client(**settings, limits=limits, policy=DENY["policy"])
    with pytest.raises(ConfigurationError, match="client has limits of its own"):
        client.bulk([HARMLESS], MODEL, limits=Limits([Limit(requests=9)]))
    assert client.ask(MODEL, HARMLESS).text
    with client.batches(MODEL) as batches, pytest.raises(DragomanError, match="limit"):
        batches.submit({"one": HARMLESS})


def test_a_batch_that_the_limits_hold_back_is_not_lost(
    provider: GovernedProvider, settings: dict[str, Any], tmp_path: Path
) -> None:
    """Nothing was sent, so a later call submits its rows and counts none of them twice."""
    client = Client(**settings, limits=Limits([Limit(requests=1, seconds=86_400)], max_wait=0))
    client.ask(MODEL, HARMLESS)
    with pytest.raises(LimitReachedError):
        client.bulk([HARMLESS], MODEL, batch=True, manifest=tmp_path / "m")
    with Client(**settings).bulk([HARMLESS], MODEL, batch=True, manifest=tmp_path / "m") as report:
        assert (report.lost.killed, report.finished) == (0, True)


@pytest.mark.parametrize("name", ["policy", "events", "store", "router", "budgets"])
def test_what_belongs_to_a_client_is_refused_with_a_hint(name: str) -> None:
    """A run without a client does not forget it."""
    with pytest.raises(ConfigurationError, match=f"{name} belongs to a client"):
        bulk([HARMLESS], MODEL, **{name: None})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="did you mean 'template'"):
        bulk([HARMLESS], MODEL, templat="x")  # type: ignore[call-arg]


def test_the_default_client_governs_bare_runs_and_batches(provider: GovernedProvider, settings: dict[str, Any]) -> None:
    """A client that is named goes before it, and a closed one is refused."""
    set_default_client(Client(**settings, **DENY))
    assert "denying" in texts(bulk([NAMED], MODEL))[0]
    with Batches(MODEL) as batches:
        (denied,) = batches.fetch(batches.submit({"one": NAMED}))
    assert isinstance(denied, BatchError)
    assert isinstance(denied.error, PolicyDeniedError)
    assert denied.error.code == "word"
    assert texts(bulk([NAMED], MODEL, client=Client(**settings))) == [f"re: {NAMED}"]
    closed = Client(**settings)
    closed.close()
    for refused in (lambda: bulk([NAMED], MODEL, client=closed), lambda: closed.batches(MODEL)):
        with pytest.raises(ConfigurationError, match="the client is closed"):
            refused()
    with Client(**settings) as client:
        batches = client.batches(MODEL)
    with pytest.raises(ConfigurationError, match="the client is closed"):
        batches.submit({"one": HARMLESS})
    assert len(provider.prompts) == 1


def test_a_run_that_nothing_judges_needs_no_sessions(
    provider: GovernedProvider, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits, budgets and prices hold without: such a run is as fast as before."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a session")

    monkeypatch.setattr(AsyncSession, "__init__", refuse)
    limits = Limits([Limit(requests=1_000)])
    client = Client(**settings, limits=limits, budgets=[Budget(usd=1)], prices=price_table())
    assert texts(client.bulk([HARMLESS], MODEL)) == [f"re: {HARMLESS}"]


def test_closing_the_client_ends_its_run(provider: GovernedProvider, settings: dict[str, Any]) -> None:
    """Nothing more is sent, and the answers so far are kept."""
    client = Client(**settings)
    with pytest.raises(ConfigurationError, match="the client is closed"):
        client.bulk([HARMLESS] * 5, MODEL, concurrency=1, progress=lambda progress: client.close())
    assert 0 < len(provider.prompts) < 5


def test_a_batch_of_denied_requests_is_not_submitted(provider: GovernedProvider, settings: dict[str, Any]) -> None:
    """Its handle says so in every later process, and its results are the reasons."""
    client = Client(**settings, **DENY)
    with client.batches(MODEL) as batches:
        handle = BatchHandle.model_validate_json(batches.submit({"one": NAMED, "two": NAMED}).model_dump_json())
        assert handle.batch_id == ""
        assert batches.wait(handle).status.ended
        assert batches.cancel(handle).status.ended
        assert [each.error_class for each in batches.fetch(handle) if isinstance(each, BatchError)] == [
            "PolicyDeniedError"
        ] * 2

    async def main() -> None:
        async with AsyncBatches(MODEL, client=client) as batches:
            assert (await batches.cancel(handle)).status.ended
            assert len(await batches.fetch(handle)) == 2

    asyncio.run(main())
    assert provider.prompts == []


def test_a_handle_of_an_earlier_version_is_fetched(settings: dict[str, Any]) -> None:
    """The fields for labels and denials are additions."""
    with Client(**settings, **DENY).batches(MODEL) as batches:
        written = json.loads(batches.submit({"one": LEAK}).model_dump_json())
        for name in ("labels", "denial", "turn_id"):
            del written["entries"][0][name]
        (denied,) = batches.fetch(BatchHandle.model_validate(written))
    assert isinstance(denied, BatchError)
    assert denied.usage is not None
    assert denied.usage.cost_usd == Decimal("0.00075")


def test_the_events_of_a_batch_tell_its_turns(settings: dict[str, Any]) -> None:
    """Each request is a turn: it starts with the submission and ends with the fetch."""
    bus, seen = EventBus(), []
    bus.subscribe(lambda event: seen.append((event.turn_id, event.type)))
    with Client(**settings, **DENY, events=bus).batches(MODEL) as batches:
        handle = batches.submit({str(number): prompt for number, prompt in enumerate(PROMPTS)})
        batches.fetch(handle)
    bus.flush()
    by_turn = [[kind for turn, kind in seen if turn == entry.turn_id] for entry in handle.entries]
    begun = ["turn.started", "llm.call_started"]
    assert by_turn == [
        [*begun, "llm.call_completed", "turn.completed"],
        [*begun, "policy.denied", "turn.completed"],
        [*begun, "policy.denied", "turn.completed"],
        ["turn.started", "policy.denied", "turn.completed"],
    ]
