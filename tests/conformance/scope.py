"""Which recorded exchanges are judged, and by which adapter."""

import re

from tests.exchanges import Exchange

ADAPTERS: dict[str, str] = {
    "anthropic": "anthropic",
    "openai-responses": "openai",
    "openai-chat": "openai-chat",
    "ollama": "ollama",
}
"""The adapter that speaks each recorded provider's wire."""

_GENERATION = {
    "anthropic": re.compile(r"/v1/messages(\?.*)?"),
    "openai-responses": re.compile(r"/v1/responses(\?.*)?"),
    "openai-chat": re.compile(r"/v1/chat/completions(\?.*)?"),
    "ollama": re.compile(r"/api/chat"),
}
"""The paths that generate a message, posted to; everything else that was recorded is out of scope."""


def out_of_scope(exchange: Exchange) -> str | None:
    """Why an exchange is not judged, or None where it is: its method and the path without ids."""
    if exchange.method == "POST" and _GENERATION[exchange.provider].fullmatch(exchange.url_path):
        return None
    path = exchange.url_path.partition("?")[0]
    return f"{exchange.method} {re.sub(r'resp_[A-Za-z0-9]+', '{id}', path)}"


def model_of(exchange: Exchange) -> str:
    """The full model id to ask the adapter for. Recordings without any model get the name ``unknown``."""
    return f"{ADAPTERS[exchange.provider]}:{exchange.model or 'unknown'}"
