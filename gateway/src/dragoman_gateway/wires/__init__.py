"""The wires that clients speak, one file each, with the same names for the same jobs."""

from collections.abc import Mapping

from dragoman_gateway.wires import chat, messages, responses
from dragoman_gateway.wires.contract import Wire

WIRES = (messages.WIRE, chat.WIRE, responses.WIRE)


def wire_of(headers: Mapping[str, str], default: str = "chat") -> Wire:
    """Return the wire of a request whose address does not tell: clients of Messages send a version."""
    name = "messages" if "anthropic-version" in headers else default
    return next(wire for wire in WIRES if wire.name == name)


__all__ = ["WIRES", "Wire", "wire_of"]
