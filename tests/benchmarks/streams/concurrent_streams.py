"""Many streams open at once: `python -m tests.benchmarks.streams.concurrent_streams [streams]`. Exits with 1 if one of
them fails.

It prints the CPU of one delta and how fair the order is: the longest silence of any stream, in seconds of the client's
own CPU, so that other work on the machine does not count, and the most turns that another stream got between two of its
own.
"""

import asyncio
import sys
import time
from collections import Counter, defaultdict
from functools import partial
from itertools import pairwise

from dragoman import AdapterOptions, Message, RequestContext, get_adapter
from dragoman.canonical.events import MessageComplete
from dragoman.transport import AsyncHttpTransport
from tests.benchmarks.mock_provider import PACED
from tests.benchmarks.timing import mock_provider
from tests.benchmarks.wires import WIRES, words

_MODEL = WIRES["messages"].model
_WHOLE = "".join(words(PACED))


class OpenStreams:
    """The streams of one run."""

    def __init__(self, streams: int) -> None:
        self.delta_times: list[list[float]] = [[] for _ in range(streams)]
        """When each delta of each stream arrived, in seconds of the process's CPU."""
        self.turns: list[int] = []
        """The stream of each turn: a stream that gets several deltas in a row has one turn."""
        self.whole = 0
        self.failed: list[str] = []

    def record_delta(self, number: int) -> None:
        self.delta_times[number].append(time.process_time())
        if not self.turns or self.turns[-1] != number:
            self.turns.append(number)

    @property
    def longest_gap(self) -> float:
        """The longest time between two deltas of one stream."""
        return max(after - before for times in self.delta_times for before, after in pairwise(times))

    @property
    def most_turns_between(self) -> int:
        """The most turns that any one stream had between two neighbouring turns of another."""
        places: defaultdict[int, list[int]] = defaultdict(list)
        for place, number in enumerate(self.turns):
            places[number].append(place)
        gaps = (self.turns[before + 1 : after] for found in places.values() for before, after in pairwise(found))
        return max((max(Counter(gap).values()) for gap in gaps if gap), default=0)

    async def read_stream(self, transport: AsyncHttpTransport, number: int) -> None:
        adapter, context = get_adapter(_MODEL), RequestContext.for_model(_MODEL)
        options = AdapterOptions(max_output_tokens=100, stream=True, context=context)
        request = adapter.to_wire([Message.user("Go.")], [], options)
        try:
            async with transport.stream(adapter, request) as reply:
                async for event in adapter.stream_response(reply.chunks, context):
                    if event.type == "text_delta":
                        self.record_delta(number)
            if not isinstance(event, MessageComplete) or event.message.text != _WHOLE:
                raise ValueError(f"the stream ended with {event.type}")
        except Exception as error:
            self.failed.append(f"{type(error).__name__}: {error}")
            return
        self.whole += 1


async def _run(base: str, streams: int) -> OpenStreams:
    async with AsyncHttpTransport(base_url=f"{base}/paced", api_key="none", max_connections=streams) as transport:
        await OpenStreams(1).read_stream(transport, 0)
        open_streams, started = OpenStreams(streams), (time.process_time(), time.perf_counter())
        await asyncio.gather(*map(partial(open_streams.read_stream, transport), range(streams)))
    cpu, wall = time.process_time() - started[0], time.perf_counter() - started[1]
    print(
        "| streams | whole | failed | us of CPU a delta | s of CPU | s of wall time | longest silence, s of CPU"
        " | turns of another meanwhile |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    print(
        f"| {streams} | {open_streams.whole} | {len(open_streams.failed)} | {cpu * 1e6 / streams / PACED:.0f} "
        f"| {cpu:.1f} |"
        f" {wall:.1f} | {open_streams.longest_gap:.2f} | {open_streams.most_turns_between} |"
    )
    return open_streams


def main() -> int:
    with mock_provider() as base:
        open_streams = asyncio.run(_run(base, int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
    for reason in sorted(set(open_streams.failed)):
        print(reason, file=sys.stderr)
    return 1 if open_streams.failed else 0


if __name__ == "__main__":
    sys.exit(main())
