"""Message bodies and schemas: the scenarios of the specification, and strategies for any."""

import base64
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from dragoman.formats import MessageBody, MessageBodyPart, MessageBodySchema, MessageBodySchemaPart

IMAGE_URL = "https://example.org/image.png"

SCENARIOS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "chat agent": (
        [{"contentType": "text/*", "required": True}],
        [{"contentType": "text/plain", "content": "Hello! How can I help you?"}],
    ),
    "multi-modal chat": (
        [{"contentType": "text/*", "required": True}, {"contentType": "image/*"}],
        [
            {"contentType": "text/plain", "content": "Here is the picture:"},
            {"contentType": "image/png", "contentUrl": IMAGE_URL},
            {"contentType": "text/plain", "content": "Do you like it?"},
        ],
    ),
    "software-writing agent": (
        [{"contentType": "text/*"}, {"name": "/files/**", "contentType": "*/*"}],
        [
            {"contentType": "text/plain", "content": "I wrote the program."},
            {
                "name": "/files/hello_world.py",
                "contentType": "text/x-python",
                "contentUrl": "https://example.org/storage/hello_world.py",
            },
        ],
    ),
    "researcher": (
        [
            {"contentType": "text/*", "required": True},
            {"contentType": "image/*"},
            {"name": "/sources/*", "contentType": "*/*"},
        ],
        [
            {"contentType": "text/markdown", "content": "As [one](source:1) and [two](source:2) say."},
            {"contentType": "image/png", "contentUrl": IMAGE_URL},
            {"name": "/sources/1", "contentType": "text/html", "contentUrl": "https://example.org/one.html"},
            {"name": "/sources/2", "contentType": "text/plain", "content": "https://example.org/two.html"},
        ],
    ),
}
"""The schema and the message of each, as JSON."""

HANDWRITTEN_BODY: list[dict[str, Any]] = [
    {"contentType": "text/plain; charset=utf-8", "content": "Look."},
    {"contentType": "image/png", "content": "iVBORw0KGgo=", "contentEncoding": "base64", "name": None},
    {"contentType": "text/plain", "contentUrl": "https://example.org/a.txt"},
    {"contentType": "application/json", "content": '{"a": 1}'},
    {"name": "/files/a.py", "contentType": "text/x-python", "content": "print()", "contentEncoding": "plain"},
    {"name": "/tool_calls/1", "contentType": "application/json", "content": '{"id": "c", "name": "f", "input": {}}'},
    {"name": "/tool_calls/2", "contentType": "application/json", "content": "no JSON"},
    {"name": "/state/audio", "contentType": "audio/wav", "content": "AAAA", "contentEncoding": "base64"},
]

HANDWRITTEN_ACP: list[dict[str, Any]] = [
    {
        "role": "user",
        "parts": [
            {"name": None, "content_type": "text/plain", "content": "Look.", "content_encoding": "plain",
             "content_url": None, "metadata": None},
            {"content_type": "image/png", "content": "iVBORw0KGgo=", "content_encoding": "base64"},
        ],
        "created_at": "2026-11-01T12:00:00Z",
        "completed_at": "2026-11-01T12:00:01Z",
    },
    {
        "role": "agent/image-analyzer",
        "parts": [
            {"metadata": {"kind": "trajectory", "message": "I look it up."}},
            {"metadata": {"kind": "trajectory", "tool_name": "search", "tool_input": {"q": "a"}, "tool_output": {}}},
            {"content_type": "text/plain", "content": "A dot.", "metadata": {
                "kind": "citation", "start_index": 0, "end_index": 5, "url": "https://example.org", "title": "Dots"}},
            {"name": "report.pdf", "content_type": "application/pdf", "content_url": "https://example.org/r.pdf"},
            {"name": "/tool_calls/1", "content_type": "application/json",
             "content": '{"id": "call_1", "name": "f", "input": {"a": 1}}'},
            {"name": "/tool_results/1", "content_type": "application/json",
             "content": '{"tool_use_id": "call_1", "content": [{"type": "text", "text": "1"}]}'},
        ],
        "future_key": 1,
    },
    {"role": "agent", "parts": []},
]  # fmt: skip
"""With nulls and times as ACP's own library writes them, steps, a source, a call and its result, a key of a later
version.
"""

_segments = st.sampled_from(["a", "b", "ab", "a.b", "a-b"])
names = st.lists(_segments, min_size=1, max_size=3).map(lambda found: "/" + "/".join(found))
types = st.sampled_from(
    ["text/plain", "text/html", "image/png", "a/b", "TEXT/Plain; charset=utf-8", "application/json"]
)

_name_pieces = st.sampled_from(
    ["a", "b", "ab", "*", "**", ".", "/", "/*", "/**", "{a,b}", "{a,b/*}", "{,**}", "{/a,-b}"]
)
name_globs = st.lists(_name_pieces, max_size=4).map(lambda pieces: "/" + "".join(pieces)) | st.sampled_from(
    ["**", "*", "{/a,/b}/*", "/a"]
)
type_globs = st.sampled_from(
    ["*/*", "**", "text/*", "text/plain", "{text,image}/*", "*/{png,html}", "image/png", "a/*", "*", "text/{*l,plain}"]
)


def _fields(name: str | None, content_type: str, how: str) -> MessageBodyPart:
    named = {} if name is None else {"name": name}
    match how:
        case "url":
            return MessageBodyPart(**named, content_type=content_type, content_url=IMAGE_URL)
        case "base64":
            data = base64.b64encode(b"data").decode()
            return MessageBodyPart(**named, content_type=content_type, content=data, content_encoding="base64")
        case text:
            return MessageBodyPart(**named, content_type=content_type, content=text)


def parts(named: SearchStrategy[str | None], typed: SearchStrategy[str] = types) -> SearchStrategy[MessageBodyPart]:
    how = st.sampled_from(["url", "base64", "", "words", 'an "escape" \\ \n \U0001f600'])
    return st.builds(_fields, named, typed, how)


def _body(found: list[MessageBodyPart]) -> MessageBody:
    unique = {part.name if part.name is not None else index: part for index, part in enumerate(found)}
    return MessageBody(tuple(unique.values()))


bodies = st.lists(parts(st.none() | names), max_size=5).map(_body)

schema_parts = st.builds(
    MessageBodySchemaPart, name=st.none() | name_globs, content_type=type_globs, required=st.booleans()
)
schemas = st.lists(schema_parts, max_size=4).map(lambda found: MessageBodySchema(tuple(found)))


def schema(*given: dict[str, Any]) -> MessageBodySchema:
    return MessageBodySchema.from_json(list(given))


def bodies_obeying(given: MessageBodySchema) -> SearchStrategy[MessageBody]:
    """Bodies that obey a schema, if any was found, made of parts that it accepts."""
    pool = [part for part in _POOL if given.accepts(part)]
    if not pool:
        return st.just(MessageBody())
    return st.lists(st.sampled_from(pool), max_size=6).map(_body)


def _all_names() -> list[str | None]:
    short = ["a", "b", "ab", "a.b", "a-b", "ba", ".a"]
    deep = [f"{first}/{second}" for first in short[:4] for second in short[:4]]
    return [None, *(f"/{path}" for path in [*short, *deep, "a/b/ab", "b/a/a"])]


_POOL = [_fields(name, kind, "") for name in _all_names() for kind in ("text/plain", "text/html", "image/png", "a/b")]
