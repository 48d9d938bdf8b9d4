"""Tools for tests: cassettes that replay real traffic, test doubles, faults and the conformance kit for adapters.

Each part is imported on first use, together with its dependencies.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.testing import faults, strategies
    from dragoman.testing.cassettes.recorder import cassette
    from dragoman.testing.cassettes.replay import AsyncCassetteTransport, Cassette, CassetteMissError, CassetteTransport
    from dragoman.testing.conformance.suite import AdapterConformance
    from dragoman.testing.deterministic import deterministic
    from dragoman.testing.doubles.scripted_provider import (
        ProviderRequest,
        ScriptedProvider,
        ScriptError,
        scripted_reply,
    )
    from dragoman.testing.network import NetworkBlockedError, block_network

__all__ = [
    "AdapterConformance",
    "AsyncCassetteTransport",
    "Cassette",
    "CassetteMissError",
    "CassetteTransport",
    "NetworkBlockedError",
    "ProviderRequest",
    "ScriptError",
    "ScriptedProvider",
    "block_network",
    "cassette",
    "deterministic",
    "faults",
    "scripted_reply",
    "strategies",
]

_MODULES = ("faults", "strategies")
_SUBMODULES = {
    "AdapterConformance": "conformance.suite",
    "ProviderRequest": "doubles.scripted_provider",
    "AsyncCassetteTransport": "cassettes.replay",
    "Cassette": "cassettes.replay",
    "CassetteMissError": "cassettes.replay",
    "CassetteTransport": "cassettes.replay",
    "NetworkBlockedError": "network",
    "ScriptError": "doubles.scripted_provider",
    "ScriptedProvider": "doubles.scripted_provider",
    "block_network": "network",
    "cassette": "cassettes.recorder",
    "deterministic": "deterministic",
    "scripted_reply": "doubles.scripted_provider",
}


if not TYPE_CHECKING:  # a type checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name not in _SUBMODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"dragoman.testing.{_SUBMODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
