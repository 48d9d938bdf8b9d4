"""The table: files, aliases, overlays, versions, and errors that say what to do."""

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.contract import Prices, bundled_prices
from dragoman.adapter.errors import ConfigurationError
from dragoman.bundled import bundled_path
from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.pricing import PriceTable, price_table
from tests.unit.pricing.tables import ACME, NOW, acme, write_table

USAGE = TokenUsage(input_tokens=1_000_000)
OVERLAY = """
checked = 2026-11-15

[acme]
source = "https://acme.example/our-contract"

[[acme.model]]
id = "plain at our rate"
match = { equals = ["plain"] }
prices = [{ input = "2" }]

[own]
source = "https://own.example"

[[own.model]]
id = "mine"
match = { equals = ["mine"] }
prices = [{ input = "7" }]
"""

ALL = """
provider = "all"
source = "https://all.example"
checked = 2026-11-10

[[model]]
id = "m"
match = { contains = [""] }
prices = [{ input = "1" }]
"""


def test_the_bundled_table_is_the_default_of_adapters() -> None:
    """One table for the process, also found through its entry point, and of the type that adapters expect."""
    prices: Prices = price_table()
    assert prices is price_table()
    assert bundled_prices() is prices


def test_the_version_names_the_content(tmp_path: Path) -> None:
    """A date and a short hash; equal content has an equal version, other content another one."""
    first = write_table(tmp_path / "a")
    assert re.fullmatch(r"2026-11-10\+[0-9a-f]{8}", first.version)
    assert write_table(tmp_path / "b").version == first.version
    assert write_table(tmp_path / "c", {"acme": ACME.replace('"3"', '"3.01"')}).version != first.version
    assert write_table(tmp_path / "d", overlay=OVERLAY).version != first.version
    crlf = write_table(tmp_path / "e")
    for path in (tmp_path / "e").iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert crlf.version == first.version


def test_every_cost_carries_the_version(tmp_path: Path) -> None:
    """A cost without a price names the table, too."""
    table = write_table(tmp_path)
    assert table.price("acme:plain", USAGE, NOW).pricing_version == table.version
    assert table.price("acme:nobody", USAGE, NOW).pricing_version == table.version


def test_an_overlay_goes_first_and_changes_the_version(tmp_path: Path) -> None:
    """Its rates replace those of the table, its providers are added, the rest stays."""
    table = write_table(tmp_path / "prices")
    path = tmp_path / "ours.toml"
    path.write_text(OVERLAY, encoding="utf-8")
    ours = table.with_overlay(path)
    assert ours.price("acme:plain", USAGE, NOW).cost_usd == 2
    assert ours.price("own:mine", USAGE, NOW).cost_usd == 7
    assert ours.price("acme:gratis", USAGE, NOW).cost_status is CostStatus.FREE
    assert ours.models("acme")[:2] == ("plain at our rate", "plain")
    assert ours.providers() == ("acme", "acme-chat", "own")
    assert re.fullmatch(re.escape(table.version) + r"\+[0-9a-f]{8}", ours.version)
    assert table.price("acme:plain", USAGE, NOW).cost_usd == 3


def test_a_bundled_overlay_is_part_of_the_table(tmp_path: Path) -> None:
    """Known gaps are corrected without touching the generated files."""
    table = write_table(tmp_path, overlay=OVERLAY)
    row = table.find("acme:plain", NOW)
    assert row is not None
    assert (row.source, str(row.checked)) == ("https://acme.example/our-contract", "2026-11-15")
    assert table.price("acme:plain", USAGE, NOW).cost_usd == 2


def test_a_section_of_an_overlay_has_its_own_day(tmp_path: Path) -> None:
    """It takes precedence over the day of the whole overlay."""
    own_day = OVERLAY.replace("[acme]", "[acme]\nchecked = 2026-11-16")
    table = write_table(tmp_path, overlay=own_day)
    days = {name: row.checked.day for name in ("acme:plain", "own:mine") if (row := table.find(name, NOW))}
    assert days == {"acme:plain": 16, "own:mine": 15}


def test_providers_can_share_prices(tmp_path: Path) -> None:
    """acme-chat is billed by the file of acme."""
    table = write_table(tmp_path)
    assert table.price("acme-chat:plain", USAGE, NOW).cost_usd == 3
    assert table.models("acme-chat") == table.models("acme")
    assert table.models("nobody") == ()


def test_a_reseller_falls_back_to_the_maker_of_a_model(tmp_path: Path) -> None:
    """At the standard price only: its prices for batches or tiers are unknown."""
    shop = 'provider = "shop"\nsource = "https://shop.example"\nchecked = 2026-11-10\nfallback = ["acme"]\n'
    table = write_table(tmp_path, {"acme": ACME, "shop": shop})
    usage = TokenUsage(input_tokens=1000)
    assert table.price("shop:full", usage, NOW).cost_usd == table.price("acme:full", usage, NOW).cost_usd
    assert table.price("shop:full", usage, NOW, batch=True).unpriced == ("input_tokens", "processing=batch")
    assert table.price("shop:nobody", usage, NOW).cost_status is CostStatus.UNPRICED


