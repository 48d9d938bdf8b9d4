"""Small price tables for the tests: files in a folder, as the bundled ones."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from dragoman.pricing import PriceTable

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)

ACME = """
provider = "acme"
source = "https://acme.example/prices"
checked = 2026-11-10
tools = { web_fetch = "0" }

[[model]]
id = "plain"
match = { equals = ["plain"] }
prices = [{ input = "3", output = "15" }]

[[model]]
id = "full"
match = { starts_with = ["full"], dated = ["whole"] }
prices = [
  { until = 2026-03-01, input = "10", output = "40" },
  { from = 2026-03-01, input = "4", output = "20", cache_read = "0.4", cache_write = "5", cache_write_1h = "8", audio_input = "40", audio_output = "80", image_input = "6", image_output = "60", reasoning = "30", tools = { web_search = "10" }, over = [{ tokens = 1000, input = "8", output = "30" }, { tokens = 2000, input = "12" }] },
]
variants = [
  { processing = "batch", from = 2026-06-01, input = "2", output = "10" },
  { service_tier = "flex", input = "1", output = "5", cache_read = "0.1" },
  { speed = "fast", input = "8", output = "40" },
]

[[model]]
id = "night"
match = { equals = ["night"] }
prices = [
  { input = "2", output = "2" },
  { window = { start = 22:00:00, end = 06:00:00, days = ["mon", "tue", "wed", "thu", "fri"] }, input = "1", output = "1" },
]

[[model]]
id = "input-only"
match = { equals = ["input-only"] }
prices = [{ input = "1" }]

[[model]]
id = "unknown-rates"
match = { equals = ["unknown-rates"] }

[[model]]
id = "gratis"
match = { equals = ["gratis"] }
prices = [{ free = true }]

[[model]]
id = "fee"
match = { equals = ["fee"] }
prices = [{ request = "5", input = "1", output = "1" }]

[[surcharge]]
field = "geo"
standard = ["global"]
factors = { us = "1.1" }
"""

INDEX = 'date = 2026-11-10\nsame_prices = { acme-chat = "acme" }\n'


def write_table(folder: Path, files: Mapping[str, str] | None = None, overlay: str | None = None) -> PriceTable:
    """A table of those provider files (by default one, ``acme``) and that bundled overlay."""
    folder.mkdir(exist_ok=True)
    (folder / "index.toml").write_text(INDEX, encoding="utf-8")
    for name, text in (files if files is not None else {"acme": ACME}).items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    if overlay is not None:
        (folder / "overlay.toml").write_text(overlay, encoding="utf-8")
    return PriceTable(folder)


def acme(rows: str) -> dict[str, str]:
    """Files of one provider with one model, ``acme:m``, of those prices and variants."""
    return {
        "acme": f"""
provider = "acme"
source = "https://acme.example/prices"
checked = 2026-11-10

[[model]]
id = "m"
match = {{ equals = ["m"] }}
{rows}
"""
    }
