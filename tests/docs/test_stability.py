"""Every public name has one tier, and the page that explains the tiers can be found."""

import re
from pathlib import Path

from tests.compatibility.api.documented import parse_api_page

ROOT = Path(__file__).resolve().parents[2]
API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
TIERS = ("Stable", "Provisional")


def section(page: str, title: str) -> str:
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return str(found)


def names(tmp_path: Path, tier: str) -> set[str]:
    """The names that a section promises, read as the kept surface is read."""
    page = tmp_path / f"{tier}.md"
    page.write_text(section(API, tier), encoding="utf-8")
    return {f"{module}.{name}" for module, found in parse_api_page(page).items() for name in found}


def test_a_name_has_one_tier(tmp_path: Path) -> None:
    """A name under both headings, or under none, would promise nothing."""
    stable, provisional = (names(tmp_path, tier) for tier in TIERS)
    everything = {f"{module}.{name}" for module, found in parse_api_page().items() for name in found}
    assert "dragoman.Session" in stable
    assert "dragoman.bulk.bulk" in provisional
    assert stable & provisional == set()
    assert stable | provisional == everything


def test_the_tiers_are_explained() -> None:
    """The page has each tier, and is linked from where readers begin."""
    page = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    assert all(f"| {tier.lower()} |" in page for tier in TIERS)
    for page, link in (
        ("README.md", "/stability/"),
        ("docs/index.md", "stability.md"),
        ("mkdocs.yml", "stability.md"),
    ):
        assert link in (ROOT / page).read_text(encoding="utf-8"), page
