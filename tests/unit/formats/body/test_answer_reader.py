"""Partial answers: what is certain is reported at once, and nothing else."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from dragoman import Message
from dragoman.canonical.message import MessageMetadata, StopReason
from dragoman.formats import FormatError, MessageBody, MessageBodyError, MessageBodySchema
from dragoman.formats.body.answer_reader import AnswerReader, BrokenJsonError, JsonTokenizer, TokenKind
from tests.sampling import examples
from tests.tables import each_row
from tests.unit.formats.body.strategies import SCENARIOS, bodies, bodies_obeying, schema, schemas

CHAT = schema({"contentType": "text/plain", "required": True})
FILES = schema({"contentType": "text/*", "required": True}, {"name": "/files/*.{py,rs}", "contentType": "text/*"})


def cut_at(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@st.composite
def format_answer(draw: st.DrawFn, body: SearchStrategy[MessageBody]) -> str:
    """A body as a model may write it: with or without the object around it, spaces and escapes."""
    parts = [draw(st.permutations(list(part.items()))) for part in draw(body).as_json()]
    value: Any = [dict(part) for part in parts]
    if draw(st.booleans()):
        value = {"parts": value}
    return json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.none() | st.just(1)))


@st.composite
def pieces(draw: st.DrawFn, text: SearchStrategy[str]) -> list[str]:
    return cut_at(draw, draw(text))


@examples(150)
@given(data=st.data(), wanted=schemas)
def test_a_prefix_of_a_valid_answer_has_no_violation(data: st.DataObject, wanted: MessageBodySchema) -> None:
    body = data.draw(bodies_obeying(wanted))
    if wanted.check(body):
        return
    reader = AnswerReader(wanted.parts)
    for piece in data.draw(pieces(format_answer(st.just(body)))):
        reader.feed(piece)
        assert reader.violations == []
    assert reader.end() == body


@examples(150)
@given(text=format_answer(bodies), wanted=schemas)
def test_an_answer_is_judged_like_its_body(text: str, wanted: MessageBodySchema) -> None:
    """The same number of violations, of the same parts, as a check of the whole body."""
    reader = AnswerReader(wanted.parts)
    for character in text:
        reader.feed(character)
    body = MessageBody.from_json(text)
    expected = wanted.check(body)
    paths = [each.path.replace("$.parts", "$") for each in reader.violations]
    assert paths == [each.path for each in expected]
    if not expected:
        assert reader.end() == body


@examples(200)
@given(
    text=st.text(alphabet='{}[]",:\\ nul01.eE-trsa/*\n\ud800ü', max_size=30)
    | st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
                   lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
                       st.sampled_from(["parts", "name", "contentType", "content"]), inner, max_size=3),
                   max_leaves=6).map(json.dumps),
    data=st.data(),
)  # fmt: skip
def test_any_text_is_read_like_the_whole_or_refused(text: str, data: st.DataObject) -> None:
    """The reader agrees with a check of the whole, and with itself for any pieces."""
    wanted = schema({}, {"name": "**"})
    whole, cut_up = AnswerReader(wanted.parts), AnswerReader(wanted.parts)
    whole.feed(text)
    for piece in data.draw(pieces(st.just(text))):
        cut_up.feed(piece)
    assert [each.path for each in whole.violations] == [each.path for each in cut_up.violations]
    try:
        body: MessageBody | None = wanted.enforce(MessageBody.from_json(text))
    except FormatError:
        body = None
    try:
        read: MessageBody | None = cut_up.end()
    except MessageBodyError:
        read = None
    assert read == body or (read is None and _repeats_a_key(text))


def _repeats_a_key(text: str) -> bool:
    """The reader refuses repeated keys; JSON parsers take the last one."""
    found: list[bool] = []
    json.loads(text, object_pairs_hook=lambda pairs: found.append(len(dict(pairs)) < len(pairs)))
    return any(found)


@each_row(
    ("text", "path"),
    [
        ("H", "$"), (" `", "$"), ('"', "$"), ("5", "$"), ('{"a"', "$.a"), ('{"parts": {', "$.parts"),
        ('{"parts": []', "$"), ('{"parts": [5,', "$.parts[0]"), ('[{"content": [', "$[0].content"), ("{}", "$"),
        ('[{"name": "/', None), ('[{"name": "/f', None), ('[{"name": "f', "$[0].name"), ('[{"name": "/g', "$[0]"),
        ('[{"name": "/files/a.', None), ('[{"name": "/files/a.py"', None), ('[{"name": "/files/a/', "$[0]"),
        ('[{"name": "/files/a.c"', "$[0]"), ('[{"name": "/files//', "$[0].name"), ('[{"name": "/files/ä', "$[0].name"),
        ('[{"contentType": "te', None), ('[{"contentType": "i', "$[0]"), ('[{"contentType": "text/x;', None),
        ('[{"contentType": "text"', "$[0].contentType"), ('[{"contentType": "\\u0074ext/', None),
        ('[{"contentType": "\\u0069', "$[0]"), ('[{"contentType": "te\\u', None), ('[{"x', None), ('[{"x"', "$[0].x"),
        ('[{"content": "a", "contentUrl": n', None), ('[{"content": "a", "contentUrl": "', "$[0]"),
        ('[{"content": null, "contentUrl": "', None), ('[{"content": "a", "content"', "$[0].content"),
        ('[{"contentEncoding": "gzip"', "$[0].contentEncoding"), ('[{"content": "a\n', "$[0]"),
        ('[{"content": "\\ud800"', "$[0]"), ('[{"content": "\\x', "$[0]"), ('[{"content": tru', None),
        ('[{"content": trux', "$[0]"), ('[{"content": 01', "$[0]"), ('[{"content": N', "$[0]"),
        ('{"parts": [], "parts"', "$"), ("[" * 300, "$[0]"),
    ],
)  # fmt: skip
def test_a_violation_is_reported_as_soon_as_it_is_certain(text: str, path: str | None) -> None:
    reader = AnswerReader(FILES.parts)
    for character in text[:-1]:
        assert reader.violations == [] or text == '{"parts": [], "parts"' or text.startswith("[[")
        reader.feed(character)
    reader.feed(text[-1])
    assert [each.path for each in reader.violations][:1] == ([] if path is None else [path])


def test_every_violation_of_a_whole_answer_is_named() -> None:
    """Those of each part, and the missing parts."""
    parts = [
        {"contentType": "image/png", "contentUrl": "https://example.org"},
        {"contentType": "text/plain", "content": "a", "extra": 1},
        5,
        {"name": "/files/a.py", "contentType": "text/plain", "content": "no base64!", "contentEncoding": "base64"},
        {"name": "/files/b.py", "contentType": "text/plain"},
        {"name": "/files/b.py", "contentType": "text/plain", "content": "twice"},
    ]
    with pytest.raises(MessageBodyError) as caught:
        FILES.read(json.dumps({"parts": parts}))
    assert list(map(str, caught.value.violations)) == [
        "$.parts[0]: the schema has no place for a part without a name of the type image/png",
        (
            "$.parts[1].extra: unknown field of a part; the fields are name, contentType, content, contentUrl, "
            "contentEncoding"
        ),
        "$.parts[2]: a part must be an object, not a number",
        "$.parts[3]: the content is not valid base64",
        "$.parts[4]: a part must have either content or a contentUrl",
        "$.parts[5].name: names must be unique: $.parts[4] has the same",
        "$: it lacks a part without a name of the type text/*",
    ]


def test_a_truncated_answer_is_reported() -> None:
    """The partial text of a truncated answer is in the history, streamed or whole."""
    cut_short = Message.assistant('{"parts": [', metadata=MessageMetadata(stop_reason=StopReason.MAX_TOKENS))
    with pytest.raises(MessageBodyError, match=r"before it is complete \(the reply ended with max_tokens\)"):
        CHAT.read(cut_short)
    assert CHAT.read(Message.assistant('[{"contentType": "text/plain", "content": "Hi."}]')).text() == "Hi."


def test_a_long_answer_in_small_pieces_takes_linear_time() -> None:
    """Each piece of a text is scanned once and joined once."""
    scanned: list[int] = []

    class CountingTokenizer(JsonTokenizer):
        def _read_string(self, text: str, position: int) -> Any:
            scanned.append(len(text) - position)
            return super()._read_string(text, position)

    reader = AnswerReader(CHAT.parts)
    reader._tokenizer = CountingTokenizer()
    body = json.dumps([{"contentType": "text/plain", "content": "word " * 20_000}])
    for start in range(0, len(body), 4):
        reader.feed(body[start : start + 4])
    assert len(body) / 2 < sum(scanned) < 2 * len(body)
    assert reader.end().text() == "word " * 20_000


@given(text=st.text(alphabet='{}[]",:\\ nul01.eE-tra\n', max_size=12) | st.floats().map(json.dumps))
def test_tokens_are_those_of_json(text: str) -> None:
    """The scanner accepts exactly what Python's parser does, except NaN and infinities."""
    try:
        value = json.loads(text, parse_constant=lambda name: int("no"))
    except ValueError:
        value = ...
    scanner = JsonTokenizer()
    try:
        tokens = [*scanner.feed(text), *scanner.end()]
    except BrokenJsonError:
        assert value is ...
    else:
        assert value is not ...
        if tokens[0].kind is TokenKind.VALUE:
            assert tokens[0].value == value


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_the_json_schema_of_a_scenario_accepts_model_output(name: str) -> None:
    """It accepts the scenario's message if a model may write it so; what obeys the JSON Schema obeys the body's."""
    wanted, body = MessageBodySchema.from_json(SCENARIOS[name][0]), SCENARIOS[name][1]
    validator = jsonschema_rs.validator_for(wanted.json_schema())
    assert validator.is_valid({"parts": body})
    assert not validator.is_valid({"parts": [{"name": "a", "contentType": "text/plain", "content": ""}]})
    assert not validator.is_valid({"parts": [{"contentType": "text/plain"}]})
    assert not validator.is_valid(body)


@examples(150)
@given(wanted=schemas, data=st.data())
def test_parts_that_obey_the_json_schema_are_accepted(wanted: MessageBodySchema, data: st.DataObject) -> None:
    """If they are parts at all."""
    validator = jsonschema_rs.validator_for(wanted.json_schema())
    body = data.draw(bodies | bodies_obeying(wanted))
    for part in body.as_json():
        if validator.is_valid({"parts": [part]}):
            assert wanted.accepts(MessageBody.from_json([part]).parts[0])
