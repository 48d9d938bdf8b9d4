"""Guards of the speed of answers to clients, without a clock."""

import json

import pytest

from dragoman import RequestContext, WireResponse, get_adapter
from tests.benchmarks.call_counts import calls_of
from tests.benchmarks.way_back import CLIENTS, delta_work
from tests.benchmarks.wires import SENTENCE, WIRES, words

CALLS_OF_A_DELTA = 9
"""The most functions, with Python's own, that writing a delta adds to reading it."""
CALLS_OF_A_REPLY = 125
"""The most functions that writing a whole reply of one text calls."""
FEW, MANY = 100, 200


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WIRES)
def test_a_delta_is_written_with_few_calls(name: str, client: str) -> None:
    """No object is made for a delta but its bytes, and nothing grows with the stream."""
    wire = WIRES[name]
    adapter = get_adapter(wire.model)

    def reading(count: int) -> int:
        chunks = list(wire.text_stream(words(count)))
        return calls_of(lambda: list(adapter.iter_stream(chunks, RequestContext.for_model(wire.model))))

    work = delta_work(wire, client)
    both = calls_of(work(MANY)) - calls_of(work(FEW))
    assert (both - (reading(MANY) - reading(FEW))) / (MANY - FEW) <= CALLS_OF_A_DELTA


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", WIRES)
def test_a_whole_reply_is_written_with_few_calls(name: str, client: str) -> None:
    """Most of the work of a reply is its reading."""
    wire = WIRES[name]
    context = RequestContext.for_model(wire.model, client_fields={})
    response = WireResponse(200, json.dumps(wire.text_reply(SENTENCE)).encode())
    message = get_adapter(wire.model).from_wire_response(response, context)
    adapter = get_adapter(client)
    assert calls_of(lambda: adapter.to_wire_response(message, context)) <= CALLS_OF_A_REPLY
