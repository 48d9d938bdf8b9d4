"""CMF against its reference implementation, the package cpex; skipped without it.

`python -m tests.conformance.formats.cmf_oracle` compares more, and prints it.
"""

from collections import Counter

import pytest

from tests.conformance.formats.cmf_oracle import DIFFERENCES, Difference, filtering, globs, merging, missing, views

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def test_every_part_reads_the_same() -> None:
    """Every part reads the same: attributes, globs and JSON byte for byte, in every role, with and without context and
    content.
    """
    assert list(views(Counter())) == []


def test_a_plugin_sees_the_same() -> None:
    """A plugin sees the same with our two additional capabilities for objects and data."""
    assert list(filtering(Counter(), every=61)) == []


def test_the_same_changes_are_accepted() -> None:
    assert list(merging(Counter())) == []


def test_patterns_match_the_same() -> None:
    """Random ones on random names."""
    assert list(globs(Counter(), 500)) == []


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.what)
def test_intended_differences_still_exist(difference: Difference) -> None:
    """A difference that no longer exists must be removed from the table."""
    ours, theirs = difference.shown()
    assert ours != theirs
