"""Each imported library is a requirement in pyproject.toml."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.packaging.wheel import PROJECT, ROOT, WHEEL, packages

BROUGHT_BY = {
    "_pytest": "pytest", "anyio": "httpx", "opentelemetry": "opentelemetry-api", "pydantic_core": "pydantic",
    "vcr": "vcrpy", "yaml": "pyyaml",
}  # fmt: skip
"""Requirements that bring a module of another name, or another package."""


def imported_libraries(file: Path) -> Iterator[str]:
    """The libraries that a file imports by a statement, at its top or further down."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.Import(names=names):
                yield from (each.name.partition(".")[0] for each in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]


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
        if name not in ours
    }
    assert {name for name, _ in found} >= {"httpx", "pydantic", "sqlalchemy"}
    assert [(name, file) for name, file in found if BROUGHT_BY.get(name, name).replace("_", "-") not in declared] == []
