"""The part of the pytest plugin that plays and records cassettes. It is imported when the first test with one runs."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.adapter.registry import adapter_class, providers
from dragoman.testing.cassettes.check import find_staleness as staleness_reasons
from dragoman.testing.cassettes.exchange import RecordedRequest, request_target
from dragoman.testing.cassettes.vcrpy import replayed_requests, today
from dragoman.testing.plugin_faults import FAULT_KEY, apply_fault

try:
    from dragoman.testing.cassettes.recorder import MODES, Recorder, cassette
except ImportError:
    raise MissingExtraError(
        "tests with a cassette need vcrpy and pytest-recording: pip install 'dragoman[testing]'"
    ) from None

PLACEHOLDER_KEY = "replayed"


@contextmanager
def use_cassette(item: pytest.Item, path: Path) -> Iterator[Recorder | None]:
    """Patch every HTTP client with a test's cassette. Yields None if recordings are disabled."""
    config = item.config
    if config.getoption("--disable-recording", False):
        yield None
        return
    mode = config.getoption("--record-mode", None) or "none"
    if mode not in MODES:
        raise ConfigurationError(f"there is no record mode {mode!r}: use one of {', '.join(MODES)}")
    with cassette(path, mode, allow_repeats=FAULT_KEY in item.stash) as recorder:  # a fault may be retried
        readers: Iterable[str] = ()
        if recorder.recording:
            if config.getoption("--block-network", False):  # of pytest-recording
                from pytest_recording import network

                network.unblock()
        elif path.exists():
            readers = _readers(exchange.request for exchange in recorder.cassette.exchanges)
        else:  # any client may start: its request fails with the commands that record one
            readers = providers()
        keys = _placeholder_keys(readers)
        with patch.dict(os.environ, keys), apply_fault(item):
            yield recorder


@contextmanager
def use_placeholder_keys(vcr_cassette: Any) -> Iterator[None]:
    """Set placeholder keys while vcrpy replays a file in our format; do nothing while it records."""
    requests = replayed_requests(vcr_cassette)
    with patch.dict(os.environ, _placeholder_keys(_readers(requests))):
        yield


def find_staleness(recorder: Recorder, config: pytest.Config) -> list[str]:
    """Return the reasons why the replayed recording may be out of date, each with the file's name."""
    if recorder.recording:
        return []
    days = int(config.getini("llm_cassettes_stale_days"))
    root = config.rootpath
    name = recorder.path.relative_to(root) if recorder.path.is_relative_to(root) else recorder.path
    return [f"{name}: {reason}" for reason in staleness_reasons(recorder.loaded, today(), days)]


def _readers(requests: Iterable[RecordedRequest]) -> list[str]:
    found = dict.fromkeys(request_target(request).reader for request in requests)
    return [reader for reader in found if reader]


def _placeholder_keys(readers: Iterable[str]) -> dict[str, str]:
    """Return placeholder keys for unset variables: a replay needs no key, but clients do."""
    names = [name for reader in readers for name in adapter_class(reader).endpoint.key_variables[:1]]
    return {name: PLACEHOLDER_KEY for name in names if name not in os.environ}
