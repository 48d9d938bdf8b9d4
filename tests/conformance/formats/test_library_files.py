"""Files that other libraries wrote say what their manifest says: see `library_files`."""

import logging

import pytest

from dragoman.formats.registry import identify_format
from tests.conformance.formats.library_files import fault_of, files_or_skip, library_files, reason_for

READ = (
    "a2a", "anthropic_batch", "autogen", "chat_templates", "google_adk", "harmony", "haystack", "hf_datasets",
    "langchain", "langgraph", "langsmith_runs", "litellm", "llama_index", "llm", "mcp", "openai_batch",
    "openai_finetuning", "openinference", "otel_gen_ai", "otel_openai_v2", "pydantic_ai", "vercel_ai",
)  # fmt: skip


@pytest.mark.parametrize("library", READ)
def test_what_a_library_wrote_is_read_whole(library: str, caplog: pytest.LogCaptureFixture) -> None:
    """Speakers, texts, thinking, calls with their results, media, citations and usage."""
    caplog.set_level(logging.CRITICAL, "dragoman")
    files = [file for file in files_or_skip(library) if reason_for(file) is None]
    assert {file.name: fault for file in files if (fault := fault_of(file)) is not None} == {}


def test_what_cannot_be_read_is_still_detected() -> None:
    """A file with a reason is one of the library's, and no reason is left over."""
    files_or_skip()
    explained = [file for file in library_files() if reason_for(file) is not None]
    assert [file.name for file in explained if fault_of(file) is None] == []
    assert [file.name for file in explained if identify_format(file.path.read_bytes()).format is None] == []
