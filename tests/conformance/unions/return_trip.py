"""Reads a constructed member, keeps it, and sends it back."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman import AdapterOptions, Message, RequestContext, get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.messages import read_message, write_message
from dragoman.server_tools import ComputerUse
from tests.conformance.unions.wires import UNIONS, Member

EXCEPTIONS: dict[str, dict[str, str]] = tomllib.loads(
    (Path(__file__).parent / "exceptions.toml").read_text(encoding="utf-8")
)
"""Why a member does not come back as it was, by provider and ``union.name``."""


TOOLS = {"openai": (ComputerUse(function=print),)}
"""Tools of the program without which a call would go unanswered, by provider."""


@dataclass(frozen=True)
class Outcome:
    """``problem`` is empty if the member came back."""

    member: Member
    problem: str


def outcomes(provider: str) -> Iterator[Outcome]:
    for member in UNIONS[provider].find():
        try:
            problem = _from_reply(member) if member.in_reply else _from_request(member)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        yield Outcome(member, problem)


def _from_reply(member: Member) -> str:
    adapter, context = get_adapter(member.model), RequestContext.for_model(member.model)
    tools = TOOLS.get(adapter.provider, ())
    adapter.to_wire([Message.user("Hi")], tools, AdapterOptions(context=context))
    message = adapter.from_wire_response(WireResponse(200, json.dumps(member.body).encode()), context)
    stored = read_message(write_message(message))
    if stored != message:
        return "it is not stored as it was read"
    results = [Message.tool(call.id, "done") for call in stored.tool_uses]
    histories: Sequence[list[Message]] = (
        [Message.user("Hi"), stored, *results],
        [Message.user("Hi"), stored, *results, Message.user("Go on.")],
    )
    bodies = [
        json.loads(adapter.to_wire(history, tools, AdapterOptions(context=context)).body) for history in histories
    ]
    return "" if any(_holds(body, member.value) for body in bodies) else "it is not in the next request"


def _from_request(member: Member) -> str:
    adapter, context = get_adapter(member.model), RequestContext.for_model(member.model)
    messages, tools, options = adapter.from_wire_request(member.body, context)
    stored = [read_message(write_message(message)) for message in messages]
    if stored != messages:
        return "it is not stored as it was read"
    body = json.loads(adapter.to_wire(stored, tools, options).body)
    return "" if _holds(body, member.value) else "it is not in the request again"


def _holds(body: Any, value: Mapping[str, Any]) -> bool:
    """Whether an object of the body has all that the value has."""
    return any(_includes(each, value) for each in _objects(body))


def _includes(actual: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            name in actual and _includes(actual[name], value) for name, value in expected.items() if value is not None
        )
    if isinstance(expected, list):
        return isinstance(actual, list) and len(actual) == len(expected) and all(map(_includes, actual, expected))
    return bool(actual == expected)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)
