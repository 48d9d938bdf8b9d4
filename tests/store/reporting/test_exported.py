"""Replies as Parquet, one file per day: a report over them agrees with the store to the last digit."""

import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from dragoman.adapter.errors import ConfigurationError, MissingExtraError, RequestError
from dragoman.canonical.message import Message, MessageMetadata, MessageStatus, read_message
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.cli.cost.sources import Repricing, Source, Span, read_export, read_store
from dragoman.pricing import price_table
from dragoman.pricing.analytics.usages import Replies, day_path
from dragoman.store import AsyncStore, ExportResult, Store, StoreError
from tests.sampling import examples
from tests.store.reporting.test_bills import SONNET, reply

duckdb = pytest.importorskip("duckdb", reason="the extra `report` is not installed")

DAY = timedelta(days=1)
NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)
DAYS = tuple(NOON.date() + number * DAY for number in range(3))
GROUPS = ("model", "provider", "day", "user", "team", "session")


def fill(store: Store) -> None:
    """Three days, two sessions, a fork and an attempt."""
    replies = [reply(NOON + number * DAY, tokens=1000 + number) for number in range(3)]
    store.create(SONNET, replies, session_id="sess_1", attempts=[reply(NOON, user=None)])
    store.create(SONNET, [Message.user("Hi"), reply(NOON + DAY, user="usr_2")], session_id="sess_2")
    store.fork("sess_1", new_session_id="sess_3")


@pytest.fixture
def store() -> Iterator[Store]:
    with Store("sqlite://") as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "days"


def rows(folder: Path, columns: str = "*") -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        found: list[tuple[Any, ...]] = connection.execute(
            f"SELECT {columns} FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true) ORDER BY ALL"
        ).fetchall()
        return found


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_bill_is_a_row_in_the_folder_of_its_day(lasting_store: Store, folder: Path) -> None:
    """No file has any content."""
    fill(lasting_store)
    done = lasting_store.export_replies(folder)
    assert done == ExportResult(DAYS, (), (), 5)
    assert sorted(contents(folder)) == [f"day={day}/part-0.parquet" for day in DAYS]
    columns = 'day, session_id, seq, attempt, epoch_us("at"), model, user_id, input_tokens, cost_usd, pricing_version'
    expected = [
        (
            bill.created_at.date(), bill.session_id, seq, attempt, int(1e6 * bill.created_at.timestamp()),
            bill.metadata.model, bill.metadata.user_id, bill.usage.input_tokens, bill.usage.cost_usd,
            bill.usage.pricing_version,
        )
        for bill, seq, attempt in zip(lasting_store.billed_replies(), (0, 1, 2, 1, 0), (False,) * 4 + (True,),
        strict=True)
        if bill.usage is not None
    ]  # fmt: skip
    assert rows(folder, columns) == sorted(expected, key=lambda row: (row[0], row[1], row[2], row[3]))
    assert not any(b"a secret" in content for content in contents(folder).values())


def test_the_text_is_exported_on_request(store: Store, folder: Path) -> None:
    """Days with and without it are read together."""
    fill(store)
    store.export_replies(folder)
    store.export_replies(folder, since=DAYS[2], text=True)
    with duckdb.connect() as connection:
        found = connection.execute(
            f"SELECT text FROM read_parquet('{folder}/*/*.parquet', union_by_name = true) ORDER BY ALL"
        ).fetchall()
    assert found == [("a secret",), *[(None,)] * 4]
    assert Replies(folder).costs()[0].replies == 5


def test_a_repeated_export_writes_the_same_bytes_or_nothing(store: Store, folder: Path) -> None:
    """An unchanged day is not written again; on request it is written with the same bytes."""
    fill(store)
    store.export_replies(folder)
    before = contents(folder)
    assert store.export_replies(folder) == ExportResult((), DAYS, (), 0)
    assert store.export_replies(folder, overwrite=True).replies == 5
    assert contents(folder) == before


@pytest.mark.exhaustive
def test_only_changed_days_are_written(lasting_store: Store, folder: Path) -> None:
    """After a late reply, and after a deleted one; a day without replies is removed."""
    fill(lasting_store)
    lasting_store.export_replies(folder)
    lasting_store.append("sess_2", [reply(NOON)], expected_version=None)
    assert lasting_store.export_replies(folder) == ExportResult(DAYS[:1], DAYS[1:], (), 3)
    lasting_store.delete("sess_1")
    assert lasting_store.export_replies(folder) == ExportResult(DAYS[:2], (), DAYS[2:], 2)
    assert not (folder / f"day={DAYS[2]}").exists()
    lasting_store.delete("sess_2")
    assert lasting_store.export_replies(folder).removed == DAYS[:2]
    assert list(folder.iterdir()) == []


