"""Hostile documents are refused with a path, and break nothing."""

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigurationError
from dragoman.formats import (
    FormatError,
    from_acp,
    from_cassette,
    from_chatml,
    from_cmf,
    from_langchain,
    from_litellm,
    from_message_body,
    from_native,
    from_pydantic_ai,
    from_umf,
    from_umf_events,
    to_cmf,
    to_messages,
    tool_from_mcp,
)
from dragoman.formats import document as document_module
from dragoman.formats import read as read_any
from dragoman.formats.cmf.convert import NOTE
from tests.laws.streams.call_counts import calls_of
from tests.unit.formats.documents import everything
from tests.unit.formats.hostile import HANDWRITTEN_NATIVE, Hostile, documents, places_of
from tests.unit.formats.importers.samples import SAMPLES

HOSTILE = list(documents())
_BATCHES, _SAMPLE = 12, 4
"""The default run reads one of so many documents of a batch."""

READERS: dict[str, Callable[[Any], object]] = {
    "cmf": from_cmf,
    "umf": from_umf,
    "acp": from_acp,
    "message_body": from_message_body,
    "pydantic-ai": from_pydantic_ai,
    "langchain": from_langchain,
    "litellm": from_litellm,
    "vcr": from_cassette,
    **{name: partial(read_any, format_name=name) for name, _ in SAMPLES.values()},
}


def read(hostile: Hostile) -> object:
    if hostile.shape in READERS:
        return READERS[hostile.shape](hostile.document)
    return from_native(hostile.shape, hostile.document)


@pytest.mark.parametrize("batch", range(_BATCHES))
def test_a_hostile_document_gives_a_typed_error_with_a_path(batch: int, exhaustive: bool) -> None:
    """Only FormatError; its path starts at the root and leads towards the fault."""
    for hostile in islice(HOSTILE, batch, None, _BATCHES if exhaustive else _SAMPLE * _BATCHES):
        error: FormatError | None = None
        try:
            read(hostile)
        except FormatError as caught:
            error = caught
        if error is None:
            assert not hostile.refused, hostile.name
            continue
        assert error.path.startswith("$"), hostile.name
        assert len(str(error)) < 1_000, hostile.name
        if hostile.refused and hostile.path is not None and hostile.shape not in HANDWRITTEN_NATIVE:
            assert error.path.startswith(hostile.path), (hostile.name, str(error))


def test_there_are_hostile_documents_of_every_format() -> None:
    assert len(HOSTILE) >= 500
    assert {hostile.shape for hostile in HOSTILE} == {*READERS, *HANDWRITTEN_NATIVE}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([{"role": "king", "content": []}], "$[0].role"),
        ([{"role": "user", "content": [{"text": "no kind"}]}], "$[0].content[0]"),
        ([{"role": "user", "content": [{"content_type": "hologram"}]}], "$[0].content[0]"),
        ([{"role": "user", "content": [{"content_type": "text", "text": 5}]}], "$[0].content[0].text"),
        ([{"role": "user", "content": [{"content_type": "text"}]}], "$[0].content[0].text"),
        ([{"role": "user", "content": [], "extra": 1}], "$[0].extra"),
        ([{"role": "user", "schema_version": "3.0"}], "$[0].schema_version"),
        ([{"message": 5}], "$[0].message"),
        ([{"message": {"role": "user"}, "extension": {}}], "$[0].extension"),
        ([{"message": {"role": "user"}, "extensions": 5}], "$[0].extensions"),
        (
            [{"role": "user", "content": [{"content_type": "image", "content": {"type": "ftp", "data": ""}}]}],
            "$[0].content[0].content.type",
        ),
        ([{"message": {"role": "user"}, "extensions": {"custom": {NOTE: 5}}}], f"$[0].extensions.custom.{NOTE}"),
        (
            [{"message": {"role": "user"}, "extensions": {"custom": {NOTE: {"of": "", "fields": {"id": 5}}}}}],
            f"$[0].extensions.custom.{NOTE}.id",
        ),
    ],
)
def test_cmf_errors_have_the_path_of_the_field(document: Any, path: str) -> None:
    """CMF errors have the path of the field without the names that the validator gives to kinds."""
    with pytest.raises(FormatError) as caught:
        from_cmf(document)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([{"role": "user"}], "$[0].content"),
        ([{"role": "user", "content": 5}], "$[0].content"),
        ([{"role": "user", "content": [{"type": "audio"}]}], "$[0].content[0]"),
        ([{"role": "user", "content": [{"type": "text"}]}], "$[0].content[0].text"),
        ([{"role": "user", "content": [{"type": "image", "source": {"type": "url"}}]}], "$[0].content[0].source.url"),
        ([{"role": "user", "content": "", "metadata": {"dragoman_id": 1}}], "$[0].metadata.dragoman_id"),
        ([{"role": "user", "content": "", "metadata": {"dragoman_metadata": "{"}}], "$[0].metadata.dragoman_metadata"),
        (
            [{"role": "user", "content": "", "metadata": {"dragoman_channel": "\ud800"}}],
            "$[0].metadata.dragoman_channel",
        ),
    ],
)
def test_umf_errors_have_the_path_of_the_field(document: Any, path: str) -> None:
    with pytest.raises(FormatError) as caught:
        from_umf(document)
    assert caught.value.path == path


