"""Prints the comparison as Markdown: `python -m tests.benchmarks.hard_histories [folder for the environments]`."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.hard_histories.histories import HISTORIES, cases
from tests.benchmarks.hard_histories.verdicts import CaseVerdict, Kind, judge

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[2]

PEERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "pydantic-ai": ("pydantic_ai", ("",)),
    "LiteLLM": ("litellm", ("",)),
    "LangChain": ("langchain", ("v0", "v1")),
    "Dragoman": ("dragoman", ("",)),
}
"""By title: the name of the case script, and the formats of messages, of which the better one counts in each case."""

Verdicts = dict[tuple[str, str], CaseVerdict]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    versions: dict[str, str] = {}
    columns: dict[str, Verdicts] = {}
    for title, (name, formats) in PEERS.items():
        python = _environment(name, folder)
        columns[title] = {}
        for message_format in formats:
            results = _run(python, name, message_format, folder)
            versions |= results["versions"]
            _keep_best(columns[title], results["cases"])
    _print(columns, versions)


def _environment(name: str, folder: Path) -> Path:
    """The interpreter of the library's own environment, which is made if it does not exist."""
    if name == "dragoman":
        return Path(sys.executable)
    place = folder / name
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run(["uv", "venv", "--quiet", "--python", "3.11", str(place)], check=True)
    pins = _HERE / f"requirements-{name}.txt"
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", str(python), "-r", str(pins)], check=True)
    return python


def _run(python: Path, name: str, message_format: str, folder: Path) -> dict[str, Any]:
    """Run the cases of a library. Its output goes to stderr, because stdout is for the table."""
    out = folder / f"{name}.json"
    subprocess.run(
        [str(python), "-m", f"tests.benchmarks.hard_histories.{name}_case", str(out)],
        cwd=_ROOT,
        env=os.environ | {"PYTHONPATH": str(_ROOT), "MESSAGE_FORMAT": message_format},
        stdout=sys.stderr,
        check=True,
    )
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def _keep_best(verdicts: Verdicts, results: list[dict[str, Any]]) -> None:
    histories = {history.name: history for history in HISTORIES}
    for case in results:
        key = case["history"], case["target"]
        verdict = judge(case, histories[case["history"]])
        if key not in verdicts or verdict.kind.value < verdicts[key].kind.value:
            verdicts[key] = verdict


def _print(columns: dict[str, Verdicts], versions: dict[str, str]) -> None:
    print(f"| history | to | {' | '.join(columns)} |")
    print(f"| --- | --- |{' --- |' * len(columns)}")
    title = ""
    for history, target in sorted(cases(), key=lambda case: case[0].title):
        cells = [verdicts[history.name, target].text for verdicts in columns.values()]
        print(f"| {history.title if history.title != title else ''} | {target} | {' | '.join(cells)} |")
        title = history.title
    for kind, description in (
        (Kind.ACCEPTED, "accepted, and nothing lost or changed silently"),
        (Kind.SILENT, "accepted, but something lost or changed silently"),
        (Kind.REJECTED, "rejected by the provider's rules"),
        (Kind.RAISES, "raises before it sends"),
    ):
        counts = [sum(verdict.kind is kind for verdict in verdicts.values()) for verdicts in columns.values()]
        print(f"| **sum** | {description} | {' | '.join(str(count) for count in counts)} |")
    print("\nVersions: " + ", ".join(f"{name} {version}" for name, version in sorted(versions.items())) + ".")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory(prefix="hard_histories_") as made:
            main(Path(made))
