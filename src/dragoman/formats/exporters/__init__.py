"""Writers for the histories of other libraries. Each writes what the library's own loader accepts."""

from dragoman.formats.exporters.langchain import to_langchain
from dragoman.formats.exporters.litellm import to_litellm
from dragoman.formats.exporters.pydantic_ai import to_pydantic_ai

__all__ = ["to_langchain", "to_litellm", "to_pydantic_ai"]
