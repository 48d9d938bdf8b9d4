"""Readers of recorded replies, one a wire family, written from the wire reference and the JSON alone.

They use nothing of the library and none of its adapters, so that a mistake is not made twice. Each module has
``reply(body)`` for the JSON of a whole reply and ``stream(text)`` for the text of a streamed one.
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
    """What the reply says. Raises KeyError and the like where it is none that the wire reference describes."""
    family = FAMILIES[wire_name(exchange)]
    found: Expected | Failure = (family.stream if exchange.streamed else family.reply)(exchange.response)
    return found
