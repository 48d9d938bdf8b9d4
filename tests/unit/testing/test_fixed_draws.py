"""The same seed gives the same examples, in every process."""

import pytest
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from dragoman.testing.conformance.generate import _generate
from dragoman.testing.fixed_draws import fixed_draws


def test_examples_do_not_depend_on_what_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis would mix in the words of the modules that other tests have loaded."""
    drawn: list[list[str]] = []
    for word in ("quince", "medlar"):
        with monkeypatch.context() as patch:
            patch.setattr(providers, "_get_local_constants", lambda word=word: Constants(strings={word}))
            providers.CONSTANTS_CACHE.cache.clear()
            drawn.append(_generate(st.text(), 100))
    assert drawn[0] == drawn[1]


def test_the_constants_of_modules_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Constants(strings={"quince"})
    monkeypatch.setattr(providers, "_get_local_constants", lambda: found)
    with fixed_draws():
        assert providers._get_local_constants() == Constants()
    with pytest.raises(ZeroDivisionError), fixed_draws():
        _ = 1 / 0
    assert providers._get_local_constants() is found


def test_another_version_of_hypothesis_draws_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is changed is internal to it."""
    found = Constants(strings={"quince"})
    monkeypatch.setattr(providers, "_get_local_constants", lambda: found)
    monkeypatch.delattr(providers, "CONSTANTS_CACHE")
    with fixed_draws():
        assert providers._get_local_constants() is found
