"""Small price tables for the tests: files in a folder, like the bundled ones."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from dragoman.pricing import PriceTable

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)

ACME = Path(__file__).with_name("acme.toml").read_text(encoding="utf-8")

INDEX = 'date = 2026-11-10\nsame_prices = { acme-chat = "acme" }\n'


def write_table(
    folder: Path, files: Mapping[str, str] | None = None, overlay: str | None = None, index: str = INDEX
) -> PriceTable:
    """A table of those provider files (by default one, ``acme``) and that bundled overlay."""
    folder.mkdir(exist_ok=True)
    (folder / "index.toml").write_text(index, encoding="utf-8")
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
