"""Which adapters the laws are tried on, and with which streams: recorded ones, and some written by hand."""

import random
import re
from collections.abc import Iterator
from functools import cache
from types import ModuleType

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.registry import get_adapter, providers
from dragoman.canonical.events import MessageComplete
from dragoman.testing.stream_subject import StreamSubject
from tests import exchanges
from tests.laws.streams import (
    handwritten_anthropic,
    handwritten_bedrock,
    handwritten_chat,
    handwritten_cohere,
    handwritten_google,
    handwritten_local,
    handwritten_ollama,
    handwritten_responses,
)
from tests.laws.streams.said import handwritten_reply
from tests.laws.streams.wire import Wire

SEED = 20261121

WIRES: dict[str, ModuleType] = {
    "anthropic": handwritten_anthropic,
    "bedrock": handwritten_bedrock,
    "cohere": handwritten_cohere,
    "google": handwritten_google,
    "google-vertex": handwritten_google,
    "local": handwritten_local,
    "ollama": handwritten_ollama,
    "openai": handwritten_responses,
}
"""By provider; any other adapter speaks Chat Completions, or is found out not to."""

MODELS = {
    "anthropic": "claude-sonnet-4-6",
    "bedrock": "amazon.nova-lite-v1:0",
    "cohere": "command-a-03-2025",
    "google": "gemini-2.5-flash",
    "google-vertex": "gemini-2.5-flash",
    "local": "smollm2-135m",
    "mistral": "mistral-large-latest",
    "ollama": "qwen3:4b",
    "openai": "gpt-5.1",
    "openai-chat": "gpt-5.1",
}

RECORDED = {"openai": "openai-responses"}
"""Under which name a provider's exchanges were recorded, where it is another one."""

_GENERATION = re.compile(
    r"/v1/messages|/responses|/chat/completions|/api/chat|:streamGenerateContent|/v2/chat|/converse"
)

HANDWRITTEN = ((16, 1), (19, 2))
"""Seeds of the replies whose streams are cut at every byte, and how many calls they make; the first thinks, too."""
LARGEST = 2_500
"""Bytes. Recorded streams are cut at every byte, so that time grows with the square of their size."""
FEW = 2


def adapter_of(provider: str) -> Adapter:
    """Raises DragomanError where the adapter is not installed or cannot be imported."""
    return get_adapter(f"{provider}:{MODELS.get(provider, 'model')}")


def wire_of(provider: str) -> Wire:
    module: Wire = WIRES.get(provider, handwritten_chat).WIRE
    return module


def handwritten_subject(provider: str, seed: int, *, calls: int | None = None) -> StreamSubject:
    """A stream and its unstreamed twin."""
    wire, said = wire_of(provider), handwritten_reply(seed, calls=calls)
    body = wire.stream(said)
    return StreamSubject(
        adapter_of(provider),
        body,
        f"{provider}/handwritten_{seed}",
        ends_at=wire.ends_at(body),
        errors=wire.errors,
        keep_alive=wire.keep_alive,
        whole=wire.whole(said),
    )


@cache
def subjects(provider: str) -> tuple[StreamSubject, ...]:
    """The streams of one provider that are small enough to be cut everywhere. Raises DragomanError."""
    made = [handwritten_subject(provider, seed, calls=calls) for seed, calls in HANDWRITTEN]
    return (*made, *recorded_subjects(provider))


def recorded_subjects(provider: str) -> Iterator[StreamSubject]:
    """A few recorded streams that the adapter reads to their end; whether it reads all of them is conformance's say."""
    try:
        recorded = exchanges.load(RECORDED.get(provider, provider))
    except FileNotFoundError:
        return
    small = [each for each in recorded if _is_small(each)]
    small.sort(key=lambda each: each.id)
    random.Random(SEED).shuffle(small)
    small.sort(key=lambda each: "tool_call" not in each.features)
    wire, found = wire_of(provider), 0
    for exchange in small:
        adapter = get_adapter(f"{provider}:{exchange.model or 'unknown'}")
        subject = StreamSubject(
            adapter,
            exchange.body,
            f"{provider}/{exchange.id}",
            ends_at=wire.ends_at(exchange.body),
            errors=wire.errors,
            keep_alive=wire.keep_alive,
        )
        if isinstance(subject.events[-1], MessageComplete):
            yield subject
            found += 1
        if found == FEW:
            return


def _is_small(exchange: exchanges.Exchange) -> bool:
    return (
        exchange.streamed
        and exchange.status == 200
        and exchange.genuine
        and len(exchange.body) <= LARGEST
        and _GENERATION.search(exchange.url_path) is not None
    )


def installed() -> dict[str, str | None]:
    """Every registered provider, and why it cannot be tried, or None where it can."""
    found: dict[str, str | None] = {}
    for provider in providers():
        try:
            adapter_of(provider)
        except DragomanError as error:
            found[provider] = str(error)
        else:
            found[provider] = None
    return found
