"""Which recorded exchanges are judged, and by which adapter."""

import re
from urllib.parse import unquote

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
"""The adapter for the wire of each recorded provider."""

_UPSTREAMS = {
    "chatgpt": "openai",
    "copilot": "github-copilot",
    "google": "google-openai",
    "local": "compatible",
    "other": "compatible",
    "z.ai": "z-ai",
}
"""The adapters of the services behind openai-compatible recordings, if they have other names."""

_GENERATE_CONTENT = re.compile(r"/v1.*/models/[^/]+:(generateContent|streamGenerateContent)(\?.*)?")

_BEDROCK = re.compile(r"/model/([^/]+)/(converse|converse-stream|invoke|invoke-with-response-stream)")
"""The path names the model and the operation."""

_EVENT_STREAM_START = b"\0"
"""The first byte of a length: no message of a recording is as long as 16 MiB."""

_EITHER_OPENAI_API = re.compile(r".*/(chat/completions|responses|v1/chat)(\?.*)?")

_GENERATION = {
    "anthropic": re.compile(r"/v1/messages(\?.*)?"),
    "openai-responses": re.compile(r"/v1/responses(\?.*)?"),
    "openai-chat": re.compile(r"/v1/chat/completions(\?.*)?"),
    "ollama": re.compile(r"/api/chat"),
    "google": _GENERATE_CONTENT,
    "google-vertex": _GENERATE_CONTENT,
    "google-interactions": re.compile(r"/v1[a-z0-9]*/interactions(\?.*)?"),
    "azure-openai": _EITHER_OPENAI_API,
    "groq": _EITHER_OPENAI_API,
    "deepseek": _EITHER_OPENAI_API,
    "xai": _EITHER_OPENAI_API,
    "huggingface": _EITHER_OPENAI_API,
    "ollama-openai": _EITHER_OPENAI_API,
    "openai-compatible": _EITHER_OPENAI_API,
    "openrouter": _EITHER_OPENAI_API,
    "mistral": _EITHER_OPENAI_API,
    "cohere": re.compile(r"/v2/chat"),
    "bedrock": _BEDROCK,
}
"""The paths whose POST requests generate a message; everything else that was recorded is out of scope."""


def skip_reason(exchange: RecordedExchange) -> str | None:
    """Return why an exchange is not judged, or None if it is. Most reasons are its method and its path without ids."""
    if exchange.method == "POST" and _GENERATION[exchange.provider].fullmatch(exchange.url_path):
        return _bedrock_skip_reason(exchange) if exchange.provider == "bedrock" else None
    path = exchange.url_path.partition("?")[0]
    return f"{exchange.method} {re.sub(r'resp_[A-Za-z0-9]+', '{id}', path)}"


def adapter_name(exchange: RecordedExchange) -> str:
    """The name of the adapter that an exchange is for."""
    if exchange.upstream is not None:
        return _UPSTREAMS.get(exchange.upstream, exchange.upstream)
    return ADAPTERS[exchange.provider]


def wire_name(exchange: RecordedExchange) -> str:
    """The recorded provider whose wire an exchange is in: copies of OpenAI's APIs use one of the two."""
    if _GENERATION[exchange.provider] is not _EITHER_OPENAI_API:
        return exchange.provider
    return "openai-responses" if exchange.url_path.partition("?")[0].endswith("/responses") else "openai-chat"


def model_name(exchange: RecordedExchange) -> str:
    """The full model id to ask the adapter for. Recordings without any model get the name ``unknown``."""
    if found := _BEDROCK.fullmatch(exchange.url_path) if exchange.provider == "bedrock" else None:
        return f"bedrock:{unquote(found[1])}"  # the id or ARN: recordings name only a part of it
    return f"{adapter_name(exchange)}:{exchange.model or 'unknown'}"


def _bedrock_skip_reason(exchange: RecordedExchange) -> str | None:
    found = _BEDROCK.fullmatch(exchange.url_path)
    body = exchange.request or {}
    if found and found[2].startswith("invoke") and not body.keys() & {"anthropic_version", "schemaVersion"}:
        return "InvokeModel with a body of its own that neither Claude nor Nova takes"
    if isinstance(exchange.response, bytes) and not exchange.response.startswith(_EVENT_STREAM_START):
        return "the recorder wrote base64 of the event stream, and the recording base64 of that"
    return None
