"""Messages are checked where they enter: `messages=`, a prompt, a document in any format, an imported session."""

import logging
from typing import Any

import pytest

from dragoman import Message, Session
from dragoman.blocks import AudioBlock, DocumentBlock, ImageBlock, MediaSource, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.rules import check, check_media
from dragoman.errors import RequestError
from dragoman.formats import read
from dragoman.messages import Role
from dragoman.store import Store
from dragoman.testing.doubles.scripted_provider import ScriptedProvider

ORPHAN = Message.tool("tu_01JD00000000000000000000AA", "7 km")


def image(data: str, media_type: str | None = "image/png") -> ImageBlock:
    return ImageBlock(source=MediaSource(kind="base64", data=data), media_type=media_type)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "dragoman.canonical"]


@pytest.mark.parametrize("data", ["aGVsbG8=", "aGVs\nbG8=\n", ""])
def test_base64_may_have_line_breaks(data: str) -> None:
    assert list(check_media([image(data)])) == []


@pytest.mark.parametrize(
    ("block", "violation"),
    [
        (image("aGVsbG8"), "content[0]: the data of the image is not base64"),
        (image("not base64!"), "content[0]: the data of the image is not base64"),
        (image("data:image/png;base64,aGk="), "content[0]: the data of the image is not base64, but a URL"),
        (image("aGk=", "png"), "content[0]: 'png' is not a media type, such as image/png"),
        (image("aGk=", "image/png\r\nx-evil: 1"), "content[0]: 'image/png\\r\\nx-evil: 1' is not a media type"),
        (
            AudioBlock(source=MediaSource(kind="url", data="https://example.org/a"), media_type="<b>"),
            "content[0]: '<b>' is not a media type, such as image/png",
        ),
        (
            ToolResultBlock(tool_use_id="tu_1", content=(TextBlock(text="See."), image("?"))),
            "content[0].content[1]: the data of the image is not base64",
        ),
    ],
)
def test_a_malformed_medium_is_refused_where_it_enters(block: Any, violation: str) -> None:
    """A prompt and `messages=` with it are typed errors; the session goes on without it."""
    (found,) = check_media([block])
    assert found.startswith(violation)
    with ScriptedProvider("Hello.") as provider, Session(provider.model) as session:
        for prompt in ([block], block, Message(role=Role.USER, content=(block,))):
            with pytest.raises(RequestError, match="this cannot be a message: content"):
                session.ask(prompt)
        assert session.messages == ()
        assert session.ask("Hi").text == "Hello."
        with pytest.raises(RequestError, match=r"messages\[1\]: content"):
            Session(provider.model, messages=[Message.user("Hi"), Message(role=Role.USER, content=(block,))])


def test_a_text_document_and_a_media_type_with_parameters_are_valid() -> None:
    plain = DocumentBlock(source=MediaSource(kind="text", data="not base64!"), media_type="text/plain; charset=utf-8")
    assert list(check_media([plain])) == []


def test_messages_of_a_session_are_checked(caplog: pytest.LogCaptureFixture) -> None:
    """They may enter: what no provider can get is a loss of the request."""
    Session("anthropic:claude-sonnet-4-6", messages=[Message.user("Hi"), ORPHAN])
    (warning,) = warnings(caplog)
    assert warning.startswith("messages= breaks the invariants of histories: ")
    assert "answers no earlier call" in warning


def test_valid_messages_of_another_origin_are_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """They have neither a usage nor a routing, as replies of a session have."""
    call = ToolUseBlock(id=ORPHAN.tool_results[0].tool_use_id, name="measure")
    history = [Message.user("Hi"), Message.assistant([call]), ORPHAN, Message.assistant("7 km")]
    assert check(history)
    Session("anthropic:claude-sonnet-4-6", messages=history)
    assert warnings(caplog) == []


def test_a_document_is_checked(caplog: pytest.LogCaptureFixture) -> None:
    url = "data:image/png;base64,no!"
    content = [{"type": "image_url", "image_url": {"url": url}}]
    read([{"role": "user", "content": content}], "openai-chat")
    (warning,) = warnings(caplog)
    assert "the format openai-chat breaks the invariants" in warning
    assert "the data of the image is not base64" in warning


def test_an_imported_session_is_checked(caplog: pytest.LogCaptureFixture) -> None:
    with Store("sqlite://") as store, Store("sqlite://") as other:
        record = store.create("local:smollm2-135m")
        store.append(record.id, [Message.user("Hi"), ORPHAN], expected_version=record.version)
        assert warnings(caplog) == []
        other.import_lines(store.export(record.id))
    (warning,) = warnings(caplog)
    assert warning.startswith(f"the imported session {record.id!r} breaks")


def test_a_long_list_of_violations_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    Session("anthropic:claude-sonnet-4-6", messages=[ORPHAN] * 9)
    (warning,) = warnings(caplog)
    assert warning.endswith("more")
    assert len(warning) < 1000
