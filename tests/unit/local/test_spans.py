"""Arguments limited to the user's own words."""

from dragoman.transport.local_spans import MAX_WORDS, taken_from


def test_a_free_string_is_limited_to_runs_of_words_of_the_message() -> None:
    """Every run counts, without the punctuation around it."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    limited = taken_from('Read "notes.txt", please.', schema)
    assert limited["properties"]["path"]["enum"] == [
        "Read", 'Read "notes.txt', 'Read "notes.txt", please', "notes.txt", 'notes.txt", please', "please",
    ]  # fmt: skip
    assert limited["required"] == ["path"]
    assert schema["properties"] == {"path": {"type": "string"}}


def test_a_string_that_says_itself_what_it_may_be_stays_as_it_is() -> None:
    """An enum, a pattern and the like are the tool's own limits; numbers are none of our business."""
    properties = {
        "unit": {"type": "string", "enum": ["c", "f"]},
        "zip": {"type": "string", "pattern": "[0-9]+"},
        "count": {"type": "integer"},
    }
    assert taken_from("in Rome", {"type": "object", "properties": properties})["properties"] == properties


def test_lists_and_inner_objects_are_limited_as_well() -> None:
    """The limit reaches every depth."""
    inner = {"type": "object", "properties": {"name": {"type": "string"}}}
    limited = taken_from("Ada", {"type": "object", "properties": {"people": {"type": "array", "items": inner}}})
    assert limited["properties"]["people"]["items"]["properties"]["name"]["enum"] == ["Ada"]


def test_a_message_without_words_limits_nothing() -> None:
    """An empty list of values would allow nothing at all."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    assert taken_from(" ... ", schema) == schema


def test_of_a_long_message_only_the_last_words_count() -> None:
    """The number of runs is bounded."""
    limited = taken_from("first " + "word " * MAX_WORDS, {"type": "string"})
    assert "first" not in limited["enum"]


def test_a_leading_dot_belongs_to_a_path() -> None:
    """Hidden files and relative paths start with one."""
    assert ".env" in taken_from("Read .env.", {"type": "string"})["enum"]
