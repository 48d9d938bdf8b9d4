"""Building the package, and its required content."""

import os
import stat
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GATEWAY = ROOT / "gateway"
"""The other distribution, which the gateway is."""
WHEEL: dict[str, Any] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
MOMENT = "1790000000"
"""SOURCE_DATE_EPOCH of the compared builds, in seconds since 1970, unless the environment sets another one."""


def build(source: Path, target: Path, *kinds: str) -> tuple[Path, ...]:
    """Builds in ``source`` with the installed hatchling, without a network; the kinds are ``sdist`` and ``wheel``.

    Raises subprocess.CalledProcessError.
    """
    wanted = [word for kind in kinds for word in ("--target", kind)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", str(target), *wanted],
        check=True, capture_output=True, text=True, cwd=source, env={"SOURCE_DATE_EPOCH": MOMENT, **os.environ},
    )  # fmt: skip
    return tuple(sorted(path for path in target.iterdir() if path.suffix in (".whl", ".gz")))


def gateway_extras() -> frozenset[str]:
    """The extras of dragoman that the gateway requires."""
    project = tomllib.loads((GATEWAY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = (Requirement(each) for each in project["dependencies"])
    return frozenset(extra for each in required if each.name == PROJECT["project"]["name"] for extra in each.extras)


def unpack_sdist(sdist: Path, folder: Path) -> Path:
    """The sdist unpacked, as another machine would check it out: other times and stricter rights on every file.

    Files that the sdist adds to a checkout are removed.
    """
    with tarfile.open(sdist) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 has it
        packed.extractall(folder)
    (root,) = folder.iterdir()
    (root / "PKG-INFO").unlink()
    for path in sorted(root.rglob("*")):
        if path.is_file():
            os.utime(path, (1_000_000_000, 1_000_000_000))
            path.chmod(path.stat().st_mode & ~(stat.S_IRWXO | stat.S_IWGRP))
    return root


def names(archive: Path) -> frozenset[str]:
    """The files in a wheel or an sdist; those of an sdist without the folder around them."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as packed:
            return frozenset(packed.namelist())
    with tarfile.open(archive) as packed:
        return frozenset(each.name.partition("/")[2] for each in packed.getmembers() if each.isfile())


def expected() -> frozenset[str]:
    """The required content of a wheel, besides its metadata: every file of our packages, and the data folders next to
    them.

    Files in .gitignore are excluded; that is bytecode only.
    """
    found: set[str] = set()
    for package in WHEEL["packages"]:
        found |= _files(ROOT / package, Path(package).name)
    for folder, place in WHEEL["force-include"].items():
        found |= _files(ROOT / folder, place)
    return frozenset(found)


def _files(folder: Path, place: str) -> set[str]:
    return {
        f"{place}/{path.relative_to(folder).as_posix()}"
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".pyo")
    }


def faults(wheel: Path) -> list[str]:
    """Faults of the wheel's content, as sentences."""
    contents = names(wheel)
    information = f"{PROJECT['project']['name']}-{PROJECT['project']['version']}.dist-info/"
    ours = {name for name in contents if not name.startswith(information)}
    found = [f"the wheel lacks {name}" for name in sorted(expected() - ours)]
    found += [f"the wheel holds {name}, which is not a file of a package" for name in sorted(ours - expected())]
    found += [f"the wheel holds {name}, which runs code at every start" for name in sorted(contents) if _starts(name)]
    found += [f"the wheel holds {name}, a test" for name in sorted(contents) if "tests" in name.split("/")]
    found += [f"{place} has no py.typed" for place in packages() if f"{place}/py.typed" not in ours]
    found += [
        f"the wheel's metadata lacks {name}"
        for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
        if information + name not in contents
    ]
    return found


def packages() -> tuple[str, ...]:
    """The import names of our packages."""
    return tuple(Path(package).name for package in WHEEL["packages"])


def _starts(name: str) -> bool:
    return name.endswith(".pth") or name.rpartition("/")[2] in ("sitecustomize.py", "usercustomize.py")
