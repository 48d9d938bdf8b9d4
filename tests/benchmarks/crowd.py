"""Many streams open at once: `python -m tests.benchmarks.crowd [streams]`. Exits with 1 where one of them fails.

Printed are the CPU of one delta, the memory of one open stream (the growth of the process at its largest), and how
fair the order is: the longest silence of any stream between two of its deltas, and how much longer than the median
the slowest stream took from its first delta to its last.
"""

import asyncio
import resource
import statistics
import sys
import time
from functools import partial
from itertools import pairwise

from dragoman import AdapterOptions, Message, RequestContext, get_adapter
from dragoman.canonical.events import MessageComplete
from dragoman.transport import AsyncHttpTransport
from tests.benchmarks.measuring import mock_provider
from tests.benchmarks.mock_provider import PACED
from tests.benchmarks.wires import WIRES, words

_MODEL = WIRES["messages"].model
_WHOLE = "".join(words(PACED))


class Crowd:
    """The streams of one run."""

    def __init__(self, streams: int) -> None:
        self.heard: list[list[float]] = [[] for _ in range(streams)]
        """When each delta of each stream was heard."""
        self.whole = 0
        self.failed: list[str] = []

    @property
    def silence(self) -> float:
        """The longest time between two deltas of one stream, in seconds."""
        return max(after - before for times in self.heard for before, after in pairwise(times))

    @property
    def slowest(self) -> float:
        """How many times the median's time the slowest stream took."""
        taken = [times[-1] - times[0] for times in self.heard if times]
        return max(taken) / statistics.median(taken)

    async def listen(self, transport: AsyncHttpTransport, number: int) -> None:
        adapter, context = get_adapter(_MODEL), RequestContext.for_model(_MODEL)
        options = AdapterOptions(max_output_tokens=100, stream=True, context=context)
        request = adapter.to_wire([Message.user("Go.")], [], options)
        try:
            async with transport.stream(adapter, request) as reply:
                async for event in adapter.stream_response(reply.chunks, context):
                    if event.type == "text_delta":
                        self.heard[number].append(time.perf_counter())
            if not isinstance(event, MessageComplete) or event.message.text != _WHOLE:
                raise ValueError(f"the stream ended with {event.type}")
        except Exception as error:
            self.failed.append(f"{type(error).__name__}: {error}")
            return
        self.whole += 1


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _run(base: str, streams: int) -> Crowd:
    async with AsyncHttpTransport(base_url=f"{base}/paced", api_key="none", max_connections=streams) as transport:
        await Crowd(1).listen(transport, 0)
        crowd, before, started = Crowd(streams), _megabytes(), (time.process_time(), time.perf_counter())
        await asyncio.gather(*map(partial(crowd.listen, transport), range(streams)))
    cpu, wall = time.process_time() - started[0], time.perf_counter() - started[1]
    print(
        "| streams | whole | failed | us of CPU a delta | s of wall time | KiB a stream | longest silence, s"
        " | slowest to median |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    print(
        f"| {streams} | {crowd.whole} | {len(crowd.failed)} | {cpu * 1e6 / streams / PACED:.0f} | {wall:.1f} |"
        f" {(_megabytes() - before) * 1024 / streams:.0f} | {crowd.silence:.2f} | {crowd.slowest:.2f}x |"
    )
    return crowd


def main() -> int:
    with mock_provider() as base:
        crowd = asyncio.run(_run(base, int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
    for reason in sorted(set(crowd.failed)):
        print(reason, file=sys.stderr)
    return 1 if crowd.failed else 0


if __name__ == "__main__":
    sys.exit(main())
