"""Typed answers of rows: columns, files, and answers that are not valid."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from dragoman import AdapterOptions, Client, EventBus
from dragoman.bulk import bulk
from dragoman.errors import OutputTypeError
from tests.bulk.provider import HAIKU, Provider, number


class City(BaseModel):
    name: str
    population: int
    tags: list[str] = []


def city(prompt: str, times: int) -> str:
    """The third question is answered with a text, and rightly when it is asked again."""
    if number(prompt) == 2 and times == 1:
        return "It is a big one."
    return json.dumps({"name": f"city {number(prompt)}", "population": number(prompt), "tags": ["a"]})


ROWS = [{"prompt": f"question {n}"} for n in range(4)]


def run(provider: Provider, manifest: str | Path = "sqlite://", **settings: Any) -> list[dict[str, Any]]:
    with bulk(ROWS, HAIKU, manifest=manifest, providers=provider.settings, **settings) as report:
        return list(report)


def test_the_fields_of_the_answers_are_columns() -> None:
    """After the columns that every run has. An answer that is not valid is an error that was paid."""
    provider = Provider(city)
    rows = run(provider, output=City, output_retries=0)
    assert "output_config" in provider.bodies[0]
    assert [(row["answer_name"], row["answer_population"], row["answer_tags"]) for row in rows] == [
        ("city 0", 0, ["a"]),
        ("city 1", 1, ["a"]),
        (None, None, None),
        ("city 3", 3, ["a"]),
    ]
    assert json.loads(rows[0]["answer"])["name"] == "city 0"
    assert rows[2]["error"].startswith("the answer does not have the requested type: $: the answer is not one JSON")
    assert (rows[2]["answer"], rows[2]["tokens"]) == (None, 1100)
    assert rows[2]["cost"] == rows[0]["cost"] > 0


def test_rows_with_invalid_answers_are_asked_again_on_request(tmp_path: Path) -> None:
    """After a run has given them up. What they cost before is not forgotten."""
    provider = Provider(city)
    run(provider, tmp_path / "m", output=City, output_retries=0)
    with bulk(
        ROWS, HAIKU, manifest=tmp_path / "m", providers=provider.settings, output=City, retry_errors=True
    ) as report:
        assert [row["answer_population"] for row in report] == [0, 1, 2, 3]
        assert report.lost.failed == 1
    assert provider.requests == 5


@pytest.mark.parametrize(
    ("output_type", "text", "value"), [(int, '{"answer": 7}', 7), (dict[str, int], '{"a": 1}', {"a": 1})]
)
def test_a_type_without_fields_is_one_column(output_type: Any, text: str, value: Any) -> None:
    rows = run(Provider(lambda prompt, times: text), output=output_type, prefix="my_")
    assert [row["my_answer_value"] for row in rows] == [value] * 4


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_files_have_the_columns_too(suffix: str, tmp_path: Path) -> None:
    """A file of comma-separated values has lists as JSON."""
    file = tmp_path / f"out.{suffix}"
    run(Provider(city), output=City, to=file)
    text = file.read_text(encoding="utf-8")
    rows = (
        list(csv.DictReader(text.splitlines())) if suffix == "csv" else [json.loads(line) for line in text.splitlines()]
    )
    assert rows[1]["answer_name"] == "city 1"
    assert str(rows[1]["answer_population"]) == "1"
    assert rows[1]["answer_tags"] == ('["a"]' if suffix == "csv" else ["a"])


def test_rows_that_are_turns_are_checked_as_well() -> None:
    """Those of a client with events, a policy or a store."""
    provider = Provider(city)
    client = Client(events=EventBus())
    rows = run(provider, output=City, output_retries=0, client=client)
    assert [row["answer_population"] for row in rows] == [0, 1, None, 3]
    assert rows[2]["tokens"] == 1100
    assert provider.requests == 4


def test_a_schema_among_the_options_is_checked() -> None:
    """The answers stay texts."""
    options = AdapterOptions(output_schema={"type": "object", "required": ["population"]})
    rows = run(Provider(city), options=options, output_retries=0)
    assert [row["error"] is None for row in rows] == [True, True, False, True]
    assert "answer_value" not in rows[0]


def test_a_type_without_a_schema_is_refused_before_anything_is_sent() -> None:
    provider = Provider(city)
    with pytest.raises(OutputTypeError):
        run(provider, output=EventBus)
    assert provider.requests == 0
