"""The JSON of a request's tools is written once for each list, and never says anything else than the tools do."""

import gc
import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from dragoman import AdapterOptions, Message, ToolDefinition, get_adapter
from dragoman.adapter import wirejson
from dragoman.adapter.requests import encoded_tools
from dragoman.adapter.requests.encoded_tools import EncodedTools
from tests.unit.adapter.requests.test_plain_tools import MODELS, SCHEMA, look


def body(model: str, tools: list[ToolDefinition]) -> bytes:
    return get_adapter(model).to_wire([Message.user("Look.")], tools, AdapterOptions(max_output_tokens=9)).body


def encode(definition: ToolDefinition, _: str) -> dict[str, Any]:
    return {"name": definition.name, "parameters": definition.input_schema}


def dump(tools: EncodedTools) -> bytes:
    """The JSON that the body of the request has."""
    (piece,) = tools.pieces
    return piece


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of tools of the lists that were written as JSON."""
    found: list[int] = []
    dumps = wirejson.dumps

    def count(value: Any) -> bytes:
        if isinstance(value, list):
            found.append(len(value))
        return dumps(value)

    monkeypatch.setattr(wirejson, "dumps", count)
    return found


@pytest.mark.parametrize("model", MODELS)
def test_later_requests_have_the_same_bytes(model: str) -> None:
    """They are those of a request with tools that nobody has written before."""
    tools = [look(name="first"), look()]
    written = [body(model, tools) for _ in range(3)]
    assert written == [body(model, [look(name="first"), look()])] * 3


def test_the_same_tools_are_written_once(writes: list[int]) -> None:
    """Each request has a list of its own."""
    tools = [look(name="first"), look()]
    dumped = {dump(EncodedTools(tools, encode, "x")) for _ in range(3)}
    assert len(dumped) == 1
    assert writes == [2]


@pytest.mark.parametrize("model", MODELS)
def test_a_schema_that_is_changed_in_place_is_sent_as_it_is(model: str) -> None:
    """The provider sees the change with the next request."""
    tool = look(input_schema=deepcopy(SCHEMA))
    before = body(model, [tool])
    tool.input_schema["properties"]["path"]["description"] = "What was changed."
    assert b"What was changed." not in before
    assert b"What was changed." in body(model, [tool])
    del tool.input_schema["properties"]["path"]["description"]
    assert body(model, [tool]) == before


def add_to_tool(tools: EncodedTools) -> None:
    tools[0]["cache_control"] = {"type": "ephemeral"}


def add_to_schema(tools: EncodedTools) -> None:
    tools[0]["parameters"] = {**tools[0]["parameters"], "title": "Look"}


def add_tool(tools: EncodedTools) -> None:
    tools.append({"name": "last"})


def remove_tool(tools: EncodedTools) -> None:
    del tools[-1]


@pytest.mark.parametrize("change", [add_to_tool, add_to_schema, add_tool, remove_tool])
def test_an_adapter_may_change_the_tools_of_one_request(change: Callable[[EncodedTools], None]) -> None:
    """The request has the change, and the next one does not."""
    definitions = [look(name="first"), look()]
    plain = EncodedTools(definitions, encode, "x")
    before = dump(plain)
    changed = EncodedTools(definitions, encode, "x")
    change(changed)
    assert json.loads(dump(changed)) == list(changed)
    assert dump(changed) != before
    assert dump(EncodedTools(definitions, encode, "x")) == before


def test_nothing_is_kept_of_tools_that_are_gone() -> None:
    """Definitions are not kept alive, and with one of them the JSON of its lists goes."""
    kept, gone = look(name="first"), look(name="gone")
    dump(EncodedTools([kept, gone], encode, "x"))
    dump(EncodedTools([kept], encode, "x"))

    def lists() -> int:
        return sum(id(kept) in key for key in encoded_tools._KEPT)

    assert lists() == 2
    del gone
    gc.collect()
    assert lists() == 1


def test_a_bounded_number_of_lists_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many lists, and long ones, leave no more than the bound."""
    monkeypatch.setattr(encoded_tools, "_MOST_LISTS", 3)
    monkeypatch.setattr(encoded_tools, "_MOST_TOOLS", 2)
    monkeypatch.setattr(encoded_tools, "_KEPT", {})
    living = [look(name=f"tool_{number}") for number in range(9)]
    for tool in living:
        dump(EncodedTools([tool], encode, "x"))
        assert len(encoded_tools._KEPT) <= 3
    monkeypatch.setattr(encoded_tools, "_KEPT", {})
    assert len(json.loads(dump(EncodedTools(living, encode, "x")))) == 9
    assert not encoded_tools._KEPT