@pytest.mark.parametrize("provider", list(HANDWRITTEN_NATIVE))
def test_native_errors_have_the_path_of_the_message(provider: str) -> None:
    """The adapter names the fault, the path names its message."""
    with pytest.raises(FormatError) as caught:
        from_native(provider, [*HANDWRITTEN_NATIVE[provider], {"role": 5, "content": 5, "parts": 5, "type": 5}])
    assert caught.value.path == f"$.{_list_of(provider)}[{len(HANDWRITTEN_NATIVE[provider])}]"


_AI = {"type": "ai", "content": "Hi."}
_EVENT = {"author": "model", "invocation_id": "i", "content": {"role": "model", "parts": [{"text": "Hi."}]}}


@pytest.mark.parametrize(
    ("name", "document", "path"),
    [
        ("langchain", [{"role": {}, "content": "Hi."}], "$[0].type"),
        ("langchain", [{**_AI, "additional_kwargs": {"tool_calls": 5}}], "$[0].additional_kwargs.tool_calls"),
        (
            "langchain",
            [{**_AI, "additional_kwargs": {"reasoning": {"summary": 1.5}}}],
            "$[0].additional_kwargs.reasoning.summary",
        ),
        ("pydantic-ai", [{"kind": "request", "parts": [{"part_kind": {}}]}], None),
        ("autogen", {"type": {}, "messages": []}, None),
        ("google-adk", [{**_EVENT, "grounding_metadata": {"groundingChunks": True}}],
         "$[0].grounding_metadata.groundingChunks"),
        ("langsmith", {"run_type": "llm", "inputs": {}, "outputs": {"generations": 5}}, "$.outputs.generations"),
        ("chatml", [["Hi."]], "$"),
        ("chat-template", {"text": "Hi."}, "$"),
        ("openai-chat", {"model": "\0", "messages": []}, "$.model"),
        ("anthropic", {"type": "message", "role": "assistant", "model": "\0", "content": []}, "$.model"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(name: str, document: Any, path: str | None) -> None:
    """Where a reader expects a word, a list or a text, other JSON raised errors of Python; None: it may be read."""
    if path is None:
        with suppress(FormatError):
            read_any(document, name)
        return
    with pytest.raises(FormatError) as caught:
        read_any(document, name)
    assert caught.value.path == path


_WRONG: tuple[Any, ...] = ({}, [[]], [5], 5, True, {"type": {}, "role": []})


def test_any_value_may_stand_anywhere(exhaustive: bool) -> None:
    """Each place of the documents of all programs, with values of other types: they are read, or refused with a path.

    Without the name of a format too: a document that no format recognises is refused like any other.
    """
    documents = [*((name, document) for name, document in SAMPLES.values()), *HANDWRITTEN_NATIVE.items()]
    places = [(name, put) for name, document in documents for _, put in places_of(document, "$")]
    assert len(places) > 800
    for number, (name, put) in enumerate(places):
        for value in _WRONG if exhaustive else _WRONG[number % 3 :: 3]:
            document = put(copy.deepcopy(value))
            with suppress(FormatError):
                read_any(document, name)
            with suppress(FormatError, ConfigurationError):
                read_any(document)


def _list_of(provider: str) -> str:
    return {"openai": "input", "google": "contents"}.get(provider, "messages")


def test_parts_that_a_note_names_must_exist() -> None:
    """A note is untrusted input like anything else."""
    document = to_cmf(everything()).data
    document[2]["extensions"]["custom"][NOTE]["content"][0]["part"] = 99
    with pytest.raises(FormatError, match=r"content\[0\]\.part: there is no part 99"):
        from_cmf(document)


@pytest.mark.parametrize(
    "document",
    [
        "no turn", "<|im_start|>user", "<|im_start|>king\nHi.\n<|im_end|>",
        "<|im_start|>user\n<|im_start|>user\nHi.\n<|im_end|>",
        "<|im_start|>user\nHi.\n<|im_end|>x", "<|im_start|>user\n\ud800\n<|im_end|>",
        "<|im_start|>user name=<|im_end|>\nHi.\n<|im_end|>",
    ],
)  # fmt: skip
def test_broken_chatml_is_refused(document: str) -> None:
    """A turn inside another, or a text behind its end, is not a turn."""
    with pytest.raises(FormatError):
        from_chatml(document)


@pytest.mark.parametrize(
    ("log", "path"),
    [
        ('{"event_id": 5}', "$[0].event_id"),
        ("{}\n", "$[0].event_id"),
        ('{"event_id": "e"}\n{', "$[1]"),
        (b"\xff", "$"),
        (
            [{"event_id": "e", "event_type": "message", "session_id": "s", "timestamp_ms": 1, "sequence": 0,
              "payload": {"event_id": "e", "message": {"role": "king", "content": ""}}}],
            "$[0].payload.message.role",
        ),
        (
            [{"event_id": "e", "event_type": "message", "session_id": "s", "timestamp_ms": 1, "sequence": 2**32,
              "payload": {}}],
            "$[0].sequence",
        ),
    ],
)  # fmt: skip
def test_a_broken_log_is_refused_with_its_line(log: Any, path: str) -> None:
    """The path starts with the line number."""
    with pytest.raises(FormatError) as caught:
        from_umf_events(log)
    assert caught.value.path == path


@pytest.mark.parametrize("tool", [5, {}, {"name": "f"}, {"name": 5, "inputSchema": {}}, {"inputSchema": []}, "{"])
def test_a_broken_tool_is_refused(tool: Any) -> None:
    """MCP's tools need a name and a schema."""
    with pytest.raises(FormatError):
        tool_from_mcp(tool)


def test_a_fault_at_the_end_of_a_long_list_is_found_in_few_steps() -> None:
    """A scan would take hundreds of readings."""
    good = [{"role": "user", "content": "Hi."}] * 500

    def find_fault() -> None:
        with pytest.raises(FormatError) as caught:
            from_native("openai-chat", [*good, {"role": 5}])
        assert caught.value.path == "$.messages[500]"

    assert calls_of(find_fault) < 20 * calls_of(lambda: from_native("openai-chat", good))


_CHAT = json.dumps(
    [{"role": "user", "content": "Grüße."}, {"role": "assistant", "content": "Hallo."}], ensure_ascii=False
)


@pytest.mark.parametrize("name", ["openai-chat", "anthropic", "umf", "messages", "litellm", "hf"])
def test_a_mark_of_the_byte_order_is_no_content(name: str) -> None:
    """Of bytes, and of a text that was decoded with it."""
    document = _CHAT if name != "messages" else json.dumps(to_messages(everything()).data)
    expected = [message.text for message in read_any(document, name).messages]
    for marked in ("\ufeff" + document, ("\ufeff" + document).encode()):
        assert [message.text for message in read_any(marked, name).messages] == expected


@pytest.mark.parametrize("name", [None, "openai-chat", "umf-events", "chatml", "claude-code"])
def test_another_encoding_is_named(name: str | None) -> None:
    """UTF-16 by its mark, Latin-1 by its place."""
    for document, reason in (
        (_CHAT.encode("utf-16"), "UTF-16: convert it to UTF-8"),
        (_CHAT.encode("latin-1"), "not UTF-8|not valid JSON|no valid|unicode"),
    ):
        with pytest.raises((FormatError, ConfigurationError), match=reason):
            read_any(document, name)


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its format is named or not."""
    monkeypatch.setattr(document_module, "MAX_TEXT_BYTES", 50)
    path = tmp_path / "long.json"
    path.write_text(_CHAT, encoding="utf-8")
    monkeypatch.setattr(Path, "read_bytes", None)
    for name in (None, "openai-chat", "vcr"):
        with pytest.raises(FormatError, match="at most 50 bytes"):
            read_any(path, name)
