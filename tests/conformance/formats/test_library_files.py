"""Files that other libraries wrote say what their manifest says: see `library_files`."""

import logging

import pytest

from dragoman.formats.registry import identify_format
from tests.conformance.formats.library_files import fault_of, files_or_skip, library_files

READ = (
    "a2a", "anthropic_batch", "hf_datasets", "langchain", "litellm", "llm", "openai_batch", "openai_finetuning",
    "otel_gen_ai", "otel_openai_v2", "pydantic_ai", "vercel_ai",
)  # fmt: skip
_BINARY = (".pb", ".parquet")
_TEXTS = (".md",)
"""Reports for people."""
_INCOMPLETE = (
    "changing_instructions.chat.logs", "changing_instructions.chat.to_dict", "changing_instructions.responses.v5",
    "empty_texts.chat.logs",
)  # fmt: skip
"""The manifest expects what the file does not have: instructions that were changed later, texts."""


@pytest.mark.parametrize("library", READ)
def test_what_a_library_wrote_is_read_whole(library: str, caplog: pytest.LogCaptureFixture) -> None:
    """Speakers, texts, thinking, calls with their results, media, citations and usage."""
    caplog.set_level(logging.CRITICAL, "dragoman")
    files = [file for file in files_or_skip(library) if not file.name.endswith((*_BINARY, *_TEXTS))]
    faults = {file.name: fault for file in files if (fault := fault_of(file)) is not None}
    assert {name: fault for name, fault in faults.items() if not any(part in name for part in _INCOMPLETE)} == {}


def test_no_file_is_taken_for_another_format() -> None:
    """A file of a library that is not read is unknown, or is a list that the library made for a provider's API."""
    files_or_skip()
    shared = ("openai-chat", "langchain", "chatml")
    for file in library_files():
        if file.library not in READ:
            found = identify_format(file.path.read_bytes())
            assert found.format in (None, *shared), file.name
            assert found.format or found.reason
