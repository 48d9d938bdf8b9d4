"""Updates of prices and limits: the newer wins per row, the version says so, and each can be reverted."""

import hashlib
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from dragoman import Client, get_adapter
from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.pricing import (
    PriceTable,
    install_update,
    list_versions,
    price_table,
    revert_update,
    save_table,
    use_update,
)
from dragoman.pricing.updates import outdated_rows

NOW = datetime(2027, 1, 5, tzinfo=UTC)
TOKENS = TokenUsage(input_tokens=1_000_000)

UPDATE = b"""
format = 1
date = 2027-01-02

[anthropic]
source = "https://www.anthropic.com/pricing#api"

[[anthropic.model]]
id = "claude-opus-7"
match = { starts_with = ["claude-opus-7"] }
prices = [{ input = "7", output = "35" }]

[[anthropic.model]]
id = "claude-opus-5-5"
match = { starts_with = ["claude-opus-5-5"] }
prices = [{ input = "3", output = "15" }]

[[anthropic.model]]
id = "claude-opus-5"
match = { equals = ["claude-opus-5"] }
checked = 2020-01-01
prices = [{ input = "999", output = "999" }]

[[anthropic.limits]]
match = ["claude-opus-7*"]
max_context_tokens = 2_000_000
max_output_tokens = 256_000

[[anthropic.limits]]
match = ["claude-opus-5"]
checked = 2020-01-01
max_context_tokens = 1

[[openai.limits]]
match = ["gpt-4.1"]
retires_on = 2027-06-01
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of installed updates. Afterwards, the process uses none."""
    yield tmp_path / "prices"
    use_update(tmp_path / "none")


def price(model: str, table: PriceTable | None = None) -> Decimal | None:
    return (table or price_table()).price(f"anthropic:{model}", TOKENS, NOW).cost_usd


def test_newer_rows_win_and_older_ones_do_not(folder: Path) -> None:
    """Row by row: prices and limits of one file."""
    before, old_price = price_table().version, price("claude-opus-5")
    update = install_update(UPDATE, "a test", folder=folder)
    assert price_table().version == before, "installing alone changes nothing in a program"
    use_update(folder)
    assert (price("claude-opus-7"), price("claude-opus-5-5"), price("claude-opus-5")) == (7, 3, old_price)
    assert outdated_rows(UPDATE) == ("anthropic:claude-opus-5", "anthropic:claude-opus-5")
    capabilities = get_adapter("anthropic:claude-opus-7-20270101").capabilities
    assert (capabilities.max_context_tokens, capabilities.max_output_tokens) == (2_000_000, 256_000)
    assert get_adapter("anthropic:claude-opus-5").capabilities.max_context_tokens == 1_000_000
    assert str(get_adapter("openai:gpt-4.1").capabilities.retires_on) == "2027-06-01"
    assert update.version == price_table().version != before


def test_the_version_stands_on_every_cost_and_can_be_loaded_again(folder: Path, tmp_path: Path) -> None:
    """The version can be loaded with the update, without it, and later from an archive."""
    plain = price_table().version
    install_update(UPDATE, "a test", folder=folder)
    use_update(folder)
    usage = price_table().price("anthropic:claude-opus-7", TOKENS, NOW)
    assert usage.pricing_version == price_table().version
    assert usage.pricing_version.startswith("2027-01-02+")
    assert price_table(plain).version == plain
    assert {plain, usage.pricing_version} <= set(list_versions())
    save_table(price_table(), tmp_path / "kept")
    use_update(tmp_path / "none")
    kept = price_table(usage.pricing_version, archive=tmp_path / "kept")
    assert kept.price("anthropic:claude-opus-7", TOKENS, NOW).cost_usd == usage.cost_usd


def test_sessions_use_the_update(folder: Path) -> None:
    """Those that are opened after it."""
    install_update(UPDATE, "a test", folder=folder)
    use_update(folder)
    with Client(providers={"anthropic": {"api_key": "k"}}).session("anthropic:claude-opus-7") as session:
        preview = session.preview("anthropic:claude-opus-7")
    assert preview.max_context_tokens == 2_000_000


def test_an_overlay_stays_above_the_update(folder: Path) -> None:
    """A price that was negotiated is not replaced."""
    install_update(UPDATE, "a test", folder=folder)
    use_update(folder)
    own = {"anthropic": {"source": "https://acme.example/contract", "checked": NOW.date(), "model": [
        {"id": "ours", "match": {"starts_with": ["claude-opus-7"]}, "prices": [{"input": "1", "output": "2"}]}
    ]}}  # fmt: skip
    table = price_table().with_overlay(own)
    assert (price("claude-opus-7", table), price("claude-opus-5-5", table)) == (1, 3)


