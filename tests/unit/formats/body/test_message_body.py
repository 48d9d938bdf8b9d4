"""Message bodies: valid parts, unique names, finding parts, and reading content, inline or referenced."""

import asyncio
import base64
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from dragoman.formats import (
    FormatError,
    MessageBody,
    MessageBodyPart,
    MessageBodySchema,
    MessageBodySchemaPart,
    NotFetchedError,
)
from dragoman.transport.fetch import FetchedMedia
from tests.laws.policy.globs import match_by_brute_force
from tests.unit.formats.body.strategies import HANDWRITTEN_BODY, bodies, name_globs, names

URL = "https://example.org/a.txt"


def text(**fields: Any) -> MessageBodyPart:
    return MessageBodyPart(**{"content_type": "text/plain", "content": "a", **fields})


@pytest.mark.parametrize("name", ["/a", "/sources/1/urls/5", "/A-b_c.d", "/...", "/.a", "/a.."])
def test_a_name_is_an_absolute_path(name: str) -> None:
    assert text(name=name).name == name


@pytest.mark.parametrize(
    "name", ["", "/", "a", "a/b", "/a/", "//a", "/a//b", "/a b", "/ä", "/a\n", "/.", "/a/..", "/../a"]
)
def test_other_names_are_refused(name: str) -> None:
    """Other names are refused: relative ones, empty segments, a trailing slash, other characters, and parent
    folders.
    """
    with pytest.raises(ValidationError, match="name"):
        text(name=name)


@pytest.mark.parametrize(
    "kind", ["text/plain", "image/svg+xml", "Text/HTML; charset=utf-8", 'a/b;c="d e"', "a/b ; c=d"]
)
def test_a_content_type_is_a_mime_type(kind: str) -> None:
    assert text(content_type=kind).media_type == kind.partition(";")[0].strip().lower()


@pytest.mark.parametrize(
    "kind", ["", "text", "text/", "/plain", "text/*", "*/*", "a/b/c", "a b/c", "a/b, c/d", "a/b\n"]
)
def test_other_content_types_are_refused(kind: str) -> None:
    """A part has one type."""
    with pytest.raises(ValidationError, match="content type"):
        text(content_type=kind)


@pytest.mark.parametrize(
    "fields",
    [
        {"content": None}, {"content_url": URL}, {"content": None, "content_url": "a.txt"},
        {"content": None, "content_url": "https://a b"},
        {"content": None, "content_url": URL, "content_encoding": "base64"},
        {"content_encoding": "base64", "content": "no base64!"}, {"content_encoding": "gzip"}, {"contents": "a"},
        {"content_type": None},
    ],
)  # fmt: skip
def test_a_part_has_one_content_in_one_encoding(fields: dict[str, Any]) -> None:
    """A part has one content in one encoding: content or an absolute URL, plain or valid base64, and no
    unknown field.
    """
    with pytest.raises(ValidationError):
        text(**fields)


def test_every_repeated_name_is_named() -> None:
    with pytest.raises(FormatError) as caught:
        MessageBody((text(name="/a"), text(), text(name="/a"), text(name="/b"), text(name="/a"), text()))
    assert str(caught.value) == "$[2].name: names must be unique: $[2] has the name of $[0], $[4] has the name of $[0]"


def test_any_number_of_parts_may_lack_a_name() -> None:
    """They are the text of the message, in order."""
    assert MessageBody((text(), text(content="b"), text(name="/a", content="c"), text())).text() == "aba"


@given(body=bodies)
def test_written_bodies_are_read_again(body: MessageBody) -> None:
    assert MessageBody.from_json(body.as_json()) == body
    assert MessageBody.from_json(json.dumps({"parts": body.as_json()})) == body


def test_a_document_is_rewritten_unchanged() -> None:
    """Fields that were given are written, with nulls and defaults, and no others."""
    assert MessageBody.from_json(HANDWRITTEN_BODY).as_json() == HANDWRITTEN_BODY
    assert MessageBody((text(),)).as_json() == [{"contentType": "text/plain", "content": "a"}]


@given(body=bodies, pattern=name_globs)
def test_parts_are_found_by_globs_like_an_exhaustive_search(body: MessageBody, pattern: str) -> None:
    """With braces unfolded, against an oracle that divides the name in every way."""
    unfolded = _unfold(pattern)
    expected = [
        part for part in body.parts if part.name and any(match_by_brute_force(each, part.name) for each in unfolded)
    ]
    assert list(body.list(pattern)) == expected


def _unfold(pattern: str) -> list[str]:
    """The patterns that the braces of these tests mean; no group holds another."""
    opening = pattern.find("{")
    if opening < 0:
        return [pattern]
    closing = pattern.index("}", opening)
    before, choices = pattern[:opening], pattern[opening + 1 : closing].split(",")
    return [before + choice + rest for choice in choices for rest in _unfold(pattern[closing + 1 :])]


