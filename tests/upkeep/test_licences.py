"""The licences of the requirements, and the bill of materials."""

import re
from importlib.metadata import distribution
from typing import Any

import pytest

from tests.packaging.wheel import PROJECT
from tests.upkeep.licences.__main__ import RULES, find_licences, find_problems
from tests.upkeep.licences.bill import bill_of_materials
from tests.upkeep.licences.expressions import is_allowed
from tests.upkeep.licences.requirements import Package, find_packages


def project(*required: str, **extras: list[str]) -> dict[str, Any]:
    return {"version": "1", "license": "Apache-2.0", "dependencies": list(required), "optional-dependencies": extras}


def test_every_extra_is_reviewed() -> None:
    """Each is installed where the tests run, or left out with a reason; each license is known and allowed."""
    extras = PROJECT["project"]["optional-dependencies"]
    assert RULES["not_installed"].keys() <= extras.keys()
    packages, _ = find_packages(PROJECT["project"], RULES["not_installed"])
    assert {"httpx", "pydantic", "certifi", "idna"} <= {name for name, each in packages.items() if each.required}
    licences = find_licences(packages, RULES)
    absent = RULES["exceptions"].keys() - packages.keys()  # an environment without all extras
    problems = [each for each in find_problems(packages, licences, RULES) if each.split()[0] not in absent]
    assert problems == []


def test_requirements_are_followed() -> None:
    """Through extras of others, extras of our own, and packages that are missing."""
    own = project("httpx", one=["pytest", "no-such-package-of-a-test"], two=["dragoman[one]", "jinja2"])
    packages, missing = find_packages(own, ["three"])
    assert missing == {"no-such-package-of-a-test"}
    assert packages["httpcore"].required
    assert not packages["httpcore"].direct
    assert packages["jinja2"].extras == {"two"}
    assert packages["markupsafe"].extras == {"two"}
    assert packages["pluggy"].extras == {"one", "two"}
    assert "pluggy" in packages["pytest"].requires
    assert "socksio" not in packages


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ("MIT", True), ("GPL-3.0-only", False), ("MIT OR GPL-3.0-only", True), ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT AND ISC", True), ("(GPL-3.0-only OR MIT) AND ISC", True), ("(MIT OR ISC) AND A", False),
        ("GPL-2.0-only WITH x", False), ("MIT WITH x", False), ("E WITH x", True), ("A OR (B AND (MIT OR C))", False),
    ],
)  # fmt: skip
def test_expressions(expression: str, verdict: bool) -> None:
    """One side of an OR is enough, an AND needs both; an exception is part of its license."""
    assert is_allowed(expression, {"MIT", "ISC", "E WITH x"}) is verdict


def test_what_is_not_allowed_is_a_problem() -> None:
    """So is what states no license, and an exception that nothing needs."""
    packages = {name: Package(name, distribution(name)) for name in ("httpx", "pytest", "certifi")}
    rules = {"allowed": ["MIT"], "exceptions": {"certifi": ["MPL-2.0", ""], "gone": ["A", ""]}, "names": {}, "read": {}}
    problems = list(find_problems(packages, {"certifi": "MPL-2.0", "httpx": "BSD-3-Clause"}, rules))
    assert [re.sub(r"[:,].*", "", each) for each in problems] == [
        "httpx has the license BSD-3-Clause",
        "pytest states no license that is known",
        "gone is an exception in licences.toml",
    ]


def test_the_bill_of_materials() -> None:
    """Each package has its version, its license and its own requirements, and no reference is dangling."""
    packages, _ = find_packages(PROJECT["project"], RULES["not_installed"])
    licences = find_licences(packages, RULES)
    bill = bill_of_materials(PROJECT["project"], packages, licences)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    references = [component["bom-ref"] for component in bill["components"]]
    own, *others = bill["dependencies"]
    assert len(set(references)) == len(packages)
    assert [each["ref"] for each in others] == references
    assert {reference for each in bill["dependencies"] for reference in each["dependsOn"]} <= set(references)
    assert any(reference.startswith("pkg:pypi/pydantic@") for reference in own["dependsOn"])
    assert not any(reference.startswith("pkg:pypi/idna@") for reference in own["dependsOn"])
    assert all(component["licenses"] for component in bill["components"])
