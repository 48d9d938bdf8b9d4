"""Conversations with language models in cassettes of vcrpy, whatever client they were recorded with.

A request that continues another one of the same cassette is the same conversation, and only the last request and
its reply are kept. Replies include what the provider reported: usage, model, stop reason. Other exchanges
and failed requests are skipped. ``wires.toml`` says which wire an address has.
"""

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic_core import from_json, to_json

from dragoman.adapter.contract import Adapter, RequestContext
from dragoman.adapter.errors import MALFORMED_ERRORS, DragomanError, MalformedReplyError, ProviderError
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import Message, Role
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.cassette_file import RecordedExchange, read_cassette
from dragoman.formats.results import Conversation

_CHAT = re.compile(r"/chat/completions")
_RESPONSES = re.compile(r"/responses")
_UNNAMED = "unnamed"
_STREAMED = ("event-stream", "ndjson", "vnd.amazon.eventstream")
_MAX_REASON = 300
_IGNORED_TYPES = frozenset({"text", "thinking", "redacted_thinking", "provider"})
"""Some clients send thinking and native blocks back and others do not; adjacent texts count as one."""


@dataclass(frozen=True, slots=True)
class Wire:
    """``provider`` is the name of the adapter that reads it; ``model`` is None if the URL does not name it."""

    provider: str
    model: str | None
    streams: bool
    """True if the URL itself requests a stream."""


@dataclass(frozen=True, slots=True)
class _Row:
    host: re.Pattern[str] | None
    path: re.Pattern[str]
    provider: str

    def match(self, host: str, path: str) -> re.Match[str] | None:
        if self.host is not None and self.host.search(host) is None:
            return None
        return self.path.search(path)


def wire_at(url: str) -> Wire | None:
    """Return the wire of a URL. None if the URL is not one for generating, or is unknown.

    An unknown host with an OpenAI wire may be any compatible provider: it counts as OpenAI.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    host, path = parts.netloc.rpartition("@")[2].lower(), parts.path
    streams = "stream" in path.rpartition("/")[2].lower()
    for row in _rows():
        if (found := row.match(host, path)) is not None:
            model = found.groupdict().get("model")
            return Wire(row.provider, unquote(model) if model else None, streams)
    return None


@cache
def _rows() -> tuple[_Row, ...]:
    table = tomllib.loads(files("dragoman.formats.importers").joinpath("wires.toml").read_text(encoding="utf-8"))
    rows = [_row(row.get("host"), re.compile(f"{row['path']}$"), row["provider"]) for row in table["wires"]]
    either = re.compile(f"({_CHAT.pattern}|{_RESPONSES.pattern})$")
    rows += [_row(row["host"], either, row["provider"]) for row in table["hosts"]]
    rows.append(_row(None, re.compile(f"{_CHAT.pattern}$"), "openai-chat"))
    rows.append(_row(None, re.compile(f"{_RESPONSES.pattern}$"), "openai"))
    return tuple(rows)


def _row(host: str | None, path: re.Pattern[str], provider: str) -> _Row:
    return _Row(re.compile(f"({host})(:[0-9]+)?$") if host else None, path, provider)


def from_cassette(document: Any) -> list[Conversation]:
    """Return the conversations of a cassette, given as text or parsed, numbered.

    Raises FormatError, with a path, if it is not a cassette, if it has no known wire, or if a request on a
    known wire cannot be read; and MissingExtraError for YAML without PyYAML.
    """
    conversations = _Conversations()
    recognised = False
    for exchange in read_cassette(document):
        wire = wire_at(exchange.url)
        if exchange.method != "POST" or wire is None:
            continue
        recognised = True
        if exchange.status < 400:
            conversations.add(exchange, wire)
    if not recognised:
        raise FormatError("no exchange of this cassette uses a known API of a language model")
    return [
        Conversation(str(number), state.messages)
        for number, state in enumerate(conversations.ends(), 1)
        if state.messages
    ]


@dataclass(slots=True)
class _State:
    """A conversation up to a reply. ``is_continued``: a later request continues it."""

    messages: list[Message]
    is_continued: bool = False


@dataclass(slots=True)
class _Conversations:
    """All states so far: by the digest of the conversation, and by the provider's id of the reply."""

    states: list[_State] = field(default_factory=list)
    by_digest: dict[bytes, _State] = field(default_factory=dict)
    by_reply: dict[tuple[str, str], _State] = field(default_factory=dict)
    tool_ids: ToolIdMap = field(default_factory=ToolIdMap)

    def ends(self) -> Iterator[_State]:
        return (state for state in self.states if not state.is_continued)

    def add(self, exchange: RecordedExchange, wire: Wire) -> None:
        body = _request(exchange)
        named = wire.model or (body["model"] if isinstance(body.get("model"), str) else None)
        adapter = get_adapter(f"{wire.provider}:{named or _UNNAMED}")
        context = RequestContext(
            model=str(adapter.model_id), tool_ids=self.tool_ids, session_id="", clock=_clock(exchange)
        )
        try:
            request_messages, _, options = adapter.from_wire_request(body, context)
        except DragomanError as error:
            raise FormatError(str(error)[:_MAX_REASON], path=f"{exchange.path}.request.body") from None
        try:
            reply = _reply(exchange, adapter, context, streamed=options.stream or wire.streams)
        except ProviderError:
            return  # some providers send errors with a success status
        before = self.by_reply.get((wire.provider, str(body.get("previous_response_id"))))
        if before is not None:
            before.is_continued = True
            request_messages = [*before.messages, *request_messages]
        else:
            request_messages = self._resume(request_messages)
        state = _State([*request_messages, *([reply] if reply else [])])
        self.states.append(state)
        *_, digest = _digests(state.messages)
        self.by_digest[digest] = state
        if (name := _reply_id(exchange.response)) is not None:
            self.by_reply[wire.provider, name] = state

    def _resume(self, request_messages: list[Message]) -> list[Message]:
        """Return the request's messages, with the known beginning replaced: it has usage, model and
        the same tool ids.
        """
        digests = list(_digests(request_messages))
        for count in range(len(request_messages), 0, -1):
            before = self.by_digest.get(digests[count])
            if before is not None:
                before.is_continued = True
                names = dict(zip(_call_ids(request_messages[:count]), _call_ids(before.messages), strict=True))
                return [*before.messages, *(_rename_results(message, names) for message in request_messages[count:])]
        return request_messages


