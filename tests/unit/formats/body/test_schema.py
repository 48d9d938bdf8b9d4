"""Schemas of message bodies: the four scenarios of the specification, and all violations at once."""

import json
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from dragoman.formats import (
    FormatError,
    MessageBody,
    MessageBodyError,
    MessageBodyPart,
    MessageBodySchema,
    MessageBodySchemaPart,
    from_message_body,
)
from tests.laws.policy.globs import match_by_brute_force
from tests.unit.formats.body.strategies import IMAGE_URL, SCENARIOS, bodies, schema, schemas
from tests.unit.formats.body.test_message_body import _unfold

scenarios = pytest.mark.parametrize("name", list(SCENARIOS))


def read(name: str) -> tuple[MessageBodySchema, MessageBody]:
    wanted, body_json = SCENARIOS[name]
    return MessageBodySchema.from_json(wanted), MessageBody.from_json(body_json)


@scenarios
def test_each_scenario_obeys_its_schema(name: str) -> None:
    """Message and schema are rewritten unchanged."""
    wanted, body = read(name)
    assert wanted.check(body) == ()
    assert wanted.enforce(body) is body
    assert (wanted.as_json(), body.as_json()) == SCENARIOS[name]


@scenarios
def test_messages_of_other_scenarios_are_refused_with_reasons(name: str) -> None:
    obeyed = {
        "chat agent": ["chat agent"],
        "multi-modal chat": ["chat agent", "multi-modal chat"],
        "software-writing agent": ["chat agent", "software-writing agent"],
        "researcher": ["chat agent", "multi-modal chat", "researcher"],
    }
    wanted, _ = read(name)
    assert [other for other in SCENARIOS if not wanted.check(read(other)[1])] == obeyed[name]


def test_the_chat_agent_accepts_text_only() -> None:
    """The chat agent accepts text only: errors in words for a body without text, and one with a picture."""
    wanted, body = read("chat agent")
    assert body.text() == "Hello! How can I help you?"
    assert list(map(str, wanted.check(MessageBody()))) == ["$: it lacks a part without a name of the type text/*"]
    with pytest.raises(MessageBodyError, match=r"\$\[1\]: the schema has no place for a part without a name"):
        wanted.enforce(read("multi-modal chat")[1])


def test_the_software_is_found_below_its_folder() -> None:
    """The software is found below its folder by a glob, and fetched only with the caller's fetcher."""
    _, body = read("software-writing agent")
    (program,) = body.list("/files/**")
    assert body.list("/files/*.{py,rs}") == (program,)
    assert body.read_text(program, fetch=lambda url: b"print('Hello')") == "print('Hello')"


def test_the_researcher_names_its_sources() -> None:
    """One of them is inline."""
    _, body = read("researcher")
    assert [part.name for part in body.list("/sources/*")] == ["/sources/1", "/sources/2"]
    assert body.read_text("/sources/2") == "https://example.org/two.html"
    assert body.parts[1].content_url == IMAGE_URL


@given(wanted=schemas, body=bodies)
def test_a_check_follows_the_specification(wanted: MessageBodySchema, body: MessageBody) -> None:
    """Each part matches a part of the schema, and each required one is matched, compared with an oracle."""

    def matches(allowed: MessageBodySchemaPart, name: str | None, kind: str) -> bool:
        if (allowed.name is None) != (name is None):
            return False
        named = name is None or any(match_by_brute_force(each, name) for each in _unfold(allowed.name or ""))
        return named and any(match_by_brute_force(each, kind) for each in _unfold(allowed.content_type))

    pairs = [(part.name, part.content_type.partition(";")[0].lower()) for part in body.parts]
    strange = [
        index
        for index, part in enumerate(pairs)
        if not any(matches(wanted_part, *part) for wanted_part in wanted.parts)
    ]
    lacking = [
        wanted_part
        for wanted_part in wanted.parts
        if wanted_part.required and not any(matches(wanted_part, *part) for part in pairs)
    ]
    violations = wanted.check(body)
    assert [each.path for each in violations] == [*(f"$[{index}]" for index in strange), *("$" for _ in lacking)]


def test_every_violation_is_named_at_once() -> None:
    """The message of the error shows the first ones."""
    wanted = schema({"contentType": "text/*", "required": True}, {"name": "/a", "contentType": "*/*", "required": True})
    body = MessageBody.from_json([{"name": f"/b{index}", "contentType": "a/b", "content": ""} for index in range(9)])
    with pytest.raises(MessageBodyError) as caught:
        wanted.enforce(body)
    assert len(caught.value.violations) == 11
    assert caught.value.path == "$[0]"
    assert "/b0 of the type a/b" in str(caught.value)
    assert str(caught.value).endswith("and 6 more")


@pytest.mark.parametrize(
    "fields",
    [{"name": "a/*"}, {"name": ""}, {"name": "{a,b}" * 20}, {"content_type": "{a,b}" * 20}, {"required": 1},
     {"types": "text/*"}, {"content_type": None}],
)  # fmt: skip
def test_invalid_parts_of_a_schema_are_refused(fields: dict[str, Any]) -> None:
    """Relative names, endless braces, non-booleans and misspelt fields."""
    with pytest.raises(ValidationError):
        MessageBodySchemaPart(**fields)


@pytest.mark.parametrize(
    ("document", "path"),
    [("{", "$"), (5, "$"), ({"parts": []}, "$"), ([5], "$[0]"), ([{"name": 5}], "$[0].name"), ([{"x": 1}], "$[0].x"),
     ([{}, {"required": "yes"}], "$[1].required"), ([{"contentType": float("nan")}], "$[0].contentType")],
)  # fmt: skip
def test_an_invalid_schema_is_refused_with_its_path(document: Any, path: str) -> None:
    with pytest.raises(FormatError) as caught:
        MessageBodySchema.from_json(document)
    assert caught.value.path == path


@given(wanted=schemas)
def test_a_written_schema_is_read_again(wanted: MessageBodySchema) -> None:
    assert MessageBodySchema.from_json(json.dumps(wanted.as_json())) == wanted


def test_a_globstar_matches_no_folder_too() -> None:
    """As in file names: `/files/**/a.py` is in any folder below, or in none."""
    part = MessageBodySchemaPart(name="/files/**/a.py")
    for name, fits in {"/files/a.py": True, "/files/x/a.py": True, "/files/x/y/a.py": True, "/filesa.py": False,
                       "/files/xa.py": False}.items():  # fmt: skip
        assert part.matches(MessageBodyPart(name=name, content_type="text/plain", content="")) == fits, name
    assert MessageBodySchemaPart(name="/**/**/a").matches(
        MessageBodyPart(name="/a", content_type="text/plain", content="")
    )


def test_a_declared_schema_is_enforced() -> None:
    """A declared schema is enforced in the document, or by the reader of an agent's input."""
    document: Any = {
        "schema": [{"contentType": "text/*", "required": True}],
        "parts": [{"contentType": "text/plain", "content": "Hi."}],
    }
    assert from_message_body(document).text == "Hi."
    image: Any = {"contentType": "image/png", "contentUrl": "https://example.org/a.png"}
    with pytest.raises(MessageBodyError) as caught:
        from_message_body({**document, "parts": [image]})
    assert [violation.path for violation in caught.value.violations] == ["$[0]", "$"]
    with pytest.raises(MessageBodyError):
        from_message_body([image], schema=MessageBodySchema.from_json(document["schema"]))
    with pytest.raises(FormatError) as faulty:
        from_message_body({**document, "schema": [{"name": 5}]})
    assert faulty.value.path == "$.schema[0].name"
