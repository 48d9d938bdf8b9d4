"""The virtual environments of the libraries, in one folder: `--install FOLDER` makes them, DRAGOMAN_PEERS names it."""

import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

VARIABLE = "DRAGOMAN_PEERS"
_PROGRAM = "Scripts/python.exe" if sys.platform == "win32" else "bin/python"


@cache
def _environments() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("environments.toml").read_text(encoding="utf-8"))


def libraries() -> list[str]:
    """The names of all libraries: those of their formats."""
    return [name for each in _environments().values() for name in each["libraries"]]


def peers_folder() -> Path | None:
    """Return the folder of the environments; None if it is not set."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named and Path(named).is_dir() else None


def install(into: Path, *, newest: bool = False) -> None:
    """Install the libraries with uv, each environment unless it is there already."""
    into.mkdir(parents=True, exist_ok=True)
    for name, each in _environments().items():
        packages = [re.sub("==.*", "", package) if newest else package for package in each["packages"]]
        done = into / name / "packages.txt"
        if done.is_file() and done.read_text(encoding="utf-8").split() == packages:
            continue
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        subprocess.run(["uv", "venv", "-q", "--clear", "--python", python, str(into / name)], check=True)
        command = ["uv", "pip", "install", "-q", "--python", str(into / name / _PROGRAM), *packages]
        subprocess.run(command, check=True)
        done.write_text("\n".join(packages), encoding="utf-8")


def interpreter(library: str, folder: Path | None) -> Path | None:
    """Return the Python of a library's environment; None if it is not installed."""
    name = next((name for name, each in _environments().items() if library in each["libraries"]), None)
    if name is None or folder is None:
        return None
    found = folder.resolve() / name / _PROGRAM
    return found if found.exists() else None
