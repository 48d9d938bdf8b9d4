"""CMF against its reference implementation, the package cpex; skipped where it is not installed.

`python -m tests.conformance.formats.cmf_oracle` compares more, and prints it.
"""

from collections import Counter

import pytest

from tests.conformance.formats.cmf_oracle import DIFFERENCES, Difference, filtering, globs, merging, missing, views

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def test_every_part_reads_the_same() -> None:
    """Attributes, globs and JSON byte for byte, in every role, with and without context and content."""
    assert list(views(Counter())) == []


def test_what_a_plugin_sees_is_the_same() -> None:
    """Given the two capabilities for objects and data, which the reference has not."""
    assert list(filtering(Counter(), every=61)) == []


def test_what_is_taken_over_is_the_same() -> None:
    """From somebody who holds every capability."""
    assert list(merging(Counter())) == []


def test_patterns_match_the_same() -> None:
    """Random ones on random names."""
    assert list(globs(Counter(), 500)) == []


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.what)
def test_where_they_differ_on_purpose(difference: Difference) -> None:
    """One that is gone does not belong in the table any more."""
    ours, theirs = difference.shown()
    assert ours != theirs
