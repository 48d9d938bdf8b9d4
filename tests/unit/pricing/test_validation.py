"""The validator: the bundled data is valid, and each kind of fault is found."""

from pathlib import Path

import pytest

from dragoman.bundled import bundled_path
from dragoman.pricing import PriceTable, find_faults, price_table
from tests.unit.pricing.tables import ACME, INDEX, acme, write_table


def test_the_bundled_table_is_valid() -> None:
    assert find_faults(price_table()) == []


def test_the_bundled_table_is_complete() -> None:
    """Every provider with an adapter has prices, under the name of the adapter."""
    table = price_table()
    named = {"anthropic", "azure-openai", "bedrock", "cohere", "deepseek", "google", "google-vertex", "groq"}
    named |= {"local", "mistral", "ollama", "openai", "openai-chat", "openrouter", "xai"}
    assert named <= set(table.providers())
    assert all(table.models(provider) for provider in named)
    assert sum(len(table.models(provider)) for provider in table.providers()) > 2300


def test_the_data_stays_small() -> None:
    """It is part of the wheel."""
    assert sum(path.stat().st_size for path in bundled_path("pricing").glob("*.toml")) < 1_500_000


def test_a_valid_table_has_no_faults(tmp_path: Path) -> None:
    """The table of these tests is one."""
    assert find_faults(write_table(tmp_path)) == []


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ('prices = [{ input = "1" }, { from = 2026-01-01, input = "2" }]', "two rows apply at once"),
        (
            'variants = [{ speed = "fast", input = "1" }, { speed = "fast", from = 2026-01-01, input = "2" }]',
            "two rows apply at once: speed=fast",
        ),
        (
            """prices = [
            { window = { start = 01:00:00, end = 03:00:00 }, input = "1" },
            { window = { start = 02:00:00, end = 04:00:00 }, input = "2" }]""",
            "two rows apply at once",
        ),
        ('prices = [{ from = 2026-02-01, until = 2026-01-01, input = "1" }]', "ends before it begins"),
        ('prices = [{ free = true, input = "1" }]', "free, but with rates"),
        ('prices = [{ input = "3000" }]', "more than 2000 dollars"),
        ('prices = [{ input = "3", over = [{ tokens = 5, input = "3000" }] }]', "more than 2000 dollars"),
        ('prices = [{ input = "3", over = [{ tokens = 5, input = "2" }] }]', "cheaper for longer prompts"),
        ('prices = [{ input = "1", cache_read = "2" }]', "cache_read is more expensive than input"),
        ('prices = [{ input = "1", cache_write = "2", cache_write_1h = "1" }]', "cache_write is more expensive than"),
        (
            'prices = [{ until = 2026-01-01, input = "1" }, { from = 2026-01-01, input = "30" }]',
            "input jumps from 1 to 30",
        ),
        ('prices = [{ input = "1" }]\nvariants = [{ speed = "fast", input = "30" }]', "input jumps from 1 to 30"),
        ('source = "somewhere"\nprices = [{ input = "1" }]', "the source is not a link: 'somewhere'"),
        ('checked = 2027-01-01\nprices = [{ input = "1" }]', "checked on 2027-01-01, after the table's own date"),
        ('prices = [{ input = "x" }]', "'x' is not a decimal number"),
    ],
)
def test_each_fault_is_found(tmp_path: Path, rows: str, fault: str) -> None:
    """One invalid row, one line that names the model and the fault."""
    faults = find_faults(write_table(tmp_path, acme(rows)))
    assert len(faults) == 1
    assert faults[0].startswith(("acme:m: ", "the prices of acme:m: "))
    assert fault in faults[0]


@pytest.mark.parametrize(
    "windows",
    [
        "{ start = 01:00:00, end = 02:00:00 } | { start = 02:00:00, end = 03:00:00 }",
        "{ start = 22:00:00, end = 02:00:00 } | { start = 02:00:00, end = 22:00:00 }",
        "{ start = 01:00:00, end = 02:00:00, days = ['mon'] } | { start = 01:00:00, end = 02:00:00, days = ['tue'] }",
    ],
)
def test_adjacent_windows_are_valid(tmp_path: Path, windows: str) -> None:
    """Hours that follow each other, around the clock, on different days."""
    first, second = windows.split(" | ")
    rows = f"prices = [{{ window = {first}, input = '1' }}, {{ window = {second}, input = '2' }}]"
    assert find_faults(write_table(tmp_path, acme(rows))) == []


def test_checked_figures_are_accepted(tmp_path: Path) -> None:
    """An overlay can accept unusual figures, but not invalid ones."""
    odd = acme('prices = [{ input = "1", cache_read = "2" }, { input = "5" }]')
    (fault,) = find_faults(write_table(tmp_path, odd, overlay='accepted = ["acme:m"]'))
    assert "two rows apply at once" in fault


def test_faults_outside_of_rows_are_found(tmp_path: Path) -> None:
    """Invalid TOML, a fallback to an unknown provider, and a folder that is not a table."""
    broken = 'provider = "shop"\nsource = "https://shop.example"\nchecked = 2026-11-10\nfallback = ["nobody"]\n'
    faults = find_faults(write_table(tmp_path / "a", {"acme": ACME, "bad": "[", "shop": broken}))
    assert len(faults) == 2
    assert "bad.toml" in faults[0]
    assert find_faults(write_table(tmp_path / "c", index=f"{INDEX}[unpriced]\nacme = 'why'\n"))[0] == (
        "acme: has prices, but also a reason for having none"
    )
    assert faults[1] == "shop: falls back to nobody, which does not exist"
    (tmp_path / "b").mkdir()
    (fault,) = find_faults(PriceTable(tmp_path / "b"))
    assert "index.toml" in fault
