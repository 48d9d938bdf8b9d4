"""Decodes the stream of Ollama's chat: JSON objects, the last with ``done`` (docs/reference/wires/ollama.md)."""

from collections.abc import Iterator
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.replies.accumulating_decoder import AccumulatingDecoder
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.framing import Frame, NdjsonDecoder
from dragoman.canonical.events import (
    MessageStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseInputDelta,
    ToolUseStart,
)
from dragoman_adapters.ollama import decode, errors

_DELTA_FIELDS = {"role", "content", "thinking", "tool_calls"}
"""The fields of a message that this decoder accumulates; it keeps the last value of others."""


class OllamaStreamDecoder(AccumulatingDecoder):
    """Accumulates the reply object of the lines and emits an event for each change."""

    framing = NdjsonDecoder

    def __init__(self, provider: str, context: RequestContext) -> None:
        super().__init__(provider, context)
        self._texts: dict[str, list[str]] = {"thinking": [], "content": []}
        self._indexes: dict[str, int] = {}
        self._calls: list[dict[str, Any]] = []

    def read(self, frame: Frame) -> Iterator[StreamEvent]:
        line = wirejson.loads_object(frame.data, what="a stream line")
        if "error" in line:
            raise errors.decode_error(line, ErrorContext(self.provider, self._model))
        if not self._native:
            yield MessageStart(self._reply.message_id, line.get("model") or self._model)
        if "response" in line:
            raise ValueError("a line has a response in place of a message, as text generation has")
        delta = line.get("message") or {}
        self._native |= {key: value for key, value in line.items() if key != "message"}
        self._native.setdefault("message", {"role": delta.get("role", "assistant")})
        if thinking := delta.get("thinking"):
            self._texts["thinking"].append(thinking)
            yield ThinkingDelta(self._reply.message_id, self._index("thinking"), thinking)
        if text := delta.get("content"):
            self._texts["content"].append(text)
            yield TextDelta(self._reply.message_id, self._index("content"), text)
        for call in delta.get("tool_calls") or ():
            yield from self._call(call)
        if not delta.keys() <= _DELTA_FIELDS:
            self._native["message"] |= {name: value for name, value in delta.items() if name not in _DELTA_FIELDS}
        if line.get("done"):
            yield from self.complete(decode.decode_usage(self._native))

    decode_message = staticmethod(decode.decode_message)

    def _call(self, native: dict[str, Any]) -> Iterator[StreamEvent]:
        """Yield the events of calls, which arrive whole."""
        position = len(self._calls)
        self._calls.append(native)
        function, message_id = native["function"], self._reply.message_id
        index, call = self._index(f"call {position}"), self._reply.call_id(position, native.get("id"))
        arguments = function.get("arguments") or {}
        text = arguments if isinstance(arguments, str) else wirejson.dumps_text(arguments)
        yield ToolUseStart(message_id, index, call, function["name"])
        yield ToolUseInputDelta(message_id, index, call, text)
        yield from self.end_call(index, call, text)

    def _index(self, part: str) -> int:
        return self._indexes.setdefault(part, len(self._indexes))

    def accumulated_reply(self) -> dict[str, Any]:
        texts = {name: "".join(pieces) for name, pieces in self._texts.items() if pieces or name == "content"}
        message = {**self._native["message"], **texts}
        if self._calls:
            message["tool_calls"] = self._calls
        return {**self._native, "message": message}
