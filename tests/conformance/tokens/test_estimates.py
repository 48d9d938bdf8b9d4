"""Estimates against reported counts, with a median error within a tenth for each provider with enough recordings."""

import logging
from statistics import median

import pytest

from tests.conformance.scope import ADAPTERS
from tests.conformance.tokens.estimates import errors
from tests.conformance.tokens.fitting import Sample, fit
from tests.exchanges import load_or_skip

_ENOUGH = 30
_SAMPLE = 3
"""The default run judges one of this many requests."""


@pytest.mark.exhaustive
@pytest.mark.exchanges
@pytest.mark.parametrize("provider", ADAPTERS)
def test_half_of_the_estimates_are_within_a_tenth(
    provider: str, caplog: pytest.LogCaptureFixture, exhaustive: bool
) -> None:
    """The aim is 10 % (docs/reference/contract.md#estimates). Text that a provider adds makes some estimates worse."""
    load_or_skip(provider)
    caplog.set_level(logging.CRITICAL)
    found = errors(provider, every=1 if exhaustive else _SAMPLE)
    if len(found) >= _ENOUGH:
        assert median(map(abs, found)) <= 0.10


def test_the_fit_recovers_the_weights_behind_the_counts() -> None:
    """Outliers do not distort it, and no weight is negative."""
    true = [20, 3.0, 0.5, 0.0]
    rows = [(1.0, float(words), float(words * words % 17), float(words % 3)) for words in range(1, 60)]
    samples = [Sample(row, round(sum(a * b for a, b in zip(true, row, strict=True)))) for row in rows]
    samples += [Sample((1.0, 5.0, 1.0, 1.0), 9000), Sample((1.0, 30.0, 9.0, 1.0), 3)]
    found = fit(samples, [0, 1, 1, 1], [100, 10, 10, 10], 0.001)
    assert found == pytest.approx(true, abs=0.5)
    assert min(found) >= 0
