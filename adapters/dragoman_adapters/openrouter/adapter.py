"""The adapter for OpenRouter; see https://openrouter.ai/docs.

Its own fields, such as ``provider``, ``models``, ``plugins`` and ``transforms``, go into
``AdapterOptions.extra["openrouter"]``.
"""

from typing import ClassVar

from dragoman.adapter.contract import Endpoint
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from dragoman_adapters.openai_chat.dialect import Dialect
from dragoman_adapters.openai_platform.dual_api import DualApiAdapter
from dragoman_adapters.openai_platform.options import SERVICE_TIERS
from dragoman_adapters.openai_responses.adapter import ResponsesAdapter

OPENROUTER = Dialect(
    max_tokens="max_completion_tokens",
    top_k="top_k",
    free_arguments=False,
    effort="reasoning.effort",
    thinking_budget="reasoning.max_tokens",
    thinking_on={"reasoning": {"enabled": True}},
    thinking_off={"reasoning": {"enabled": False}},
    reasoning_fields=("reasoning",),
    reasoning_details=True,
    reasoning_replay="always",
    options={"verbosity": "verbosity", "user": "user", "metadata": "metadata", "service_tier": "service_tier"},
    words={"service_tier": SERVICE_TIERS},
    cost="cost",
    server_tools="server_tool_use_details",
    uncounted_server_tools=("tool_calls_requested", "tool_calls_executed"),
    failed=("error",),
)
"""The differences from OpenAI's wire."""

_ENDPOINT = Endpoint(
    base_url="https://openrouter.ai/api/v1",
    key_variables=("OPENROUTER_API_KEY",),
    base_url_variable="OPENROUTER_BASE_URL",
)
_TOOLS = ServerToolTable.of("dragoman_adapters.openrouter")
_MODELS = ModelTable.of("dragoman_adapters.openrouter")


class OpenRouterChatAdapter(ChatAdapter):
    provider: ClassVar[str] = "openrouter"
    endpoint: ClassVar[Endpoint] = _ENDPOINT
    dialect: ClassVar[Dialect] = OPENROUTER
    models: ClassVar[ModelTable] = _MODELS
    server_tools: ClassVar[ServerToolTable] = _TOOLS


class OpenRouterResponsesAdapter(ResponsesAdapter):
    provider: ClassVar[str] = "openrouter"
    endpoint: ClassVar[Endpoint] = _ENDPOINT
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.openrouter", "models.toml", "responses.toml")
    server_tools: ClassVar[ServerToolTable] = _TOOLS


class OpenRouterAdapter(DualApiAdapter):
    """A new conversation begins in Chat Completions, which all of its models support."""

    provider: ClassVar[str] = "openrouter"
    endpoint: ClassVar[Endpoint] = _ENDPOINT
    listed_models: ClassVar[tuple[str, ...]] = _MODELS.listed
    server_tools: ClassVar[ServerToolTable] = _TOOLS
    apis = {"chat": OpenRouterChatAdapter, "responses": OpenRouterResponsesAdapter}  # noqa: RUF012
