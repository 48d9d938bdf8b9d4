"""The wires of clients."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dragoman_gateway.toml import load_table
from dragoman_gateway.wires.contract import ClientTokens, HeaderRules, Wire


def _wire(name: str, facts: Mapping[str, Any]) -> Wire:
    fields = {field: each.encode() if field in _BYTES else each for field, each in facts.items()}
    if "event_ends" in fields:
        fields["event_ends"] = tuple(map(str.encode, fields["event_ends"]))
    fields["error_types"] = {int(status): kind for status, kind in facts.get("error_types", {}).items()}
    return Wire(name=name, headers=HeaderRules.of(name), tokens=ClientTokens.of(name), **fields)


_BYTES = ("ping", "first_ping", "media_type", "request_id_header")

ALL_WIRES = tuple(_wire(name, facts) for name, facts in load_table("wires/wires.toml").items())
"""All wires, including those whose addresses have more than one purpose."""
MESSAGES, CHAT, RESPONSES, GOOGLE, OLLAMA = ALL_WIRES
WIRES = (MESSAGES, CHAT, RESPONSES)
GOOGLE_ARRAY = replace(GOOGLE, media_type=b"application/json")
"""A stream without ``alt=sse``. White space is allowed between the elements of an array."""


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
