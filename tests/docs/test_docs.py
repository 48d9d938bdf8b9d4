"""Every Python snippet of the documentation runs, and prints what it says it prints."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_examples import CodeExample, EvalExample, find_examples

import dragoman
from dragoman.adapter import sources
from tests.servers import FaultyServer, Reply, json_reply, sse_reply
from tests.unit.batch.handwritten_provider import Provider, serving

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
NEEDS_LOCAL_MODEL = "local:smollm2-135m"


def snippets(*pages: Path, needs: str = "") -> list[CodeExample]:
    """The snippets of these pages; ``needs`` is the word behind the language for those that need a server."""
    return [example for example in find_examples(*pages) if example.prefix.split() == ["python", *needs.split()]]


@pytest.fixture
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page registers is known to that page alone."""
    monkeypatch.setattr(sources, "_registered", {})


@pytest.mark.usefixtures("_own_registry")
@pytest.mark.parametrize("example", snippets(*PAGES), ids=str)
def test_a_snippet_runs_and_prints_what_it_says(example: CodeExample, eval_example: EvalExample) -> None:
    """A page that does not run is wrong."""
    if NEEDS_LOCAL_MODEL in example.source and "Session(" in example.source:
        pytest.importorskip("openvino_genai", reason="the embedded model's extra is not installed")
    eval_example.set_config(line_length=120)
    eval_example.run_print_check(example)


HANDWRITTEN_CALL = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
    "content": [{"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "README.md"}}],
    "stop_reason": "tool_use", "stop_sequence": None, "usage": {"input_tokens": 50, "output_tokens": 20},
}  # fmt: skip
HANDWRITTEN_SUMMARY = {
    **HANDWRITTEN_CALL, "id": "msg_2", "stop_reason": "end_turn", "content": [{"type": "text", "text": "A library."}],
}  # fmt: skip
HANDWRITTEN_RESPONSE = {
    "id": "resp_1", "object": "response", "status": "completed", "model": "gpt-6.1-sol",
    "output": [{"id": "msg_3", "type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "Apache-2.0.", "annotations": []}]}],
    "usage": {"input_tokens": 90, "output_tokens": 5, "total_tokens": 95},
}  # fmt: skip


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The two providers of the README's example, on loopback."""
    completed = json.dumps({"type": "response.completed", "response": HANDWRITTEN_RESPONSE})
    replies: list[Reply] = [
        json_reply(HANDWRITTEN_CALL),
        json_reply(HANDWRITTEN_SUMMARY),
        sse_reply(f"event: response.completed\ndata: {completed}\n\n".encode()),
    ]
    with FaultyServer(replies) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/v1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.chdir(ROOT)
        yield


@pytest.mark.usefixtures("answering")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("example", snippets(ROOT / "README.md"), ids=str)
def test_the_readme_runs(example: CodeExample, eval_example: EvalExample) -> None:
    """The first thing that anybody reads: a tool, a preview, a swap, a stream and the cost."""
    eval_example.set_config(line_length=120)
    eval_example.run(example)


def test_the_error_tree_of_the_docs_names_every_class() -> None:
    """A class that nobody can look up helps nobody."""
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    tree = dragoman.adapter.errors.__doc__ or ""
    assert set(re.findall(r"\w+Error", tree)) <= set(re.findall(r"\w+Error", page))


def test_the_api_page_names_the_public_surface() -> None:
    """What is exported is documented."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in dragoman.__all__ if f"`{name}`" not in page] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """Relative links name files that exist."""
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_page_on_batches_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eval_example: EvalExample) -> None:
    """A batch is handed in by one snippet and fetched by the next, from a provider written by hand."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    with serving(Provider()) as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        for example in snippets(ROOT / "docs" / "batches.md", needs="provider"):
            eval_example.run(example)
    assert (tmp_path / "handle.json").stat().st_size
