"""Laws of the swap: the request depends on the history only, and only grows with it."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from dragoman import AdapterOptions, Message, RequestContext, ToolDefinition
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.message import write_message
from tests.conformance.swaps.histories import TARGETS
from tests.conformance.swaps.prefix_law import prefix_fault, prefixes, split_request
from tests.laws.projection.sources import SOURCES, histories_of
from tests.sampling import examples

_TOOLS = (ToolDefinition(name="get_weather", description="Weather."),)

source_histories = st.sampled_from(sorted(SOURCES)).flatmap(lambda name: histories_of(SOURCES[name], max_scenes=4))
targets = pytest.mark.parametrize("target", list(TARGETS))
few = examples(10)


def encode_request(target: str, history: Sequence[Message], context: RequestContext | None = None) -> bytes:
    options = AdapterOptions(context=context)
    return get_adapter(TARGETS[target]).to_wire(history, list(_TOOLS), options).body


def assert_grows(shorter: bytes, longer: bytes) -> None:
    fault = prefix_fault(split_request(shorter), split_request(longer))
    assert fault is None, fault


@targets
@few
@given(history=source_histories)
def test_a_request_starts_with_the_one_before_it(target: str, history: list[Message]) -> None:
    """The prefix law, on the wire: system, tools and messages of a shorter history are a prefix of those of a longer
    one.
    """
    bodies = [encode_request(target, shorter) for shorter in prefixes(history)]
    for shorter, longer in pairwise(bodies):
        assert_grows(shorter, longer)


@targets
@few
@given(history=source_histories)
def test_caches_of_a_session_do_not_show(target: str, history: list[Message]) -> None:
    """A session that grew turn by turn sends the bytes that a fresh one would: only the history counts."""
    context = RequestContext(model=TARGETS[target])
    for shorter in prefixes(history):
        assert encode_request(target, shorter, context) == encode_request(target, shorter)


@targets
@few
@given(history=source_histories, other=st.sampled_from(list(TARGETS)), data=st.data())
def test_a_swap_there_and_back_changes_nothing(
    target: str, history: list[Message], other: str, data: st.DataObject
) -> None:
    """After a swap to another model and back, the first model receives the same bytes."""
    note(f"by way of {other}")
    first = data.draw(st.integers(1, len(history)))
    stayed, left = (RequestContext(model=TARGETS[target]) for _ in range(2))
    for context in (stayed, left):
        encode_request(target, history[:first], context)
    encode_request(other, history[: data.draw(st.integers(first, len(history)))], left)
    assert encode_request(target, history, left) == encode_request(target, history, stayed)


@targets
@few
@given(history=source_histories)
def test_a_request_that_was_read_is_written_again_unchanged(target: str, history: list[Message]) -> None:
    """A request that fits a model is not changed again."""
    body = encode_request(target, history)
    adapter = get_adapter(TARGETS[target])
    messages, tools, options = adapter.from_wire_request(body, RequestContext(model=TARGETS[target]))
    again = adapter.to_wire(messages, tools, options)
    assert split_request(again.body) == split_request(body)


PROGRAM = """
import hashlib, json, sys
from dragoman.canonical.message import read_message
from tests.laws.projection.test_swap_laws import TARGETS, encode_request
histories = [[read_message(message) for message in history] for history in json.load(sys.stdin)]
requests = [encode_request(target, each) for target in TARGETS for each in histories]
print(json.dumps([hashlib.sha256(request).hexdigest() for request in requests]))
"""


@pytest.mark.exhaustive
@settings(max_examples=1)
@given(histories=st.lists(source_histories, min_size=6, max_size=6))
def test_another_process_sends_the_same_bytes(histories: list[list[Message]]) -> None:
    """Requests do not depend on the process or its hash seed."""
    here = [hashlib.sha256(encode_request(target, each)).hexdigest() for target in TARGETS for each in histories]
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
