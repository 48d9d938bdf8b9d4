"""Every type of answer on every wire: the schema that is sent is one that the provider takes, and admits the answer."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.canonical.message import Message
from dragoman.output.answer_type import AnswerType
from dragoman.output.check import PartialReader
from tests.conformance.adapters import create_adapter
from tests.conformance.swaps.histories import TARGETS
from tests.conformance.validators import sdk_types
from tests.conformance.validators.requests import VALIDATORS
from tests.conformance.validators.schemas import find_schema, schema_faults
from tests.laws.output.answer_types import ANSWER_TYPES
from tests.tables import each_row

NO_UNIONS = {"cohere"}
"""A wire without unions: its schemas have the other member of a union with null."""
TYPES = ("output", "text", "value")


def test_there_are_enough_types() -> None:
    assert len(ANSWER_TYPES) >= 60


@each_row(TYPES, ANSWER_TYPES)
def test_an_answer_is_read_as_its_type(output: Any, text: str, value: Any) -> None:
    """The value is equal and of the same class, and its schema admits the JSON."""
    form: AnswerType[Any] = AnswerType(output)
    read = form.read(text)
    assert read == value
    assert type(read) is type(value)
    jsonschema_rs.validate(form.schema, json.loads(text))
    assert form.schema["type"] == "object"


@each_row(TYPES, ANSWER_TYPES)
def test_a_part_of_an_answer_never_breaks_the_reader(output: Any, text: str, value: Any) -> None:
    """Cut at each character, what is shown has the type; the whole text gives the whole value."""
    reader: PartialReader[Any] = PartialReader(AnswerType(output), strings=False)
    shown = [part for character in text for part in reader.feed(character)]
    assert shown[-1] == value


@each_row(TYPES, ANSWER_TYPES)
def test_every_wire_takes_the_schema(output: Any, text: str, value: Any) -> None:
    """The request has no fault, the schema is within the provider's subset, and it admits the answer."""
    assert list(_faults(AnswerType(output), text)) == []


def _faults(form: AnswerType[Any], text: str) -> Iterator[str]:
    for target, model in TARGETS.items():
        adapter, name = create_adapter(model), model.partition(":")[0]
        options = AdapterOptions(output_schema=form.schema, context=RequestContext.for_model(model, prices=None))
        body = json.loads(adapter.to_wire([Message.user("Which?")], [], options).body)
        yield from (f"{target}: {fault}" for fault in VALIDATORS[name](body, foreign=False))
        yield from (f"{target}: {fault}" for fault in sdk_types.faults(name, body))
        sent = find_schema(name, body)
        if sent is None:  # it is in the system prompt
            assert json.dumps(form.schema["type"]) in json.dumps(body).replace("\\", "")
            continue
        yield from (f"{target}: {fault}: {json.dumps(sent.schema)}" for fault in schema_faults(sent))
        for violation in jsonschema_rs.validator_for(sent.schema).iter_errors(json.loads(text)):
            if not (name in NO_UNIONS and violation.message.startswith("null ")):
                yield f"{target}: the schema does not admit the answer: {violation.message}: {json.dumps(sent.schema)}"
