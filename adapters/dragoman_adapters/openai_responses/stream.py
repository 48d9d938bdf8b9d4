"""Decodes the stream of the Responses API (docs/reference/wires/openai-responses.md).

The terminal events are response.completed, response.incomplete and response.failed. Some dialects leave out indexes,
event names or items of the final object, or add a ``[DONE]``. Then an event belongs to the item of its id, or to the
latest open item.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.package_data import read_toml
from dragoman.adapter.replies.accumulating_decoder import AccumulatingDecoder
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.framing import STRING, Frame, TextFrame
from dragoman.canonical.events import (
    MessageComplete,
    MessageStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseEnd,
    ToolUseInputDelta,
    ToolUseStart,
    UsageUpdate,
)
from dragoman_adapters.openai_responses import decode, encode, errors
from dragoman_adapters.openai_responses.client_tools import canonical_name
from dragoman_adapters.openai_responses.decode_messages import call_reference, item_kind, join_thinking
from dragoman_adapters.openai_responses.native_calls import declared_name, read_input

BlockEvent = TextDelta | ThinkingDelta | ToolUseStart | ToolUseInputDelta | ToolUseEnd

_TEXT_PARTS = {"content": "output_text", "summary": "summary_text"}
_MAX_PARTS = 1024
"""More parts than any item has: a wrong index must not fill the memory."""


def item_name(native: Mapping[str, Any]) -> str | None:
    """Return the id of an item, or of its call if a dialect sends no other."""
    name = native.get("id") or native.get("call_id")
    return name if isinstance(name, str) else None


class ItemAccumulator:
    """An item's object, the fragments of its deltas, and the events that wait for their turn.

    A fragment belongs to a field and a position in it: ``("content", 1)`` is the second part of a message,
    ``("arguments", 0)`` a call's arguments. ``first_block`` is the index of the item's first block in the message.
    """

    __slots__ = ("call", "closed", "first_block", "fragments", "native", "position", "queue", "shown_field")

    def __init__(self, native: dict[str, Any], position: int, first_block: int) -> None:
        self.native = dict(native)
        self.position = position
        self.first_block = first_block
        self.call = ""
        self.closed = False
        self.shown_field: str | None = None
        """The field of a reasoning item that is emitted: the first one with a delta."""
        self.fragments: dict[tuple[str, int], list[str]] = {}
        self.queue: list[BlockEvent] = []

    @property
    def kind(self) -> str:
        return item_kind(self.native)

    @property
    def blocks_later(self) -> bool:
        """Whether later items wait for this one: a call ends before the next item begins."""
        return not self.closed and self.kind == "function_call"

    @property
    def blocks(self) -> int:
        """The number of blocks that the item becomes, as far as is known."""
        return max(1, len(self.native.get("content") or ())) if self.kind == "message" else 1

    def add(self, field: str, position: int, text: str) -> None:
        """Add a fragment. Fragments are joined at the end: appending to a string would copy it for every delta."""
        if not isinstance(text, str):
            raise TypeError(f"a delta of an item's {field} is not text")
        if self.closed:
            raise ValueError(f"an item's {field} continues after the item's end")
        self.fragments.setdefault((field, position), []).append(text)

    def part(self, field: str, position: int, native: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the part at a position of ``content`` or ``summary``; missing parts are created."""
        if not 0 <= position < _MAX_PARTS:
            raise ValueError(f"part {position} of an item's {field}")
        if not isinstance(self.native.get(field), list):
            self.native[field] = []
        found: list[dict[str, Any]] = self.native[field]
        text_part = "reasoning_text" if self.kind == "reasoning" and field == "content" else _TEXT_PARTS[field]
        while len(found) <= position:
            found.append({"type": text_part, "text": ""})
        if native is not None:
            found[position] = dict(native)
        return found[position]

    def sent_texts(self) -> list[str]:
        """Return the text of each block of the item that its deltas sent."""
        if self.kind == "message":
            return ["".join(self.fragments.get(("content", index), ())) for index in range(self.blocks)]
        if self.kind == "reasoning":
            texts = ["".join(pieces) for (field, _), pieces in self.fragments.items() if field == self.shown_field]
            return [encode.SEPARATOR.join(texts)]
        return ["".join(self.fragments.get(("arguments", 0), ()))]

    def close(self, native: dict[str, Any]) -> list[str]:
        """Store the finished object. Returns the text of each block that its deltas did not send."""
        texts = self.sent_texts()
        self.native, self.closed = dict(native), True
        self.fragments.clear()
        return [
            full[len(sent) :] if full.startswith(sent) else ""
            for full, sent in zip(_iter_texts(native), [*texts, *[""] * self.blocks], strict=False)
        ]

    def to_native(self, *, cut: bool = False) -> dict[str, Any]:
        """Return the item's object so far. With ``cut``, a call is incomplete if it is open or its events still wait.

        Encrypted reasoning of an open item is left out: it may be incomplete.
        """
        native = dict(self.native)
        if not self.closed and self.kind == "reasoning":
            native.pop("encrypted_content", None)
        for (field, position), pieces in self.fragments.items():
            joined = "".join(pieces)
            if field in _TEXT_PARTS:
                parts = list(native[field])
                key = "refusal" if parts[position].get("type") == "refusal" else "text"
                parts[position] = {**parts[position], key: joined}
                native[field] = parts
            else:
                native[field] = joined
        if cut and self.kind == "function_call" and not (self.closed and not self.queue):
            native["status"] = "incomplete"
        return native


