"""The adapter for OpenRouter; see https://openrouter.ai/docs.

Its own fields, such as ``provider``, ``models``, ``plugins`` and ``transforms``, go into
``AdapterOptions.extra["openrouter"]``.
"""

from typing import ClassVar

from dragoman.adapter.contract import Endpoint
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.package_data import read_toml
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from dragoman_adapters.openai_chat.dialect import Dialect
from dragoman_adapters.openai_platform.dual_api import DualApiAdapter
from dragoman_adapters.openai_platform.options import SERVICE_TIERS
from dragoman_adapters.openai_responses.adapter import ResponsesAdapter

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
    dialect: ClassVar[Dialect] = Dialect.model_validate(
        read_toml("dragoman_adapters.openrouter", "dialect.toml") | {"words": {"service_tier": SERVICE_TIERS}}
    )
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
