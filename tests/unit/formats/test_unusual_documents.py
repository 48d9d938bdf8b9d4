"""Handwritten cases that recorded histories hardly have: each format keeps, names or refuses them."""

import re
from typing import Any

import pytest

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import ImageBlock, MediaSource, TextBlock, ToolResultBlock
from dragoman.canonical.message import Message, Role
from dragoman.formats import MessageBody, MessageBodySchema, MessageBodySchemaPart, to_chatml, to_message_body, to_umf
from dragoman.formats.body.answer_reader import AnswerReader
from dragoman.formats.errors import FormatError, MessageBodyError


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("/notes/**", "/notes/a/b.txt", "notes"),
        ("/a**b", "/a/x/b", "/c"),
        ("**/end", "/x/end", "/x/begin"),
        ("/*.txt", "/a.txt", "/a/b.png"),
    ],
)
def test_a_glob_becomes_a_pattern_of_the_answer_schema(pattern: str, fits: str, fits_not: str) -> None:
    """Every way to write a star: names that match the glob match the regular expression of the answer schema."""
    schema = MessageBodySchema((MessageBodySchemaPart(name=pattern, content_type="text/plain", required=True),))
    shapes = schema.json_schema()["properties"]["parts"]["items"]["anyOf"]
    patterns = [shape["properties"]["name"]["pattern"] for shape in shapes]
    assert all(re.search(found, fits) for found in patterns)
    assert not any(re.search(found, fits_not) for found in patterns)


@pytest.mark.parametrize("answer", ['{"parts" 3}', '{"parts": [} ', '{"parts": []} x'])
def test_an_answer_that_is_no_json_is_a_violation(answer: str) -> None:
    """A colon, a comma or an end in the wrong place is named as soon as it arrives."""
    schema = MessageBodySchema((MessageBodySchemaPart(content_type="text/*"),))
    reader = AnswerReader(schema.parts)
    reader.feed(answer)
    with pytest.raises(MessageBodyError):
        reader.end()


def test_a_body_has_nothing_but_its_parts() -> None:
    """A further key of the object is refused with its path."""
    with pytest.raises(FormatError) as caught:
        MessageBody.from_json({"parts": [], "more": 1})
    assert caught.value.path == "$.more"


def test_an_image_of_a_provider_changes_in_its_source() -> None:
    """A loss names the field of the source that a message body has no place for."""
    source = MediaSource(kind="url", data="https://example.org/a.png", provider="openai")
    written = to_message_body(Message.user([ImageBlock(source=source, media_type="image/png")]))
    assert any("provider" in loss.reason for loss in written.losses)


def test_text_beside_a_result_is_the_users_in_chatml() -> None:
    """ChatML has no text in a tool's message: it is written as the user's, and that is a loss."""
    blocks: tuple[Any, ...] = (ToolResultBlock(tool_use_id="tu_1", content=()), TextBlock(text="And this."))
    written = to_chatml([Message(role=Role.TOOL, content=blocks)])
    assert "<|im_start|>user\nAnd this." in written.data
    assert LossKind.MISPLACED_BLOCK in {loss.kind for loss in written.losses}


@pytest.mark.parametrize(
    ("source", "media_type", "reason"),
    [
        (MediaSource(kind="url", data="https://example.org/a.png", provider="openai"), None, "no owner"),
        (MediaSource(kind="url", data="https://example.org/a.png"), "image/png", "no type of an image by URL"),
        (MediaSource(kind="base64", data="aGk="), None, "requires the type"),
    ],
)
def test_umf_names_what_it_leaves_out_of_an_image(source: MediaSource, media_type: str | None, reason: str) -> None:
    """Resolution, owner and type: each has its own loss."""
    written = to_umf([Message.user([ImageBlock(source=source, media_type=media_type, detail="high")])])
    reasons = [loss.reason for loss in written.losses]
    assert any(reason in each for each in reasons)
    assert any("no resolution" in each for each in reasons)
