"""The tutorial's package is the one that is kept here, and it passes the kit.

`python -m tests.packaging.third_party` installs it into a fresh environment, from the page only.
"""

import importlib.metadata
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import pytest

from dragoman import get_adapter
from dragoman.adapter import registry
from dragoman.bundled import bundled_path
from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.pricing import PriceTable
from dragoman.pricing.table import installed_folders
from dragoman.testing.conformance import Effort, conform
from dragoman.testing.conformance.suite import find_suites
from dragoman.testing.stream_laws import Effort as StreamEffort
from tests.packaging.third_party import tutorial

EFFORT = Effort(4, 2, StreamEffort(replays=0, mutations=40, stride=11, cuts=11), processes=0)

_METADATA = """Metadata-Version: 2.1
Name: acme-adapter
Version: 0.1.0
"""
_ENTRIES = """[dragoman.adapters]
acme = acme_adapter.adapter:AcmeAdapter
[dragoman.prices]
acme = acme_adapter.prices
[dragoman.conformance]
acme = acme_adapter.conformance:TestAcme
"""


@pytest.fixture
def _installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's files, on the path as an installer would put them."""
    tutorial.write_files(tmp_path)
    dist_info = tmp_path / "acme_adapter-0.1.0.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text(_METADATA, encoding="utf-8")
    (dist_info / "entry_points.txt").write_text(_ENTRIES, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    caches = (registry._entries, registry.adapter_class, installed_folders)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme_adapter"]:
        del sys.modules[name]


def test_the_package_is_that_of_the_page() -> None:
    """File by file, and none is missing on either side."""
    kept = {
        str(path.relative_to(tutorial.PACKAGE)): path.read_text(encoding="utf-8")
        for path in sorted(tutorial.PACKAGE.rglob("*"))
        if path.suffix in (".py", ".toml")
    }
    assert tutorial.tutorial_files() == kept


@pytest.mark.usefixtures("_installed_package")
def test_the_adapter_is_found_by_its_entry_point() -> None:
    """The adapter is found by its name, by its package's and by its distribution's."""
    assert type(get_adapter("acme:acme-large")).__module__ == "acme_adapter.adapter"
    assert importlib.metadata.distribution("acme-adapter").version == "0.1.0"
    for name in ("acme", "acme_adapter", "acme-adapter"):
        (suite,) = find_suites(name)
        assert suite is import_module("acme_adapter.conformance").TestAcme


@pytest.mark.usefixtures("_installed_package")
def test_the_adapter_brings_its_prices() -> None:
    """A cost names the version of the package's prices; a model without a price has an unknown cost."""
    table, at = PriceTable(bundled_path("pricing")), datetime(2026, 11, 21, tzinfo=UTC)
    usage = TokenUsage(input_tokens=1_000_000, output_tokens=100_000)
    large, words = (table.price(f"acme:{name}", usage, at) for name in ("acme-large", "acme-words"))
    assert large.cost_usd == Decimal("3.5")
    assert large.pricing_version is not None
    assert large.pricing_version.startswith(f"{table.version}+")
    assert (words.cost_usd, words.cost_status) == (None, CostStatus.UNPRICED)
    assert "acme" in table.providers()


@pytest.mark.usefixtures("_installed_package")
def test_the_adapter_passes_the_kit() -> None:
    (suite,) = find_suites("acme")
    subjects = suite.subjects()
    assert [subject.model for subject in subjects] == ["acme:acme-large", "acme:acme-words"]
    for subject in subjects:
        card = conform(subject.adapter, subject.wires, EFFORT)
        assert card.passed, [f"{result.law}: {fault}" for result in card.results for fault in result.verdict.faults]
        assert card.complete
