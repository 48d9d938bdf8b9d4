"""Conversations with language models in cassettes of vcrpy, whatever client they were recorded with.

A request that continues another one of the same cassette is the same conversation, and only the last request and
its reply are kept. Replies include what the provider reported: usage, model, stop reason. Other exchanges
and failed requests are skipped. ``wires.toml`` says which wire an address has.

Reads cassettes of vcrpy: YAML or JSON, with bodies as text, bytes, base64 or JSON, compressed or not.

Those of Ruby's VCR have the same structure under another name. The YAML is read as data only: no tag creates an object.
"""

import base64
import binascii
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic_core import from_json, to_json

from dragoman.adapter.contract import Adapter, RequestContext
from dragoman.adapter.errors import (
    MALFORMED_ERRORS,
    DragomanError,
    MalformedReplyError,
    MissingExtraError,
    ProviderError,
)
from dragoman.adapter.package_data import read_toml
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.guard import MAX_BODY_BYTES, MAX_DOCUMENT_DEPTH
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import copy_json_at, decode_text, dig, kind_of, parse, read_document, text_in
from dragoman.formats.errors import FormatError
from dragoman.formats.results import Conversation

FORMAT = "vcr"
_MOST_NODES = 100_000
_MOST_REPEATED = 20
"""How many times larger a cassette may become by its aliases: recorders repeat headers by alias."""

_LISTS = ("interactions", "http_interactions")


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """``path`` leads to the exchange in the cassette. Header names are in lower case."""

    path: str
    method: str
    url: str
    request: bytes
    status: int
    headers: Mapping[str, str]
    response: bytes


def read_cassette(document: Any) -> Iterator[RecordedExchange]:
    """Yield the exchanges of a cassette, given as text or parsed. Raises FormatError, with a path."""
    cassette = document
    if isinstance(document, (str, bytes, bytearray)):
        text = decode_text(document)
        cassette = parse(text, format_name=FORMAT) if text.lstrip()[:1] in ("{", "[", "") else _yaml(text)
    if not isinstance(cassette, Mapping):
        raise FormatError(f"a cassette must be an object, not {kind_of(cassette)}")
    name = next((each for each in _LISTS if each in cassette), None)
    if name is None:
        raise FormatError("a cassette must have interactions")
    interactions = cassette[name]
    if not isinstance(interactions, list):
        raise FormatError(f"the interactions must be a list, not {kind_of(interactions)}", path=f"$.{name}")
    for index, item in enumerate(interactions):
        yield _exchange(item, f"$.{name}[{index}]")


