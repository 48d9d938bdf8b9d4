"""What the pytest plugin does for a test with a cassette. Imported when the first of them runs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import pytest

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.adapter.registry import adapter_class
from dragoman.testing import plugin_faults
from dragoman.testing.cassette_check import stale as reasons
from dragoman.testing.cassette_wires import wire_of
from dragoman.testing.recording import today

try:
    from dragoman.testing.cassette_recorder import MODES, Recorder, cassette
except ImportError:
    raise MissingExtraError(
        "tests with a cassette need vcrpy and pytest-recording: pip install 'dragoman[testing]'"
    ) from None

STAND_IN = "replayed"


@contextmanager
def inserted(item: pytest.Item, path: Path) -> Iterator[Recorder | None]:
    """The cassette of a test below every HTTP client; None where recordings are switched off."""
    config = item.config
    if config.getoption("--disable-recording", False):
        yield None
        return
    mode = config.getoption("--record-mode", None) or "none"
    if mode not in MODES:
        raise ConfigurationError(f"there is no record mode {mode!r}: use one of {', '.join(MODES)}")
    fault = item.stash.get(plugin_faults.FAULT, None)
    with cassette(path, mode, again=fault is not None) as recorder:
        if recorder.recording:
            _open_network(config)
        keys = {} if recorder.recording else _stand_in_keys(recorder)
        with patch.dict(os.environ, keys), plugin_faults.below(fault) if fault else nullcontext():
            yield recorder


def stale(recorder: Recorder, config: pytest.Config) -> list[str]:
    """Why the recording that is played may be out of date, each with its file's name."""
    if recorder.recording:
        return []
    days = int(config.getini("llm_cassettes_stale_days"))
    root = config.rootpath
    name = recorder.path.relative_to(root) if recorder.path.is_relative_to(root) else recorder.path
    return [f"{name}: {reason}" for reason in reasons(recorder.loaded, today(), days)]


def _stand_in_keys(recorder: Recorder) -> dict[str, str]:
    """A replay needs no key, but clients do: the variables that are not set say so."""
    readers = dict.fromkeys(wire_of(exchange.request).reader for exchange in recorder.played.exchanges)
    names = [name for reader in readers if reader for name in adapter_class(reader).endpoint.key_variables[:1]]
    return {name: STAND_IN for name in names if name not in os.environ}


def _open_network(config: pytest.Config) -> None:
    """pytest-recording's ``--block-network`` does not hold for what is being recorded."""
    if config.getoption("--block-network", False):
        from pytest_recording import network

        network.unblock()