def test_revert_restores_the_one_before(folder: Path) -> None:
    plain = price_table().version
    first = install_update(UPDATE, "the first", folder=folder)
    second = install_update(UPDATE.replace(b"2027-01-02", b"2027-02-02"), "the second", folder=folder)
    assert first.version != second.version
    restored = revert_update(folder)
    assert restored is not None
    assert restored == first
    use_update(folder)
    assert price_table().version == first.version
    assert revert_update(folder) is None
    assert use_update(folder) is None
    assert price_table().version == plain
    assert get_adapter("anthropic:claude-opus-7").capabilities.max_context_tokens == 1_000_000
    with pytest.raises(ConfigurationError, match="no update"):
        revert_update(folder)
    assert [path.name for path in folder.iterdir()] == ["installed.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "format"),
        (b"format = 2\ndate = 2027-01-02", "format 2"),
        (b"format = 1", "no date"),
        (b"\xff", "not an update"),
        (b"x" * 17_000_000, "more than"),
        (UPDATE + b'[acme]\nsurcharge = []', "surcharge"),
        (UPDATE + b"[acme]\n[[acme.limits]]\nmatch = ['*']\nmax_context_tokens = 0", "positive"),
        (UPDATE + b"[acme]\n[[acme.limits]]\nmatch = ['*']\nsupports_tools = 'native'", "supports_tools"),
        (UPDATE + b"[acme]\nlimits = 5", "the limits of acme"),
        (UPDATE + b"[acme]\n[[acme.model]]\nid = 'x'\nmatch = { equals = ['x'] }\nprices = [{ input = 'x' }]", "acme"),
        (UPDATE + b"[acme]\n[[acme.model]]\nmatch = { equals = ['x'] }", "acme"),
        (UPDATE + b"acme = 3", "acme"),
    ],
)  # fmt: skip
def test_a_faulty_update_changes_nothing(folder: Path, content: bytes, message: str) -> None:
    """It is checked whole, and the error says what is wrong."""
    with pytest.raises(ConfigurationError, match=message):
        install_update(content, "a test", folder=folder)
    assert use_update(folder) is None
    assert not folder.exists() or list(folder.iterdir()) == []


def test_another_checksum_and_an_older_update_are_refused(folder: Path) -> None:
    """A mirror may serve another file, or an old one."""
    with pytest.raises(ConfigurationError, match="SHA-256"):
        install_update(UPDATE, "a test", sha256="0" * 64, folder=folder)
    install_update(UPDATE, "a test", sha256=hashlib.sha256(UPDATE).hexdigest().upper(), folder=folder)
    with pytest.raises(ConfigurationError, match="revert"):
        install_update(UPDATE.replace(b"2027-01-02", b"2026-12-02"), "an older one", folder=folder)
    install_update(UPDATE, "the same", folder=folder)
    assert revert_update(folder) is None, "the same file twice is one update"


@pytest.mark.parametrize("damage", ["changed", "missing", "pointer"])
def test_a_damaged_installation_is_an_error_that_says_what_to_do(folder: Path, damage: str) -> None:
    """A price from a changed file would be a wrong one. Reverting always works."""
    update = install_update(UPDATE, "a test", folder=folder)
    path = folder / f"{update.sha256}.toml"
    if damage == "changed":
        path.write_bytes(UPDATE.replace(b'"7"', b'"0"'))
    elif damage == "missing":
        path.unlink()
    else:
        (folder / "installed.json").write_text(json.dumps({"current": 3}))
    with pytest.raises(ConfigurationError, match="--revert"):
        use_update(folder)
    revert_update(folder)
    assert use_update(folder) is None


def test_the_error_of_a_damaged_pointer_does_not_show_its_content(folder: Path) -> None:
    """The source of an update may be an address with a key."""
    install_update(UPDATE, "https://key@prices.example/update.toml", folder=folder)
    pointer = folder / "installed.json"
    for damaged in (pointer.read_text()[:-3], pointer.read_text().replace('"sha256"', '"digest"')):
        pointer.write_text(damaged)
        with pytest.raises(ConfigurationError) as caught:
            use_update(folder)
        assert "key@" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_an_unknown_model_works_by_its_family_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """On the day it ships: limits of the family, an unpriced usage, and one warning for all of its replies."""
    capabilities = get_adapter("anthropic:claude-opus-9-1").capabilities
    assert capabilities.max_context_tokens == 1_000_000
    assert capabilities.supports_tools
    with caplog.at_level(logging.WARNING, "dragoman.pricing"):
        for _ in range(3):
            usage = price_table().price("anthropic:claude-opus-9-1", TOKENS, NOW)
            assert (usage.cost_usd, usage.cost_status) == (None, CostStatus.UNPRICED)
        price_table().price("compatible:anything", TOKENS, NOW)
    (record,) = caplog.records
    assert "anthropic:claude-opus-9-1" in record.message
    assert "prices update" in record.message
