"""The wires of clients."""

from collections.abc import Mapping
from dataclasses import replace

from dragoman_gateway.wires.contract import ClientTokens, HeaderRules, Wire

MESSAGES = Wire(
    name="messages",
    provider="anthropic",
    path="/v1/messages",
    ping=b'event: ping\ndata: {"type": "ping"}\n\n',
    request_id_header=b"request-id",
    headers=HeaderRules.of("messages"),
    tokens=ClientTokens.of("messages"),
    stores_state=True,
    error_types={413: "request_too_large"},
    announces_tokens=True,
    signs_thinking=True,
    server_state={"thread": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}},
)
"""Anthropic's Messages."""

CHAT = Wire(
    name="chat",
    provider="openai-chat",
    path="/v1/chat/completions",
    ping=b": keep-alive\n\n",
    asks_for_usage=True,
    request_id_header=b"x-request-id",
    headers=HeaderRules.of("chat"),
    tokens=ClientTokens.of("chat"),
    stores_state=True,
    renames_fields=True,
)
"""OpenAI's Chat Completions."""

RESPONSES = Wire(
    name="responses",
    provider="openai",
    path="/v1/responses",
    ping=b": keep-alive\n\n",
    request_id_header=b"x-request-id",
    headers=HeaderRules.of("responses"),
    tokens=ClientTokens.of("responses"),
    server_state={"conversation": {}},
)
"""OpenAI's Responses."""

GOOGLE = Wire(
    name="google",
    provider="google",
    path="/v1beta/models/{model}:generateContent",
    ping=b"\r\n\r\n",  # the official client for Python takes a comment for a broken reply
    first_ping=b"\r\n\r\n",
    request_id_header=b"x-request-id",
    headers=HeaderRules.of("google"),
    tokens=ClientTokens.of("google"),
)
"""Google's generateContent: as server-sent events, and as one JSON array."""

GOOGLE_ARRAY = replace(GOOGLE, media_type=b"application/json")
"""A stream without ``alt=sse``. White space is allowed between the elements of an array."""

OLLAMA = Wire(
    name="ollama",
    provider="ollama",
    path="/api/chat",
    ping=b" ",  # clients read whole lines: a blank may precede an object, and an empty line is ignored
    first_ping=b" ",
    media_type=b"application/x-ndjson",
    event_ends=(b"\n",),
    request_id_header=b"x-request-id",
    untyped_bodies=True,
    headers=HeaderRules.of("ollama"),
    tokens=ClientTokens.of("ollama"),
    stores_state=True,
)
"""Ollama's chat: a JSON object a line."""

WIRES = (MESSAGES, CHAT, RESPONSES)
ALL_WIRES = (*WIRES, GOOGLE, OLLAMA)
"""All wires, including those whose addresses have more than one purpose."""


def wire_of(headers: Mapping[str, str], default: str = "chat") -> Wire:
    """Return the wire of a request whose address does not show it: clients of Messages send a version, those of Google
    a key in a header of its own."""
    if "x-goog-api-key" in headers:
        return GOOGLE
    name = "messages" if "anthropic-version" in headers else default
    return next(wire for wire in WIRES if wire.name == name)


def wire_of_path(path: str, headers: Mapping[str, str]) -> Wire:
    """Return the wire of a request by its address, else by its headers."""
    if path.startswith("/api/"):
        return OLLAMA
    if "/models/" in path and ":" in path:
        return GOOGLE
    return next((wire for wire in WIRES if path.startswith(wire.path)), None) or wire_of(headers)


__all__ = [
    "ALL_WIRES", "CHAT", "GOOGLE", "GOOGLE_ARRAY", "MESSAGES", "OLLAMA", "RESPONSES", "WIRES", "Wire", "wire_of",
    "wire_of_path",
]  # fmt: skip
