"""The wires of clients, one file each, with the same names for the same purposes."""

from collections.abc import Mapping

from dragoman_gateway.wires import chat, google, messages, ollama, responses
from dragoman_gateway.wires.contract import Wire

WIRES = (messages.WIRE, chat.WIRE, responses.WIRE)
ALL_WIRES = (*WIRES, google.WIRE, ollama.WIRE)
"""All wires, including those whose addresses have more than one purpose."""


def wire_of(headers: Mapping[str, str], default: str = "chat") -> Wire:
    """Return the wire of a request whose address does not show it: clients of Messages send a version, those of Google
    a key in a header of its own."""
    if "x-goog-api-key" in headers:
        return google.WIRE
    name = "messages" if "anthropic-version" in headers else default
    return next(wire for wire in WIRES if wire.name == name)


def wire_of_path(path: str, headers: Mapping[str, str]) -> Wire:
    """Return the wire of a request by its address, else by its headers."""
    if path.startswith("/api/"):
        return ollama.WIRE
    if "/models/" in path and ":" in path:
        return google.WIRE
    return next((wire for wire in WIRES if path.startswith(wire.path)), None) or wire_of(headers)


__all__ = ["ALL_WIRES", "WIRES", "Wire", "wire_of", "wire_of_path"]
