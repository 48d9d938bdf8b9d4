"""The adapter for Mistral's chat API; see https://docs.mistral.ai/api."""

from typing import ClassVar

from dragoman.adapter.contract import Endpoint
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.package_data import read_toml
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from dragoman_adapters.openai_chat.dialect import Dialect


class MistralAdapter(ChatAdapter):
    provider: ClassVar[str] = "mistral"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://api.mistral.ai/v1",
        key_variables=("MISTRAL_API_KEY",),
        base_url_variable="MISTRAL_BASE_URL",
    )
    telemetry_name: ClassVar[str] = "mistral_ai"
    embeddings_at: ClassVar[str] = "dragoman_adapters.mistral.embeddings:MistralEmbeddings"
    dialect: ClassVar[Dialect] = Dialect.model_validate(read_toml("dragoman_adapters.mistral", "dialect.toml"))
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.mistral")
    server_tools: ClassVar[ServerToolTable] = ServerToolTable.of("dragoman_adapters.mistral")
