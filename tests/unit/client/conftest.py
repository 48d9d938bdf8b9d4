"""A provider for clients, and a log in a file."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import (
    set_default_client,
)
from dragoman.transport import RetryPolicy
from tests.unit.client.governed_provider import GovernedProvider


@pytest.fixture
def provider() -> GovernedProvider:
    return GovernedProvider()


@pytest.fixture
def settings(provider: GovernedProvider) -> Iterator[dict[str, Any]]:
    retry = RetryPolicy(max_retries=1, initial_wait=0.001, max_wait=0.002)
    with provider.serve() as server:
        yield {"providers": {"anthropic": {"base_url": server.url, "api_key": "none", "retry": retry}}}
    set_default_client(None)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[None]:
    """Everything that is logged goes to a file."""
    handler = logging.FileHandler(tmp_path / "all.log")
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield
    root.removeHandler(handler)
    root.setLevel(level)
    handler.close()
