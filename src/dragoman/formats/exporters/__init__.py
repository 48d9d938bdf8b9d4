"""Writers for the histories and data sets of other libraries. Each writes what the library's own loader accepts."""

from dragoman.formats.exporters.datasets import to_hugging_face, to_openai_finetuning
from dragoman.formats.exporters.langchain import to_langchain
from dragoman.formats.exporters.litellm import to_litellm
from dragoman.formats.exporters.llm_log import to_llm_log
from dragoman.formats.exporters.pydantic_ai import to_pydantic_ai
from dragoman.formats.exporters.vercel_ui import to_vercel_ui

__all__ = [
    "to_hugging_face",
    "to_langchain",
    "to_litellm",
    "to_llm_log",
    "to_openai_finetuning",
    "to_pydantic_ai",
    "to_vercel_ui",
]
