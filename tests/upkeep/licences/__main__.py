"""The licences of all that dragoman, its extras and its gateway require: `python -m tests.upkeep.licences`.

It reads the metadata of the installed packages, and `licences.toml` says which licences are allowed. It prints a table,
and exits with 1 if a license is unknown or not allowed, if a package is not installed, or if an exception is no longer
needed. ``--bill FILE`` writes the bill of materials in the format of CycloneDX.
"""

import argparse
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from tests.packaging.wheel import GATEWAY, PROJECT
from tests.upkeep.licences.bill import bill_of_materials
from tests.upkeep.licences.expressions import is_allowed, license_of
from tests.upkeep.licences.requirements import Package, find_packages

RULES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("licences.toml").read_text(encoding="utf-8"))


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.upkeep.licences", description=__doc__)
    parser.add_argument("--bill", type=Path, help="write the bill of materials to this file")
    chosen = parser.parse_args()
    left_out = [extra for extra in RULES["not_installed"] if find_spec(extra) is None]
    project = with_gateway(PROJECT["project"])
    packages, missing = find_packages(project, left_out)
    licences = find_licences(packages, RULES)
    by_license = defaultdict(list)
    for name, license_ in licences.items():
        by_license[license_].append(name)
    for license_, names in sorted(by_license.items()):
        sys.stdout.write(f"{license_:<52}{len(names):>4}  {', '.join(sorted(names))}\n")
    problems = [*(f"{name} is not installed" for name in sorted(missing)), *find_problems(packages, licences, RULES)]
    for problem in problems:
        sys.stdout.write(f"FAILED: {problem}\n")
    if chosen.bill is not None:
        chosen.bill.parent.mkdir(parents=True, exist_ok=True)
        bill = bill_of_materials(project, packages, licences)
        chosen.bill.write_bytes(to_json(bill, indent=2) + b"\n")
    sys.stdout.write(f"{len(packages)} packages, {len(problems)} problems\n")
    return 1 if problems else 0


def with_gateway(project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the project with what the gateway requires, as if it were one more extra."""
    gateway = tomllib.loads((GATEWAY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {**project["optional-dependencies"], "gateway": gateway["dependencies"]}
    return {**project, "optional-dependencies": extras}


def find_licences(packages: Mapping[str, Package], rules: Mapping[str, Any]) -> dict[str, str]:
    """Return the licences that are known, by the name of the package."""
    found = ((name, license_of(package, rules["names"], rules["read"])) for name, package in packages.items())
    return {name: license_ for name, license_ in found if license_ is not None}


def find_problems(
    packages: Mapping[str, Package], licences: Mapping[str, str], rules: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what is unknown, what is not allowed, and the exceptions that nothing needs."""
    exceptions = rules["exceptions"]
    for name in sorted(packages):
        if name not in licences:
            yield f"{name} states no license that is known: read its license file, and add it to [read]"
        elif not is_allowed(licences[name], {*rules["allowed"], *exceptions.get(name, ())[:1]}):
            yield f"{name} has the license {licences[name]}, which is not allowed"
    for name in sorted(exceptions.keys() - packages.keys()):
        yield f"{name} is an exception in licences.toml, and nothing requires it"


if __name__ == "__main__":
    sys.exit(main())
