"""Formats of other packages are found through entry points, and detected if nothing else fits."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from dragoman import DragomanError, Message
from dragoman.formats import Format, read, registry


def _read(data: Any, model: str | None) -> list[Message]:
    return [Message.user(entry["said"]) for entry in data]


SAID = Format("said", "what was said", read=_read, recognises=lambda data: isinstance(data, list) and "said" in data[0])
GREEDY = Format("greedy", "everything", read=_read, recognises=lambda _: True)
TAKEN = Format("llama-index", "a name of ours", read=_read, recognises=lambda data: "blocks" in data[0])
NO_FORMAT = 5


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    entries: list[EntryPoint] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: entries if group == "dragoman.formats" else [])
    registry._entries.cache_clear()
    registry._load.cache_clear()
    yield entries
    registry._entries.cache_clear()
    registry._load.cache_clear()


def _entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, f"{__name__}:{value}", "dragoman.formats")


def test_a_package_adds_a_format(installed: list[EntryPoint]) -> None:
    installed.append(_entry("said", "SAID"))
    for result in (read([{"said": "Hi."}], "said"), read([{"said": "Hi."}])):
        assert (result.format, result.messages[0].text) == ("said", "Hi.")


def test_a_document_that_fits_several_formats_is_unknown(installed: list[EntryPoint]) -> None:
    """One of ours and one of a package, or two of packages: nothing is guessed."""
    installed += [_entry("said", "SAID"), _entry("greedy", "GREEDY")]
    for document in ([{"said": "Hi."}], [{"role": "user", "content": "Hi."}]):
        with pytest.raises(DragomanError, match=r"it fits several formats: .*greedy"):
            read(document)


@pytest.mark.parametrize(
    ("name", "value", "pattern"),
    [
        ("said", "NO_FORMAT", "is not a Format of that name"),
        ("other", "SAID", "is not a Format of that name"),
        ("said", "MISSING", "cannot be loaded"),
    ],
)
def test_a_faulty_entry_is_named(installed: list[EntryPoint], name: str, value: str, pattern: str) -> None:
    """An entry that is not a format, has another name, or cannot be loaded."""
    installed.append(_entry(name, value))
    with pytest.raises(DragomanError, match=pattern):
        read([{"said": "Hi."}], name)


def test_a_package_takes_the_place_of_a_format_of_ours(installed: list[EntryPoint]) -> None:
    """A package takes the place of a format of ours by its name, also if both recognise a document."""
    installed.append(_entry("llama-index", "TAKEN"))
    document = [{"role": "user", "said": "Hi.", "additional_kwargs": {}, "blocks": []}]
    assert (read(document).format, read(document).messages[0].text) == ("llama-index", "Hi.")
