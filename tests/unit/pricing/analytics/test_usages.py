"""Prices by SQL equal those of the Python path, row for row and to the last digit."""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from dragoman.adapter.errors import ConfigurationError, MissingExtraError, RequestError
from dragoman.canonical.message import Message, MessageMetadata, MessageStatus
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.pricing import PriceTable, UsageRecord, price_table, reprice
from dragoman.pricing.analytics.cost_lines import cost_line, sum_by_key
from dragoman.pricing.analytics.rate_sheet import COUNTS
from dragoman.pricing.analytics.usages import Usages
from tests.unit.pricing.tables import NOW, acme, write_table

duckdb = pytest.importorskip("duckdb", reason="the extra `report` is not installed")

from tests.benchmarks.reprice import differences, random_usages, usage_of_row  # noqa: E402  (it needs duckdb)
from tests.sampling import examples  # noqa: E402

FIRST = datetime(2026, 3, 1, tzinfo=UTC)
FRIDAY_NIGHT = datetime(2026, 11, 20, 22, tzinfo=UTC)
TICK = timedelta(microseconds=1)
MOMENTS = [
    moment + offset
    for moment in (FIRST, datetime(2026, 6, 1, tzinfo=UTC), FRIDAY_NIGHT, FRIDAY_NIGHT + timedelta(hours=8), NOW)
    for offset in (-TICK, timedelta(0), TICK, timedelta(days=2))
]
TYPES = {
    "model": "VARCHAR", "at": "TIMESTAMPTZ", **dict.fromkeys(COUNTS, "BIGINT"), "service_tier": "VARCHAR",
    "speed": "VARCHAR", "batch": "BOOLEAN", "geo": "VARCHAR", "server_tools": "MAP(VARCHAR, BIGINT)",
    "terms": "MAP(VARCHAR, VARCHAR)", "unread": "VARCHAR[]", "status": "VARCHAR", "user_id": "VARCHAR",
}  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> PriceTable:
    return write_table(tmp_path_factory.mktemp("prices"))


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    with duckdb.connect() as made:
        made.execute("SET threads = 1; SET TimeZone = 'UTC'")
        yield made


_MAPS = ("server_tools", "terms")


def row(**columns: Any) -> dict[str, Any]:
    """One reply of a thousand tokens in and out, unless overridden."""
    return {"model": "acme:full", "at": NOW, "input_tokens": 1000, "output_tokens": 1000, **columns}


def relation(connection: Any, rows: list[dict[str, Any]]) -> Any:
    """The rows as a table with the columns that any of them has."""
    names = [name for name in TYPES if any(name in row for row in rows)]
    columns = ", ".join(f'"{name}" {TYPES[name]}' for name in names)
    connection.execute(f"CREATE OR REPLACE TABLE usages_of_test ({columns}, place INT)")
    marks = ", ".join(f"CAST(?::JSON AS {TYPES[name]})" if name in _MAPS else "?" for name in names)
    for place, each in enumerate(rows):
        values = {**each, "at": each["at"].isoformat(), **{name: json.dumps(each.get(name)) for name in _MAPS}}
        connection.execute(f"INSERT INTO usages_of_test VALUES ({marks}, ?)", [*map(values.get, names), place])
    return connection.sql("FROM usages_of_test")


def by_sql(connection: Any, rows: list[dict[str, Any]], **how: Any) -> list[tuple[Any, ...]]:
    priced = Usages(relation(connection, rows)).rows(**how)
    wanted = priced.order("place").project("cost_usd, cost_status, unpriced, pricing_version")
    return [(cost, status, sorted(gaps), version) for cost, status, gaps, version in wanted.fetchall()]


def by_python(rows: list[dict[str, Any]], **how: Any) -> list[tuple[Any, ...]]:
    return [
        (usage.cost_usd, usage.cost_status.value, sorted(usage.unpriced), usage.pricing_version)
        for usage in _usages(rows, **how)
    ]


def _usages(rows: list[dict[str, Any]], **how: Any) -> Iterator[Usage]:
    for each in rows:
        usage = TokenUsage(
            **{name: each[name] for name in COUNTS if each.get(name) is not None},
            service_tier=each.get("service_tier"), speed=each.get("speed"), unread=tuple(each.get("unread") or ()),
            server_tools=each.get("server_tools") or {}, terms=each.get("terms"),
            raw={"geo": each["geo"]} if each.get("geo") else None,
        )  # fmt: skip
        (priced,) = reprice([UsageRecord(each["model"], usage, each["at"], bool(each.get("batch")))], **how)
        broken = each.get("status") in (MessageStatus.ERROR, MessageStatus.CANCELLED)
        yield priced.as_lower_bound() if broken else priced


