"""The docstring of a test is a sentence, or absent."""

import pytest

from tests.upkeep.docstrings import docstrings, fragments, is_sentence


def test_no_docstring_is_a_fragment() -> None:
    """If a whole sentence is reported, add its verb to `tests/upkeep/verbs.toml`."""
    assert list(fragments()) == []


@pytest.mark.parametrize(
    "docstring",
    [
        "Of the field.",
        "With its name and the expected type.",
        "Neither text nor bytes.",
        "In order. It is kept.",
        "Once.",
    ],
)
def test_a_fragment_is_found(docstring: str) -> None:
    assert not is_sentence(docstring)


@pytest.mark.parametrize(
    "docstring",
    [
        "A turn keeps its model.",
        "In a stream, the ids differ.",
        "Most tools return text.",
        "Only the retry counts.",
        "`a.b` is read. Of the field.",
    ],
)
def test_a_sentence_is_not(docstring: str) -> None:
    assert is_sentence(docstring)


def test_only_docstrings_of_tests_are_read() -> None:
    source = 'def test_a():\n    """One."""\nasync def test_b(): ...\ndef c():\n    """Two."""\n'
    assert list(docstrings(source)) == [(1, "test_a", "One.")]
