"""A file of rows becomes a file of vectors: in order, resumably, and each row is paid once."""

import json
import os
import tracemalloc
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from dragoman import Budget, Client, WireResponse
from dragoman.attempt.governance import Governance
from dragoman.bulk import embed_rows
from dragoman.cli.app import app
from dragoman.effects import Perform
from dragoman.errors import AuthenticationError, BudgetExceededError, ConfigurationError
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply
from tests.unit.embeddings.handwritten_provider import TOKENS, Provider, running_provider

MODEL = "cohere:embed-v4.0"
LENGTH = 1536


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider(LENGTH) as found:
        yield found


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.bulk.vector_file.PART_ROWS", 100)


def write_csv(path: Path, rows: int) -> Path:
    lines = ["id,text", *(f"{number},{'x' * (number % 30 + 1)}" for number in range(rows))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def settings(url: str) -> dict[str, Any]:
    return {"base_url": url, "api_key": "k"}


def test_a_file_is_embedded_in_order(provider: Provider, tmp_path: Path) -> None:
    """Every row with its own vector, as 32-bit floats; nothing else stays in the folder."""
    rows, output = write_csv(tmp_path / "rows.csv", 250), tmp_path / "vectors.parquet"
    seen: list[int] = []
    found = embed_rows(rows, MODEL, to=output, progress=seen.append, **settings(provider.url))
    assert (found.rows, found.tokens, found.output) == (250, 250 * TOKENS, output)
    assert found.cost_usd is not None
    table = duckdb.sql(f"SELECT id, embedding, typeof(embedding) FROM '{output}'").fetchall()
    assert [int(row[0]) for row in table] == list(range(250))
    assert [(row[1][0], len(row[1]), row[2]) for row in table] == [
        (number % 30 + 1, LENGTH, "FLOAT[]") for number in range(250)
    ]
    assert seen == [100, 200, 250]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["rows.csv", "vectors.parquet"]
    assert {body["input_type"] for body in provider.bodies} == {"search_document"}


def test_json_lines_keep_their_types(provider: Provider, tmp_path: Path) -> None:
    """Numbers stay numbers, in both kinds of output; the text is a template."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"a": 1, "b": "one"}\n{"a": 2.5, "b": null}\n'.replace("null", '"two"'), encoding="utf-8")
    for name in ("out.jsonl", "out.parquet"):
        embed_rows(rows, MODEL, to=tmp_path / name, template="{a}: {b}", **settings(provider.url))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["a"], line["b"], line["embedding"][0]) for line in lines] == [(1, "one", 6.0), (2.5, "two", 8.0)]
    assert duckdb.sql(f"SELECT a, b FROM '{tmp_path / 'out.parquet'}'").fetchall() == [(1.0, "one"), (2.5, "two")]


def test_an_interrupted_run_pays_no_row_twice(tmp_path: Path) -> None:
    """The second part fails once, after some of its requests: the same call sends what is missing alone."""
    behind, broken = Provider(LENGTH), [True]

    def reply(request: ReceivedRequest) -> HttpReply:
        if broken and len(behind.requests) == 3:
            return json_reply({"message": "bad key"}, 401)
        return behind.reply(request)

    rows, output = write_csv(tmp_path / "rows.csv", 250), tmp_path / "vectors.parquet"
    with FaultyServer(reply) as server:
        with pytest.raises(AuthenticationError):
            embed_rows(rows, MODEL, to=output, concurrency=1, **settings(server.url))
        assert not output.exists()
        broken.clear()
        with pytest.raises(ConfigurationError, match="another run"):
            embed_rows(rows, MODEL, to=output, dimensions=256, **settings(server.url))
        found = embed_rows(rows, MODEL, to=output, concurrency=1, **settings(server.url))
    assert [len(body["texts"]) for body in behind.bodies] == [96, 4, 96, 4, 50]
    assert found.tokens == 250 * TOKENS
    assert duckdb.sql(f"SELECT count(*), sum(embedding[1]) FROM '{output}'").fetchall() == [
        (250, sum(number % 30 + 1 for number in range(250)))
    ]


@pytest.mark.skipif(os.name == "nt", reason="the system has no such limit")
def test_receipts_that_could_not_be_written_whole_stop_no_later_run(provider: Provider, tmp_path: Path) -> None:
    """The disk is full, or the process ends, in the middle of a line."""
    import resource

    rows, output = write_csv(tmp_path / "rows.csv", 5), tmp_path / "vectors.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            embed_rows(rows, MODEL, to=output, **settings(provider.url))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(provider.requests) == 1
    found = embed_rows(rows, MODEL, to=output, **settings(provider.url))
    assert (found.rows, found.tokens) == (5, 5 * TOKENS)


def test_the_receipts_of_an_earlier_version_count(provider: Provider, tmp_path: Path) -> None:
    """It had them in one file."""
    rows, output = write_csv(tmp_path / "rows.csv", 150), tmp_path / "vectors.jsonl"
    parts = tmp_path / "vectors.jsonl.parts"

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_rows(rows, MODEL, to=output, progress=stop, **settings(provider.url))
    (parts / "000000000.receipts").rename(parts / "receipts")
    assert embed_rows(rows, MODEL, to=output, **settings(provider.url)).tokens == 150 * TOKENS


def test_parts_that_are_left_are_not_taken_by_another_run(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed while it removes them leaves the note to which run they belong."""
    rows, output = write_csv(tmp_path / "rows.csv", 5), tmp_path / "vectors.jsonl"

    def list_note_first(folder: Path) -> Iterator[Path]:
        return iter(sorted(folder.glob("*"), reverse=True))

    unlink = Path.unlink

    def stop_at_rows(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".jsonl":
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "iterdir", list_note_first)
        patched.setattr(Path, "unlink", stop_at_rows)
        with pytest.raises(KeyboardInterrupt):
            embed_rows(rows, MODEL, to=output, **settings(provider.url))
    with pytest.raises(ConfigurationError, match="another run"):
        embed_rows(rows, MODEL, to=output, dimensions=256, **settings(provider.url))


def test_a_column_of_a_later_row_is_not_replaced(provider: Provider, tmp_path: Path) -> None:
    """JSON lines need not have the same columns."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a"}\n{"text": "b", "embedding": "mine"}\n', encoding="utf-8")
    with pytest.raises(ConfigurationError, match="already have a column"):
        embed_rows(rows, MODEL, to=tmp_path / "v.jsonl", **settings(provider.url))
    assert provider.requests == []


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve parts take the memory of two: a vector is in memory with its part alone."""
    size, length = 50, 256
    reply = WireResponse(200, json.dumps({"embeddings": {"float": [[0.5] * length] * size}}).encode())
    monkeypatch.setattr(Governance, "send", lambda *_: Perform(lambda: reply, lambda: reply))
    monkeypatch.setattr("dragoman.bulk.vector_file.PART_ROWS", size)
    peaks = []
    for number, parts in enumerate((2, 2, 12)):  # the first one loads modules
        rows = write_csv(tmp_path / f"{number}.csv", parts * size)
        tracemalloc.start()
        embed_rows(rows, MODEL, to=tmp_path / f"{number}.jsonl", dimensions=length, api_key="k")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < 5 * size * length * array("f").itemsize


@pytest.mark.parametrize(
    ("text", "output", "error", "words"),
    [
        ("id,text\n", "v.parquet", ConfigurationError, "no rows"),
        ("id,name\n1,a\n", "v.parquet", ConfigurationError, "text"),
        ("text,embedding\na,b\n", "v.parquet", ConfigurationError, "already have a column"),
        ("text\na\n", "v.csv", ConfigurationError, "written to .parquet or .jsonl"),
    ],
)
def test_a_file_that_cannot_be_embedded(
    provider: Provider, tmp_path: Path, text: str, output: str, error: type[Exception], words: str
) -> None:
    """A typed error, before anything is sent."""
    rows = tmp_path / "rows.csv"
    rows.write_text(text, encoding="utf-8")
    with pytest.raises(error, match=words):
        embed_rows(rows, MODEL, to=tmp_path / output, **settings(provider.url))
    assert provider.requests == []


def test_the_command(provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`dragoman embed` writes the file and says what it cost; options that do not exist are one line."""
    monkeypatch.setenv("CO_API_KEY", "k")
    rows, output = write_csv(tmp_path / "rows.csv", 5), tmp_path / "v.parquet"
    command = ["embed", str(rows), "-m", MODEL, "-o", str(output), "--base-url", provider.url]
    done = CliRunner().invoke(app, [*command, "--purpose", "query", "--truncate", "end"])
    assert done.exit_code == 0, done.output
    assert "5 rows, 15 tokens for $0.00000" in done.output
    assert provider.bodies[0]["input_type"] == "search_query"
    assert duckdb.sql(f"SELECT count(*) FROM '{output}'").fetchall() == [(5,)]
    assert isinstance(CliRunner().invoke(app, [*command, "--purpose", "other"]).exception, ConfigurationError)


def test_a_budget_of_a_user_holds_for_a_file(provider: Provider, tmp_path: Path) -> None:
    """It is the budget of that user alone."""
    budget = Budget(tokens=1, per="user")
    client = Client(budgets=[budget])
    with pytest.raises(BudgetExceededError):
        embed_rows(
            write_csv(tmp_path / "rows.csv", 3),
            MODEL,
            to=tmp_path / "v.jsonl",
            client=client,
            user_id="one",
            **settings(provider.url),
        )
    assert (provider.requests, budget.spend_of("one").tokens) == ([], 0)
