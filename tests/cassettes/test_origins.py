"""Each cassette names the server that it was recorded from, or says in its name and its header that it was written by
hand."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "cassettes"
FOLDERS = (RECORDED, ROOT / "examples", ROOT / "tests")
SERVERS = {"llama-server"}
"""Real servers. Each has its folder, and a row in cassettes/README.md."""


def cassettes() -> dict[str, str]:
    """Return the server of each cassette of the repository, by its path."""
    found: dict[str, str] = {}
    for path in (path for folder in FOLDERS for path in sorted(folder.rglob("*.yaml"))):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and {"format", "exchanges"} <= content.keys():
            found[path.relative_to(ROOT).as_posix()] = content["server"]
    return found


def test_a_cassette_is_recorded_or_says_that_it_is_not() -> None:
    found = cassettes()
    by_hand = {path for path, server in found.items() if "written by hand" in server}
    assert by_hand == {path for path in found if Path(path).name.startswith("handwritten_")}
    assert {server for path, server in found.items() if path not in by_hand} == SERVERS


def test_the_folder_of_a_recording_is_its_server() -> None:
    recorded = {path: server for path, server in cassettes().items() if path.startswith("cassettes/")}
    assert recorded
    assert all(path.split("/")[1] == server for path, server in recorded.items())


@pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-chat"])
def test_each_wire_of_the_server_is_recorded(wire: str) -> None:
    cases = {"plain", "stream", "tools", "stream-tools", "async"}
    names = {path.stem for path in (RECORDED / "llama-server" / "answers").iterdir()}
    assert {f"{wire}-{case}" for case in cases} <= names


def test_wires_without_a_recording_are_written_by_hand() -> None:
    """The README names them, and their files say so by their names."""
    page = (RECORDED / "README.md").read_text(encoding="utf-8")
    wires = {path.stem for path in (ROOT / "tests" / "laws" / "wires").glob("handwritten_*.py")}
    assert wires
    assert {name for name in wires if f"`{name}`" not in page} == set()
