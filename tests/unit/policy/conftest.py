"""The two drivers of a pipeline."""

import asyncio

import pytest

from tests.unit.policy.pipelines import HI, Run


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a pipeline at a hook, by its sync and its async method."""
    if request.param == "sync":
        return lambda pipeline, message=HI, extensions=None, **how: pipeline.run(
            how.pop("at", "evaluate"), message, extensions, **how
        )
    return lambda pipeline, message=HI, extensions=None, **how: asyncio.run(
        pipeline.run_async(how.pop("at", "evaluate"), message, extensions, **how)
    )
