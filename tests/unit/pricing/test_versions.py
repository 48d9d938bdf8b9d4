"""Older tables: stored as archives, found by their version, with unchanged prices."""

import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from zipfile import ZipFile

import pytest

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.canonical.usage import TokenUsage
from dragoman.pricing import PriceTable, UsageRecord, list_versions, price_table, reprice, save_table
from tests.unit.pricing.tables import ACME, NOW, write_table

USAGE = TokenUsage(input_tokens=1_000_000, output_tokens=1_000_000)
SPENT = UsageRecord("acme:plain", USAGE, NOW)


@pytest.fixture
def archive(tmp_path: Path) -> tuple[Path, str, str]:
    """A folder with two versions of a table: in the older one ``acme:plain`` cost more."""
    older = write_table(tmp_path / "older", {"acme": ACME.replace('input = "3"', 'input = "7"')})
    newer = write_table(tmp_path / "newer")
    folder = tmp_path / "kept"
    save_table(older, folder)
    save_table(newer, folder)
    return folder, older.version, newer.version


def test_a_version_gives_the_same_cost_forever(archive: tuple[Path, str, str]) -> None:
    """Each of two versions gives its own cost and name, however often it is called."""
    folder, older, newer = archive
    for version, amount in ((older, 22), (newer, 18), (older, 22)):
        (usage,) = reprice([SPENT], price_table(version, folder))
        assert (usage.cost_usd, usage.pricing_version) == (Decimal(amount), version)


def test_archives_are_reproducible(tmp_path: Path) -> None:
    """So they can be compared by hash."""
    first, second = write_table(tmp_path / "a"), write_table(tmp_path / "b")
    assert save_table(first, tmp_path / "x").read_bytes() == save_table(second, tmp_path / "y").read_bytes()
    assert save_table(first, tmp_path / "x").name == f"{first.version}.zip"
    assert PriceTable(tmp_path / "x" / f"{first.version}.zip").version == first.version


def test_the_bundled_table_can_be_archived_and_loaded(tmp_path: Path) -> None:
    path = save_table(price_table(), tmp_path)
    again = PriceTable(path)
    assert again.version == price_table().version
    assert again.providers() == price_table().providers()
    model = "anthropic:claude-sonnet-4-6"
    assert again.price(model, USAGE, NOW) == price_table().price(model, USAGE, NOW)
    assert path.stat().st_size < 200_000


def test_a_version_can_be_a_folder_too(tmp_path: Path) -> None:
    """A version can be a folder too: named by its version among others, or on its own."""
    table = write_table(tmp_path / "new")
    named = tmp_path / "kept" / table.version
    named.parent.mkdir()
    (tmp_path / "new").rename(named)
    assert price_table(table.version, named.parent).price("acme:plain", USAGE, NOW).cost_usd == 18
    assert price_table(table.version, named).version == table.version


def test_the_bundled_version_needs_no_folder() -> None:
    """Neither do the versions of earlier releases."""
    assert price_table(price_table().version) is price_table()
    assert list_versions()[-1] == price_table().version
    for version in list_versions():
        assert price_table(version).version == version


def test_available_versions_are_listed(archive: tuple[Path, str, str]) -> None:
    """Available versions are listed: those of the folder and the bundled one."""
    folder, older, newer = archive
    assert {older, newer, price_table().version} <= set(list_versions(folder))


@pytest.mark.parametrize(
    "version", ["2020-01-01+00000000", "", "nonsense", "../secret", "2020-01-01+00000000+11111111", "a\0b", "x" * 9000]
)
def test_a_missing_version_is_refused(archive: tuple[Path, str, str], version: str) -> None:
    """A missing version is refused with a typed error that lists the available ones."""
    with pytest.raises(ConfigurationError, match=f"is not found: known are .*{price_table().version[:10]}"):
        price_table(version, archive[0])


def test_a_table_that_differs_from_its_name_is_refused(archive: tuple[Path, str, str]) -> None:
    """A cost must not carry the version of another table."""
    folder, older, newer = archive
    (folder / f"{older}.zip").write_bytes((folder / f"{newer}.zip").read_bytes())
    with pytest.raises(ConfigurationError, match="is named as the price table"):
        price_table(older, folder)


def _archive(**files: bytes) -> bytes:
    data = io.BytesIO()
    with ZipFile(data, "w") as writer:
        for name, content in files.items():
            writer.writestr(name.replace("__", "."), content)
    return data.getvalue()


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "cannot be read"),
        (b"PK\3\4 and no more", "cannot be read"),
        (_archive(), "is not a price table"),
        (_archive(index__toml=b"date = 1"), "has no date"),
        (_archive(index__toml=b"\xff"), "cannot be read"),
        (_archive(index__toml=b"date = 2026-11-10", acme__toml=ACME.encode())[:-40], "cannot be read"),
    ],
)
def test_a_damaged_archive_is_a_typed_error(tmp_path: Path, data: bytes, fault: str) -> None:
    path = tmp_path / "prices.zip"
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match=fault):
        _ = PriceTable(path).version


def test_an_archive_that_inflates_too_far_is_refused(tmp_path: Path) -> None:
    """Before it is unpacked."""
    from zipfile import ZIP_DEFLATED

    path = tmp_path / "prices.zip"
    with ZipFile(path, "w", ZIP_DEFLATED) as writer:
        writer.writestr("index.toml", b" " * (65 * 1024 * 1024))
    with pytest.raises(ConfigurationError, match="it is not a price table"):
        _ = PriceTable(path).version


def test_an_overlay_on_an_older_table_has_a_stable_version(archive: tuple[Path, str, str]) -> None:
    """So costs with it can be computed again."""
    folder, older, _ = archive
    overlay = {
        "acme": {
            "source": "https://acme.example/ours",
            "checked": datetime(2026, 1, 1, tzinfo=UTC).date(),
            "model": [{"id": "m", "match": {"equals": ["plain"]}, "prices": [{"input": "1", "output": "1"}]}],
        }
    }
    then = price_table(older, folder).with_overlay(overlay)
    again = PriceTable(folder / f"{older}.zip", overlay)
    assert then.version == again.version != older
    assert again.price("acme:plain", USAGE, NOW).cost_usd == Decimal(2)


def test_a_table_and_a_version_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="not both"):
        reprice([SPENT], write_table(tmp_path), version="2026-11-10+00000000")
