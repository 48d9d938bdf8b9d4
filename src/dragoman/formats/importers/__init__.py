"""Importers for the histories of other libraries, read only. They read JSON and database rows,
and instantiate nothing.
"""

from dragoman.formats.conversation import Conversation
from dragoman.formats.importers.agents import from_a2a, from_chatgpt, from_claude_code, from_codex, from_otel
from dragoman.formats.importers.cassette import from_cassette
from dragoman.formats.importers.datasets import (
    from_anthropic_batch,
    from_hugging_face,
    from_openai_batch,
    from_openai_finetuning,
)
from dragoman.formats.importers.langchain.messages import from_langchain
from dragoman.formats.importers.litellm import from_litellm
from dragoman.formats.importers.llm import from_llm_json, from_llm_logs
from dragoman.formats.importers.pydantic_ai import from_pydantic_ai
from dragoman.formats.importers.vercel import from_vercel_model, from_vercel_ui

__all__ = [
    "Conversation",
    "from_a2a",
    "from_anthropic_batch",
    "from_cassette",
    "from_chatgpt",
    "from_claude_code",
    "from_codex",
    "from_hugging_face",
    "from_langchain",
    "from_litellm",
    "from_llm_json",
    "from_llm_logs",
    "from_openai_batch",
    "from_openai_finetuning",
    "from_otel",
    "from_pydantic_ai",
    "from_vercel_model",
    "from_vercel_ui",
]
