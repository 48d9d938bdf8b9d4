"""Names that people type: entry points, commands and their options, options and marks of the pytest plugin."""

from collections.abc import Iterator
from enum import StrEnum
from importlib.metadata import distribution
from inspect import unwrap
from typing import Any, get_args, get_type_hints
from unittest.mock import Mock

import pytest
import typer

from dragoman.bundled import bundled_path
from dragoman.cli.app import LazyGroup, app, load_command
from dragoman.policy import Capability, Hook, Mode, OnError, Plugin, Tier, plugins
from dragoman.testing import plugin
from dragoman.testing.cassettes.file import load_exchanges
from dragoman.testing.conformance.laws import LAWS
from dragoman.testing.plugin_faults import PlannedFault, _plans_for
from tests.compatibility.frozen.from_source import DISTRIBUTION

_FIXTURE = type(pytest.fixture(lambda: None))
"""The class that the decorator returns."""


def entry_points() -> Iterator[str]:
    """Groups and names; their targets may change."""
    return (f"{entry.group}: {entry.name}" for entry in distribution(DISTRIBUTION).entry_points)


def commands() -> Iterator[str]:
    return _command(typer.main.get_command(app), DISTRIBUTION)


def _command(command: Any, path: str) -> Iterator[str]:
    yield path
    for parameter in command.params:
        for name in (*parameter.opts, *parameter.secondary_opts):
            yield f"{path} {name if name.startswith('-') else parameter.metavar or name.upper()}"
    for annotation in get_type_hints(unwrap(command.callback)).values() if command.callback else ():
        yield from (f"{path} = {word}" for word in _words(annotation))
    for name, inner in getattr(command, "commands", {}).items():
        yield from _command(load_command(name) if isinstance(command, LazyGroup) else inner, f"{path} {name}")


def _words(annotation: Any) -> Iterator[str]:
    """The words that a parameter is limited to."""
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        yield from (word.value for word in annotation)
    for inner in get_args(annotation):
        yield from _words(inner)


def pytest_plugin() -> Iterator[str]:
    """Options with their values, settings, marks and fixtures."""
    parser, config = Mock(), Mock()
    plugin.pytest_addoption(parser)
    plugin.pytest_configure(config)
    for name, given, _ in (*parser.mock_calls, *config.mock_calls):
        kind = name.rpartition(".")[2]
        if kind == "addoption":
            yield f"option {given[0]}"
        elif kind == "addini":
            yield f"setting {given[0]}"
        elif kind == "addinivalue_line":
            yield f"{given[0]} {given[1].partition(':')[0]}"
    yield from (f"fixture {name}" for name, value in vars(plugin).items() if isinstance(value, _FIXTURE))
    for file in bundled_path("cassettes").rglob("*.yaml"):
        for exchange in load_exchanges(file.read_text(encoding="utf-8"))[1]:
            yield from (f"--llm-faults {PlannedFault(0, plan).kind}" for plan in _plans_for(exchange, 0))


def policy() -> Iterator[str]:
    """Words of policies: hooks, capabilities, modes, and the names of our plugins in events and errors."""
    words = {"hook": Hook, "capability": Capability, "mode": Mode, "on error": OnError, "tier": Tier}
    yield from (f"{kind} {word.value}" for kind, listed in words.items() for word in listed)
    for made in vars(plugins).values():
        if isinstance(made, type) and issubclass(made, Plugin):
            yield f"plugin {made.name or made.__name__}"


def laws() -> Iterator[str]:
    """The laws of the conformance kit, as scorecards show them."""
    return map(str, LAWS)
