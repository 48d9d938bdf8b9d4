"""A program can ask for nearly everything that the official SDKs can."""

import pytest

from tests.conformance.coverage.probe import coverage
from tests.conformance.coverage.reasons import REASONS
from tests.conformance.coverage.sdk import VOCABULARIES

MOST_ABSENT = 0.05
FEWEST, FEWEST_OF = 31, {"cohere": 25}
"""Names of an SDK: one that has fewer was not read."""


@pytest.mark.parametrize("provider", VOCABULARIES)
def test_what_cannot_be_sent_is_rare_and_has_a_reason(provider: str) -> None:
    """At most a twentieth of an SDK's parameters, parts and tools is out of reach, and each of them is explained."""
    rows = list(coverage(provider, VOCABULARIES[provider]()))
    absent = {name for _, name, way in rows if way == "absent"}
    assert len(rows) >= FEWEST_OF.get(provider, FEWEST)
    assert len(absent) <= MOST_ABSENT * len(rows)
    assert absent == set(REASONS.get(provider, {}))
    assert {"typed", "extra"} <= {way for *_, way in rows}
