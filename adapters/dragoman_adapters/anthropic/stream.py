"""Decodes the stream of the Messages API (docs/reference/wires/anthropic.md). The terminal event is message_stop."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import StreamTruncatedError
from dragoman.adapter.replies.accumulating_decoder import AccumulatingDecoder
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.framing import Frame, TextFrame
from dragoman.canonical.events import (
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseEnd,
    ToolUseInputDelta,
    ToolUseStart,
    UsageUpdate,
)
from dragoman_adapters.anthropic import decode, errors

_EMPTY_BLOCKS: dict[str, dict[str, Any]] = {
    "tool_use": {"input": {}},
    "text": {"text": ""},
    "thinking": {"thinking": ""},
}
_TEXT_FRAME = TextFrame(
    before=rb'event: content_block_delta\ndata: ?\{"type": ?"content_block_delta", ?"index": ?',
    key=rb'\d++, ?"delta": ?\{"type": ?"(?:text_delta", ?"text|thinking_delta", ?"thinking)',
    between=rb'": ?',
    after=rb" *+\} *+\} *+\n\n",
)


class AnthropicStreamDecoder(AccumulatingDecoder):
    """Accumulates the reply object of the stream and emits an event for each change."""

    text_frame = _TEXT_FRAME
    decode_message = staticmethod(decode.decode_message)

    def __init__(self, provider: str, context: RequestContext) -> None:
        super().__init__(provider, context)
        self._fragments: defaultdict[int, list[str]] = defaultdict(list)
        self._stopped: set[int] = set()

    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        data = wirejson.loads_object(frame.data, what="a stream event")
        match data["type"]:
            case "content_block_delta":
                return self._delta(data["index"], data["delta"])
            case "content_block_start":
                return self._start(data["index"], data["content_block"])
            case "content_block_stop":
                return self._stop(data["index"])
            case "message_start":
                return self._message_start(data["message"])
            case "message_delta":
                return self._message_delta(data)
            case "message_stop":
                return self._message_stop()
            case "error":
                raise errors.decode_error(data, ErrorContext(self.provider, self._model))
            case "ping":
                return self.skip_keep_alive()
            case kind:
                return self.skip_unknown(kind)

    def accumulated_reply(self) -> dict[str, Any]:
        for index, block in enumerate(self._native["content"]):
            if index not in self._stopped:
                self._join_fragments(index, block)
        return self._native

    def _message_start(self, native: dict[str, Any]) -> Iterator[StreamEvent]:
        if native.get("id") and native["id"] == self._native.get("id"):  # some proxies announce it twice
            return
        yield from self.start({**native, "content": list(native.get("content") or ())}, native.get("model"))
        if (usage := decode.decode_usage(native.get("usage"))) is not None:
            yield UsageUpdate(self._reply.message_id, usage)

    def _start(self, index: int, native: dict[str, Any]) -> Iterator[StreamEvent]:
        content = self._native["content"]
        if index != len(content):
            raise ValueError(f"content block {index} starts, but {len(content)} was expected")
        # Fields that deltas append to may be missing while they are empty, as with llama.cpp.
        native = {**_EMPTY_BLOCKS.get(native["type"], {}), **native}
        content.append(native)
        match native["type"]:
            case "tool_use":
                call = decode.call_id(self._reply, index, native)
                yield ToolUseStart(self._reply.message_id, index, call, native["name"])
            case "text" if native["text"]:
                yield TextDelta(self._reply.message_id, index, native["text"])
            case "thinking" if native["thinking"]:
                yield ThinkingDelta(self._reply.message_id, index, native["thinking"])
            case "redacted_thinking":
                yield ThinkingDelta(self._reply.message_id, index, "", redacted=native["data"])
            case _:
                pass

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterable[StreamEvent]:
        block = self._open_block(index)
        match delta["type"]:
            case "text_delta":
                text = delta["text"]
                self._append_fragment(index, text)
                return (TextDelta(self._reply.message_id, index, text),)
            case "input_json_delta":
                fragment = delta["partial_json"]
                self._append_fragment(index, fragment)
                if block["type"] != "tool_use" or not fragment:
                    return ()
                call = self._reply.call_id(index, block.get("id"))
                return (ToolUseInputDelta(self._reply.message_id, index, call, fragment),)
            case "thinking_delta":
                self._append_fragment(index, delta["thinking"])
                return (ThinkingDelta(self._reply.message_id, index, delta["thinking"]),)
            case "signature_delta":
                block["signature"] = delta["signature"]
                return (ThinkingDelta(self._reply.message_id, index, "", delta["signature"]),)
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
                return ()
            case "compaction_delta":
                block |= {key: value for key, value in delta.items() if key != "type"}
                return ()
            case kind:
                return self.skip_unknown(kind)

    def _append_fragment(self, index: int, fragment: str) -> None:
        # Joined once, at the block's end: appending to a string would copy it for every delta.
        if not isinstance(fragment, str):
            raise TypeError(f"a delta of content block {index} is not text")
        self._fragments[index].append(fragment)

    def _stop(self, index: int) -> Iterator[StreamEvent]:
        block = self._open_block(index)
        self._stopped.add(index)
        self._join_fragments(index, block)
        if block["type"] == "tool_use" and "raw_input" not in block:
            call = self._reply.call_id(index, block.get("id"))
            yield ToolUseEnd(self._reply.message_id, index, call, block["input"])

    def _open_block(self, index: int) -> dict[str, Any]:
        """Return the open block of an event. Raises ValueError if the block has ended or not started: events are
        missing or repeated."""
        content: list[dict[str, Any]] = self._native["content"]
        if index in self._stopped or not 0 <= index < len(content):
            raise ValueError(f"content block {index} continues, but is not open")
        return content[index]

    def _join_fragments(self, index: int, block: dict[str, Any]) -> None:
        """Join a block's deltas. Truncated or malformed input stays text, so that no tool runs with it."""
        joined = "".join(self._fragments.pop(index, ()))
        match block["type"]:
            case "text":
                block["text"] += joined
            case "thinking":
                block["thinking"] += joined
            case "tool_use" if index not in self._stopped:
                started_input = wirejson.dumps_text(block["input"]) if block["input"] else ""
                block["input"], block["raw_input"] = {}, block.get("raw_input", started_input) + joined
            case _ if "input" in block and joined:
                block["input"], raw = wirejson.parse_arguments(joined)
                if raw is not None or index not in self._stopped:
                    block["input"], block["raw_input"] = {}, joined
            case _:
                pass

    def _message_delta(self, data: dict[str, Any]) -> Iterator[StreamEvent]:
        if not self._native:
            raise ValueError("a message ends before its start")
        fields = {
            **data["delta"],
            **{key: value for key, value in data.items() if key not in ("type", "delta", "usage")},
        }
        self._native |= {key: value for key, value in fields.items() if value is not None and key != "content"}
        # Counts are cumulative; a field that is not repeated keeps its value from message_start.
        fresh = {key: value for key, value in (data.get("usage") or {}).items() if value is not None}
        self._native["usage"] = {**(self._native.get("usage") or {}), **fresh}
        if (usage := decode.decode_usage(self._native["usage"], self._native["content"])) is not None:
            yield UsageUpdate(self._reply.message_id, usage)

    def _message_stop(self) -> Iterator[StreamEvent]:
        if not self._native.get("stop_reason"):
            raise StreamTruncatedError("the stream ended without its message_delta: the reply is incomplete, ask again")
        return self.complete(None)
