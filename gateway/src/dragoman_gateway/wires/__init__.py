"""The wires that clients speak, one file each, with the same names for the same jobs."""

from dragoman_gateway.wires import chat, messages, responses
from dragoman_gateway.wires.contract import Wire

WIRES = (messages.WIRE, chat.WIRE, responses.WIRE)

__all__ = ["WIRES", "Wire"]