def counts(*near: int) -> st.SearchStrategy[int]:
    return st.sampled_from([edge + offset for edge in (*near, 1) for offset in (-1, 0, 1)]) | st.integers(0, 10**9)


ROWS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(
            ["plain", "full", "whole-20260101", "night", "input-only", "unknown-rates", "gratis", "fee", "nobody"]
        ).map("acme:{}".format),
        "at": st.sampled_from(MOMENTS) | st.datetimes(timezones=st.just(UTC)),
        "input_tokens": counts(1000, 2000),
        "output_tokens": counts(),
    },
    optional={
        **{name: st.none() | counts(500) for name in COUNTS if name not in ("input_tokens", "output_tokens")},
        "service_tier": st.sampled_from([None, "", "standard", "FLEX", "flex", "batch", "odd", "it's"]),
        "speed": st.sampled_from([None, "standard", "fast"]),
        "batch": st.booleans(),
        "geo": st.sampled_from([None, "global", "us", "mars"]),
        "server_tools": st.dictionaries(
            st.sampled_from(["web_search", "web_fetch_requests", "odd"]), st.integers(0, 9)
        ),
        "terms": st.none()
        | st.dictionaries(st.sampled_from(["host", "window"]), st.sampled_from(["far", "near", "it's"])),
        "unread": st.lists(st.sampled_from(["input_tokens", "x.y"]), max_size=2),
        "status": st.sampled_from(["complete", "error", "cancelled"]),
    },
)
HOW = st.fixed_dictionaries(
    {}, optional={"at": st.sampled_from(MOMENTS), "as_model": st.sampled_from(["acme:full", "other:x", "acme:gratis"])}
)


@pytest.mark.exhaustive
def test_twenty_thousand_usages_cost_the_same(connection: Any) -> None:
    """Of the bundled table's models, in every variant, over two years; ``--check`` does a million."""
    assert list(differences(random_usages(connection, 20_000, seed=1))) == []


def test_prices_agree_at_another_time_and_for_another_model(connection: Any) -> None:
    """Windows, tiers and variants of the same provider count; those of another one do not."""
    usages = random_usages(connection, 2_000, seed=2)
    assert list(differences(usages, at=datetime(2026, 9, 14, 2, tzinfo=UTC))) == []
    assert list(differences(usages, as_model="openai:gpt-5.4")) == []


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=8), how=HOW)
def test_any_rows_cost_the_same(
    connection: Any, table: PriceTable, rows: list[dict[str, Any]], how: dict[str, Any]
) -> None:
    """Cost, status, gaps and version, for any columns, at every edge of a price."""
    assert by_sql(connection, rows, table=table, **how) == by_python(rows, table=table, **how)


def test_the_order_of_terms_makes_no_other_gap(connection: Any, table: PriceTable) -> None:
    """Replies whose requests named the same terms in another order have one gap."""
    terms = {"window": "far", "host": "it's"}
    rows = [row(terms=terms), row(terms=dict(reversed(terms.items())))]
    assert by_sql(connection, rows, table=table) == by_python(rows, table=table)
    assert len({str(gaps) for _, _, gaps, _ in by_python(rows, table=table)}) == 1


def test_a_subset_without_the_column_of_its_bucket_is_a_gap(connection: Any, table: PriceTable) -> None:
    """The bucket is 0, which the subset contradicts, so the cost is a lower bound."""
    rows = [row(cached_audio_input_tokens=499)]
    assert by_sql(connection, rows, table=table) == by_python(rows, table=table)
    ((_, status, gaps, _),) = by_sql(connection, rows, table=table)
    assert (status, gaps) == ("partial", ["cached_audio_input_tokens"])


@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=8))
@pytest.mark.exhaustive
def test_groups_are_the_sums_of_their_rows(connection: Any, table: PriceTable, rows: list[dict[str, Any]]) -> None:
    """Groups are the sums of their rows by model and day, in one, and with unknown values."""
    lines = Usages(relation(connection, rows)).costs(["model", "day"], table)
    keys = [(each["model"], each["at"].date().isoformat()) for each in rows]
    assert lines == sum_by_key(map(cost_line, keys, _usages(rows, table=table)))
    (whole,) = Usages(relation(connection, rows)).costs([], table)
    assert whole == sum_by_key(cost_line((), usage) for usage in _usages(rows, table=table))[0]
    assert [line.key for line in Usages(relation(connection, rows)).costs(["session"], table)] == [(None,)]


