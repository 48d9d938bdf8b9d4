"""The way back in figures: `python -m tests.benchmarks.way_back` prints CPU microseconds for every pair of wires.

A delta counts from the provider's bytes to the client's, and a reply from the provider's body to the client's.
"""

import json
from collections.abc import Callable
from functools import partial

from dragoman import RequestContext, WireResponse, get_adapter
from tests.benchmarks.timing import time_in_turns
from tests.benchmarks.wires import SENTENCE, WIRES, MockWire, words

CLIENTS = ("anthropic:client", "openai:client", "openai-chat:client", "google:client", "ollama:client")
DELTAS = 500
MOST_FOR_A_DELTA, MOST_FOR_A_REPLY = 12.0, 150.0
"""The goals, in microseconds."""


def main() -> None:
    print("| provider | client | one delta, us | one reply, us |")
    print("| --- | --- | ---: | ---: |")
    over = []
    for name, wire in WIRES.items():
        for client in CLIENTS:
            delta, reply = delta_work(wire, client), reply_work(wire, client)
            short, long = delta(DELTAS // 10), delta(DELTAS)
            times = time_in_turns({"short": short, "long": long, "reply": reply}, rounds=15, repeat=3)
            each = (times["long"] - times["short"]) / (DELTAS - DELTAS // 10)
            print(f"| {name} | {client.partition(':')[0]} | {each:.1f} | {times['reply']:.0f} |")
            over += [f"{name} to {client}"] * (each > MOST_FOR_A_DELTA or times["reply"] > MOST_FOR_A_REPLY)
    print(f"goals: a delta {MOST_FOR_A_DELTA:g} us, a reply {MOST_FOR_A_REPLY:g} us; over: {', '.join(over) or 'none'}")


def delta_work(wire: MockWire, client: str) -> Callable[[int], Callable[[], object]]:
    """A stream of as many deltas as asked for, which arrive one by one."""
    behind, front = get_adapter(wire.model), get_adapter(client)

    def run(chunks: list[bytes]) -> None:
        context = _context(wire)
        for _ in front.iter_encoded(behind.iter_stream(chunks, context), context):
            pass

    return lambda count: partial(run, list(wire.text_stream(words(count))))


def reply_work(wire: MockWire, client: str) -> Callable[[], object]:
    """A whole reply of one sentence."""
    behind, front = get_adapter(wire.model), get_adapter(client)
    response = WireResponse(200, json.dumps(wire.text_reply(SENTENCE)).encode())

    def run() -> None:
        context = _context(wire)
        front.to_wire_response(behind.from_wire_response(response, context), context)

    return run


def _context(wire: MockWire) -> RequestContext:
    return RequestContext.for_model(wire.model, client_fields={})


if __name__ == "__main__":
    main()
