"""The packages that dragoman and its extras require, as they are installed. Nothing is downloaded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT_NAME = "dragoman"


@dataclass
class Package:
    """An installed package. ``extras`` are those of dragoman that need it. ``required``: every installation needs it.
    ``direct``: dragoman names it.
    """

    name: str
    installed: Distribution
    extras: set[str] = field(default_factory=set)
    required: bool = False
    direct: bool = False
    requires: set[str] = field(default_factory=set)


def find_packages(project: Mapping[str, Any], not_installed: Iterable[str] = ()) -> tuple[dict[str, Package], set[str]]:
    """Return the packages by name, and the names of those that are required but not installed."""
    found: dict[str, Package] = {}
    missing: set[str] = set()
    _follow(project, None, project["dependencies"], found, missing)
    for extra, lines in project["optional-dependencies"].items():
        if extra not in not_installed:
            _follow(project, extra, lines, found, missing)
    return found, missing


def _follow(
    project: Mapping[str, Any],
    extra: str | None,
    lines: Iterable[str],
    found: dict[str, Package],
    missing: set[str],
) -> None:
    """Add the packages of some requirements, and all that those require."""
    open_ends: list[tuple[str | None, str, tuple[str, ...]]] = [(None, line, ("",)) for line in lines]
    visited: set[tuple[str, str]] = set()
    while open_ends:
        parent, line, parent_extras = open_ends.pop()
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": name}) for name in parent_extras):
            continue
        name = canonicalize_name(requirement.name)
        if name == PROJECT_NAME:
            own = project["optional-dependencies"]
            open_ends += [(None, each, ("",)) for chosen in requirement.extras for each in own[chosen]]
            continue
        if parent is not None:
            found[parent].requires.add(name)
        extras = ("", *sorted(requirement.extras))
        if (package := _add(name, found)) is None:
            missing.add(name)
            continue
        package.direct |= parent is None
        package.required |= extra is None
        package.extras |= {extra} if extra is not None else set()
        if (name, str(extras)) not in visited:
            visited.add((name, str(extras)))
            open_ends += [(name, each, extras) for each in package.installed.requires or ()]


def _add(name: str, found: dict[str, Package]) -> Package | None:
    if name not in found:
        try:
            found[name] = Package(name, distribution(name))
        except PackageNotFoundError:
            return None
    return found[name]
