"""Stores a response on its way to the client: it can be continued before the client has its last byte.

Only content that a policy has judged is stored: a word that a plugin removes is in no database.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from starlette import types

from dragoman import Message
from dragoman.blocks import TextBlock
from dragoman.policy import Extensions, Hook, Pipeline, PolicyDeniedError
from dragoman.policy.extensions import LLMExtension
from dragoman_gateway.log import logger
from dragoman_gateway.stored.records import StoredResponse, is_id
from dragoman_gateway.stored.response_store import ResponseStore
from dragoman_gateway.stored.turn import StoredTurn
from dragoman_gateway.turn.policy import is_word
from dragoman_gateway.turn.replies import WholeFrames, split_events
from dragoman_gateway.wires import RESPONSES

_LONGEST_WORD = 2_000
"""Characters. A longer text without any space is data, such as a picture."""


async def judge_stored(stored: StoredResponse, policy: Pipeline, extensions: Extensions, model: str) -> StoredResponse:
    """Return the response as it may be stored: with its texts as the plugins leave them, as the input of a model. Parts
    that a policy has judged before stay as they are. ``extensions`` are those of the request, and ``model`` is the one
    that was asked for it.

    Raises PolicyDeniedError."""
    value: dict[str, Any] = {"input": list(stored.input), "response": stored.response}
    texts = list(dict.fromkeys(text for text in _texts(value) if text.strip()))
    if not texts or not policy.has_plugins(Hook.LLM_INPUT):
        return stored
    message = Message.user([TextBlock(text=text) for text in texts])
    extensions = extensions.model_copy(update={"llm": LLMExtension(model_id=model)})
    found = (await policy.run_async(Hook.LLM_INPUT, message, extensions)).message.content
    blocks = [block for block in found if isinstance(block, TextBlock)]
    if len(blocks) != len(texts) or len(found) != len(texts):
        raise PolicyDeniedError(Hook.LLM_INPUT, "the gateway", "cannot_change", "a plugin took a part out")
    changed = {text: block.text for text, block in zip(texts, blocks, strict=True) if block.text != text}
    judged = _replaced(value, changed) if changed else value
    return replace(stored, input=judged["input"], response=judged["response"])


def _texts(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, str):
        is_data = len(value) > _LONGEST_WORD and not any(letter.isspace() for letter in value)
        if not (is_data or is_word(name, value)):
            yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(each, key)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each, name)


def _replaced(value: Any, changed: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return changed.get(value, value)
    if isinstance(value, Mapping):
        return {key: _replaced(each, changed) for key, each in value.items()}
    return [_replaced(each, changed) for each in value] if isinstance(value, (list, tuple)) else value


ENDS = ("response.completed", "response.incomplete", "response.failed")
"""The events that end a stream, with the whole response."""


@dataclass(frozen=True, slots=True)
class ResponseEvent:
    """``data`` is the JSON object of the event."""

    data: dict[str, Any]

    @property
    def type(self) -> str:
        return str(self.data.get("type"))

    @property
    def number(self) -> int:
        number = self.data.get("sequence_number")
        return number if isinstance(number, int) else 0

    @property
    def response(self) -> dict[str, Any] | None:
        response = self.data.get("response")
        return response if isinstance(response, dict) else None

    def with_response(self, fields: Mapping[str, Any]) -> "ResponseEvent":
        """Return the event with some fields of its response replaced."""
        return ResponseEvent({**self.data, "response": {**(self.response or {}), **fields}})

    def encode(self) -> bytes:
        return f"event: {self.type}\ndata: {json.dumps(self.data, separators=(',', ':'))}\n\n".encode()


def read_event(frame: bytes) -> ResponseEvent | None:
    """Return the event of a frame; None for a comment, and for data that is not a JSON object."""
    lines = [line[5:].removeprefix(b" ") for line in frame.splitlines() if line.startswith(b"data:")]
    data = b"\n".join(lines)
    if not data:
        return None
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return ResponseEvent(value) if isinstance(value, dict) else None


_WITH_RESPONSE = b'"response"'
"""Only a few frames of a stream contain it; the others pass without being parsed."""

_DEFAULTS = {"previous_response_id": None, "store": True, "background": False}
"""The values of these fields in a response that lacks them."""


@dataclass(eq=False)
class Recorder:
    """Passes the answer to a request on to the client. Bytes stay unchanged, unless the response has to repeat what
    only the gateway knows. ``judge`` returns what is stored of a response, or raises PolicyDeniedError.
    """

    send: types.Send
    turn: StoredTurn
    store: ResponseStore
    judge: Callable[[StoredResponse], Awaitable[StoredResponse]] | None = None
    _start: types.Message | None = field(default=None, init=False)
    _streams: bool = field(default=False, init=False)
    _succeeded: bool = field(default=False, init=False)
    _frames: WholeFrames = field(default_factory=lambda: WholeFrames(RESPONSES.event_ends), init=False)
    _body: list[bytes] = field(default_factory=list, init=False)

    async def __call__(self, message: types.Message) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            self._succeeded = message["status"] == 200
            self._streams = headers.get(b"content-type", b"").startswith(b"text/event-stream")
            if self._succeeded and not self._streams:
                self._start = message  # the length of the body may change
            else:
                await self.send(message)
        elif not self._succeeded or message["type"] != "http.response.body":
            await self.send(message)
        elif self._streams:
            await self._pass_stream(message)
        else:
            await self._pass_whole(message)

    async def _pass_stream(self, message: types.Message) -> None:
        more = message.get("more_body", False)
        passed = []
        for frame in split_events(self._frames.feed(message.get("body", b""))):
            event = read_event(frame) if _WITH_RESPONSE in frame else None
            if event is not None and event.response is not None:
                response, changes = event.response, self._changes(event.response)
                if event.type in ENDS:
                    await self._save({**response, **changes})
                frame = event.with_response(changes).encode() if changes else frame
            passed.append(frame)
        if not more:
            passed.append(self._frames.finish())
        if passed or not more:
            await self.send({**message, "body": b"".join(passed)})

    async def _pass_whole(self, message: types.Message) -> None:
        self._body.append(message.get("body", b""))
        if message.get("more_body", False):
            return
        body = b"".join(self._body)
        try:
            response = json.loads(body)
        except ValueError:
            response = None
        if isinstance(response, dict) and response.get("object") == "response":
            if changes := self._changes(response):
                response |= changes
                body = json.dumps(response).encode()
            await self._save(response)
        start, self._start = self._start, None
        assert start is not None
        headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
        await self.send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        await self.send({**message, "body": body})

    def _changes(self, response: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of the response that differ from what the gateway knows."""
        return {name: value for name, value in self.turn.echo.items() if response.get(name, _DEFAULTS[name]) != value}

    async def _save(self, response: dict[str, Any]) -> None:
        if not (self.turn.store and is_id(response.get("id"))):
            return
        stored = self.turn.to_stored(response)
        try:
            await self.store.save(stored if self.judge is None else await self.judge(stored))
        except PolicyDeniedError as denial:
            logger.warning("the response %.80s is not stored: %s", stored.id, denial.code)
