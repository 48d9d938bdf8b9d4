"""The roads agree in what they spend, count and report, or a verdict says why not, and whether that is right."""

from tests.attempts.differences import uncovered, unneeded, verdicts


def test_every_difference_has_a_verdict() -> None:
    """`python -m tests.attempts.differences` shows those without one."""
    assert uncovered() == []
    assert [each for each in verdicts() if not each.verdict.startswith(("right", "wrong"))] == []


def test_every_verdict_is_of_a_difference() -> None:
    """When a difference is gone, so is its verdict."""
    assert unneeded() == []
