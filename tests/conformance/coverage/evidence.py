"""Compares what an SDK sends with what Dragoman sends, value by value and place by place."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from dragoman import Message, RequestContext, get_adapter
from dragoman.blocks import ProviderBlock
from dragoman.errors import DragomanError
from dragoman.server_tools import ProviderTool
from tests.conformance.coverage.loopback import Loopback, Sent
from tests.conformance.coverage.sdks import MODEL, Group, Sdk
from tests.conformance.coverage.shapes import MISSING, at, leaves
from tests.conformance.coverage.typed import MODELS, encode, typed_requests

Way = Literal["typed", "extra", "absent"]
Encode = Callable[..., Any]


class NotSentError(AssertionError):
    """The SDK does not send this, so nothing can be compared with it."""


@dataclass(frozen=True, slots=True)
class Table:
    """The way of each name, by group."""

    rows: Mapping[Group | Literal["header"], Mapping[str, Way]] = field(default_factory=dict)

    def way(self, group: Any, name: str) -> Way:
        """Return the way of a name. Raises NotSentError if the SDK sends nothing of the name."""
        if name not in self.rows.get(group, {}):
            raise NotSentError(f"the SDK sends no {group} named {name}")
        return self.rows[group][name]

    def names(self, way: Way) -> set[str]:
        return {
            f"{group} {name}" for group, names in self.rows.items() for name, found in names.items() if found == way
        }

    def count(self, way: Way) -> int:
        return len(self.names(way))


def compare(sdk: Sdk, server: Loopback, encode: Encode = encode) -> Table:
    """Return the table of one SDK. ``encode`` is Dragoman's side."""
    send = _Sender(sdk, server)
    base = send(dict(sdk.base))
    typed = _typed_values(sdk, send)
    rows: dict[Any, dict[str, Way]] = {"parameter": {}, "header": {}, "part": {}, "tool": {}}
    for group, arguments in sdk.requests():
        for sent in send.all_of(arguments):
            for kind, name, way in _judge(sdk.provider, group, base, sent, encode):
                known = rows[kind].get(name)
                way = "typed" if (name in typed and way != "absent") or (name in typed and kind != "header") else way
                if known is None or _RANK[way] > _RANK[known]:
                    rows[kind][name] = way
    return Table(rows)


_RANK = {"absent": 0, "extra": 1, "typed": 2}


class _Sender:
    """Sends with the SDK, and returns what arrived."""

    def __init__(self, sdk: Sdk, server: Loopback) -> None:
        self._sdk = sdk
        self._server = server
        self._send = sdk.connect(server.url)

    def __call__(self, arguments: dict[str, Any]) -> Sent:
        """Raises NotSentError."""
        before, problem = len(self._server.sent), ""
        try:
            self._send(**arguments)
        except Exception as error:  # the SDK refused the arguments, or could not read the empty answer
            problem = f"{type(error).__name__}: {error}"
        if len(self._server.sent) == before:
            raise NotSentError(f"the SDK does not send {', '.join(arguments)}: {problem[:300]}")
        return self._server.sent[-1]

    def all_of(self, arguments: dict[str, Any]) -> Iterator[Sent]:
        """Send the arguments; if the SDK refuses an object of them as a whole, send its fields one by one."""
        try:
            yield self({**self._sdk.base, **arguments})
        except NotSentError:
            ((name, value),) = arguments.items()
            fields = value.items() if isinstance(value, Mapping) else ()
            for key, inner in fields:
                with suppress(NotSentError):
                    yield self({**self._sdk.base, name: {key: inner}})


def _typed_values(sdk: Sdk, send: _Sender) -> set[str]:
    """Return the names of what Dragoman writes from its own words: the SDK sends the same value from the same place."""
    found: set[str] = set()
    seen: set[str] = set()
    for body in typed_requests(sdk.provider) if sdk.typed is None else sdk.typed():
        text = json.dumps(body, sort_keys=True)
        if text in seen:
            continue
        seen.add(text)
        arguments = {**sdk.base, **sdk.replay(body)}
        arguments.pop("stream", None)
        with suppress(NotSentError):
            theirs = send(arguments).body
            found |= {name for name, place, value in leaves(body) if at(theirs, place) == value}
    return found


