"""The adapters on which the laws are tried, and their streams: recorded ones, and some written by hand."""

import random
import re
from collections.abc import Iterator
from functools import cache

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.registry import get_adapter, providers
from dragoman.canonical.events import MessageComplete
from dragoman.testing.conformance.wire import Wire
from dragoman.testing.sample_reply import SHORT, SHORTEST, SampleReply
from dragoman.testing.stream_laws import StreamSubject
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from dragoman_adapters.openai_platform.dual_api import DualApiAdapter
from dragoman_adapters.openai_responses.adapter import ResponsesAdapter
from tests import exchanges
from tests.laws.wires import (
    handwritten_anthropic,
    handwritten_bedrock,
    handwritten_chat,
    handwritten_cohere,
    handwritten_google,
    handwritten_interactions,
    handwritten_local,
    handwritten_ollama,
    handwritten_responses,
)

SEED = 20261121

WIRES: dict[str, tuple[Wire, ...]] = {
    "anthropic": (handwritten_anthropic.WIRE,),
    "bedrock": (handwritten_bedrock.WIRE, handwritten_bedrock.MESSAGES),
    "bedrock-invoke": (handwritten_bedrock.CHAT,),
    "cohere": (handwritten_cohere.WIRE,),
    "google": (handwritten_google.WIRE,),
    "google-interactions": (handwritten_interactions.WIRE,),
    "google-vertex": (handwritten_google.WIRE,),
    "local": (handwritten_local.WIRE,),
    "ollama": (handwritten_ollama.WIRE,),
    "openai": (handwritten_responses.WIRE,),
    "text-completion": (handwritten_chat.TEXT,),
}
"""By provider. Any other adapter uses one of OpenAI's wires, or one that is unknown here."""

MODELS = {
    "anthropic": "claude-sonnet-4-6",
    "bedrock": "amazon.nova-lite-v1:0",
    "cohere": "command-a-03-2025",
    "google": "gemini-2.5-flash",
    "google-interactions": "gemini-3-flash-preview",
    "google-vertex": "gemini-2.5-flash",
    "local": "smollm2-135m",
    "mistral": "mistral-large-latest",
    "ollama": "qwen3:4b",
    "openai": "gpt-5.1",
    "openai-chat": "gpt-5.1",
    "openrouter": "openai/gpt-5.1",
}
"""The providers with an adapter of their own, and a model of each. All others are rows of one table."""

RECORDED = {"openai": "openai-responses", "google-interactions": "google"}
"""The name under which a provider's exchanges were recorded, if it is another one."""

_GENERATION = re.compile(
    r"/v1/messages|/responses|/chat/completions|/api/chat|:streamGenerateContent|/v2/chat|/converse|/interactions"
)

LARGEST = 4_500
"""Bytes. Recorded streams are cut at every byte, so time grows with the square of their size."""
ENOUGH = 1_500
"""Bytes of recorded streams for one provider: one, or a few small ones."""
SMALLEST = 20
"""Recorded streams are drawn from that many of the smallest, those with calls first."""


def create_adapter(provider: str) -> Adapter:
    """Raises DragomanError if the adapter is not installed or cannot be imported."""
    return get_adapter(f"{provider}:{MODELS.get(provider, 'model')}")


def wires_for(adapter: Adapter) -> tuple[Wire, ...]:
    """The wires that an adapter reads, by its provider; several if only the shape of the data distinguishes them."""
    if adapter.provider in WIRES:
        return WIRES[adapter.provider]
    speakers = adapter.apis.values() if isinstance(adapter, DualApiAdapter) else (type(adapter),)
    return tuple(wire for speaker in speakers if (wire := _wire_of(speaker)) is not None)


def _wire_of(speaker: type[Adapter]) -> Wire | None:
    if issubclass(speaker, ResponsesAdapter):
        return handwritten_responses.WIRE
    if issubclass(speaker, ChatAdapter):
        return handwritten_chat.WIRE if speaker.dialect.done_marker else handwritten_chat.UNMARKED
    return None


def handwritten_subject(adapter: Adapter, wire: Wire, sample: SampleReply, name: str) -> StreamSubject:
    """A stream and its unstreamed twin."""
    body = wire.stream(sample)
    return StreamSubject(
        adapter,
        body,
        f"{adapter.provider}/{name}",
        ends_at=wire.ends_at(body),
        errors=wire.errors,
        keep_alive=wire.keep_alive,
        whole=wire.whole(sample),
    )


@cache
def stream_subjects(provider: str) -> tuple[StreamSubject, ...]:
    """The streams of one provider that are small enough to be cut everywhere; none if its wire is unknown here.

    Raises DragomanError.

    A row of a table has one, because others test its reader as well.
    """
    return tuple(_subjects(create_adapter(provider)))


def _subjects(adapter: Adapter) -> Iterator[StreamSubject]:
    wires = wires_for(adapter)
    if not wires:
        return
    first, *others = wires
    if adapter.provider not in MODELS:
        yield handwritten_subject(adapter, first, SHORTEST, "handwritten_shortest")
    else:
        yield handwritten_subject(adapter, first, SHORT, "handwritten_short")
        yield from recorded_subjects(adapter, first)
        for number, wire in enumerate(others, 2):
            yield handwritten_subject(adapter, wire, SHORT, f"handwritten_short_{number}")


def recorded_subjects(adapter: Adapter, wire: Wire) -> Iterator[StreamSubject]:
    """A few recorded streams that the adapter reads to their end; whether it reads all of them is tested by
    conformance.
    """
    try:
        recorded = exchanges.load(RECORDED.get(adapter.provider, adapter.provider))
    except FileNotFoundError:
        return
    fit = sorted((each for each in recorded if _fits(each, wire)), key=lambda each: (len(each.body), each.id))
    drawn = random.Random(SEED).sample(fit[:SMALLEST], len(fit[:SMALLEST]))
    drawn.sort(key=lambda each: "tool_call" not in each.features)
    size = 0
    for exchange in drawn:
        subject = StreamSubject(
            get_adapter(f"{adapter.provider}:{exchange.model or 'unknown'}"),
            exchange.body,
            f"{adapter.provider}/{exchange.id}",
            ends_at=wire.ends_at(exchange.body),
            errors=wire.errors,
            keep_alive=wire.keep_alive,
        )
        if size < ENOUGH and isinstance(subject.events[-1], MessageComplete):
            yield subject
            size += len(exchange.body)


def _fits(exchange: exchanges.RecordedExchange, wire: Wire) -> bool:
    return (
        exchange.streamed
        and exchange.status == 200
        and exchange.is_genuine
        and len(exchange.body) <= LARGEST
        and _GENERATION.search(exchange.url_path) is not None
        and wire.terminal.search(exchange.body) is not None
    )


def missing_adapters() -> dict[str, str | None]:
    """Every registered provider, and why it cannot be tried, or None if it can."""
    found: dict[str, str | None] = {}
    for provider in providers():
        try:
            create_adapter(provider)
        except DragomanError as error:
            found[provider] = str(error)
        else:
            found[provider] = None
    return found
