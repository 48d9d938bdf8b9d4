"""The doubles of the tests of sessions: providers that answer by a script, below the real transport, and two drivers.

Ids and time are counted, so that two runs of a script give equal histories.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from dragoman.canonical.blocks import TextBlock
from dragoman.canonical.ids import format_ulid
from dragoman.canonical.message import Message
from dragoman.session import AsyncSession, Session, SessionEvent
from dragoman.session.reply import Reply as TurnReply
from dragoman.transport import RetryPolicy, Timing
from tests.unit.session.handwritten_replies import Reply

ANTHROPIC = "anthropic:claude-opus-5-5"
OLLAMA = "ollama:qwen3"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
KEY = "test-key-of-nobody"


def counted_ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: format_ulid(next(numbers))


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A streamed body: its chunks, then the effect of ``ending``. It records whether the client has released it."""

    def __init__(self, chunks: Iterable[bytes], ending: BaseException | str | None = None) -> None:
        self._chunks = list(chunks)
        self._ending = ending
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks
        if isinstance(self._ending, BaseException):
            raise self._ending

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            await asyncio.sleep(0)
            yield chunk
        if isinstance(self._ending, BaseException):
            raise self._ending
        if self._ending == "stall":
            await asyncio.Event().wait()

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


@dataclass
class Wire:
    """A provider that returns its replies in turn, whole or streamed as requested, and records the requests.

    A reply may also be raw frames, a `Body`, a failing response, or an exception.
    """

    replies: Sequence[Reply | Body | Sequence[bytes] | httpx.Response | Exception]
    requests: list[dict[str, Any]] = field(default_factory=list)
    chunk: int | None = None
    """Bytes a chunk of a stream; None: one frame a chunk."""
    bodies: list[Body] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request_body = json.loads(request.content)
        self.requests.append(request_body)
        reply = self.replies[len(self.requests) - 1]
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, httpx.Response):
            return reply
        if isinstance(reply, Reply) and not request_body.get("stream"):
            return httpx.Response(200, headers={"content-type": "application/json"}, content=reply.body)
        kind = reply.content_type if isinstance(reply, Reply) else "text/event-stream"
        body = (
            reply
            if isinstance(reply, Body)
            else Body(self._cut_frames(reply.frames if isinstance(reply, Reply) else reply))
        )
        self.bodies.append(body)
        return httpx.Response(200, headers={"content-type": kind}, stream=body)

    def _cut_frames(self, frames: Sequence[bytes]) -> list[bytes]:
        if self.chunk is None:
            return list(frames)
        whole = b"".join(frames)
        return [whole[start : start + self.chunk] for start in range(0, len(whole), self.chunk)]


@dataclass
class FakeTime:
    """Time that passes only in sleep."""

    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def sleep_async(self, seconds: float) -> None:
        self.slept.append(seconds)

    @property
    def timing(self) -> Timing:
        return Timing(
            clock=lambda: 0.0, now=lambda: NOW, roll=lambda: 0.5, sleep=self.sleep, sleep_async=self.sleep_async
        )


def _settings(wires: Mapping[str, Wire], client: Callable[[Wire], Any], fake_time: FakeTime) -> dict[str, Any]:
    return {
        "providers": {
            provider: {
                "client": client(wire),
                "api_key": KEY,
                "timing": fake_time.timing,
                "retry": RetryPolicy(max_retries=2),
            }
            for provider, wire in wires.items()
        },
        "new_id": counted_ids(),
        "clock": lambda: NOW,
        "session_id": "sess_1",
    }


class SyncDriver:
    """Sessions without await."""

    name = "sync"

    def session(
        self,
        wires: Mapping[str, Wire],
        model: str | None = ANTHROPIC,
        *,
        fake_time: FakeTime | None = None,
        **settings: Any,
    ) -> Session:
        def client(wire: Wire) -> httpx.Client:
            return httpx.Client(transport=httpx.MockTransport(wire))

        return Session(model, **{**_settings(wires, client, fake_time or FakeTime()), **settings})

    def ask(self, session: Any, prompt: Any, **options: Any) -> TurnReply[str]:
        reply: TurnReply[str] = session.ask(prompt, **options)
        return reply

    def stream(
        self,
        session: Any,
        prompt: Any,
        *,
        until: str | None = None,
        seen: list[SessionEvent] | None = None,
        **options: Any,
    ) -> list[SessionEvent]:
        """The events, as far as one of the type ``until``, at which the loop is left. ``seen`` has them after an error
        too."""
        seen = [] if seen is None else seen
        with session.stream(prompt, **options) as events:
            for event in events:
                seen.append(event)
                if event.type == until:
                    break
        return seen

    def compact(self, session: Any, model: str | None = None, **how: Any) -> Message:
        summary: Message = session.compact(model, **how)
        return summary

    def close(self, session: Any) -> None:
        session.close()


class AsyncDriver:
    """The same with await, in an event loop that stays open from call to call."""

    name = "async"

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    def session(
        self,
        wires: Mapping[str, Wire],
        model: str | None = ANTHROPIC,
        *,
        fake_time: FakeTime | None = None,
        **settings: Any,
    ) -> AsyncSession:
        def client(wire: Wire) -> httpx.AsyncClient:
            return httpx.AsyncClient(transport=httpx.MockTransport(wire))

        return AsyncSession(model, **{**_settings(wires, client, fake_time or FakeTime()), **settings})

    def ask(self, session: Any, prompt: Any, **options: Any) -> TurnReply[str]:
        async def main() -> TurnReply[str]:
            reply: TurnReply[str] = await session.ask(prompt, **options)
            return reply

        return self.runner.run(main())

    def stream(
        self,
        session: Any,
        prompt: Any,
        *,
        until: str | None = None,
        seen: list[SessionEvent] | None = None,
        **options: Any,
    ) -> list[SessionEvent]:
        seen = [] if seen is None else seen

        async def main() -> list[SessionEvent]:
            events = session.stream(prompt, **options)
            async for event in events:
                seen.append(event)
                if event.type == until:
                    break
            await events.aclose()
            return seen

        return self.runner.run(main())

    def compact(self, session: Any, model: str | None = None, **how: Any) -> Message:
        async def main() -> Message:
            summary: Message = await session.compact(model, **how)
            return summary

        return self.runner.run(main())

    def close(self, session: Any) -> None:
        self.runner.run(session.close())


Driver = SyncDriver | AsyncDriver


def texts(session: Any) -> list[tuple[str, str]]:
    """(role, text) of each message; a tool's message shows its answer, a call its name."""
    return [(str(message.role), _describe(message)) for message in session.messages]


def _describe(message: Message) -> str:
    answers = [part.text for result in message.tool_results for part in result.content if isinstance(part, TextBlock)]
    calls = [f"{call.name}()" for call in message.tool_uses]
    return " ".join(filter(None, [message.text, *calls, *answers]))


def types(events: Iterable[SessionEvent]) -> list[str]:
    """The types of the events, repeated ones once."""
    return [kind for kind, _ in itertools.groupby(event.type for event in events)]
