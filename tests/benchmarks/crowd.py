"""Many streams open at once: `python -m tests.benchmarks.crowd [streams]`. Exits with 1 where one of them fails.

Printed are the CPU of one delta, the memory of one open stream (the growth of the process at its largest), and how
fair the order is: how far every other stream is at the moment when the first one ends.
"""

import asyncio
import resource
import sys
import time
from functools import partial

from dragoman import AdapterOptions, Message, RequestContext, get_adapter
from dragoman.canonical.events import MessageComplete
from dragoman.transport import AsyncHttpTransport
from tests.benchmarks.measuring import mock_provider
from tests.benchmarks.mock_provider import PACED
from tests.benchmarks.wires import WIRES, words

_MODEL = WIRES["messages"].model
_WHOLE = "".join(words(PACED))


class Crowd:
    """The streams of one run and how far each of them is."""

    def __init__(self, streams: int) -> None:
        self.streams = streams
        self.heard = [0] * streams
        self.whole = 0
        self.failed: list[str] = []
        self.least: float = 0.0
        """The share of its deltas that the slowest stream had when the first one ended."""

    async def listen(self, transport: AsyncHttpTransport, number: int) -> None:
        adapter, context = get_adapter(_MODEL), RequestContext.for_model(_MODEL)
        options = AdapterOptions(max_output_tokens=100, stream=True, context=context)
        request = adapter.to_wire([Message.user("Go.")], [], options)
        try:
            async with transport.stream(adapter, request) as reply:
                async for event in adapter.stream_response(reply.chunks, context):
                    self.heard[number] += event.type == "text_delta"
            if not isinstance(event, MessageComplete) or event.message.text != _WHOLE:
                raise ValueError(f"the stream ended with {event.type}")
        except Exception as error:
            self.failed.append(f"{type(error).__name__}: {error}")
            return
        if not self.whole:
            self.least = min(self.heard) / PACED
        self.whole += 1


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _run(base: str, streams: int) -> Crowd:
    async with AsyncHttpTransport(base_url=f"{base}/paced", api_key="none", max_connections=streams) as transport:
        await Crowd(1).listen(transport, 0)
        crowd, before, started = Crowd(streams), _megabytes(), (time.process_time(), time.perf_counter())
        await asyncio.gather(*map(partial(crowd.listen, transport), range(streams)))
    cpu, wall = time.process_time() - started[0], time.perf_counter() - started[1]
    print("| streams | whole | failed | us of CPU a delta | s of wall time | KiB a stream | slowest at first end |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print(
        f"| {streams} | {crowd.whole} | {len(crowd.failed)} | {cpu * 1e6 / streams / PACED:.0f} | {wall:.1f} |"
        f" {(_megabytes() - before) * 1024 / streams:.0f} | {crowd.least:.0%} |"
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