def test_a_reseller_has_its_own_prices_of_tools(tmp_path: Path) -> None:
    """They count for the models of others, too; a tool that it does not price costs what its maker asks."""
    shop = 'provider = "shop"\nsource = "https://shop.example"\nchecked = 2026-11-10\nfallback = ["acme"]\n'
    table = write_table(tmp_path, {"acme": ACME, "shop": f'{shop}tools = {{ web_search = "14" }}\n'})
    usage = TokenUsage(input_tokens=0, output_tokens=0, server_tools={"web_search": 1000, "web_fetch": 1000})
    assert [table.price(f"{name}:full", usage, NOW).cost_usd for name in ("acme", "shop")] == [10, 14]
    other = TokenUsage(input_tokens=0, output_tokens=0, server_tools={"teleport": 1})
    assert table.price("shop:full", other, NOW).unpriced == ("server_tools.teleport",)


def test_only_the_needed_files_are_read(tmp_path: Path) -> None:
    """A broken file of another provider does not prevent a price."""
    table = write_table(tmp_path, {"acme": ACME, "broken": "not toml at all ["})
    assert table.price("acme:plain", USAGE, NOW).cost_usd == 3
    with pytest.raises(ConfigurationError, match=r"cannot be read: .*broken\.toml"):
        table.price("broken:m", USAGE, NOW)


@pytest.mark.parametrize(
    ("prices", "fault"),
    [
        ("prices = [{ input = 3.0 }]", "write 3.0 in quotes"),
        ('prices = [{ input = "three" }]', "'three' is not a decimal number"),
        ('prices = [{ input = "-1" }]', "'-1' is not an amount of money"),
        ('prices = [{ input = "NaN" }]', "'NaN' is not an amount of money"),
        ('prices = [{ input = "Infinity" }]', "'Infinity' is not an amount"),
        ('prices = [{ ouput = "1" }]', "unknown: ouput"),
        ('prices = [{ input = "1", over = [{ tokens = 5, ouput = "1" }] }]', "over: unknown: ouput"),
        ('prices = [{ input = "1", over = [{ tokens = 5, output = "1" }] }]', "output has no rate for shorter"),
        ('prices = [{ input = "1", from = "2026-01-01" }]', "is not a date"),
        ('prices = [{ input = "1", from = 2026-01-01T00:00:00 }]', "needs a time zone"),
        ('prices = [{ input = "1", window = { start = 01:00:00 } }]', "start and end must be times"),
        (
            'prices = [{ input = "1", window = { start = 01:00:00, end = 02:00:00, days = ["monday"] } }]',
            "days must be some of mon",
        ),
        ('variants = [{ speed = "fast", processing = "batch", input = "1" }]', "one variant, not 2"),
        ('price = [{ input = "1" }]', "m: unknown: price"),
    ],
)
def test_an_invalid_line_is_named(tmp_path: Path, prices: str, fault: str) -> None:
    """A misspelt rate must not become a missing one, and a float is not money."""
    with pytest.raises(ConfigurationError, match=f"the prices of acme.*{re.escape(fault)}"):
        write_table(tmp_path, acme(prices)).price("acme:m", USAGE, NOW)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('source = "https://x"\n[[model]]\nid = "m"\nmatch = { equals = ["m"] }', r"\(checked\)"),
        ('checked = 2026-01-01\n[[model]]\nid = "m"\nmatch = { equals = ["m"] }', r"\(source\)"),
        ("[[model]]\nid = 'm'", "needs an id and a match"),
        ("tool = 1", "unknown: tool"),
        ("[[surcharge]]\nfield = 'geo'", "surcharge: 'standard' is missing"),
    ],
)
def test_an_invalid_file_is_named(tmp_path: Path, text: str, fault: str) -> None:
    """Each row names the source of its figures and the day of their check."""
    with pytest.raises(ConfigurationError, match=f"the prices of acme.*{fault}"):
        write_table(tmp_path, {"acme": text}).price("acme:m", USAGE, NOW)


@pytest.mark.parametrize(
    ("overlay", "fault"),
    [
        ({"acme": "x"}, "'acme' is not a section"),
        ({"acme-chat": {}}, "acme-chat has the prices of acme: put the overlay there"),
    ],
)
def test_an_invalid_overlay_is_refused(tmp_path: Path, overlay: dict[str, object], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(fault)):
        write_table(tmp_path).with_overlay(overlay).price("acme:plain", USAGE, NOW)


