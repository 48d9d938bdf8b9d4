"""Laws of the swap: what a model is sent depends on the history alone, and only grows with it."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from dragoman import AdapterOptions, Message, RequestContext, Role, ToolDefinition
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.evolve import write_message
from tests.conformance.handover import TARGETS, recorded
from tests.exchanges import load_or_skip
from tests.laws.sources import SOURCES, histories_of

_TOOLS = (ToolDefinition(name="get_weather", description="Weather."),)
_LISTS = ("messages", "input", "contents")
_PRELUDE = ("system", "systemInstruction", "system_instruction", "instructions", "tools", "toolConfig")
_INSTRUCTING = (Role.SYSTEM, Role.DEVELOPER)
_GOING_ON = "Continue."
"""What the user is made to say where a model does not go on with its own message: no history here holds it."""

told = st.sampled_from(sorted(SOURCES)).flatmap(lambda name: histories_of(SOURCES[name], max_scenes=4))
targets = pytest.mark.parametrize("target", list(TARGETS))
few = settings(max_examples=15)


def written(target: str, history: Sequence[Message], context: RequestContext | None = None) -> bytes:
    options = AdapterOptions(context=context)
    return get_adapter(TARGETS[target]).to_wire(history, list(_TOOLS), options).body


def pieces(body: bytes) -> tuple[dict[str, Any], list[Any]]:
    """What stands before the conversation, and its items; each is in the body byte for byte."""
    whole = json.loads(body)
    (listed,) = (whole[name] for name in _LISTS if name in whole)
    items = listed if isinstance(listed, list) else [listed]
    run = json.dumps(items, separators=(",", ":"), ensure_ascii=False).encode()
    assert run in body or not isinstance(listed, list)
    return {name: whole.get(name) for name in _PRELUDE}, items


def beginnings(history: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """Those that something was said in, and behind which no answer of a tool is still to come.

    While answers come in, what is said of the open calls and what follows the answers stands at the very end. The
    assistant's neighbouring messages are one turn, which the answers follow.
    """
    for end in range(1, len(history) + 1):
        asks = any(message.role not in _INSTRUCTING for message in history[:end])
        follows = history[end].role if end < len(history) else None
        goes_on = follows is Role.TOOL or follows is history[end - 1].role is Role.ASSISTANT
        if asks and not goes_on:
            yield history[:end]


def extends(old: Any, new: Any) -> bool:
    """Whether an item is the same one with more behind it: neighbours of one role may share a message."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return bool(old == new)
    if "prefix" in old:  # the mark on the assistant's message that the model is to go on with
        old = {name: value for name, value in old.items() if name != "prefix"}
    for name in ("content", "parts"):
        if name in old and name in new:
            before, after = (value if isinstance(value, list) else [value] for value in (old[name], new[name]))
            before = [] if before == [""] else before
            texts = [{"type": "text", "text": each} if isinstance(each, str) else each for each in before]
            grown = after[: len(before)] in (before, texts)
            return grown and {**old, name: None} == {**{key: new.get(key) for key in old}, name: None}
    return bool(old == new)


def assert_grows(shorter: bytes, longer: bytes) -> None:
    """The one end treatment: an item may grow, and what asks a model to go on gives way to what is really said."""
    (prelude, old), (later, new) = pieces(shorter), pieces(longer)
    assert prelude == later
    kept = next((index for index, (one, two) in enumerate(zip(old, new, strict=False)) if one != two), len(new))
    gone = old[kept:]
    if gone and kept < len(new) and extends(gone[0], new[kept]):
        gone = gone[1:]
    assert all(_GOING_ON in json.dumps(item) for item in gone), (old[kept:], new[kept:])


@targets
@few
@given(history=told)
def test_a_request_begins_with_the_one_before_it(target: str, history: list[Message]) -> None:
    """The prefix law, on the wire: system, tools and messages of a shorter history begin those of a longer one."""
    bodies = [written(target, shorter) for shorter in beginnings(history)]
    for shorter, longer in pairwise(bodies):
        assert_grows(shorter, longer)


@pytest.mark.exchanges
@targets
def test_recorded_conversations_only_grow(target: str) -> None:
    """The prefix law for what was really said, on every wire."""
    for source in ("anthropic", "openai-responses", "openai-chat", "google"):
        load_or_skip(source)
        for history in list(recorded(source, prefixes=False))[::12]:
            options = replace(history.options, context=None)
            adapter = get_adapter(TARGETS[target])
            bodies = [adapter.to_wire(each, history.tools, options).body for each in beginnings(history.messages)]
            for shorter, longer in pairwise(bodies):
                assert_grows(shorter, longer)


@targets
@few
@given(history=told)
def test_what_is_kept_of_a_session_does_not_show(target: str, history: list[Message]) -> None:
    """A session that grew turn by turn sends the bytes that a fresh one would: nothing but the history counts."""
    context = RequestContext(model=TARGETS[target])
    for shorter in beginnings(history):
        assert written(target, shorter, context) == written(target, shorter)


@targets
@few
@given(history=told, other=st.sampled_from(list(TARGETS)), data=st.data())
def test_there_and_back_again_is_never_having_left(
    target: str, history: list[Message], other: str, data: st.DataObject
) -> None:
    """A model that gets its conversation back after another one had it is sent the very same bytes."""
    note(f"by way of {other}")
    first = data.draw(st.integers(1, len(history)))
    stayed, left = (RequestContext(model=TARGETS[target]) for _ in range(2))
    for context in (stayed, left):
        written(target, history[:first], context)
    written(other, history[: data.draw(st.integers(first, len(history)))], left)
    assert written(target, history, left) == written(target, history, stayed)


@targets
@few
@given(history=told)
def test_what_was_sent_is_sent_again_as_it_was(target: str, history: list[Message]) -> None:
    """A request that is read and written again is the same request, for what fits a model once fits it as it is."""
    body = written(target, history)
    adapter = get_adapter(TARGETS[target])
    messages, tools, options = adapter.from_wire_request(body, RequestContext(model=TARGETS[target]))
    again = adapter.to_wire(messages, tools, options)
    assert pieces(again.body) == pieces(body)


PROGRAM = """
import hashlib, json, sys
from dragoman.canonical.evolve import read_message
from tests.laws.test_swap_laws import TARGETS, written
histories = [[read_message(message) for message in history] for history in json.load(sys.stdin)]
print(json.dumps([hashlib.sha256(written(target, each)).hexdigest() for target in TARGETS for each in histories]))
"""


@settings(max_examples=1)
@given(histories=st.lists(told, min_size=6, max_size=6))
def test_another_process_sends_the_same_bytes(histories: list[list[Message]]) -> None:
    """Neither the process nor its hash seed shows in a request."""
    here = [hashlib.sha256(written(target, each)).hexdigest() for target in TARGETS for each in histories]
    given_in = json.dumps([[write_message(message).decode() for message in history] for history in histories])
    for number in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=given_in,
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(found.stdout) == here
