"""The annotations of a message can be replaced, and nothing else changes."""

import pytest

from dragoman.canonical.message import Message
from dragoman.store import ConflictError, SessionNotFoundError, Store, StoreError

MESSAGES = [Message.user("one", id="m1"), Message.user("two", id="m2")]


def test_annotations_of_a_message_are_replaced(store: Store) -> None:
    """In a new version; the messages and the other annotations stay."""
    store.create("ollama:x", MESSAGES, session_id="s1", extensions={"m1": {"a": 1}, "m2": {"b": 2}})
    assert store.annotate("s1", "m2", {"c": [3]}, expected_version=1) == 2
    found = store.load("s1")
    assert found.extensions == {"m1": {"a": 1}, "m2": {"c": [3]}}
    assert ([message.id for message in found.messages], found.model) == (["m1", "m2"], "ollama:x")
    assert store.append("s1", [Message.user("three", id="m3")], expected_version=2) == 3


def test_an_invalid_annotation_changes_nothing(store: Store) -> None:
    """An invalid annotation changes nothing: another version, a missing message or a missing session."""
    store.create("ollama:x", MESSAGES, session_id="s1", extensions={"m2": {"b": 2}})
    with pytest.raises(ConflictError):
        store.annotate("s1", "m2", {"c": 3}, expected_version=0)
    with pytest.raises(StoreError, match="no message"):
        store.annotate("s1", "m9", {"c": 3}, expected_version=1)
    with pytest.raises(SessionNotFoundError):
        store.annotate("s9", "m2", {"c": 3}, expected_version=None)
    assert (store.load("s1").extensions, store.load("s1").version) == ({"m2": {"b": 2}}, 1)