def _yaml(text: str) -> Any:
    """Load the YAML. The depth is checked first, because the loader in C crashes on deep documents."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtraError("cassettes in YAML need PyYAML: pip install 'dragoman[cli]'") from None
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DOCUMENT_DEPTH:
                raise FormatError(f"the cassette is nested more than {MAX_DOCUMENT_DEPTH} levels deep")
        data = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"this is not valid YAML: {' '.join(str(error).split())[:200]}") from None
    sizes: dict[int, int] = {}
    if _count_nodes(data, sizes, 0) > max(_MOST_NODES, _MOST_REPEATED * len(sizes)):
        raise FormatError("the aliases of the cassette expand to too much data")
    return data


def _count_nodes(node: Any, sizes: dict[int, int], depth: int) -> int:
    """Return the number of values below a node, with repeated ones counted each time.

    ``sizes`` has the known counts, and 0 for a node in progress. Raises FormatError if a node contains itself.
    """
    if not isinstance(node, (dict, list)):
        return 1
    known = sizes.get(id(node))
    if known == 0 or depth > MAX_DOCUMENT_DEPTH:
        raise FormatError(f"the cassette contains itself, or is nested more than {MAX_DOCUMENT_DEPTH} levels deep")
    if known is None:
        sizes[id(node)] = 0
        inner = node.values() if isinstance(node, dict) else node
        known = sizes[id(node)] = 1 + sum(_count_nodes(each, sizes, depth + 1) for each in inner)
    return known


def _exchange(item: Any, path: str) -> RecordedExchange:
    request, response = (_object(item, name, path) for name in ("request", "response"))
    method, url = request.get("method"), request.get("uri")
    if not isinstance(method, str) or not isinstance(url, str):
        raise FormatError("a request must have a method and a uri", path=f"{path}.request")
    status = response.get("status", response.get("status_code"))
    if isinstance(status, Mapping):
        status = status.get("code")
    if not isinstance(status, int) or isinstance(status, bool):
        raise FormatError("a response must have a status, which is a number", path=f"{path}.response.status")
    headers = _headers(response.get("headers"))
    body = _body(response, "content" if "content" in response else "body", f"{path}.response")
    return RecordedExchange(
        path,
        method.upper(),
        url,
        _decompress(_body(request, "body", f"{path}.request"), _headers(request.get("headers"))),
        status,
        headers,
        _decompress(body, headers),
    )


def _object(item: Any, name: str, path: str) -> Mapping[str, Any]:
    found = item.get(name) if isinstance(item, Mapping) else None
    if not isinstance(found, Mapping):
        raise FormatError(f"an interaction must have a {name}, which is an object", path=f"{path}.{name}")
    return found


def _headers(native: Any) -> dict[str, str]:
    """Return the first value of each header."""
    headers: dict[str, str] = {}
    for name, value in native.items() if isinstance(native, Mapping) else ():
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(name, str) and isinstance(first, (str, bytes)):
            headers[name.lower()] = first if isinstance(first, str) else first.decode("latin-1")
    return headers


def _body(native: Mapping[str, Any], name: str, path: str) -> bytes:
    if native.get("parsed_body") is not None:
        return to_json(copy_json_at(native["parsed_body"], f"{path}.parsed_body"))
    value = native.get(name)
    if isinstance(value, Mapping):
        name, value = next(
            ((f"{name}.{key}", value[key]) for key in ("base64_string", "string") if key in value), (name, value)
        )
    try:
        match value:
            case None:
                return b""
            case bytes():
                return value
            case str():
                return base64.b64decode(value) if name.endswith("base64_string") else value.encode()
            case list() | dict():
                return to_json(copy_json_at(value, f"{path}.{name}"))
    except (binascii.Error, UnicodeEncodeError) as error:
        raise FormatError(f"the body cannot be read: {error!s:.100}", path=f"{path}.{name}") from None
    raise FormatError(f"a body must be a text, not {kind_of(value)}", path=f"{path}.{name}")


def _decompress(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Decompress the body. Recorders that decompress it keep the header, so a plain body is returned unchanged."""
    try:
        match headers.get("content-encoding", "").lower():
            case "gzip" if body[:2] == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=io.BytesIO(body)) as packed:
                    return packed.read(MAX_BODY_BYTES + 1)
            case "deflate" if body[:1] == b"\x78":
                return zlib.decompressobj().decompress(body, MAX_BODY_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        pass
    return body


_CHAT, _RESPONSES = "/chat/completions", "/responses"
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
    for known_host, known_path, provider in _rows():
        if known_host.search(host) is not None and (found := known_path.search(path)) is not None:
            model = found.groupdict().get("model")
            return Wire(provider, unquote(model) if model else None, streams)
    return None


@cache
def _rows() -> list[tuple[re.Pattern[str], re.Pattern[str], str]]:
    """Return patterns of a host and of a path, and the provider, in the order in which they are tried."""
    table = read_toml("dragoman.formats.importers", "wires.toml")
    rows = [(row.get("host"), row["path"], row["provider"]) for row in table["wires"]]
    rows += [(row["host"], f"({_CHAT}|{_RESPONSES})", row["provider"]) for row in table["hosts"]]
    rows += [(None, _CHAT, "openai-chat"), (None, _RESPONSES, "openai")]
    return [
        (re.compile(f"({host})(:[0-9]+)?$" if host else ""), re.compile(f"{path}$"), provider)
        for host, path, provider in rows
    ]


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
    ends = [state.messages for state in conversations.states if not state.is_continued]
    return [Conversation(str(number), messages) for number, messages in enumerate(ends, 1) if messages]


def from_cassette_file(path: Path) -> list[Conversation]:
    """Return the conversations of the file of a cassette."""
    return from_cassette(read_document(path))


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

    def add(self, exchange: RecordedExchange, wire: Wire) -> None:
        body = _request(exchange)
        named = wire.model or text_in(body.get("model"))
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
    return text_in(dig(native, "id") if dig(native, "response") is None else dig(native, "response", "id"))


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
