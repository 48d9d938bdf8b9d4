"""The adapter for Mistral's chat API; see https://docs.mistral.ai/api."""

from typing import ClassVar

from dragoman.adapter.contract import Endpoint
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from dragoman_adapters.openai_chat.dialect import Dialect

MISTRAL = Dialect(
    max_tokens="max_tokens",
    seed="random_seed",
    options={"metadata": "metadata", "safety": "safe_prompt", "n": "n"},
    words={"safety": {"off": False, "standard": False, "strict": True}},
    logprobs=False,
    stream_usage=False,
    tool_choices={"auto": "auto", "none": "none", "required": "any"},
    free_arguments=False,
    tool_name=True,
    media_as_text=True,
    references=True,
    prefill={"prefix": True},
    thinking_parts=True,
    reasoning_replay="always",
    failed=("error",),
)
"""The differences from OpenAI's wire."""


class MistralAdapter(ChatAdapter):
    provider: ClassVar[str] = "mistral"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://api.mistral.ai/v1",
        key_variables=("MISTRAL_API_KEY",),
        base_url_variable="MISTRAL_BASE_URL",
    )
    telemetry_name: ClassVar[str] = "mistral_ai"
    embeddings_at: ClassVar[str] = "dragoman_adapters.mistral.embeddings:MistralEmbeddings"
    dialect: ClassVar[Dialect] = MISTRAL
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.mistral")
    server_tools: ClassVar[ServerToolTable] = ServerToolTable.of("dragoman_adapters.mistral")