def _iter_texts(native: dict[str, Any]) -> Iterator[str]:
    """Yield the text of each block that an item becomes; empty for blocks without text."""
    match item_kind(native):
        case "message":
            for part in native.get("content") or ():
                text = part.get("text", part.get("refusal"))
                yield text if isinstance(text, str) else ""
        case "reasoning":
            yield join_thinking(native)
        case "function_call":
            yield native["arguments"]
        case _:
            yield ""


_EVENTS = read_toml("dragoman_adapters.openai_responses", "events.toml")
_PROGRESS = tuple(_EVENTS["progress"])

_TEXT_FRAME = TextFrame(
    before=rb'(?:event: response\.output_text\.delta\n)?data: ?\{"type": ?"response\.output_text\.delta", ?'
    rb'(?:"sequence_number": ?\d++, ?)?',
    key=rb'"item_id": ?%b, ?"output_index": ?\d++, ?"content_index": ?\d++' % STRING,
    between=rb', ?"delta": ?',
    after=rb'(?:, ?"(?:logprobs": ?\[\]|sequence_number": ?\d++|obfuscation": ?%b))*\}\n\n' % STRING,
)


class ResponsesStreamDecoder(AccumulatingDecoder):
    """Accumulates the response object of the stream and emits an event for each change."""

    text_frame = _TEXT_FRAME
    decode_message = staticmethod(decode.decode_message)

    def __init__(self, provider: str, context: RequestContext) -> None:
        super().__init__(provider, context)
        self._items: list[ItemAccumulator] = []
        self._by_index: dict[int, ItemAccumulator] = {}
        self._by_id: dict[str, ItemAccumulator] = {}
        self._front_position = 0
        self._block = 0
        self._calls = 0

    def read(self, frame: Frame) -> Iterable[StreamEvent]:  # noqa: C901, PLR0912  # one case for each event
        if frame.data.strip() == b"[DONE]":
            return ()
        data = wirejson.loads_object(frame.data, what="a stream event")
        match data.get("type") or frame.event:
            case "response.output_text.delta" | "response.refusal.delta" as name:
                return self._text(self._item(data, "message"), data, refusal=name == "response.refusal.delta")
            case "response.function_call_arguments.delta":
                item, text = self._item(data, "function_call"), data["delta"]
                item.add("arguments", 0, text)
                if not item.call or not text:
                    return ()
                return self._emit(item, ToolUseInputDelta(self._reply.message_id, item.first_block, item.call, text))
            case "response.reasoning_summary_text.delta":
                position = data.get("summary_index") or 0
                return self._thinking(self._item(data, "reasoning"), "summary", position, data["delta"])
            case "response.reasoning_text.delta":
                position = data.get("content_index") or 0
                return self._thinking(self._item(data, "reasoning"), "content", position, data["delta"])
            case "response.output_item.added":
                return self._add_item(data["item"], data.get("output_index"))
            case "response.output_item.done":
                return self._done(data["item"], data.get("output_index"))
            case "response.content_part.added":
                self._item(data, "message").part("content", data.get("content_index") or 0, data["part"])
                return ()
            case "response.output_text.annotation.added":
                part = self._item(data, "message").part("content", data.get("content_index") or 0)
                part["annotations"] = [*(part.get("annotations") or ()), data["annotation"]]
                return ()
            case "response.created" | "response.queued" | "response.in_progress":
                return self._begin(data["response"])
            case "response.completed" | "response.incomplete":
                return self._complete(data["response"])
            case "response.failed":
                if self._native:
                    self._native |= data["response"]
                failed = errors.find_embedded_error({**data["response"], "status": "failed"}) or {}
                raise errors.decode_error(failed, ErrorContext(self.provider, self._model))
            case "keepalive":
                return self.skip_keep_alive()
            case name if name == "error" or ("type" not in data and data.get("error")):
                raise errors.decode_error(data, ErrorContext(self.provider, self._model))
            case str() as name if name in _EVENTS["deltas"]:
                self._item(data).add(_EVENTS["deltas"][name], 0, data["delta"])
                return ()
            case str() as name if name in _EVENTS["repeated"] or name.startswith(_PROGRESS):
                return ()
            case name:
                return self.skip_unknown(str(name))

    def accumulated_reply(self) -> dict[str, Any]:
        return {**self._native, "output": [item.to_native(cut=True) for item in self._items]}

    def _begin(self, native: dict[str, Any]) -> Iterator[StreamEvent]:
        is_first = not self._native
        self._native |= {"output": (), **native}
        if is_first:
            yield MessageStart(self._reply.message_id, native.get("model") or self._model)

    def _item(self, data: dict[str, Any], kind: str = "") -> ItemAccumulator:
        """Return the item of an event: by its index, by its id, or the latest open one of a kind."""
        item = self._by_index.get(data.get("output_index", -1)) or self._by_id.get(data.get("item_id") or "")
        if item is None:
            item = next((item for item in reversed(self._items) if not item.closed and kind in ("", item.kind)), None)
        if item is None:
            raise ValueError(f"{data.get('type')} belongs to no item")
        return item

    def _find_item(self, native: dict[str, Any], index: int | None) -> ItemAccumulator | None:
        """Return the item of a finished object: by its index, by its id, or the first open one of its kind."""
        same_kind = [item for item in self._items if item.kind == item_kind(native)]
        if index is not None and (item := self._by_index.get(index)) in same_kind:
            return item
        named = [item for item in same_kind if item_name(item.native) == item_name(native)]
        if index is not None or all(item.closed for item in same_kind):
            return named[-1] if named else None
        return next(item for item in (*named, *same_kind) if not item.closed)

    def _add_item(self, native: dict[str, Any], index: int | None) -> Iterator[StreamEvent]:
        yield from self._begin({})
        last = self._items[-1] if self._items else None
        item = ItemAccumulator(native, len(self._items), last.first_block + last.blocks if last else 0)
        self._items.append(item)
        self._by_index[len(self._by_index) if index is None else index] = item
        if name := item_name(native):
            self._by_id[name] = item
        is_function = item.kind == "function_call"
        if is_function or declared_name(native, self._reply.context.native_calls):
            item.call = self._reply.call_id(self._calls, call_reference(native))
            self._calls += 1
        if is_function:
            start = ToolUseStart(self._reply.message_id, item.first_block, item.call, canonical_name(native))
            yield from self._emit(item, start)

    def _text(self, item: ItemAccumulator, data: dict[str, Any], *, refusal: bool) -> Iterable[StreamEvent]:
        position, text = data.get("content_index") or 0, data["delta"]
        if ("content", position) not in item.fragments:
            part = item.part("content", position)
            if refusal and part.get("type") != "refusal":
                item.part("content", position, {"type": "refusal", "refusal": ""})
        item.add("content", position, text)
        return self._emit(item, TextDelta(self._reply.message_id, item.first_block + position, text))

    def _thinking(self, item: ItemAccumulator, field: str, position: int, text: str) -> Iterable[StreamEvent]:
        """Emit a delta of thinking. The parts of a field become one text. If both fields arrive, only the first one is
        emitted."""
        item.shown_field = item.shown_field or field
        starts = (field, position) not in item.fragments
        if starts:
            item.part(field, position)
        follows = starts and any(named == field for named, _ in item.fragments)
        item.add(field, position, text)
        if field != item.shown_field:
            return ()
        if follows:
            text = encode.SEPARATOR + text
        return self._emit(item, ThinkingDelta(self._reply.message_id, item.first_block, text))

    def _done(self, native: dict[str, Any], index: int | None) -> Iterator[StreamEvent]:
        """Finish an item. An item that no event announced starts here."""
        item = self._find_item(native, index)
        if item is None:
            yield from self._add_item(native, index)
            item = self._items[-1]
        if not item.closed:
            yield from self._close(item, native)

    def _close(self, item: ItemAccumulator, native: dict[str, Any]) -> Iterator[StreamEvent]:
        """Yield what the deltas of a finished item did not send, its signature, and the end of a call."""
        message_id, first = self._reply.message_id, item.first_block
        unsent = item.close(native)
        match item.kind:
            case "message":
                for index, text in enumerate(unsent):
                    if text:
                        yield from self._emit(item, TextDelta(message_id, first + index, text))
            case "reasoning":
                signature = native.get("encrypted_content") or None
                if unsent[0] or signature:
                    yield from self._emit(item, ThinkingDelta(message_id, first, unsent[0], signature))
            case "function_call":
                if unsent[0]:
                    yield from self._emit(item, ToolUseInputDelta(message_id, first, item.call, unsent[0]))
                arguments, malformed = wirejson.parse_arguments(native["arguments"])
                if malformed is None and native.get("status") != "incomplete":
                    yield from self._emit(item, ToolUseEnd(message_id, first, item.call, arguments))
            case _ if item.call and (name := declared_name(native, self._reply.context.native_calls)):
                arguments = read_input(native)
                text = wirejson.dumps_text(arguments)
                yield from self._emit(item, ToolUseStart(message_id, first, item.call, name))
                yield from self._emit(item, ToolUseInputDelta(message_id, first, item.call, text))
                yield from self._emit(item, ToolUseEnd(message_id, first, item.call, arguments))
            case _:
                pass
        yield from self._release()

    def _emit(self, item: ItemAccumulator, event: BlockEvent) -> Iterable[StreamEvent]:
        """Emit an event in order: it waits with its item while an earlier call is open."""
        if item.position == self._front_position and not item.queue:
            return (event,) if self._in_order(event) else ()
        item.queue.append(event)
        return self._release()

    def _release(self) -> Iterator[StreamEvent]:
        for item in self._items[self._front_position :]:
            if item.queue:
                self._front_position = item.position
                waiting, item.queue = item.queue, []
                yield from filter(self._in_order, waiting)
            if item.blocks_later:
                return

    def _in_order(self, event: BlockEvent) -> bool:
        """Whether an event's block is not before the last one: indexes never decrease. The message has the rest."""
        if event.content_block_index < self._block:
            return False
        self._block = event.content_block_index
        return True

    def _complete(self, native: dict[str, Any]) -> Iterator[StreamEvent]:
        """Handle the final object. Its items may be missing although they were streamed."""
        yield from self._begin(native)
        output = native.get("output") or [item.to_native() for item in self._items]
        items = []
        for index, ended in enumerate(output):
            yield from self._done(ended, index)
            item = self._find_item(ended, index)
            streamed = item.native.get("encrypted_content") if item is not None else None
            # The final object has another encryption of the signature than the events.
            signed = streamed and ended.get("encrypted_content")
            items.append({**ended, "encrypted_content": streamed} if signed else ended)
        final = {**native, "output": items}
        if (usage := decode.decode_usage(final)) is not None:
            yield UsageUpdate(self._reply.message_id, usage)
        yield MessageComplete(decode.decode_message(final, self._reply))
