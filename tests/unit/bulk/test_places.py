"""The manifest in PostgreSQL, where one is given: the same run, and the same promise."""

from collections.abc import Iterator

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.bulk import bulk
from dragoman.bulk.manifest import Manifest
from tests.store.places import HOW_TO_RUN, postgres_place, postgres_url
from tests.unit.bulk.provider import HAIKU, SONNET, Provider, number, refusal


@pytest.fixture
def place() -> Iterator[str]:
    server = postgres_url()
    if server is None:
        pytest.skip(HOW_TO_RUN)
    with postgres_place(server) as url:
        yield url


def test_a_run_in_postgresql(place: str) -> None:
    """Answers, errors and retries, in a run of its own beside another one."""
    broken = {2}
    provider = Provider(lambda prompt, _: refusal(400, "bad") if number(prompt) in broken else "nul \0 and \\0")
    rows = [f"question {n}" for n in range(6)]
    with bulk(rows, [HAIKU, SONNET], manifest=place, name="one", providers=provider.settings) as report:
        assert report.errors == 2
        assert [row["answer"] for row in report][:2] == ["nul \0 and \\0"] * 2
    broken.clear()
    with bulk(
        rows, [HAIKU, SONNET], manifest=place, name="one", providers=provider.settings, retry_errors=True
    ) as report:
        assert (report.finished, report.errors) == (True, 0)
    assert provider.requests == 14
    with bulk(rows[:1], HAIKU, manifest=place, name="two", providers=provider.settings) as report:
        assert report.finished
    assert provider.requests == 15


def test_one_process_at_a_time_in_postgresql(place: str) -> None:
    """By name: another run may be done at the same time."""
    manifest = Manifest(place, "one")
    try:
        with pytest.raises(ConfigurationError, match="another process"):
            Manifest(place, "one")
        Manifest(place, "two").close()
    finally:
        manifest.close()
    Manifest(place, "one").close()
