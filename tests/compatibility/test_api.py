"""The public surface is the kept one, name by name."""

from pathlib import Path

import pytest

pytest.importorskip("griffe", reason="the docs group is not installed")

from tests.compatibility.api import versions
from tests.compatibility.api.documented import PACKAGE, parse_api_page
from tests.compatibility.api.surface import surface


@pytest.fixture(scope="module")
def now() -> dict[str, str]:
    return versions.now()


@pytest.mark.exhaustive
def test_the_public_surface_is_the_kept_one(now: dict[str, str]) -> None:
    """A signature changes only with its line in the list of this version, so a reviewer sees it."""
    changes = versions.differences(versions.read(versions.version()), now)
    assert changes == [], "\n".join(["the public surface changed:", *changes, versions.ADVICE])


def test_promised_names_exist(now: dict[str, str]) -> None:
    """Every name of docs/api.md is a public name."""
    names = parse_api_page()
    assert "Session" in names[PACKAGE]
    assert [f"{module}.{name}" for module in names for name in names[module] if f"{module}.{name}" not in now] == []


HANDWRITTEN = """
from dataclasses import dataclass
from dragoman.inner import Base

__all__ = ["Thing", "Base", "make"]

class Thing(Base):
    size: int = 1

    @property
    def weight(self) -> float: ...

    def _hidden(self) -> None: ...

async def make(name: str, /, *sizes: int, loud: bool = False) -> Thing: ...
"""


def read(folder: Path, source: str) -> dict[str, str]:
    package = folder / PACKAGE
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(source, encoding="utf-8")
    (package / "inner.py").write_text("class Base:\n    def run(self, times: int) -> str: ...\n", encoding="utf-8")
    return surface(folder, {PACKAGE: ()})


def test_a_list_shows_what_a_caller_may_write(tmp_path: Path) -> None:
    """A list shows what a caller may write: kinds of parameters, defaults, properties and inherited methods; nothing
    with an underscore.
    """
    assert read(tmp_path, HANDWRITTEN) == {
        "dragoman.Base": "class()",
        "dragoman.Base.run": "def(self, times: int) -> str",
        "dragoman.Thing": "class(Base)",
        "dragoman.Thing.size": "int = 1",
        "dragoman.Thing.weight": "property -> float",
        "dragoman.make": "async def(name: str, /, *sizes: int, loud: bool = False) -> Thing",
    }


@pytest.mark.parametrize(
    ("written", "instead", "changes"),
    [
        ("loud: bool = False", "loud: bool", ["~ dragoman.make: ", "  "]),
        ("size: int = 1", "extent: int = 1", ["- dragoman.Thing.size: int = 1", "+ dragoman.Thing.extent: int = 1"]),
        ('"Thing", ', "", ["- dragoman.Thing: class(Base)"]),
        ("def _hidden(self)", "def _concealed(self)", []),
    ],
)
def test_a_change_is_reported(tmp_path: Path, written: str, instead: str, changes: list[str]) -> None:
    """If callers can see it, a class in one line; otherwise not."""
    assert written in HANDWRITTEN
    lines = versions.differences(read(tmp_path, HANDWRITTEN), read(tmp_path, HANDWRITTEN.replace(written, instead)))
    assert len(lines) == len(changes)
    assert all(line.startswith(start) for line, start in zip(lines, changes, strict=True)), lines
