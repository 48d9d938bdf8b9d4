"""Importers for the histories of other libraries, read only. They read JSON and database rows,
and instantiate nothing.
"""

from dragoman.formats.importers.cassette import from_cassette
from dragoman.formats.importers.conversation import Conversation
from dragoman.formats.importers.langchain import from_langchain
from dragoman.formats.importers.litellm import from_litellm
from dragoman.formats.importers.llm_logs import from_llm_logs
from dragoman.formats.importers.pydantic_ai import from_pydantic_ai

__all__ = ["Conversation", "from_cassette", "from_langchain", "from_litellm", "from_llm_logs", "from_pydantic_ai"]
