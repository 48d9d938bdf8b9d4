"""UMF's streaming accumulator: collects chunks into one text and the calls by index.

Source: docs/reference/umf.md#streaming.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dragoman.canonical.events import (
    ErrorEvent,
    MessageComplete,
    StreamEvent,
    TextDelta,
    ToolUseInputDelta,
    ToolUseStart,
)


@dataclass(frozen=True, slots=True)
class TextChunk:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """``index`` need not start at 0 and may have gaps. Id and name replace the known ones, arguments are appended."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments_delta: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    pass


StreamChunk = TextChunk | ToolCallDelta | Done


@dataclass(frozen=True, slots=True)
class AccumulatedCall:
    """``arguments`` is JSON text, as it was streamed."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class AccumulatedResponse:
    text: str
    tool_calls: tuple[AccumulatedCall, ...]


class StreamingAccumulator:
    """Feed it chunks; `finish` returns the result. Calls without a name are dropped."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._heads: dict[int, tuple[str, str]] = {}
        self._arguments: dict[int, list[str]] = {}

    def process_chunk(self, chunk: StreamChunk) -> bool:
        """Add a chunk. Return True if the stream is done."""
        if isinstance(chunk, TextChunk):
            self._texts.append(chunk.text)
        elif isinstance(chunk, ToolCallDelta):
            known_id, known_name = self._heads.get(chunk.index, ("", ""))
            self._heads[chunk.index] = (
                known_id if chunk.id is None else chunk.id,
                known_name if chunk.name is None else chunk.name,
            )
            self._arguments.setdefault(chunk.index, []).append(chunk.arguments_delta or "")
        return isinstance(chunk, Done)

    def finish(self) -> AccumulatedResponse:
        calls = tuple(
            AccumulatedCall(call_id, name, "".join(self._arguments[index]))
            for index, (call_id, name) in sorted(self._heads.items())
            if name
        )
        return AccumulatedResponse("".join(self._texts), calls)


def accumulate(chunks: Iterable[StreamChunk]) -> AccumulatedResponse:
    """Return the result of the chunks. Nothing is read after the first `Done`. Exceptions of the iterable are not
    caught.
    """
    accumulator = StreamingAccumulator()
    for chunk in chunks:
        if accumulator.process_chunk(chunk):
            break
    return accumulator.finish()


def chunks_of(events: Iterable[StreamEvent]) -> Iterator[StreamChunk]:
    """Yield our events as UMF chunks; thinking and usage have none. Raises the error of a failed stream."""
    for event in events:
        match event:
            case TextDelta():
                yield TextChunk(event.text)
            case ToolUseStart():
                yield ToolCallDelta(event.content_block_index, event.tool_use_id, event.tool_name)
            case ToolUseInputDelta():
                yield ToolCallDelta(event.content_block_index, arguments_delta=event.partial_json)
            case MessageComplete():
                yield Done()
            case ErrorEvent():
                raise event.error
            case _:
                pass
