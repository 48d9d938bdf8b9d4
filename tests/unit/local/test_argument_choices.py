"""Arguments limited to the user's own words."""

import pytest

from dragoman.local.prompt import MAX_WORDS, limit_arguments


def test_a_free_string_is_limited_to_runs_of_words_of_the_message() -> None:
    """Each run counts, without surrounding punctuation."""
    schema = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}
    limited = limit_arguments('Read "notes.txt", please.', schema)
    assert limited["properties"]["note"]["enum"] == [
        "Read", 'Read "notes.txt', 'Read "notes.txt", please', "notes.txt", 'notes.txt", please', "please",
    ]  # fmt: skip
    assert limited["required"] == ["note"]
    assert schema["properties"] == {"note": {"type": "string"}}


def test_a_string_with_its_own_limits_stays_as_it_is() -> None:
    """An enum, a pattern and the like are the tool's own limits; numbers are not limited."""
    properties = {
        "unit": {"type": "string", "enum": ["c", "f"]},
        "zip": {"type": "string", "pattern": "[0-9]+"},
        "count": {"type": "integer"},
    }
    assert limit_arguments("in Rome", {"type": "object", "properties": properties})["properties"] == properties


def test_lists_and_nested_objects_are_limited_as_well() -> None:
    inner = {"type": "object", "properties": {"name": {"type": "string"}}}
    limited = limit_arguments("Ada", {"type": "object", "properties": {"people": {"type": "array", "items": inner}}})
    assert limited["properties"]["people"]["items"]["properties"]["name"]["enum"] == ["Ada"]


def test_a_message_without_words_limits_nothing() -> None:
    """An empty list of values would allow nothing at all."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    assert limit_arguments(" ... ", schema) == schema


def test_only_the_last_words_of_a_long_message_count() -> None:
    """The number of runs is bounded."""
    limited = limit_arguments("first " + "word " * MAX_WORDS, {"type": "string"})
    assert "first" not in limited["enum"]


def test_a_leading_dot_belongs_to_a_path() -> None:
    """Hidden files and relative paths start with one."""
    assert ".env" in limit_arguments("Read .env.", {"type": "string"})["enum"]


def test_a_run_ends_with_its_sentence() -> None:
    """The words of one argument are within one sentence."""
    runs = limit_arguments("See LICENSE. Who wrote it?", {"type": "string"})["enum"]
    assert "See LICENSE" in runs
    assert "LICENSE. Who" not in runs


@pytest.mark.parametrize(
    ("name", "text", "pieces"),
    [
        ("file_path", "Read docs/a.tar.gz, e.g. now, then b.py.", ["docs/a.tar.gz", "b.py"]),
        ("url", "Open https://example.org/a?b=c please", ["https://example.org/a?b=c"]),
        ("email", "Tell ada@example.org", ["ada@example.org"]),
    ],
)
def test_a_string_with_a_telling_name_is_limited_by_kind(name: str, text: str, pieces: list[str]) -> None:
    """A path is what looks like one; if nothing does, any run may be one."""
    schema = {"type": "object", "properties": {name: {"type": "string"}}}
    assert limit_arguments(text, schema)["properties"][name]["enum"] == pieces
    assert limit_arguments("the LICENSE", schema)["properties"][name]["enum"] == ["the", "the LICENSE", "LICENSE"]
