"""Imports: each library is a requirement in pyproject.toml, and no files import each other."""

import ast
import graphlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.packaging.wheel import PROJECT, ROOT, WHEEL, packages

BROUGHT_BY = {
    "_pytest": "pytest", "anyio": "httpx", "azure": "azure-identity", "click": "typer", "google": "google-auth",
    "idna": "httpx", "opentelemetry": "opentelemetry-api", "pydantic_core": "pydantic", "requests": "google-auth",
    "markdown_it": "markdown-it-py", "vcr": "vcrpy", "yaml": "pyyaml",
}  # fmt: skip
"""Requirements that bring a module of another name, or another package."""

IF_PRESENT = frozenset({"numpy", "tiktoken"})
"""Libraries that are used if the program has them; without them, an error says what to install, or nothing is counted.
"""


def imported_libraries(file: Path) -> Iterator[str]:
    """The libraries that a file imports by a statement, at its top or further down."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.Import(names=names):
                yield from (each.name.partition(".")[0] for each in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]


@pytest.mark.exhaustive
def test_every_imported_library_is_required() -> None:
    """A library that only the development environment has would be missing for users."""
    project = PROJECT["project"]
    declared = {
        re.split(r"[\[<>=]", one)[0].lower()
        for one in [
            *project["dependencies"],
            *(one for some in project["optional-dependencies"].values() for one in some),
        ]
    }
    ours = {*packages(), *sys.stdlib_module_names}
    found = {
        (name, str(file.relative_to(ROOT)))
        for package in WHEEL["packages"]
        for file in (ROOT / package).rglob("*.py")
        for name in imported_libraries(file)
        if name not in ours | IF_PRESENT
    }
    assert {name for name, _ in found} >= {"httpx", "pydantic", "sqlalchemy"}
    assert [(name, file) for name, file in found if BROUGHT_BY.get(name, name).replace("_", "-") not in declared] == []


def find_modules() -> dict[str, Path]:
    """The file of every module, by the module's name."""
    found = {}
    for package in WHEEL["packages"]:
        for file in (ROOT / package).rglob("*.py"):
            names = file.relative_to((ROOT / package).parent).with_suffix("").parts
            found[".".join(names[:-1] if names[-1] == "__init__" else names)] = file
    return found


def imported_modules(source: str, modules: Mapping[str, Path]) -> set[str]:
    """The modules that a source imports, wherever the statement is: also inside a function, or for types only."""
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found.update(each.name for each in names)
            case ast.ImportFrom(module=str(package), names=names):
                members = {f"{package}.{each.name}" for each in names}
                found |= members if members <= modules.keys() else {package, *members}
    return found & modules.keys()


def find_circle(sources: Mapping[str, str], modules: Mapping[str, Path]) -> list[str]:
    """The modules of one circle of imports, in order; an empty list if there is none."""
    graph = {name: imported_modules(source, modules) for name, source in sources.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.exhaustive
def test_no_files_import_each_other() -> None:
    modules = find_modules()
    sources = {name: file.read_text(encoding="utf-8") for name, file in modules.items()}
    assert find_circle(sources, modules) == []
    low, high = "dragoman.canonical.usage", "dragoman.canonical.message"
    late = f"def later() -> None:\n    from {high} import Message\n"
    typed = f"if TYPE_CHECKING:\n    from {high} import Message\n"
    for back in (late, typed):
        assert {low, high} <= {*find_circle({**sources, low: sources[low] + back}, modules)}
