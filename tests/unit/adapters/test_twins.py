"""A new adapter is one folder and one line of pyproject.toml: the same files under the same names, and no list of
providers in the library.
"""

import ast
import importlib
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.adapter.contract import Adapter, load_part
from dragoman.adapter.registry import GROUP, adapter_class, providers
from dragoman.adapter.wire_adapter import WireAdapter
from tests.tables import each_row

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ROOT / "adapters" / "dragoman_adapters"
LIBRARY = ROOT / "src" / "dragoman"
ENTRIES: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "entry-points"
][GROUP]
TWINS = ("adapter.py", "encode.py", "decode.py", "stream.py", "options.py", "errors.py", "models.toml")
JOBS = {
    "encode": ("encode_body",),
    "decode": ("decode_message", "decode_usage", "STOP_REASONS"),
    "options": ("encode_options", "decode_options"),
    "errors": ("decode_error",),
}
"""What each module of a wire has, by its name."""
CLIENT_WIRES = {"anthropic", "google", "ollama", "openai_chat", "openai_responses"}
"""The folders of the wires that clients speak."""
MOST_NAMES = 4
"""Providers that a literal of the library may name, as an example or because their own client is supported."""


def folder_of(entry: str) -> Path:
    package, _, module = ENTRIES[entry].partition(":")[0].rpartition(".")
    assert module == "adapter"
    return FOLDERS / package.removeprefix("dragoman_adapters.")


def wire_packages(provider: str) -> list[str]:
    """The packages of the classes that fill in the template: those of the provider's wire, or wires."""
    kind = adapter_class(provider)
    kinds: list[type[Adapter]] = list(getattr(kind, "apis", {"": kind}).values())
    bases = [next(base for base in each.__mro__ if WireAdapter in base.__bases__) for each in kinds]
    return [base.__module__.rpartition(".")[0] for base in bases]


@each_row("provider", ENTRIES)
def test_an_entry_point_is_a_folder_with_an_adapter(provider: str) -> None:
    """It also has facts about its models."""
    folder = folder_of(provider)
    assert (folder / "adapter.py").is_file()
    assert (folder / "models.toml").is_file()
    assert adapter_class(provider).provider == provider


@each_row("provider", ENTRIES)
def test_an_adapter_has_the_files_of_its_twins(provider: str) -> None:
    """A dialect of a wire has no files of its own: those of the wire are its files."""
    for package in wire_packages(provider):
        folder = FOLDERS / package.removeprefix("dragoman_adapters.")
        assert [name for name in TWINS if not (folder / name).is_file()] == []


@each_row("provider", ENTRIES)
def test_the_same_job_has_the_same_name(provider: str) -> None:
    for package in wire_packages(provider):
        for module, names in JOBS.items():
            loaded = importlib.import_module(f"{package}.{module}")
            assert [name for name in names if not hasattr(loaded, name)] == [], f"{package}.{module}"


def test_the_wires_of_clients_have_the_same_files() -> None:
    """And the same job has the same name in each."""
    assert {path.parent.name for path in FOLDERS.glob("*/encode_reply.py")} == CLIENT_WIRES
    assert {path.parent.name for path in FOLDERS.glob("*/encode_stream.py")} == CLIENT_WIRES
    for folder in sorted(CLIENT_WIRES):
        module = importlib.import_module(f"dragoman_adapters.{folder}.encode_reply")
        assert [name for name in ("encode_reply", "encode_usage") if not hasattr(module, name)] == [], folder


def test_every_folder_with_an_adapter_has_an_entry_point() -> None:
    """No adapter is unregistered."""
    registered = {folder_of(provider).name for provider in ENTRIES}
    assert {path.parent.name for path in FOLDERS.glob("*/adapter.py")} == registered


def test_the_entry_points_are_installed() -> None:
    """The registry finds what pyproject.toml says."""
    assert set(ENTRIES) <= set(providers())


@pytest.mark.exhaustive
def test_the_library_has_no_list_of_providers() -> None:
    """No collection in its code names more than a few of them."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {', '.join(sorted(names))}"
        for path in sorted(LIBRARY.rglob("*.py"))
        for line, names in _collections(path)
        if len(names) > MOST_NAMES
    ]
    assert found == []


def _collections(path: Path) -> Iterator[tuple[int, set[str]]]:
    """The literals of a file with the providers that each names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            items = node.keys if isinstance(node, ast.Dict) else node.elts
            texts = {each.value for each in items if isinstance(each, ast.Constant) and isinstance(each.value, str)}
            yield node.lineno, texts & ENTRIES.keys()


PLACES = ("batch_api_at", "services_at", "embeddings_at", "decoder_at", "decode_error_at", "encode_reply_at",
          "encode_error_at", "reply_encoder_at")  # fmt: skip


@each_row("provider", ENTRIES)
def test_what_an_adapter_declares_to_be_loaded_late_is_there(provider: str) -> None:
    kind = adapter_class(provider)
    for each in (kind, *getattr(kind, "apis", {}).values()):
        places = [place for name in PLACES if (place := getattr(each, name, ""))]
        assert all(callable(load_part(place)) for place in places)