@pytest.mark.parametrize(
    ("model", "at", "prompt", "cost"),
    [
        ("acme:full", FIRST - TICK, 1000, "0.01"),
        ("acme:full", FIRST, 1000, "0.004"),
        ("acme:full", FIRST, 1001, "0.008008"),
        ("acme:full", FIRST, 2000, "0.016"),
        ("acme:full", FIRST, 2001, "0.024012"),
        ("acme:night", FRIDAY_NIGHT - TICK, 1000, "0.002"),
        ("acme:night", FRIDAY_NIGHT, 1000, "0.001"),
        ("acme:night", FRIDAY_NIGHT + timedelta(hours=8) - TICK, 1000, "0.001"),
        ("acme:night", FRIDAY_NIGHT + timedelta(hours=8), 1000, "0.002"),
        ("acme:night", FRIDAY_NIGHT + timedelta(days=1), 1000, "0.002"),
    ],
)
def test_edges_of_prices(connection: Any, table: PriceTable, model: str, at: datetime, prompt: int, cost: str) -> None:
    """The first moment of a price is its own, the last one before it is not; a tier starts after its threshold."""
    (found,) = by_sql(connection, [row(model=model, at=at, input_tokens=prompt, output_tokens=0)], table=table)
    assert found[:2] == (Decimal(cost), "priced")


def test_figures_wider_than_64_bits(connection: Any, table: PriceTable) -> None:
    """The largest count of every bucket: wider arithmetic takes over."""
    rows = [row(input_tokens=2**61, output_tokens=2**63 - 1, cached_input_tokens=2**61) for _ in range(3)]
    (line,) = Usages(relation(connection, rows)).costs([], table)
    assert line == sum_by_key(cost_line((), usage) for usage in _usages(rows, table=table))[0]
    assert by_sql(connection, rows, table=table) == by_python(rows, table=table)


def test_a_reply_without_tokens_costs_nothing(connection: Any, table: PriceTable) -> None:
    """For an unknown model the cost is unknown."""
    rows = [
        row(model=model, input_tokens=0, output_tokens=0, status=status)
        for model in ("acme:full", "acme:nobody")
        for status in ("complete", "error")
    ]
    found = by_sql(connection, rows, table=table)
    assert found == by_python(rows, table=table)
    assert [(cost, status) for cost, status, *_ in found[:2]] == [(0, "priced"), (0, "partial")]


def test_rates_with_many_digits(connection: Any, tmp_path: Path) -> None:
    """The unit is as small as the finest rate needs."""
    table = write_table(tmp_path, acme('prices = [{ input = "0.0000000000001", output = "3e2" }]'))
    rows = [row(model="acme:m", input_tokens=7, output_tokens=10**9)]
    assert by_sql(connection, rows, table=table) == by_python(rows, table=table)
    (line,) = Usages(relation(connection, rows)).costs([], table)
    assert line.cost_usd == Decimal("300000.0000000000000000007")


def test_missing_counts_are_not_zero(connection: Any, table: PriceTable) -> None:
    """A row without output tokens has a lower bound as its cost; one without a model has none."""
    rows = [row(output_tokens=None), row(model=None)]
    assert [found[:3] for found in by_sql(connection, rows, table=table)] == [
        (Decimal("0.004"), "partial", ["output_tokens"]),
        (None, "unpriced", ["input_tokens", "output_tokens"]),
    ]
    first, second = Usages(relation(connection, rows)).costs(["model"], table)
    assert (first.key, first.cost_usd, first.status) == ((None,), None, CostStatus.UNPRICED)
    assert (second.unpriced, second.status) == ({"output_tokens": 1}, CostStatus.PARTIAL)
    rows = [row(), row(input_tokens=None, output_tokens=None), row(output_tokens=None)]
    (line,) = Usages(relation(connection, rows)).costs([], table)
    assert (line.replies, line.uncounted) == (3, 1)
    assert line.describe_tokens(line.prompt_tokens) == "at least 2,000"


def test_no_rows_give_no_lines(connection: Any, table: PriceTable) -> None:
    """Grouped or not: an empty file is not an error."""
    empty = relation(connection, [row()]).filter("false")
    assert Usages(empty).costs(["model"], table) == ()
    assert Usages(empty).rows(table).fetchall() == []


def _files_of_usages(connection: Any, tmp_path: Path) -> dict[str, Path]:
    """The same generated usages in each kind of file; in JSON, tools and the provider's object are objects."""
    usages = random_usages(connection, 300, seed=3)
    usages.write_parquet(str(tmp_path / "usages.parquet"))
    usages.write_csv(str(tmp_path / "usages.csv"), header=True)
    nested = usages.project(
        '* EXCLUDE ("server_tools.web_search_requests", inference_geo, place), {inference_geo: inference_geo} AS raw, '
        '{web_search_requests: "server_tools.web_search_requests"} AS server_tools, []::VARCHAR[] AS unread'
    )
    connection.execute(f"COPY ({nested.sql_query()}) TO '{tmp_path / 'usages.jsonl'}' (FORMAT json)")
    return {path.suffix: path for path in tmp_path.iterdir()}