@pytest.mark.parametrize(
    ("overlay", "fault"),
    [
        ({"acme": {"model": [{"id": "m"}]}}, "every model needs an id and a match: 'm'"),
        ({"acme": {"model": [{"id": "m", "match": {"equals": ["m"]}, "prices": [{"input": "1"}]}]}}, "name the source"),
        (
            {"acme": {"source": "x", "checked": "2026-11-01", "model": [
                {"id": "m", "match": {"equals": ["m"]}, "prices": [{}]}]}},
            "checked must be a date: in TOML without quotes, in Python date(2026, 11, 1)",
        ),
        (
            {"acme": {"source": "x", "checked": date(2026, 11, 1), "model": [
                {"id": "m", "match": {"equals": ["m"]}, "prices": [{"input": 1.5}]}]}},
            "write 1.5 in quotes",
        ),
        (["acme"], "a dict or the path of a file, not a list"),
        ("nowhere.toml", "cannot be read: nowhere.toml"),
    ],
)  # fmt: skip
def test_an_overlay_is_read_at_once(tmp_path: Path, overlay: Any, fault: str) -> None:
    """A fault must not appear when the first reply has been paid for."""
    table = write_table(tmp_path)
    with pytest.raises(ConfigurationError, match=re.escape(fault)):
        table.with_overlay(overlay)


def test_an_overlay_may_be_a_string_path(tmp_path: Path) -> None:
    """An overlay may be a string path, as `--overlay` of the command line is."""
    path = tmp_path / "ours.toml"
    path.write_text("", encoding="utf-8")
    table = write_table(tmp_path)
    assert table.with_overlay(str(path)).version == table.with_overlay(path).version


def test_a_folder_without_an_index_is_no_table(tmp_path: Path) -> None:
    """Its prices would be unknown."""
    with pytest.raises(ConfigurationError, match=r"index\.toml"):
        _ = PriceTable(tmp_path).version
    (tmp_path / "index.toml").write_text("", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="has no date"):
        _ = PriceTable(tmp_path).version


def test_names_are_not_cached_for_ever(tmp_path: Path) -> None:
    """Names come from the caller, so the cache starts again when it is full; until then a name is searched once."""
    table = write_table(tmp_path)
    for number in range(4096):
        table.find(f"acme:made-up-{number}", NOW)
    assert len(table._models) == 4096
    table.find("acme:one-more", NOW)
    assert list(table._models) == ["acme:one-more"]


def test_the_order_of_an_overlays_keys_does_not_change_its_version(tmp_path: Path) -> None:
    """It means the same."""
    table = write_table(tmp_path)
    sections: dict[str, Any] = {"own": {"fallback": []}, "other": {"fallback": []}}
    reordered = dict(reversed(sections.items()))
    assert table.with_overlay(sections).version == table.with_overlay(reordered).version != table.version


def test_a_text_that_moves_to_another_file_changes_the_version(tmp_path: Path) -> None:
    """The same bytes one after another are another table."""
    line = "# a comment\n"
    first = write_table(tmp_path / "a", {"acme": ACME + line, "zeta": ""})
    second = write_table(tmp_path / "b", {"acme": ACME, "zeta": line})
    third = write_table(tmp_path / "c", {"acme": ACME + line, "zoom": ""})
    assert len({first.version, second.version, third.version}) == 3


def test_a_router_may_have_prices_of_its_own(tmp_path: Path) -> None:
    """A router may have prices of its own for names without a serving provider; with one, that provider's
    prices count.
    """
    hub = ACME.replace('"acme"', '"hub"').replace('input = "3"', 'input = "9"')
    index = 'date = 2026-11-10\nrouters = { hub = "{}" }\n'
    table = write_table(tmp_path, {"acme": ACME, "hub": hub}, index=index)
    assert table.price("hub:plain", USAGE, NOW).cost_usd == 9
    assert table.price("hub:plain:ACME", USAGE, NOW).cost_usd == 3
    assert table.price("hub:plain:nobody", USAGE, NOW).cost_usd is None


def test_an_empty_name_matches_no_rule(tmp_path: Path) -> None:
    """An empty name matches no rule, not even one that matches every name."""
    table = write_table(tmp_path, acme('prices = [{ input = "1" }]') | {"all": ALL})
    assert table.price("all:anything", USAGE, NOW).cost_usd == 1
    assert table.price("all:", USAGE, NOW).cost_usd is None


def test_overlays_accept_odd_figures(tmp_path: Path) -> None:
    """Overlays accept odd figures: those of the caller and the bundled ones together."""
    table = write_table(tmp_path, overlay='accepted = ["acme:full"]\n')
    assert table.accepted == {"acme:full"}
    assert table.with_overlay({"accepted": ["acme:plain"]}).accepted == {"acme:full", "acme:plain"}
    assert write_table(tmp_path / "plain").accepted == frozenset()


def test_the_data_folders_are_found() -> None:
    """In a checkout they are at its root."""
    assert (bundled_path("pricing") / "index.toml").is_file()
    with pytest.raises(ConfigurationError, match="data folder 'nothing' is missing"):
        bundled_path("nothing")


def test_an_installed_package_uses_its_own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder inside the package takes precedence over a folder next to it."""
    package = tmp_path / "src" / "dragoman"
    inside = package / "_bundled" / "pricing"
    inside.mkdir(parents=True)
    (tmp_path / "pricing").mkdir()
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr("dragoman.bundled._PACKAGE", package)
    assert bundled_path("pricing") == inside
    inside.rmdir()
    assert bundled_path("pricing") == tmp_path / "pricing"
    (tmp_path / "pyproject.toml").unlink()
    with pytest.raises(ConfigurationError):
        bundled_path("pricing")
