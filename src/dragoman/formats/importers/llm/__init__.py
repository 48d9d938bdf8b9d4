"""The SQLite log of simonw/llm, and its JSON."""

from dragoman.formats.importers.llm.documents import from_llm_json
from dragoman.formats.importers.llm.logs import from_llm_logs

__all__ = ["from_llm_json", "from_llm_logs"]
