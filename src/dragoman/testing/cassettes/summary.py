"""Summarizes a recorded reply in a few lines. They precede the reply in the file and are never replayed."""

import json
import logging
from collections.abc import Iterator
from functools import cache

from dragoman.adapter.contract import Adapter, RequestContext
from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import ProviderBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import Message
from dragoman.testing.cassettes.exchange import Exchange
from dragoman.testing.cassettes.wires import request_target

_UNREADABLE_OPERATIONS = frozenset({"count_tokens", "input_tokens", "countTokens"})


def read_reply(exchange: Exchange) -> Message | ProviderError | None:
    """Return the reply or the typed error that the provider's adapter decodes, or None if there is no such adapter."""
    wire = request_target(exchange.request)
    if wire.reader is None or wire.operation in _UNREADABLE_OPERATIONS:
        return None
    logger = logging.getLogger("dragoman")
    silent, logger.disabled = logger.disabled, True
    try:
        adapter = _adapter(wire.reader, wire.model or "any")
        return _decode_reply(exchange, adapter)
    except ProviderError as error:
        return error
    except DragomanError:
        return None
    finally:
        logger.disabled = silent


def describe_reply(exchange: Exchange) -> str | None:
    """Return the summary, or None if no adapter reads the reply."""
    found = read_reply(exchange)
    if found is None:
        return None
    lines = _error_lines(found) if isinstance(found, ProviderError) else _message_lines(found)
    return "\n".join(lines) + "\n"


@cache
def _adapter(provider: str, model: str) -> Adapter:
    return get_adapter(f"{provider}:{model}")


def _decode_reply(exchange: Exchange, adapter: Adapter) -> Message | ProviderError:
    response = exchange.response
    context = RequestContext(model=str(adapter.model_id))
    whole = response.headers.get("content-type", "").startswith("application/json") or response.status >= 400
    if whole or (response.body[:1] in (b"", b"{") and b"\n{" not in response.body):
        return adapter.from_wire_response(WireResponse(response.status, response.body, response.headers), context)
    *_, last = adapter.iter_stream([response.body], context)
    if isinstance(last, ErrorEvent):
        return last.error if isinstance(last.error, ProviderError) else ProviderError(str(last.error))
    assert isinstance(last, MessageComplete)
    return last.message


def _error_lines(error: ProviderError) -> Iterator[str]:
    yield f"[{type(error).__name__}] {error.message}"
    partial = error.partial
    if isinstance(partial, Message) and partial.content:
        yield "[before it]"
        yield from _message_lines(partial)


def _message_lines(message: Message) -> Iterator[str]:
    for block in message.content:
        match block:
            case TextBlock():
                yield block.text
            case ThinkingBlock():
                yield f"[thinking] {block.text}" if block.text else "[thinking, signed and not shown]"
            case ToolUseBlock():
                yield f"[calls {block.name}] {json.dumps(block.input, ensure_ascii=False)}"
            case ProviderBlock():
                yield f"[{block.kind}]"
            case _:
                yield f"[{block.type}]"
    facts = [str(message.metadata.stop_reason or "no stop reason")]
    if usage := message.metadata.usage:
        facts.append(f"{usage.prompt_tokens} tokens in, {usage.output_tokens} out")
    yield f"({'; '.join(facts)})"
