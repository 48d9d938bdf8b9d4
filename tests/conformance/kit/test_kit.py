"""Our own adapters pass the kit that every adapter has to pass; `dragoman conform` shows the same as a scorecard."""

from dataclasses import replace

import pytest

from dragoman.testing.conformance import LAWS, Law, Mark
from dragoman.testing.conformance.scorecard import quiet
from tests.conformance.kit.subjects import PROVIDERS, subject_of

CHAPTERS = tuple(dict.fromkeys(law.chapter for law in LAWS))


def laws_of(chapter: str) -> list[Law]:
    return [law for law in LAWS if law.chapter == chapter]


@pytest.mark.parametrize("chapter", CHAPTERS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_our_adapters_pass_the_kit(provider: str, chapter: str) -> None:
    """No law is broken, and each law that is not tried has a reason."""
    subject = subject_of(provider)
    with quiet():
        results = [law.run(subject) for law in laws_of(chapter)]
    broken = [f"{result.law}: {fault}" for result in results for fault in result.verdict.faults]
    assert not broken, "\n".join(broken)
    assert all(result.skip_reason for result in results if result.mark is Mark.NOT_TRIED)
    assert any(result.mark is Mark.HOLDS for result in results)


@pytest.mark.parametrize("histories", [80, 85, 190, 195])
def test_any_number_of_histories_passes(histories: int) -> None:
    """Calls outside the assistant's messages, which some of these hold, take no number in the round trip."""
    subject = subject_of("openai-chat")
    subject = replace(subject, effort=replace(subject.effort, histories=histories))
    (law,) = (each for each in LAWS if each.name == "what changes is a loss")
    result = law.run(subject)
    assert result.verdict.failed == 0, result.verdict.faults
