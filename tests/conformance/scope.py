"""Which recorded exchanges are judged, and by which adapter."""

import re

from tests.conformance import bedrock_paths
from tests.exchanges import RecordedExchange

ADAPTERS: dict[str, str] = {
    "anthropic": "anthropic",
    "openai-responses": "openai",
    "openai-chat": "openai-chat",
    "ollama": "ollama",
    "google": "google",
    "google-vertex": "google-vertex",
    "google-interactions": "google-interactions",
    "azure-openai": "azure-openai",
    "groq": "groq",
    "deepseek": "deepseek",
    "xai": "xai",
    "huggingface": "huggingface",
    "ollama-openai": "ollama-openai",
    "openai-compatible": "compatible",
    "openrouter": "openrouter",
    "mistral": "mistral",
    "cohere": "cohere",
    "bedrock": "bedrock",
}
"""The adapter that speaks each recorded provider's wire."""

_UPSTREAMS = {
    "chatgpt": "openai",
    "copilot": "github-copilot",
    "google": "google-openai",
    "local": "compatible",
    "other": "compatible",
    "z.ai": "z-ai",
}
"""The adapters of those who served openai-compatible recordings, where they do not bear their names."""

_GENERATE_CONTENT = re.compile(r"/v1.*/models/[^/]+:(generateContent|streamGenerateContent)(\?.*)?")

_EITHER_OF_OPENAIS = re.compile(r".*/(chat/completions|responses|v1/chat)(\?.*)?")

_GENERATION = {
    "anthropic": re.compile(r"/v1/messages(\?.*)?"),
    "openai-responses": re.compile(r"/v1/responses(\?.*)?"),
    "openai-chat": re.compile(r"/v1/chat/completions(\?.*)?"),
    "ollama": re.compile(r"/api/chat"),
    "google": _GENERATE_CONTENT,
    "google-vertex": _GENERATE_CONTENT,
    "google-interactions": re.compile(r"/v1[a-z0-9]*/interactions(\?.*)?"),
    "azure-openai": _EITHER_OF_OPENAIS,
    "groq": _EITHER_OF_OPENAIS,
    "deepseek": _EITHER_OF_OPENAIS,
    "xai": _EITHER_OF_OPENAIS,
    "huggingface": _EITHER_OF_OPENAIS,
    "ollama-openai": _EITHER_OF_OPENAIS,
    "openai-compatible": _EITHER_OF_OPENAIS,
    "openrouter": _EITHER_OF_OPENAIS,
    "mistral": _EITHER_OF_OPENAIS,
    "cohere": re.compile(r"/v2/chat"),
    "bedrock": bedrock_paths.PATH,
}
"""The paths that generate a message, posted to; everything else that was recorded is out of scope."""


def skip_reason(exchange: RecordedExchange) -> str | None:
    """Why an exchange is not judged, or None where it is: its method and the path without ids."""
    if exchange.method == "POST" and _GENERATION[exchange.provider].fullmatch(exchange.url_path):
        return bedrock_paths.skip_reason(exchange) if exchange.provider == "bedrock" else None
    path = exchange.url_path.partition("?")[0]
    return f"{exchange.method} {re.sub(r'resp_[A-Za-z0-9]+', '{id}', path)}"


def adapter_name(exchange: RecordedExchange) -> str:
    """The name of the adapter that an exchange is for."""
    if exchange.upstream is not None:
        return _UPSTREAMS.get(exchange.upstream, exchange.upstream)
    return ADAPTERS[exchange.provider]


def wire_name(exchange: RecordedExchange) -> str:
    """The recorded provider whose wire an exchange is in: those who copy OpenAI's copy one or the other."""
    if _GENERATION[exchange.provider] is not _EITHER_OF_OPENAIS:
        return exchange.provider
    return "openai-responses" if exchange.url_path.partition("?")[0].endswith("/responses") else "openai-chat"


def model_name(exchange: RecordedExchange) -> str:
    """The full model id to ask the adapter for. Recordings without any model get the name ``unknown``."""
    if exchange.provider == "bedrock":
        return f"bedrock:{bedrock_paths.model(exchange)}"
    return f"{adapter_name(exchange)}:{exchange.model or 'unknown'}"
