"""The wheel of this checkout. `python -m tests.packaging` also installs it, and runs the demo from it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging import programs, wheel

pytest.importorskip("hatchling", reason="the lint group is not installed")
pytest.importorskip("editables", reason="the lint group is not installed")


@pytest.fixture(scope="module")
def built_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (path,) = wheel.build(wheel.ROOT, tmp_path_factory.mktemp("dist"), "wheel")
    return path


def test_the_wheel_holds_the_packages_and_their_data(built_wheel: Path) -> None:
    """The wheel holds the packages and their data: every file of a package, prices and cassettes; no test, no .pth,
    nothing else; py.typed in each package.
    """
    assert wheel.faults(built_wheel) == []


@pytest.mark.parametrize(
    "needed",
    [
        "dragoman/_bundled/pricing/anthropic.toml",
        "dragoman/_bundled/cassettes/llama-server/swap",
        "dragoman/credentials/clouds.toml",
        "dragoman/local/models.toml",
        "dragoman/testing/cassettes/wires.toml",
        "dragoman/store/migrations/versions/",
        "dragoman/view/pages/",
        "dragoman_adapters/compatible/endpoints.toml",
    ],
)
def test_data_is_in_the_wheel(built_wheel: Path, needed: str) -> None:
    """Everything that is read at run time and is not Python: tables, templates, recordings, migrations."""
    assert any(name.startswith(needed) for name in wheel.names(built_wheel))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dragoman_start.pth", "runs code at every start"),
        ("sitecustomize.py", "runs code at every start"),
        ("dragoman/tests/test_all.py", "a test"),
        ("notes.txt", "not a file of a package"),
    ],
)
def test_unexpected_files_are_reported(built_wheel: Path, tmp_path: Path, name: str, message: str) -> None:
    """The check itself finds each kind."""
    other = tmp_path / built_wheel.name
    with zipfile.ZipFile(built_wheel) as packed, zipfile.ZipFile(other, "w") as copy:
        for each in packed.infolist():
            copy.writestr(each, packed.read(each))
        copy.writestr(name, "")
    assert any(name in fault and message in fault for fault in wheel.faults(other))


@pytest.mark.parametrize("name", ["dragoman/py.typed", "dragoman_adapters/py.typed", "dragoman/canonical/message.py"])
def test_missing_files_are_reported(built_wheel: Path, tmp_path: Path, name: str) -> None:
    """The check itself finds them."""
    other = tmp_path / built_wheel.name
    with zipfile.ZipFile(built_wheel) as packed, zipfile.ZipFile(other, "w") as copy:
        for each in packed.infolist():
            if each.filename != name:
                copy.writestr(each, packed.read(each))
    assert f"the wheel lacks {name}" in wheel.faults(other)


def test_importing_from_the_wheel_has_no_side_effects(built_wheel: Path, tmp_path: Path) -> None:
    """No socket, no process, no key: the program that tries the installed wheel, on the wheel's own files."""
    with zipfile.ZipFile(built_wheel) as packed:
        packed.extractall(tmp_path)
    place = repr(str(tmp_path))
    program = f"""import sys; sys.path.insert(0, {place})
{programs.WATCHED}
assert dragoman.__file__.startswith({place})
"""
    completed = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr


def test_every_requirement_has_a_lower_bound() -> None:
    """`python -m tests.packaging.floors` tries the bounds; here, that each requirement of a user has one."""
    project = wheel.PROJECT["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    assert [one for one in wanted if ">=" not in one and not one.startswith("dragoman[")] == []