def test_all_kinds_of_files_agree(connection: Any, tmp_path: Path) -> None:
    """All kinds of files agree: parquet, CSV and JSON lines, in one file or in two."""
    files = _files_of_usages(connection, tmp_path)
    expected = Usages(random_usages(connection, 300, seed=3)).costs(["model", "user"])
    assert sum(line.replies for line in expected) == 300
    for suffix, path in files.items():
        assert Usages(path).costs(["model", "user"]) == expected, suffix
    twice = Usages([files[".parquet"]] * 2, threads=1, memory="200MB").costs(["model", "user"])
    assert [line.replies for line in twice] == [2 * line.replies for line in expected]
    with pytest.raises(RequestError, match="one kind at a time"):
        Usages(list(files.values()))


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        ("model,at,input_tokens,output_tokens\nx:y,2026-01-01T00:00:00,1,1\n", "a time with a zone"),
        ("model,at,input_tokens,output_tokens\nx:y,,1,1\n", "a time"),
        ("model,at,input_tokens,output_tokens\nx:y,2026-01-01T00:00:00Z,1.5,1\n", "a count"),
        ("model,at,input_tokens,output_tokens\nx:y,2026-01-01T00:00:00Z,-1,1\n", "a count"),
        ("model,at,input_tokens,output_tokens\nx:y,2026-99-01T00:00:00Z,1,1\n", "cannot be read"),
        ("model,input_tokens,output_tokens\nx:y,1,1\n", "no column at"),
        ("model,at\nx:y,2026-01-01T00:00:00Z\n", "no column input_tokens, output_tokens"),
    ],
)
def test_invalid_usages_are_an_error(tmp_path: Path, content: str, pattern: str) -> None:
    """Nothing is rounded or guessed, and no row is left out."""
    path = tmp_path / "usages.csv"
    path.write_text(content)
    with pytest.raises(RequestError, match=pattern):
        Usages(path).costs(["day"])


@pytest.mark.parametrize(
    ("select", "pattern"),
    [
        ("TIMESTAMP '2026-01-01' AS \"at\", 1 AS input_tokens", "needs a zone"),
        ("TIMESTAMPTZ '2026-01-01 00:00:00Z' AS \"at\", 0.5 AS input_tokens", "a count"),
        ("TIMESTAMPTZ '2026-01-01 00:00:00Z' AS \"at\", -1 AS input_tokens", "cannot be read"),
        ("TIMESTAMPTZ '2026-01-01 00:00:00Z' AS \"at\", true AS input_tokens", "not a count"),
    ],
)
def test_columns_of_the_wrong_type(connection: Any, select: str, pattern: str) -> None:
    """Errors name types as clearly as texts."""
    usages = connection.sql(f"SELECT 'openai:o3' AS model, 1 AS output_tokens, {select}")
    with pytest.raises(RequestError, match=pattern):
        Usages(usages).costs(["day"])


def test_whole_numbers_in_other_types(connection: Any, table: PriceTable) -> None:
    """Programs without missing integers write doubles."""
    usages = connection.sql(
        "SELECT 'acme:plain' AS model, TIMESTAMPTZ '2026-11-20 00:00:00Z' AS \"at\", 2.0::DOUBLE AS input_tokens, "
        "3.00::DECIMAL(9, 2) AS output_tokens"
    )
    (line,) = Usages(usages).costs([], table)
    assert line.cost_usd == Decimal("0.000051")


def test_invalid_questions(connection: Any, table: PriceTable) -> None:
    """Each error says what would be right."""
    usages = Usages(relation(connection, [row()]))
    with pytest.raises(RequestError, match="model, provider, day, user, team, session"):
        usages.costs(["colour"], table)
    with pytest.raises(RequestError, match="not both"):
        usages.costs([], table, version="x")
    with pytest.raises(RequestError, match="time zone"):
        usages.costs([], table, at=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ConfigurationError, match="is not found"):
        usages.costs([], version="2020-01-01+00000000")


def test_without_duckdb_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtraError, match=r"dragoman\[report\]"):
        Usages(tmp_path / "usages.parquet")


def test_messages_add_up_like_usages(connection: Any) -> None:
    """The costs recorded in messages equal those of their usages by SQL."""
    usages = random_usages(connection, 200, seed=4).project('* EXCLUDE ("at"), epoch_us("at") AS moment')
    rows = [dict(zip(usages.columns, values, strict=True)) for values in usages.fetchall()]
    table = price_table()
    priced = [table.price(item.model, item.usage, item.at, batch=item.batch) for item in map(usage_of_row, rows)]
    messages = [
        Message.assistant("Hi", metadata=MessageMetadata(model=each["model"], usage=usage))
        for each, usage in zip(rows, priced, strict=True)
    ]
    lines = sum_by_key(cost_line((message.metadata.model,), message.usage) for message in messages)
    assert lines == Usages(random_usages(connection, 200, seed=4)).costs(["model"])