def _judge(provider: str, group: Group, base: Sent, sent: Sent, encode: Encode) -> Iterator[tuple[str, str, Way]]:
    """Yield the group, the name and the way of each value that the SDK sent beyond the smallest request."""
    headers = {
        name: value
        for name, value in sent.headers.items()
        if base.headers.get(name) != value and name not in ("content-length", *_SDK_HEADERS)
    }
    if headers:
        wire = encode(provider, [Message.user("Hi")], [], {"headers": {provider: headers}})
        for name, value in headers.items():
            yield "header", name, "extra" if wire is not None and wire.headers.get(name) == value else "absent"
    fields = _difference(sent.body, base.body)
    if not fields:
        return
    if group == "parameter":
        wire = encode(provider, [Message.user("Hi")], [], {"extra": {provider: fields}})
        body = None if wire is None else json.loads(wire.body)
        for name, place, value in leaves(fields):
            yield "parameter", name, "extra" if at(body, place) == value else "absent"
        return
    read = _by_reading(provider, sent.body)
    for place, native in list(_items(provider, group, sent.body)):
        bodies = [read, *(_by_tool if group == "tool" else _by_block)(provider, native, encode)]
        ours = [each for body in bodies if body is not None for _, each in _items(provider, group, body)]
        for name, inner, value in leaves([native]):
            held = any(at([each], inner) == value for each in ours if _kind(each) == _kind(native))
            yield group, f"{place}{name}", "extra" if held else "absent"


_SDK_HEADERS = ("x-amz-date", "authorization", "amz-sdk-invocation-id", "amz-sdk-request", "x-stainless-retry-count",
                "x-stainless-helper", "idempotency-key", "x-goog-api-key", "host", "x-server-timeout")  # fmt: skip
_PLACES = {
    "google": ("contents", "parts"), "openai": ("input", ""), "google-interactions": ("input", ""),
    "ollama": ("messages", ""),
}  # fmt: skip


def _items(provider: str, group: Group, body: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts or the tools of a body, each with the name of its list."""
    if group == "tool":
        tools = body.get("toolConfig", {}).get("tools", ()) if provider == "bedrock" else body.get("tools", ())
        yield from (("toolConfig.tools" if provider == "bedrock" else "tools", each) for each in tools)
        return
    messages, parts = _PLACES.get(provider, ("messages", "content"))
    listed = body.get(messages, ())
    for each in listed if isinstance(listed, list) else ():
        if parts == "":
            yield messages, each
        inner = each.get(parts or "content")
        for part in inner if isinstance(inner, list) and parts else ():
            yield f"{messages}[].{parts}", part


def _kind(native: Any) -> Any:
    return native.get("type", next(iter(native), None)) if isinstance(native, Mapping) else None


def _by_reading(provider: str, body: Any) -> Any:
    """Return the body after Dragoman read it as a request and wrote it again."""
    try:
        adapter = get_adapter(f"{provider}:{MODELS[provider][0]}")
        context = RequestContext.for_model(f"{provider}:{MODELS[provider][0]}")
        messages, tools, options = adapter.from_wire_request({"model": MODEL, **body}, context)
        return json.loads(adapter.to_wire(messages, tools, options).body)
    except (DragomanError, NotImplementedError):
        return None


def _by_block(provider: str, native: Any, encode: Encode) -> Iterator[Any]:
    kind = str(_kind(native))
    blocks = [ProviderBlock(provider=provider, kind=kind, data=native)]
    for messages in ([Message.user(blocks)], [Message.user("Hi"), Message.assistant(blocks), Message.user("Go on.")]):
        wire = encode(provider, messages)
        yield None if wire is None else json.loads(wire.body)


def _by_tool(provider: str, native: Any, encode: Encode) -> Iterator[Any]:
    wire = encode(provider, [Message.user("Hi")], [ProviderTool(provider, native)])
    yield None if wire is None else json.loads(wire.body)


def _difference(theirs: Any, base: Any) -> dict[str, Any]:
    """Return the fields that the smallest request does not have with the same value."""
    found: dict[str, Any] = {}
    for name, value in theirs.items():
        if isinstance(value, Mapping) and isinstance(base.get(name), Mapping):
            if inner := _difference(value, base[name]):
                found[name] = inner
        elif base.get(name, MISSING) != value:
            found[name] = value
    return found
