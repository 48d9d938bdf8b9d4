"""A report over a store that DuckDB reads in place: the figures of the store's own, to the last digit."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from dragoman.adapter.errors import ConfigurationError, MissingExtraError, RequestError
from dragoman.canonical.message import Message
from dragoman.cli.cost.sources import Repricing, Source, Span, read_attached_store, read_store
from dragoman.store import Store, StoreError, StoreVersionError
from dragoman.store.reports.attached import AttachedReplies
from tests.sampling import examples
from tests.store.databases import postgres_place, postgres_url
from tests.store.reporting.test_exported import DAY, GROUPS, NOON, PRICES, fill, replies
from tests.store.turns import change

pytest.importorskip("duckdb", reason="the extra `report` is not installed")


def attached(url: str) -> AttachedReplies:
    """Skips if DuckDB lacks the extension, as in most places: it is not a dependency."""
    try:
        return AttachedReplies(url)
    except MissingExtraError as missing:
        pytest.skip(str(missing))


def test_a_report_is_that_of_the_store(lasting_place: str) -> None:
    """For all groups, and times; a fork's copies are billed once."""
    with Store(lasting_place) as store:
        fill(store)
        spent = store.total_spend()
    assert attached(lasting_place).costs() == (spent,)
    for by in (*([name] for name in GROUPS), ["team", "day"]):
        for span in (Span(), Span(NOON + DAY), Span(None, NOON + DAY)):
            for prices in PRICES:
                found = Source(read_attached_store, lasting_place).lines(by, prices, span)
                assert tuple(found) == tuple(Source(read_store, lasting_place).lines(by, prices, span))


@examples(8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    messages=st.lists(replies(), min_size=1, max_size=12),
    by=st.lists(st.sampled_from(GROUPS), max_size=2, unique=True),
    prices=st.sampled_from(PRICES),
)
def test_unusual_values_are_reported_exactly(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Message], by: list[str], prices: Repricing
) -> None:
    """Backslashes, U+0000, counts and costs of any size."""
    _compare(f"sqlite:///{tmp_path_factory.mktemp('attached') / 'sessions.db'}", messages, by, prices)
    if (server := postgres_url()) is not None:
        with postgres_place(server) as url:
            _compare(url, messages, by, prices)


def _compare(url: str, messages: list[Message], by: list[str], prices: Repricing) -> None:
    with Store(url, synchronous="normal") as store:
        store.create(messages=messages[:8], attempts=messages[8:], session_id="a\\0\0\\")
    attached(url)
    assert tuple(Source(read_attached_store, url).lines(by, prices)) == tuple(Source(read_store, url).lines(by, prices))


def test_an_older_store_is_refused(lasting_place: str) -> None:
    """Its tables may be others."""
    with Store(lasting_place) as store:
        store.create()
        attached(lasting_place)
        change(store, "UPDATE dragoman_version SET version_num = '0001'")
    with pytest.raises(StoreVersionError, match="of version '0001'"):
        AttachedReplies(lasting_place)


def test_other_databases_are_refused(tmp_path: Path) -> None:
    """Before anything is opened, or with what is missing; no password is repeated."""
    for url in ("chats.db", "mysql://ann:hunter2@h/x", "sqlite://", f"sqlite:///{tmp_path}/none.db"):
        with pytest.raises(ConfigurationError) as refused:
            AttachedReplies(url)
        assert "hunter2" not in str(refused.value)
    with Store(f"sqlite:///{tmp_path}/chats.db") as store:
        store.create()
    with pytest.raises(RequestError, match="costs can be grouped by"):
        attached(f"sqlite:///{tmp_path}/chats.db").costs(["colour"])
    (tmp_path / "other.db").write_bytes(b"SQLite format 3\0 or so")
    with pytest.raises(StoreError, match="no store there"):
        AttachedReplies(f"sqlite:///{tmp_path}/other.db")
    with pytest.raises(StoreError, match="no store there") as hidden:
        attached("postgresql://ann:hunter2@127.0.0.1:1/x")
    assert "hunter2" not in str(hidden.value)


def test_without_the_extension_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched."""
    monkeypatch.setattr("dragoman.store.reports.attached._EXTENSION", "{}_nobody_has_this")
    with Store(f"sqlite:///{tmp_path}/chats.db") as store:
        store.create()
    with pytest.raises(MissingExtraError, match=r"INSTALL sqlite.*dragoman store export"):
        AttachedReplies(f"sqlite:///{tmp_path}/chats.db")
