"""Finds the suites of a package for `dragoman conform`: its registered adapters and their kits."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from itertools import accumulate
from pathlib import Path

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.registry import GROUP
from dragoman.testing.conformance.suite import AdapterConformance

KITS = "dragoman.conformance"
"""The entry-point group with a package's suite for each of its providers."""


def find_suites(package: str, kit: str | None = None) -> tuple[type[AdapterConformance], ...]:
    """Return the suites of a package, given its import name, its distribution's name, or one of its providers.

    ``kit`` is ``module:Class``, for a suite without an entry point; the current folder is searched as well. An adapter
    without a suite is tested without its wire. Raises ConfigurationError.
    """
    if kit is not None:
        return (_load_suite(kit),)
    adapters = sorted(entry for entry in entry_points(group=GROUP) if _is_of(entry, package))
    if not adapters:
        raise ConfigurationError(
            f"no adapter of {package!r} is installed: searched the entry points in the group {GROUP!r},"
            " by the package's name, its distribution's, or the provider's"
        )
    kits = {entry.name: entry for entry in entry_points(group=KITS)}
    return tuple(_suite_for(entry, kits.get(entry.name)) for entry in adapters)


def _is_of(entry: EntryPoint, package: str) -> bool:
    distribution = entry.dist.name if entry.dist is not None else ""
    module = entry.value.partition(":")[0]
    names = {entry.name, *accumulate(module.split("."), "{}.{}".format)}
    # Our own distribution has all of our adapters: its name would select every one of them.
    return package in names or (package == distribution and distribution != "dragoman")


def _suite_for(adapter: EntryPoint, kit: EntryPoint | None) -> type[AdapterConformance]:
    if kit is not None:
        return _require_suite(kit.value, kit.load())
    return type(f"Test{adapter.name.title()}", (AdapterConformance,), {"adapter": adapter.name})


def _load_suite(kit: str) -> type[AdapterConformance]:
    module, _, name = kit.partition(":")
    if not (module and name):
        raise ConfigurationError(f"{kit!r} is not the name of a suite: write it as module:Class")
    with _current_folder():
        try:
            return _require_suite(kit, getattr(import_module(module), name))
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(f"the suite {kit} cannot be loaded: {error}") from error


def _require_suite(place: str, found: object) -> type[AdapterConformance]:
    if isinstance(found, type) and issubclass(found, AdapterConformance):
        return found
    raise ConfigurationError(f"{place} is not an AdapterConformance class")


@contextmanager
def _current_folder() -> Iterator[None]:
    """Add the current folder to the path, as pytest and ``python -m`` do."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
