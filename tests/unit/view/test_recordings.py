"""Pages of recorded exchanges, with each provider's own words."""

import pytest

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.message import Message
from dragoman.view import page
from tests.exchanges import RecordedExchange, load_or_skip
from tests.unit.view.page_checks import check_page

PROVIDERS = {"anthropic": "anthropic", "openai": "openai-responses", "openai-chat": "openai-chat", "google": "google"}
_MAX_PAGES = 12


def _history(exchange: RecordedExchange, provider: str) -> list[Message]:
    """The prompt and the reply; empty if this is not a conversation."""
    model = exchange.model or (exchange.request or {}).get("model")
    if not model or not isinstance(exchange.request, dict) or exchange.status >= 400:
        return []
    adapter = get_adapter(f"{provider}:{model}")
    context = RequestContext.for_model(str(adapter.model_id))
    try:
        messages, _, _ = adapter.from_wire_request(exchange.request, context)
        if exchange.streamed:
            *_, last = adapter.iter_stream([exchange.body], context)
            reply = getattr(last, "message", None)
        else:
            reply = adapter.from_wire_response(WireResponse(exchange.status, exchange.body, exchange.headers), context)
    except DragomanError:
        return []
    return [*messages, reply] if reply else []


@pytest.mark.exchanges
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_recorded_exchange_makes_a_valid_page(provider: str) -> None:
    """Every promise holds, the reply's text is in it, and its usage is counted."""
    recorded = [each for each in load_or_skip(PROVIDERS[provider]) if each.is_genuine]
    recorded.sort(key=lambda each: (-len(each.features), each.id))
    count = 0
    for exchange in recorded:
        history = _history(exchange, provider)
        if not history:
            continue
        document = check_page(page(history, title=exchange.id))
        reply = history[-1]
        words = " ".join(reply.text.replace("```", "").split())[:200]
        assert words[:20] in document.one("main").words
        if reply.usage is not None and reply.usage.total_tokens:
            assert len(document.one("tbody").all("tr")) >= 1
        count += 1
        if count == _MAX_PAGES:
            break
    assert count
