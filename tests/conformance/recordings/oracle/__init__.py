"""Readers of recorded replies, one per wire family, written from the reference of the wires and the JSON only.

They use no code of the library or its adapters, so that a mistake is not made twice. Each module has ``reply(body)``
for the JSON of a whole reply and ``stream(text)`` for the text of a streamed one.
"""

from types import ModuleType

from tests.conformance.recordings.oracle import (
    anthropic,
    bedrock,
    chat,
    cohere,
    google,
    interactions,
    ollama,
    responses,
)
from tests.conformance.recordings.oracle.expected import Expected, Failure
from tests.conformance.scope import wire_name
from tests.exchanges import RecordedExchange

FAMILIES: dict[str, ModuleType] = {
    "anthropic": anthropic,
    "openai-responses": responses,
    "openai-chat": chat,
    "ollama": ollama,
    "google": google,
    "google-vertex": google,
    "google-interactions": interactions,
    "cohere": cohere,
    "bedrock": bedrock,
}
"""The reader of each wire."""


def read(exchange: RecordedExchange) -> Expected | Failure:
    """The content of the reply. Raises KeyError and the like if the reference of the wire does not describe it."""
    family = FAMILIES[wire_name(exchange)]
    found: Expected | Failure = (family.stream if exchange.streamed else family.reply)(exchange.response)
    return found