def test_days_outside_the_range_are_left_alone(store: Store, folder: Path) -> None:
    """Neither written nor removed, whatever has changed."""
    fill(store)
    assert store.export_replies(folder, since=DAYS[1], until=DAYS[2]).written == DAYS[1:2]
    assert store.export_replies(folder).written == (DAYS[0], DAYS[2])
    store.delete("sess_1")
    assert store.export_replies(folder, since=DAYS[2]) == ExportResult((), (), DAYS[2:], 0)
    assert day_path(folder, DAYS[0]).exists()


def test_an_interrupted_export_changes_no_day(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Complete files are moved to their places; temporary ones are removed."""
    fill(store)
    store.export_replies(folder)
    store.append("sess_2", [reply(NOON), reply(NOON + DAY)], expected_version=None)
    before, moved = contents(folder), []

    def breaks(self: Path, target: Path) -> None:
        moved.append(target)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", breaks)
        with pytest.raises(StoreError, match="No space left"):
            store.export_replies(folder)
    assert moved == [day_path(folder, DAYS[0])]
    assert contents(folder) == before
    assert store.export_replies(folder).written == DAYS[:2]


def test_foreign_files_are_not_removed(store: Store, folder: Path) -> None:
    """A damaged file that the export wrote is written again."""
    fill(store)
    store.export_replies(folder)
    day_path(folder, DAYS[0]).write_bytes(b"PAR1 no more")
    strange = day_path(folder, date(2020, 1, 1))
    strange.parent.mkdir(parents=True)
    strange.write_bytes(b"theirs")
    (folder / "day=someday").mkdir()
    (folder / "day=someday" / "part-0.parquet").write_bytes(b"theirs")
    assert store.export_replies(folder) == ExportResult(DAYS[:1], DAYS[1:], (), 2)
    assert strange.exists()


def test_a_cost_that_a_column_would_round_is_refused(store: Store, folder: Path) -> None:
    """And no file is written."""
    cost = Decimal("0.0000000000000000000000001")
    usage = Usage(cost_usd=cost, cost_status=CostStatus.PRICED)
    store.create(messages=[Message.assistant("Hi", metadata=MessageMetadata(provider="a", usage=usage))])
    with pytest.raises(StoreError, match="rounding is not allowed"):
        store.export_replies(folder)
    assert list(folder.iterdir()) == []


def test_the_report_opens_only_the_days_that_it_needs(store: Store, folder: Path) -> None:
    """The files of the others are invalid, and are not missed."""
    fill(store)
    store.export_replies(folder)
    expected = store.billed_replies(since=NOON + DAY, until=NOON + DAY + timedelta(hours=1))
    for day in (DAYS[0], DAYS[2]):
        day_path(folder, day).write_bytes(b"nonsense")
    found = Replies(folder, since=NOON + DAY, until=NOON + DAY + timedelta(hours=1))
    assert found.days == DAYS[1:2]
    assert found.costs()[0].replies == len(list(expected)) == 2
    assert Replies(folder, since=NOON + DAY, until=NOON + DAY + timedelta(microseconds=1)).costs()[0].replies == 2
    assert Replies(folder, since=NOON + DAY + timedelta(microseconds=1), until=NOON + 1.4 * DAY).costs() == ()
    with pytest.raises(RequestError, match="cannot be read"):
        Replies(folder).costs()


def test_no_days_cost_nothing(store: Store, folder: Path) -> None:
    """In a folder of other days; a folder without any is refused."""
    fill(store)
    store.export_replies(folder)
    assert Replies(folder, since=NOON + 30 * DAY).costs() == ()
    with pytest.raises(ConfigurationError, match="no exported replies"):
        Replies(folder / "none")
    with pytest.raises(RequestError, match="needs a time zone"):
        Replies(folder, since=datetime(2026, 11, 19))  # noqa: DTZ001
    with pytest.raises(RequestError, match="not by 'colour'"):
        Replies(folder).costs(["colour"])


TOKENS = st.none() | st.integers(0, 10**9)
PLAIN = st.text(st.characters(codec="utf-8"), max_size=5)
NAMES = st.none() | st.sampled_from(["usr_1", "a\0b", "Łódź", ""]) | PLAIN


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    model = draw(st.sampled_from([SONNET, "openai:o3", "google:gemini-2.5-pro", "nobody:knows"]))
    used = TokenUsage(
        input_tokens=draw(st.integers(0, 10**12)),
        output_tokens=draw(st.integers(0, 2**62)),
        cached_input_tokens=draw(st.integers(0, 10**6)),
        reasoning_tokens=draw(TOKENS),
        server_tools=draw(st.dictionaries(st.sampled_from(["web_search", "x"]), st.integers(0, 9), max_size=2)),
        service_tier=draw(st.sampled_from([None, "flex", "standard"])),
        raw=draw(st.sampled_from([None, {"inference_geo": "us"}, {"a": {"b": [1, "x\0"]}}])),
        unread=draw(st.sampled_from([(), ("a",)])),
    )
    usage = price_table().price(model, used, NOON)
    own = st.decimals(0, 10**13, allow_nan=False, allow_infinity=False, places=24)
    return usage if draw(st.booleans()) else usage.model_copy(update={"cost_usd": draw(own)})


@st.composite
def replies(draw: st.DrawFn) -> Message:
    metadata = MessageMetadata(
        model=draw(st.sampled_from([None, SONNET, "openai:o3", "nobody:knows", "local"])),
        provider=draw(st.sampled_from([None, "anthropic", ""])),
        user_id=draw(NAMES),
        team_id=draw(NAMES),
        status=draw(st.sampled_from(list(MessageStatus))),
        usage=draw(st.none() | usages()),
    )
    at = NOON + timedelta(microseconds=draw(st.integers(-3 * 86_400_000_000, 3 * 86_400_000_000)))
    return Message.assistant("a secret", metadata=metadata, created_at=at)


PRICES = (Repricing(), Repricing(), Repricing(as_model="openai:o3"), Repricing(table=price_table()))


@pytest.mark.parametrize("group", ["user", "team"])
@pytest.mark.parametrize("prices", [Repricing(), Repricing(as_model="openai:o3")], ids=["recorded", "repriced"])
def test_an_empty_name_is_not_a_missing_one(tmp_path: Path, group: str, prices: Repricing) -> None:
    """Replies of the user "" and of no user are two lines, for any source and prices."""
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    usage = Usage(input_tokens=1, output_tokens=1, cost_usd=Decimal("0.5"), cost_status=CostStatus.PRICED)
    named = [MessageMetadata(model=SONNET, usage=usage, user_id=name, team_id=name) for name in (None, "")]
    with Store(url, synchronous="normal") as store:
        store.create(messages=[Message.assistant("a secret", metadata=metadata) for metadata in named])
        store.export_replies(tmp_path / "days")
    for source in (Source(read_store, url), Source(read_export, tmp_path / "days")):
        assert {line.key for line in source.lines([group], prices)} == {(None,), ("",)}


def test_a_cost_status_of_a_newer_version_is_a_lower_bound(tmp_path: Path) -> None:
    """A cost status of a newer version is a lower bound in reports from the store, and from its files."""
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    usage = {"input_tokens": 1, "cost_usd": "0.5", "cost_status": "estimated"}
    newer = read_message({"role": "assistant", "content": "Hi.", "metadata": {"model": SONNET, "usage": usage}})
    with Store(url, synchronous="normal") as store:
        store.create(messages=[newer])
        store.export_replies(tmp_path / "days")
    for source in (Source(read_store, url), Source(read_export, tmp_path / "days")):
        assert [str(line) for line in source.lines(["model"], Repricing())] == ["at least $0.500000"]


@examples(8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    messages=st.lists(replies(), min_size=1, max_size=12),
    by=st.lists(st.sampled_from(GROUPS), max_size=2, unique=True),
    span=st.sampled_from([Span(), Span(NOON), Span(NOON - DAY, NOON + DAY / 3)]),
    prices=st.sampled_from(PRICES),
)
def test_a_report_over_the_files_is_that_of_the_store(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Message], by: list[str], span: Span, prices: Repricing
) -> None:
    """A report over the files is that of the store for any content, users and costs: as recorded, and as another model;
    for all groups and times.
    """
    place = tmp_path_factory.mktemp("exported")
    url = f"sqlite:///{place / 'sessions.db'}"
    with Store(url, synchronous="normal") as store:
        store.create(messages=messages[:8], attempts=messages[8:], session_id="sess_1")
        spent = store.total_spend()
        done = store.export_replies(place / "days")
    if not done.replies:
        return
    stored, export = Source(read_store, url), Source(read_export, place / "days")
    assert tuple(export.lines(by, prices, span)) == tuple(stored.lines(by, prices, span))
    assert Replies(place / "days").costs() == (spent,)


def test_async_store_exports_alike(store: Store, folder: Path) -> None:
    """`AsyncStore` exports as `Store` does, and accepts a string as a path."""
    fill(store)

    async def export() -> ExportResult:
        return await AsyncStore(store).export_replies(str(folder), since=DAYS[1])

    assert anyio.run(export).written == DAYS[1:]


def test_without_duckdb_the_extra_is_named(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtraError, match=r"dragoman\[report\]"):
        store.export_replies(folder)
