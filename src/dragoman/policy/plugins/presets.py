"""Ready policies: plugins with settings that a configuration file can hold.

A file names one as ``[[plugins]]``, with ``settings`` that are the arguments of its function here. ``presets.toml`` has
a section and tests for each, which `dragoman policy init` writes.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from dragoman.canonical.log import one_line
from dragoman.canonical.message_view.view import MessageView
from dragoman.policy.plugin import Plugin
from dragoman.policy.plugins import finding
from dragoman.policy.plugins.access import AllowUris
from dragoman.policy.plugins.confirmation import Confirmation
from dragoman.policy.plugins.labels import UntrustedData
from dragoman.policy.plugins.redaction import Redaction

_MAX_SHOWN = 300


def personal_data(*, label: str = "PII", keep: Iterable[str] = (), locales: Iterable[str] = ()) -> Plugin:
    """Redact personal data, and label the conversation that had some."""
    return Redaction([finding.personal_data(locales=locales)], keep=keep, label=label)


def secrets(*, label: str = "SECRET", keep: Iterable[str] = ()) -> Plugin:
    """Redact keys, tokens and passwords, and label the conversation that had some."""
    return Redaction([finding.secrets()], keep=keep, label=label)


def tool_confirmation(*, tools: Mapping[str, str] | None = None) -> Plugin:
    """Ask in the terminal before a tool with side effects runs. Without a terminal it does not run."""
    return Confirmation(ask_in_terminal, tools or {})


def url_allow_list(*, patterns: Iterable[str] = ()) -> Plugin:
    """Allow only tools, prompts and addresses that match a pattern."""
    return AllowUris(*patterns)


def ask_in_terminal(call: MessageView) -> bool:
    """Return whether a person in front of the terminal lets the call run."""
    if not (sys.stdin and sys.stdin.isatty()):
        return False
    shown = one_line(f"Run {call.name} with {call.content}?")[:_MAX_SHOWN]
    sys.stderr.write(f"{shown} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


_BUILDERS: Mapping[str, Callable[..., Plugin]] = {
    "personal-data": personal_data,
    "secrets": secrets,
    "tool-confirmation": tool_confirmation,
    "url-allow-list": url_allow_list,
    "untrusted-data": UntrustedData,
}

PRESETS = tuple(_BUILDERS)


@dataclass(frozen=True, slots=True)
class PresetText:
    """What `dragoman policy init` writes for a preset. ``extra`` is the extra of dragoman that it needs."""

    summary: str
    section: str
    test: str
    extra: str | None = None


def build_preset(name: str, settings: Mapping[str, Any]) -> Plugin:
    """Return the plugin of a preset. Raises KeyError, ConfigurationError, and TypeError for a wrong setting."""
    plugin = _BUILDERS[name](**settings)
    plugin.name = name
    return plugin


def preset_texts() -> Mapping[str, PresetText]:
    tables = _read_texts()
    return {name: PresetText(**tables[name]) for name in PRESETS}


def read_test_header() -> str:
    """Return the beginning of the file of tests."""
    header: str = _read_texts()["header"]
    return header


@cache
def _read_texts() -> dict[str, Any]:
    import tomllib  # few programs need it

    return tomllib.loads(files("dragoman.policy.plugins").joinpath("presets.toml").read_text(encoding="utf-8"))
