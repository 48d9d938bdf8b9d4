"""Recordings of a real llama-server in our cassette format under pytest-recording; each has to be played completely."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.testing.cassettes import vcrpy

FOLDER = Path(__file__).resolve().parents[2] / "cassettes"


def pytest_recording_configure(config: pytest.Config, vcr: Any) -> None:
    vcrpy.register(vcr, server="llama-server")


@pytest.fixture(scope="session")
def vcr_config() -> dict[str, Any]:
    return vcrpy.config()


@pytest.fixture(scope="module")
def vcr_cassette_dir() -> str:
    return str(FOLDER / "llama-server" / "answers")


@pytest.fixture
def default_cassette_name(request: pytest.FixtureRequest) -> str:
    """The id of the parameters: ``anthropic-stream-tools`` is a wire and a kind of request."""
    name: str = request.node.callspec.id
    return name


@pytest.fixture(autouse=True)
def all_played(vcr: Any) -> Iterator[None]:
    """A cassette with unplayed exchanges no longer shows what it claims to."""
    yield
    if vcr is not None and vcr.record_mode.value == "none":
        assert vcr.all_played, f"{vcr.play_count} of {len(vcr)} recorded exchanges were played"
