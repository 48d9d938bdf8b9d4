"""UMF's streaming accumulator (specification C3): chunks in, one text and the calls in order of their index out."""

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
    """``index`` need not start at 0 nor be without gaps. Id and name replace what was known, arguments append."""

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
    """Feed it chunks; `finish` gives what they add up to. Calls that never got a name are dropped."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._heads: dict[int, tuple[str, str]] = {}
        self._arguments: dict[int, list[str]] = {}

    def process_chunk(self, chunk: StreamChunk) -> bool:
        """Whether the stream is done."""
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
    """What the chunks add up to; nothing is read behind the first `Done`. What the iterable raises is not caught."""
    accumulator = StreamingAccumulator()
    for chunk in chunks:
        if accumulator.process_chunk(chunk):
            break
    return accumulator.finish()


def chunks_of(events: Iterable[StreamEvent]) -> Iterator[StreamChunk]:
    """Our events as UMF's chunks; thinking and usage have none. Raises the error of a stream that broke."""
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
