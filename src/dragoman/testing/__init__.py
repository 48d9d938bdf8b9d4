"""Tools for tests: cassettes that replay real traffic, test doubles, faults and the conformance kit for adapters.

Each part is imported on first use, together with its dependencies.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.lazy_names import lazy_names

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

_LOADED_ON_USE = {
    "testing.cassettes.recorder": ("cassette",),
    "testing.cassettes.replay": ("AsyncCassetteTransport", "Cassette", "CassetteMissError", "CassetteTransport"),
    "testing.conformance.suite": ("AdapterConformance",),
    "testing.deterministic": ("deterministic",),
    "testing.doubles.scripted_provider": ("ProviderRequest", "ScriptError", "ScriptedProvider", "scripted_reply"),
    "testing.network": ("NetworkBlockedError", "block_network"),
}
"""Names by their module."""

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    _load, __dir__ = lazy_names(globals(), _LOADED_ON_USE)

    def __getattr__(name: str) -> Any:
        return import_module(f"{__name__}.{name}") if name in ("faults", "strategies") else _load(name)
