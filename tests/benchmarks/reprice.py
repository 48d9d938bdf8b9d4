"""Usages repriced and grouped: `python -m tests.benchmarks.reprice --rows 100000000`.

The usages are generated, the same ones each time, into a Parquet file that is removed afterwards. ``--check`` prices
each of them in Python as well, and compares every figure.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.pricing import UsageRecord, price_table, reprice
from dragoman.pricing.analytics.rate_sheet import COUNTS
from dragoman.pricing.analytics.usages import Usages

MODELS = (
    "anthropic:claude-opus-4-6", "anthropic:claude-sonnet-4-6", "anthropic:claude-sonnet-4-5",
    "anthropic:claude-haiku-4-5", "anthropic:claude-opus-5-5", "openai:o3", "openai:gpt-4.1", "openai:gpt-5.4",
    "openai:gpt-5.4-mini", "openai-chat:gpt-4o-audio-preview", "openai:gpt-image-1", "google:gemini-2.5-pro",
    "google:gemini-2.5-flash", "google:gemini-3-pro-preview", "deepseek:deepseek-chat", "deepseek:deepseek-flash",
    "deepseek:deepseek-v4-pro", "mistral:mistral-large-latest", "mistral:mistral-small-latest", "groq:llama-3.3-70b",
    "xai:grok-4.3", "perplexity:sonar-pro", "ollama:qwen3:4b", "nobody:knows-this", "bedrock:anthropic.claude-v2",
)  # fmt: skip
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHUNK = 100_000


def random_usages(connection: duckdb.DuckDBPyConnection, rows: int, seed: int = 0) -> duckdb.DuckDBPyRelation:
    """Usages of two years. Their values come from a hash of the position, so a seed determines the rows."""

    def draw(what: str, below: int) -> str:
        return f"CAST(hash(i, '{what}', {seed}) % {below} AS BIGINT)"

    def or_null(what: str, share: int, value: str) -> str:
        return f"CASE WHEN {draw(what, share)} = 0 THEN {value} END"

    def choose(what: str, texts: tuple[str | None, ...]) -> str:
        listed = ", ".join("NULL" if text is None else f"'{text}'" for text in texts)
        return f"[{listed}][{draw(what, len(texts))} + 1]"

    columns = {
        "model": choose("model", MODELS),
        # To the minute: many are at the very moment at which a price starts or a window opens.
        "at": f"to_timestamp(1732147200 + 60 * {draw('at', 730 * 24 * 60)})",
        # Few prompts are long enough for the higher tiers.
        "input_tokens": f"{draw('input', 4000)} * {draw('long', 200)} // (1 + {draw('short', 50)})",
        "cached_input_tokens": f"coalesce({or_null('has cached', 2, draw('cached', 100_000))}, 0)",
        "cache_creation_input_tokens": f"coalesce({or_null('has written', 4, draw('written', 20_000))}, 0)",
        "output_tokens": draw("output", 4000),
        "reasoning_tokens": or_null("has reasoning", 3, draw("reasoning", 2000)),
        "cache_creation_1h_input_tokens": or_null("has 1h", 8, draw("1h", 5000)),
        "audio_input_tokens": or_null("has audio", 10, draw("audio", 1000)),
        "service_tier": choose("tier", (None, None, None, "default", "standard", "flex", "priority", "scale")),
        "speed": choose("speed", (*[None] * 14, "standard", "fast")),
        "batch": f"{draw('batch', 20)} = 0",
        "inference_geo": choose("geo", (None, None, None, "global", "us", "mars")),
        "server_tools.web_search_requests": or_null("has search", 10, draw("search", 4)),
        "user_id": f"'user-' || {draw('user', 10_000)}",
        "session_id": f"'session-' || {draw('session', 1_000_000)}",
    }
    select = ", ".join(f'{sql} AS "{name}"' for name, sql in columns.items())
    return connection.sql(f"SELECT i AS place, {select} FROM range({rows}) numbers(i)")


def usage_of_row(row: dict[str, Any]) -> UsageRecord:
    """A row in the form of the Python path."""
    counts = {name: row[name] for name in COUNTS if row.get(name) is not None}
    calls = row["server_tools.web_search_requests"]
    usage = TokenUsage(
        **counts,
        service_tier=row["service_tier"],
        speed=row["speed"],
        server_tools={} if calls is None else {"web_search_requests": calls},
        raw=None if row["inference_geo"] is None else {"inference_geo": row["inference_geo"]},
    )
    return UsageRecord(row["model"], usage, EPOCH + timedelta(microseconds=row["moment"]), row["batch"])


def differences(relation: duckdb.DuckDBPyRelation, **how: Any) -> Iterator[str]:
    """Rows whose figures differ from those of the Python path; ``how`` is for both."""
    for start in range(0, len(relation), CHUNK):
        priced = Usages(relation.filter(f"place BETWEEN {start} AND {start + CHUNK - 1}")).rows(**how)
        priced = priced.project('* EXCLUDE ("at"), epoch_us("at") AS moment')  # DuckDB would need pytz for the time
        rows = [dict(zip(priced.columns, values, strict=True)) for values in priced.fetchall()]
        for row, usage in zip(rows, reprice(map(usage_of_row, rows), **how), strict=True):
            if figures(row) != _expected(usage):
                yield f"{row}: should be {_expected(usage)}"


def figures(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["cost_usd"], row["cost_status"], tuple(row["unpriced"]), row["pricing_version"]


def _expected(usage: Usage) -> tuple[Any, ...]:
    return usage.cost_usd, usage.cost_status.value, usage.unpriced, usage.pricing_version


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--check", action="store_true", help="price each row in Python too, and compare")
    parser.add_argument("--by", action="append", help="group by model, provider, day, user or session")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", default="3GB")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "usages.parquet"
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {given.threads}; SET memory_limit = '{given.memory}'")
            connection.execute("SET preserve_insertion_order = false")
            random_usages(connection, given.rows).write_parquet(str(path))
        print(f"{given.rows:,} usages, {path.stat().st_size / 1e6:,.0f} MB of Parquet")
        if given.check:
            with duckdb.connect() as connection:
                found = list(differences(connection.read_parquet(str(path))))
            print(f"{len(found)} of {given.rows:,} differ from the Python path", *found[:5], sep="\n")
        for by in [given.by] if given.by else [["model"], ["model", "day"], ["session"]]:
            wall, cpu = time.perf_counter(), time.process_time()
            lines = Usages(path, threads=given.threads, memory=given.memory).costs(by)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            known = sum(line.cost_usd for line in lines if line.cost_usd is not None)
            print(f"by {', '.join(by)}: {len(lines):,} lines, ${known:,f}, {wall:.1f} s, {cpu:.1f} s of CPU")
    print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB, by {price_table().version}")


if __name__ == "__main__":
    main()