def _request(exchange: RecordedExchange) -> dict[str, Any]:
    path = f"{exchange.path}.request.body"
    try:
        body = from_json(exchange.request, allow_inf_nan=False)
    except ValueError as error:
        raise FormatError(f"this is not valid JSON: {error!s:.200}", path=path) from None
    if not isinstance(body, dict):
        raise FormatError("the body of a request must be an object", path=path)
    return body


def _reply(exchange: RecordedExchange, adapter: Adapter, context: RequestContext, *, streamed: bool) -> Message | None:
    """Return the reply; for an interrupted stream, the part that arrived. None if there is nothing.

    Raises ProviderError if the reply is an error, and FormatError if it cannot be read.
    """
    kind = exchange.headers.get("content-type", "").lower()
    if not exchange.response.strip():
        return None
    whole = exchange.response.lstrip().startswith(b"{") and "json" in kind and "ndjson" not in kind
    try:
        if any(word in kind for word in _STREAMED) or (streamed and not whole):
            *_, last = adapter.iter_stream([exchange.response], context)
            if isinstance(last, ErrorEvent):
                if isinstance(last.partial, Message) and last.partial.content:
                    return last.partial
                raise last.error
            return last.message if isinstance(last, MessageComplete) else None
        return adapter.from_wire_response(WireResponse(exchange.status, exchange.response, exchange.headers), context)
    except (MalformedReplyError, *MALFORMED_ERRORS) as error:
        raise FormatError(str(error)[:_MAX_REASON], path=f"{exchange.path}.response.body") from None


def _clock(exchange: RecordedExchange) -> Callable[[], datetime]:
    """Return the time when the reply was sent, if the cassette has it."""
    try:
        time = parsedate_to_datetime(exchange.headers["date"])
    except (KeyError, ValueError, TypeError):
        return lambda: datetime.now(UTC)
    return lambda: time if time.tzinfo else time.replace(tzinfo=UTC)


def _reply_id(body: bytes) -> str | None:
    """Return the id by which a later request can refer to a reply of Responses: of a whole one, or
    in the first event.
    """
    text = body.lstrip()
    if not text.startswith(b"{"):
        text = text.partition(b"data:")[2].partition(b"\n")[0]
    try:
        native = from_json(text)
    except ValueError:
        return None
    native = native.get("response", native) if isinstance(native, dict) else None
    name = native.get("id") if isinstance(native, dict) else None
    return name if isinstance(name, str) else None


def _digests(messages: Sequence[Message]) -> Iterator[bytes]:
    """Yield the digest of the conversation before each message, and of all of it.

    Ids do not count, nor does the division into text blocks.
    """
    digest = hashlib.sha256()
    yield digest.digest()
    calls: dict[str, int] = {}
    for message in messages:
        text = "".join(block.text for block in message.content if isinstance(block, TextBlock)).strip()
        if text:
            digest.update(to_json([message.role, text]))
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                calls.setdefault(block.id, len(calls))
                digest.update(to_json(["call", block.name, block.input, block.raw_input], inf_nan_mode="strings"))
            elif isinstance(block, ToolResultBlock):
                content = [part.model_dump(mode="json") for part in block.content]
                digest.update(to_json(["result", calls.get(block.tool_use_id), content]))
            elif block.type not in _IGNORED_TYPES:
                digest.update(to_json([message.role, block.model_dump(mode="json")]))
        yield digest.digest()


def _call_ids(messages: Iterable[Message]) -> list[str]:
    return [tool_call.id for message in messages for tool_call in message.tool_uses]


def _rename_results(message: Message, names: dict[str, str]) -> Message:
    """Return the message with its results under the ids of the known calls."""
    if message.role is not Role.TOOL or not any(block.tool_use_id in names for block in message.tool_results):
        return message
    content = [
        block.model_copy(update={"tool_use_id": names.get(block.tool_use_id, block.tool_use_id)})
        if isinstance(block, ToolResultBlock)
        else block
        for block in message.content
    ]
    parent = message.metadata.parent_tool_use_id
    metadata = message.metadata.model_copy(update={"parent_tool_use_id": names.get(parent or "", parent)})
    return message.model_copy(update={"content": content, "metadata": metadata})
