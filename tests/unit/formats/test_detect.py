"""Formats are detected by features that only they have."""

import json
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from dragoman import Session
from dragoman.formats import detect, identify, to_acp, to_chatml, to_cmf, to_messages, to_native, to_umf
from dragoman.formats.registry import FORMATS, get_format, iter_text, read_file
from dragoman.formats.umf.events import history_to_umf
from tests.tables import each_row
from tests.unit.formats.documents import HANDWRITTEN_CMF, HANDWRITTEN_CMF_PARTS, HANDWRITTEN_UMF, everything
from tests.unit.formats.dump_files import dumps

SHAPE_OF = {"pydantic": "pydantic-ai"}


@each_row("path", [path for path in dumps("*") if path.suffix in (".json", ".yaml", ".db")], ids=str)
def test_files_of_other_libraries_are_detected(path: Path) -> None:
    library = path.name.partition("_")[0]
    found = detect(path.read_bytes())
    assert found == SHAPE_OF.get(library, library)
    assert all(conversation.messages for conversation in read_file(path, found).conversations)


WRITTEN: dict[str, Any] = {
    "messages": to_messages(everything()).data,
    "cmf": to_cmf(everything()).data,
    "umf": to_umf(everything()).data,
    "umf-events": "".join(json.dumps(envelope) + "\n" for envelope in history_to_umf(everything())),
    "chatml": to_chatml(everything()).data,
    "acp": to_acp(everything()).data,
    "openai": to_native("openai", everything()).data,
    "openai-chat": to_native("openai-chat", everything()).data,
    "anthropic": to_native("anthropic", everything()).data,
    "google": to_native("google", everything()).data,
    "bedrock": to_native("bedrock", everything()).data,
    "ollama": to_native("ollama", everything()).data,
    "cohere": [{"role": "assistant", "tool_plan": "Look.", "tool_calls": []}],
    "mistral": [{"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]}],
    "message-body": [{"name": "/a", "content_type": "text/plain", "content": "a"}],
    "session": Session("anthropic:claude-opus-5-5").dump(),
}  # fmt: skip


@pytest.mark.parametrize("name", list(WRITTEN))
def test_written_formats_are_detected(name: str) -> None:
    data = WRITTEN[name]
    assert detect(data) == name
    if not isinstance(data, (str, bytes)):
        text = "".join(iter_text(data))
        assert detect(text) == name
        assert detect(text.encode()) == name


@each_row(
    ("document", "name"),
    [
        (HANDWRITTEN_CMF, "cmf"),
        ({"role": "user", "content": [HANDWRITTEN_CMF_PARTS["text"]]}, "cmf"),
        (HANDWRITTEN_UMF, "umf"),
        ({"model": "m", "system": "Be brief.", "messages": [{"role": "user", "content": "a"}]}, "anthropic"),
        ({"system": [{"text": "Be brief."}], "messages": [{"role": "user", "content": []}]}, "bedrock"),
        ({"model": "m", "input": "Hi."}, "openai"),
        ([{"role": "user", "content": "a"}], "openai-chat"),
        ({"parts": [{"content": "a"}]}, "message-body"),
        ([], None), ({}, None), (5, None), ("Hello.", None), ("[", None), (b"\xff", None), ([5], None), ([[]], None),
        ([{"a": 1}], None), (None, None), ({"messages": 5}, None), ([{"role": "user", "content": 5}, {}], None),
    ],
)  # fmt: skip
def test_features_decide_the_format(document: Any, name: str | None) -> None:
    """A document without such a feature gets no guess and no failure."""
    assert detect(document) == name


def test_every_format_is_available_by_name() -> None:
    """Each describes itself and can be read; providers have their names."""
    assert set(WRITTEN) <= {
        *FORMATS,
        "openai",
        "openai-chat",
        "anthropic",
        "google",
        "bedrock",
        "ollama",
        "cohere",
        "mistral",
    }
    for known in FORMATS.values():
        assert known.description
        assert known.read or known.read_many or known.read_all
    assert "groq" in get_format("groq").description


def test_the_table_of_formats_names_functions() -> None:
    """Each is imported when it is first called, so that nothing else finds a wrong name."""
    rows = tomllib.loads(files("dragoman.formats").joinpath("formats.toml").read_text(encoding="utf-8"))
    for name, row in rows.items():
        for path in (row[key] for key in ("read", "read_all", "read_many", "write") if key in row):
            module, _, function = path.partition(":")
            assert callable(getattr(import_module(f"dragoman.formats.{module}"), function)), name


def test_a_name_of_the_package_loads_what_it_needs() -> None:
    """The error of a format is caught by programs that read none. A name is not its module, whatever came first."""
    program = (
        "import sys\n"
        "from dragoman.errors import FormatError\n"
        "assert not [name for name in sys.modules if name.startswith('dragoman.formats.importers')]\n"
        "import dragoman.formats.registry\n"
        "import dragoman.formats\n"
        "assert not [name for name in dragoman.formats.__all__ if type(getattr(dragoman.formats, name)) is type(sys)]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@each_row(("document", "name"), [
    ([{"role": "user", "content": "a", "metadata": {"b": "c"}}] * 99
     + [{"role": "assistant", "content": None, "tool_calls": [_CALL]}], "openai-chat"),
    ([{"role": "tool", "content": "a", "name": "f"}], "hf"),
    ([{"id": "1", "role": "user", "parts": [{"type": "text", "text": "a"}]}], "vercel-ui"),
    ([{"role": "user", "parts": [{"type": "text", "content": "a"}]}], "otel"),
    ([{"role": "user", "parts": [{"text": "a"}]}], "google"),
    ([{"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "a"}]}], "a2a"),
    ([{"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "1", "toolName": "f", "input": {}}]}],
     "vercel-model"),
    ([{"role": "user", "additional_kwargs": {}, "blocks": []}], "llama-index"),
    ([{"role": "user", "blocks": [{"block_type": "text", "text": "a"}]}], "llama-index"),
    ({"chat_store": {"store": {"a": []}}, "token_limit": 3000}, "llama-index"),
    ({"class_name": "SimpleChatStore", "store": {"a": []}}, "llama-index"),
    ({"chat_store": {"store": {"a": []}}}, None),
    ({"token_limit": 3000}, None),
    ([{"blocks": [{"block_type": "text", "text": "a"}]}], None),
    ([{"role": "user", "meta": {}, "name": None, "content": [{"text": "a"}]}], "haystack"),
    ([{"role": "user", "content": {"type": "text", "text": "a"}}], "mcp"),
    ([{"role": "assistant", "channel": "final", "content": [{"type": "text", "text": "a"}]}], "harmony"),
    ([{"type": "UserMessage", "source": "user", "content": "a"}], "autogen"),
    ([{"role": "user", "additional_kwargs": {}, "content": "a"}], None),
    ([{"role": "user", "meta": {}, "content": [{"type": "text", "text": "a"}]}], None),
    ([{"role": "narrator", "content": {"type": "text", "text": "a"}}], None),
    ([{"type": "UserMessage", "content": 5}], None),
])  # fmt: skip
def test_alike_formats_are_told_apart(document: Any, name: str | None) -> None:
    """Messages of other libraries with the same fields; what is not known is not guessed, and says why."""
    found = identify(document)
    assert found.format == name
    assert bool(found.reason) == (name is None)
