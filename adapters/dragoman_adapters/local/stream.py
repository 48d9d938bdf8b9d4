"""Decodes the stream of the local transport: a JSON object a line, the last of the type end."""

from collections.abc import Iterator
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.replies.accumulating_decoder import AccumulatingDecoder
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.framing import Frame, NdjsonDecoder
from dragoman.canonical.events import (
    StreamEvent,
    TextDelta,
    ToolUseEnd,
    ToolUseInputDelta,
    ToolUseStart,
)
from dragoman_adapters.local import decode, errors


class LocalStreamDecoder(AccumulatingDecoder):
    """Accumulates the reply object of the lines and emits an event for each change.

    The lines are start, then text pieces and calls (call, arguments, call_end), then end with the reason and the
    counts; or error.
    """

    framing = NdjsonDecoder

    def __init__(self, provider: str, context: RequestContext) -> None:
        super().__init__(provider, context)
        self._content: list[dict[str, Any]] = []
        self._pieces: list[str] = []

    def read(self, frame: Frame) -> Iterator[StreamEvent]:
        line = wirejson.loads_object(frame.data, what="a stream line")
        match line["type"]:
            case "text":
                if not self._content or self._content[-1]["type"] != "text":
                    self._add({"type": "text"})
                self._append_fragment(line["text"])
                yield TextDelta(self._reply.message_id, len(self._content) - 1, line["text"])
            case "arguments":
                index = self._open_call()
                self._append_fragment(line["text"])
                call_id = self._reply.call_id(index, None)
                yield ToolUseInputDelta(self._reply.message_id, index, call_id, line["text"])
            case "call":
                self._add({"type": "call", "name": line["name"]})
                index = len(self._content) - 1
                yield ToolUseStart(self._reply.message_id, index, self._reply.call_id(index, None), line["name"])
            case "call_end":
                yield from self._call_end()
            case "start":
                yield from self.start({"model": line["model"]}, line["model"])
            case "end":
                if not self._native:
                    raise ValueError("a message ends before its start")
                self._native |= {key: value for key, value in line.items() if key != "type"}
                yield from self.complete(decode.decode_usage(line.get("usage")))
            case "error":
                raise errors.decode_error(line, ErrorContext(self.provider, self._model))
            case kind:
                self.skip_unknown(kind)

    decode_message = staticmethod(decode.decode_message)

    def _call_end(self) -> Iterator[StreamEvent]:
        index = self._open_call()
        arguments, malformed = wirejson.parse_arguments("".join(self._pieces))
        if malformed is None:
            self._pieces.clear()
            self._content[index]["arguments"] = arguments
            yield ToolUseEnd(self._reply.message_id, index, self._reply.call_id(index, None), arguments)

    def _append_fragment(self, piece: str) -> None:
        if not isinstance(piece, str):
            raise TypeError("a piece of a stream is not text")
        self._pieces.append(piece)

    def _open_call(self) -> int:
        if not self._content or self._content[-1]["type"] != "call" or "arguments" in self._content[-1]:
            raise ValueError("arguments outside a call")
        return len(self._content) - 1

    def _add(self, item: dict[str, Any]) -> None:
        if not self._native:
            raise ValueError("a message continues before its start")
        self._join_fragments()
        self._content.append(item)

    def _join_fragments(self) -> None:
        """Join the pieces of the last part. Arguments that have not ended stay text."""
        if not self._content:
            return
        last = self._content[-1]
        if last["type"] == "text":
            last["text"] = last.get("text", "") + "".join(self._pieces)
        elif "arguments" not in last:
            last["arguments"] = "".join(self._pieces)
        self._pieces.clear()

    def accumulated_reply(self) -> dict[str, Any]:
        self._join_fragments()
        return {**self._native, "content": self._content}
