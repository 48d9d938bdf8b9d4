"""The modules that programs import from: `dragoman`, its errors, its blocks, and every package of docs/api.md."""

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import dragoman
from dragoman import adapters, blocks, errors, events, messages, policy
from tests.compatibility.api.documented import PACKAGE, parse_api_page

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "dragoman"
MOST_NAMES = 60
MOST_POLICY_NAMES = 30
INTERNAL_ERRORS = {"ProviderTableError", "RunStoppedError", "WorkerLostError"}
"""Errors between parts of the library, which no caller receives."""
LAZY = (
    "dragoman", "dragoman.errors", "dragoman.events", "dragoman.limits", "dragoman.testing", "dragoman.transport",
)  # fmt: skip


def test_the_front_door_stays_small() -> None:
    """A name for which there is no room is in the package of its subject."""
    assert len(dragoman.__all__) <= MOST_NAMES
    assert len(policy.__all__) <= MOST_POLICY_NAMES
    assert dragoman.__all__ == sorted(set(dragoman.__all__))


ALONE = """
import importlib, json, sys

for module in json.loads(sys.argv[1]):
    groups = importlib.import_module(module)._EXPORTS
    for names in groups.values():
        for loaded in [each for each in sys.modules if each.partition(".")[0] == "dragoman"]:
            del sys.modules[loaded]
        scope = {}
        exec(f"from {module} import {', '.join(names)}", scope)
        assert None not in map(scope.get, names), names
    promised, bound = sys.modules[module].__all__, vars(sys.modules[module])
    late = [name for names in groups.values() for name in names]
    assert sorted({*late, *(name for name in promised if name in bound)}) == promised, "neither late nor bound"
"""
"""Imports the names of each module into an interpreter without the library. What the library needs is loaded once."""


@pytest.mark.exhaustive
def test_each_name_can_be_imported_first() -> None:
    """No name relies on a module that another one loaded."""
    doors = json.dumps(["dragoman", "dragoman.errors"])
    done = subprocess.run([sys.executable, "-c", ALONE, doors], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


BARE = """
import importlib, json, sys

OPTIONAL = set(json.loads(sys.argv[2]))

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in OPTIONAL:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refusing())
from dragoman.errors import MissingExtraError

missing = {}
for module in json.loads(sys.argv[1]):
    for name in importlib.import_module(module).__all__:
        try:
            getattr(sys.modules[module], name)
        except MissingExtraError as error:
            missing[f"{module}.{name}"] = str(error)
print(json.dumps(missing))
"""
OF_EXTRAS = (
    "aiohttp", "alembic", "botocore", "duckdb", "hypothesis", "mcp", "opentelemetry", "pytest", "redis", "rich",
    "sqlalchemy", "typer", "vcr", "yaml",
)  # fmt: skip


@pytest.mark.exhaustive
def test_a_name_of_an_extra_says_how_to_install_it() -> None:
    """Every other name is there with the required packages alone."""
    doors = json.dumps([name for name in LAZY if name != "dragoman.testing"])
    done = subprocess.run(
        [sys.executable, "-c", BARE, doors, json.dumps(OF_EXTRAS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    missing = json.loads(done.stdout)
    assert {name.rpartition(".")[2] for name in missing} == {
        "CassetteMissError", "ConflictError", "SessionNotFoundError", "Store", "StoreBusyError", "StoreError",
        "StoreVersionError", "Telemetry", "UnreadableError",
    }  # fmt: skip
    assert all("pip install" in text for text in missing.values()), missing


@pytest.mark.parametrize("module", LAZY)
def test_a_name_that_does_not_exist_is_an_attribute_error(module: str) -> None:
    """A name that is loaded on use is absent like any other, and no typing mistake loads a module."""
    with pytest.raises(AttributeError, match="no attribute 'Sesion'"):
        _ = import_module(module).Sesion
    assert {*import_module(module).__all__} <= {*dir(import_module(module))}


def test_a_name_means_the_same_at_every_door() -> None:
    """The front door hands out what the package of the subject has, and not a second class."""
    for room in (adapters, blocks, errors, events, messages, policy):
        for name in {*room.__all__} & {*dragoman.__all__}:
            assert getattr(room, name) is getattr(dragoman, name), name


def _error_classes() -> set[str]:
    """Every class of the library that derives from DragomanError, by reading its source."""
    bases: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, set()).update(ast.unparse(base) for base in node.bases)
    found = {"DragomanError"}
    while more := {name for name, over in bases.items() if over & found} - found:
        found |= more
    return {name for name in found if not name.startswith("_")}


@pytest.mark.exhaustive
def test_all_errors_are_in_one_module() -> None:
    """A program finds every error that it may catch in `dragoman.errors`."""
    assert {*errors.__all__} == _error_classes() - INTERNAL_ERRORS | {"UnknownPartError"}
    assert all(issubclass(getattr(errors, name), (errors.DragomanError, ValueError)) for name in errors.__all__)


def _classes_of_tree(tree: str) -> Iterator[tuple[str, str | None]]:
    """The classes of a drawn tree, each with the one above it."""
    above: list[str] = []
    for line in tree.splitlines():
        if (found := re.match(r"(?P<lines>(?:[│ ] {3})*(?:[├└]── )?)(?P<name>[A-Z]\w+)(?: {2,}|$)", line)) is not None:
            depth = len(found["lines"]) // 4
            del above[depth:]
            yield found["name"], above[-1] if above else None
            above.append(found["name"])


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    """Every class is in the docstring once, below its base."""
    drawn = list(_classes_of_tree(inspect.getdoc(errors) or ""))
    assert sorted(name for name, _ in drawn) == sorted([*errors.__all__, "ValueError"])
    wrong = [(name, base) for name, base in drawn if base and getattr(errors, name).__base__.__name__ != base]
    assert wrong == []
    assert [name for name, base in drawn if base is None] == ["DragomanError", "ValueError"]


def test_the_page_lists_what_a_module_exports() -> None:
    """A public module with ``__all__`` has each of its names in docs/api.md, and so under one tier."""
    listed = parse_api_page()
    assert {"dragoman.errors", "dragoman.blocks", "dragoman.events", "dragoman.messages"} <= listed.keys()
    exported = {module: getattr(import_module(module), "__all__", ()) for module in listed if module != PACKAGE}
    exported[PACKAGE] = dragoman.__all__
    unlisted = {module: sorted({*names} - {*listed[module]}) for module, names in exported.items()}
    assert {module: names for module, names in unlisted.items() if names} == {}