def test_parts_are_found_by_name() -> None:
    """None if there is no such part; endless braces are a typed error."""
    body = MessageBody((text(), text(name="/sources/1"), text(name="/sources/1/a"), text(name="/sources/2")))
    assert body.get("/sources/1") is body.parts[1]
    assert body.get("/sources") is None
    assert body.list("/sources/*") == (body.parts[1], body.parts[3])
    assert body.list("/sources/**") == body.parts[1:]
    assert body.list("/sources/{1,3}") == (body.parts[1],)
    with pytest.raises(FormatError, match="1000 patterns"):
        body.list("{a,b}" * 20)


@given(name=names)
def test_reading_an_unknown_name_is_a_typed_error(name: str) -> None:
    with pytest.raises(FormatError, match="no part has the name"):
        MessageBody().read_text(name)
    with pytest.raises(FormatError, match="no part has the name"):
        MessageBody().read_bytes(name)


def test_inline_content_is_read_in_either_encoding() -> None:
    """Inline content is read in either encoding, as text and as bytes, in the charset that the type names."""
    data = base64.b64encode("ü".encode("latin-1")).decode()
    body = MessageBody(
        (
            text(name="/plain", content="ü"),
            text(name="/latin", content="ü", content_type="text/plain; charset=ISO-8859-1"),
            text(name="/coded", content=data, content_encoding="base64", content_type='text/plain;charset="latin1"'),
            text(name="/broken", content=data, content_encoding="base64"),
            text(name="/strange", content=data, content_encoding="base64", content_type="text/plain; charset=zlib"),
            text(name="/ascii", content="ü", content_type="text/plain; charset=us-ascii"),
        )
    )
    assert [body.read_text(name) for name in ("/plain", "/latin", "/coded")] == ["ü", "ü", "ü"]
    assert [body.read_bytes(name) for name in ("/plain", "/latin", "/coded")] == ["ü".encode(), b"\xfc", b"\xfc"]
    for name in ("/broken", "/strange"):
        with pytest.raises(FormatError, match="cannot be decoded as text"):
            body.read_text(name)
    with pytest.raises(FormatError, match=r"\$\[5\]: the content cannot be decoded as text"):
        body.read_bytes("/ascii")


ELSEWHERE = MessageBody((MessageBodyPart(content_type="text/plain", content_url=URL), text(content="!")))


def test_nothing_is_fetched_without_a_fetcher() -> None:
    """Nothing is fetched without a fetcher, neither text, bytes nor the whole text of the message."""
    for read in (lambda: ELSEWHERE.text(), lambda: ELSEWHERE.read_bytes(ELSEWHERE.parts[0])):
        with pytest.raises(NotFetchedError) as caught:
            read()
        assert (caught.value.url, caught.value.path) == (URL, "$[0]")


@dataclass
class Library:
    """A fetcher that knows one URL and records its calls."""

    urls: list[str]

    def __call__(self, url: str) -> FetchedMedia:
        self.urls.append(url)
        return FetchedMedia({URL: "Ä".encode()}[url], "text/plain")


def test_referenced_content_is_read_with_the_given_fetcher() -> None:
    """It may return bytes or `FetchedMedia`, and is called for references only."""
    library = Library([])
    assert ELSEWHERE.text(fetch=library) == "Ä!"
    assert library.urls == [URL]
    assert ELSEWHERE.read_text(ELSEWHERE.parts[0], fetch=lambda url: url.encode()) == URL


def test_fetchers_may_be_coroutines() -> None:
    """Plain functions wait in a thread."""

    async def fetch(url: str) -> bytes:
        await asyncio.sleep(0)
        return url.encode()

    async def read() -> list[Any]:
        with pytest.raises(NotFetchedError):
            await ELSEWHERE.text_async()
        first = ELSEWHERE.parts[0]
        return [
            await ELSEWHERE.text_async(fetch=fetch),
            await ELSEWHERE.text_async(fetch=Library([])),
            await ELSEWHERE.read_bytes_async(first, fetch=fetch),
            await ELSEWHERE.read_text_async(first, fetch=lambda url: b"a"),
        ]

    assert asyncio.run(read()) == [URL + "!", "Ä!", URL.encode(), "a"]


@pytest.mark.parametrize(
    ("whole", "kind"), [(MessageBody, MessageBodyPart), (MessageBodySchema, MessageBodySchemaPart)]
)
def test_parts_are_a_list_of_parts(whole: Any, kind: Any) -> None:
    """JSON has its own reader, and one part alone is not a list."""
    fields = {"contentType": "text/plain"} | ({"content": "a"} if whole is MessageBody else {})
    part = kind.model_validate(fields)
    assert whole([part]).parts == (part,)
    for strange in (part, fields, "text/plain"):
        with pytest.raises(
            FormatError, match=f"parts must be a list of {kind.__name__}, not a {type(strange).__name__}"
        ):
            whole(strange)
    with pytest.raises(
        FormatError, match=rf"\$\[1\]: a part must be a {kind.__name__}, not a dict: from_json reads JSON"
    ):
        whole((part, fields))
