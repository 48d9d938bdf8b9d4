"""Streams cut at every byte, read by the official SDKs and by this library: `python -m tests.benchmarks.truncation`.

Each row reads one hand-written stream as often as it has bytes, with a clean end after each of them (as proxies and
gateways produce) and with a connection that breaks there. The replies are mocked below the HTTP client, so everything
above it is real. Prints the table of the README.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx
import httpx2
import openai

from dragoman import RequestContext, get_adapter
from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import DragomanError
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import Message
from dragoman.testing import faults
from dragoman.testing.conformance.wire import Wire
from dragoman.testing.event_bytes import split_events
from dragoman.testing.sample_reply import SHORTEST
from dragoman.transport import HttpTransport, RetryPolicy
from tests.laws.wires import handwritten_anthropic, handwritten_chat

MESSAGES: list[Any] = [{"role": "user", "content": "Tidy up"}]
URL = "http://mocked.invalid/v1"


@dataclass(frozen=True, slots=True)
class Result:
    """What a caller gets: something to compare, and the input of each call."""

    content: Any
    calls: tuple[Any, ...] = ()


ReadStream = Callable[[faults.Cut], Result]


@dataclass(slots=True)
class Counts:
    """Of all cuts: how many raised an error of the library's own, or any other; how the rest was taken."""

    typed: int = 0
    bare: int = 0
    whole: int = 0
    partial: int = 0
    half_calls: int = 0
    kinds: set[str] = field(default_factory=set)

    @property
    def cuts(self) -> int:
        return self.typed + self.bare + self.whole + self.partial


def count(read: ReadStream, plans: Iterator[faults.Cut], size: int, own: type[Exception]) -> Counts:
    """``own`` is the class that callers are told to catch."""
    counts, due = Counts(), read(faults.Cut(size))
    for plan in plans:
        try:
            result = read(plan)
        except Exception as error:
            if isinstance(error, own):
                counts.typed += 1
            else:
                counts.bare += 1
                counts.kinds.add(type(error).__name__)
            continue
        counts.whole += result == due
        counts.partial += result != due
        counts.half_calls += any(call not in due.calls for call in result.calls)
    return counts


class Chunks(httpx2.SyncByteStream):
    """A cut body, in chunks of one event, with the errors of the SDKs' own HTTP library."""

    def __init__(self, plan: faults.Cut, body: bytes) -> None:
        self._plan, self._body = plan, body

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._plan.apply(self._body):
                yield from split_events(chunk)
        except ConnectionResetError as error:
            raise httpx2.ReadError(str(error)) from error


def mock_client(plan: faults.Cut, body: bytes) -> httpx2.Client:
    headers = {"content-type": "text/event-stream"}
    answer = lambda _: httpx2.Response(200, headers=headers, stream=Chunks(plan, body))  # noqa: E731
    return httpx2.Client(transport=httpx2.MockTransport(answer))


def anthropic_raw(plan: faults.Cut) -> Result:
    with anthropic_client(plan) as client:
        stream = client.messages.create(model="m", max_tokens=9, messages=MESSAGES, stream=True)
        return Result([event.to_dict() for event in stream])


def anthropic_helper(plan: faults.Cut) -> Result:
    with anthropic_client(plan) as client, client.messages.stream(model="m", max_tokens=9, messages=MESSAGES) as stream:
        message = stream.get_final_message()
    return Result(message.to_dict(), tuple(block.input for block in message.content if block.type == "tool_use"))


def anthropic_client(plan: faults.Cut) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="k", http_client=mock_client(plan, BODIES["anthropic"]), max_retries=0)


def openai_raw(plan: faults.Cut) -> Result:
    with openai_client(plan) as client:
        return Result([chunk.to_dict() for chunk in client.chat.completions.create(**ASKED, stream=True)])


def openai_helper(plan: faults.Cut) -> Result:
    with openai_client(plan) as client, client.chat.completions.stream(**ASKED) as stream:
        completion = stream.get_final_completion()
    calls = completion.choices[0].message.tool_calls or ()
    return Result(completion.to_dict(), tuple(call.function.arguments for call in calls))


ASKED: dict[str, Any] = {"model": "m", "messages": MESSAGES}


def openai_client(plan: faults.Cut) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", base_url=URL, http_client=mock_client(plan, BODIES["openai-chat"]), max_retries=0)


def ours(provider: str) -> ReadStream:
    """From the HTTP client up, as in a session."""
    adapter = get_adapter(f"{provider}:m")

    class Recorded(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, content=BODIES[provider])

    def read(plan: faults.Cut) -> Result:
        names = iter(range(100))
        context = RequestContext(model=f"{provider}:m", session_id="s", new_id=lambda: str(next(names)))
        options = AdapterOptions(max_output_tokens=9, stream=True, context=context)
        request = adapter.to_wire([Message.user("Tidy up")], [], options)
        client = httpx.Client(transport=faults.FaultyTransport(Recorded(), plan))
        transport = HttpTransport(api_key="k", base_url=URL, client=client, retry=RetryPolicy(max_retries=0))
        with transport.stream(adapter, request) as reply:
            *_, last = adapter.iter_stream(reply.chunks, context)
        if isinstance(last, ErrorEvent):
            raise last.error
        assert isinstance(last, MessageComplete)
        calls = tuple(call.input for call in last.message.tool_uses if call.raw_input is None)
        return Result((last.message.text, last.message.stop_reason, last.message.usage), calls)

    return read


WIRES: dict[str, Wire] = {"anthropic": handwritten_anthropic.WIRE, "openai-chat": handwritten_chat.WIRE}
BODIES = {provider: wire.stream(SHORTEST) for provider, wire in WIRES.items()}
# OpenAI's helper ignores chunks that do not name their type.
BODIES["openai-chat"] = BODIES["openai-chat"].replace(
    b'{"id":', b'{"object":"chat.completion.chunk","created":1795219200,"id":'
)

ROWS: list[tuple[str, str, ReadStream, type[Exception]]] = [
    (f"anthropic {anthropic.__version__}, create(stream=True)", "anthropic", anthropic_raw, anthropic.AnthropicError),
    (f"anthropic {anthropic.__version__}, messages.stream()", "anthropic", anthropic_helper, anthropic.AnthropicError),
    ("dragoman, anthropic", "anthropic", ours("anthropic"), DragomanError),
    (f"openai {openai.__version__}, create(stream=True)", "openai-chat", openai_raw, openai.OpenAIError),
    (f"openai {openai.__version__}, chat.completions.stream()", "openai-chat", openai_helper, openai.OpenAIError),
    ("dragoman, openai-chat", "openai-chat", ours("openai-chat"), DragomanError),
]

HEAD = (
    "| client | ending | cuts | its own error | another error | silently partial | half a call handed out | whole |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
)


def main() -> None:
    sys.stdout.write("\n".join(HEAD) + "\n")
    for name, provider, read, own in ROWS:
        body = BODIES[provider]
        for ending, reset in (("clean", False), ("reset", True)):
            found = count(read, faults.every_cut(body, reset=reset), len(body), own)
            bare = f"{found.bare} ({', '.join(sorted(found.kinds))})" if found.bare else "0"
            sys.stdout.write(
                f"| {name} | {ending} | {found.cuts} | {found.typed} | {bare} | {found.partial} | {found.half_calls} "
                f"| {found.whole} |\n"
            )


if __name__ == "__main__":
    main()
