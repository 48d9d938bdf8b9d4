"""Files of rows: their columns come out again, next to the answers."""

import csv
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.bulk import bulk
from dragoman.bulk.rows import open_source
from tests.bulk.provider import HAIKU, SONNET, Provider


def run(rows: Any, output: Path, model: Any = HAIKU, provider: Provider | None = None, **settings: Any) -> None:
    bulk(rows, model, to=output, providers=(provider or Provider()).settings, **settings).close()


def test_json_lines_keep_their_values(tmp_path: Path) -> None:
    """Of any type; a bare text is a prompt, and blank lines are skipped."""
    rows: list[dict[str, Any]] = [
        {"prompt": "Größe 1", "n": 10**30, "f": 0.1, "none": None, "deep": [{"a": True}]},
        {"prompt": "2"},
    ]
    lines = [*(json.dumps(row) for row in rows), "", json.dumps("three 3")]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    run(tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    added_columns = {"model": HAIKU, "cost": "0.001500", "tokens": 1100, "error": None}
    for row, out in zip([*rows, {"prompt": "three 3"}], found, strict=True):
        assert out.pop("seconds") >= 0
        assert out == row | added_columns | {"answer": f"re: {row['prompt']}"}


FORMULAS = (
    "=HYPERLINK(\"https://a.example\")", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1,2)", "\t=1", "\r=1", "\n=1", "\uff1d1+1",
    "'=1", "''-x", "=",
)  # fmt: skip
"""Texts that a spreadsheet runs, and those that look as if they were escaped already."""
PLAIN = ("", "Bern", "-5", "+1.5e-3", "a=b", "'", "'quoted'", " =1", "2026-11-01", '{"a":1}')


def test_a_cell_of_a_csv_file_is_never_a_formula(tmp_path: Path) -> None:
    """Neither an answer nor a column of the rows: an apostrophe is before them. A text that is a number stays one, and
    rows read the file again as it was meant."""
    texts = [*FORMULAS, *PLAIN]
    (tmp_path / "in.jsonl").write_text(
        "".join(json.dumps({"prompt": text or "-", "=column": text, "n": -1}) + "\n" for text in texts)
    )
    run(tmp_path / "in.jsonl", tmp_path / "out.csv", provider=Provider(lambda prompt, _: prompt))
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert [row["'=column"] for row in found] == [*("'" + text for text in FORMULAS), *PLAIN]
    assert [row["answer"] for row in found][: len(FORMULAS)] == ["'" + text for text in FORMULAS]
    assert {row["n"] for row in found} == {"-1"}
    again = list(open_source(tmp_path / "out.csv"))
    assert [row["=column"] for row in again] == texts
    assert [row["answer"] for row in again] == [text or "-" for text in texts]


def test_csv_keeps_its_columns(tmp_path: Path) -> None:
    """With line breaks, quotes and commas in them; one line for each model."""
    rows = [["id", "prompt"], ["1", 'a, "b"\nc'], ["2", "Ü"]]
    with (tmp_path / "in.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    run(tmp_path / "in.csv", tmp_path / "out.csv", model=[HAIKU, SONNET])
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert [(row["id"], row["prompt"], row["answer"], row["model"]) for row in found] == [
        (number, prompt, f"re: {prompt}", model) for number, prompt in rows[1:] for model in (HAIKU, SONNET)
    ]
    assert [row["cost"] for row in found] == ["0.001500", "0.004500"] * 2


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    """Dates, decimals, lists and structures, through DuckDB; money is exact."""
    duckdb = pytest.importorskip("duckdb")
    query = """SELECT 'row ' || n AS prompt, n::INTEGER AS n, DATE '2026-11-01' AS day, 1.10::DECIMAL(9, 2) AS price,
        [n, n + 1] AS list, {'a': n} AS deep, NULL::VARCHAR AS empty,
        TIMESTAMPTZ '2026-11-01 10:00:00+00' AS "at" FROM range(520) t(n)"""
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{tmp_path / 'in.parquet'}' (FORMAT parquet)")
    run(tmp_path / "in.parquet", tmp_path / "out.parquet")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW written AS FROM '{tmp_path / 'out.parquet'}'")
        found = connection.execute('SELECT * EXCLUDE ("at") FROM written').fetchall()
        kinds = dict(connection.execute("SELECT column_name, column_type FROM (DESCRIBE written)").fetchall())
    assert [row[:8] for row in found] == [
        (f"row {n}", n, date(2026, 11, 1), Decimal("1.10"), [n, n + 1], {"a": n}, None, f"re: row {n}")
        for n in range(520)
    ]
    assert [kinds[name] for name in ("n", "day", "at", "cost")] == [
        "INTEGER",
        "DATE",
        "TIMESTAMP WITH TIME ZONE",
        "DECIMAL(38,18)",
    ]
    assert found[0][9] == Decimal("0.0015")


def test_one_format_converts_to_another(tmp_path: Path) -> None:
    """Columns that only some rows have exist for all; a text that looks like a date stays a text."""
    duckdb = pytest.importorskip("duckdb")
    lines = [
        '{"prompt": "1", "day": "2026-11-01"}',
        '{"prompt": "2", "more": {"x": [1]}, "n": 1}',
        '{"prompt": "3", "n": 1.5}',
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    run(tmp_path / "in.jsonl", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [(row["day"], row["more"], row["n"]) for row in csv.DictReader(file)] == [
            ("2026-11-01", "", ""), ("", '{"x": [1]}', "1"), ("", "", "1.5")
        ]  # fmt: skip
    run(tmp_path / "in.jsonl", tmp_path / "out.parquet")
    with duckdb.connect() as connection:
        assert connection.execute(f"SELECT day, n FROM '{tmp_path / 'out.parquet'}'").fetchall() == [
            ("2026-11-01", None), (None, 1.0), (None, 1.5)
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"prompt": "1"}\n{"prompt": \n', "line 2 is not valid JSON"),
        ("a.jsonl", "[1]\n", "line 1 must be an object"),
        ("a.csv", "a,b\n1,2\n1,2,3\n", "line 3: 3 columns, but the header has 2"),
        ("a.csv", "a,a\n1,2\n", "occurs twice in the header"),
        ("a.csv", 'a,b\n1,"2\n', "is not valid CSV"),
        ("a.txt", "hello", "not 'a.txt'"),
    ],
)
def test_a_malformed_file_is_reported_with_its_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigurationError, match=message):
        list(open_source(tmp_path / name))


def test_a_missing_file_is_reported() -> None:
    """A bare text is a file name."""
    with pytest.raises(ConfigurationError, match="there is no file"):
        open_source("What is the capital of France?")


def test_an_output_of_an_unknown_format_is_refused_at_once(tmp_path: Path) -> None:
    """Before anything is sent."""
    provider = Provider()
    with pytest.raises(ConfigurationError, match=r"answers\.txt"):
        bulk(["a 1"], HAIKU, to=tmp_path / "answers.txt", providers=provider.settings)
    assert provider.requests == 0
