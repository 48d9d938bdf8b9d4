"""Every Python snippet of the documentation runs, and prints what it says it prints."""

import ast
import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterator
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import pytest
from pytest_examples import CodeExample, EvalExample

from dragoman import errors
from dragoman.adapter import registry
from dragoman.configuration import ClientSettings
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply, sse_reply
from dragoman.transport import ProviderSettings
from tests.compatibility.api.documented import parse_api_page
from tests.docs.snippets import PAGES, ROOT, snippets
from tests.packaging.systems import READS_FILES
from tests.tables import each_row
from tests.unit.batch.handwritten_provider import Provider, serve_provider
from tests.unit.client.governed_provider import GovernedProvider
from tests.unit.embeddings.handwritten_provider import Provider as EmbeddingProvider
from tests.unit.local.live.wording import reword_within
from tests.unit.services.handwritten_provider import running_provider

SERVED = (
    "index.md", "answers.md", "batches.md", "bulk.md", "client.md", "configuration.md", "credentials.md",
    "embeddings.md", "migrating.md", "services.md",
)  # fmt: skip
"""Pages whose snippets send requests to providers. They run against hand-written replies."""
FIRST_READ = (ROOT / "README.md", ROOT / "docs" / "index.md", ROOT / "docs" / "migrating.md")
LOCAL_SESSION = 'Session("local:smollm2-135m"'


@pytest.fixture
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registrations of a page apply to that page only."""
    monkeypatch.setattr(registry, "_registered", {})


@pytest.fixture
def eval_example(eval_example: EvalExample, monkeypatch: pytest.MonkeyPatch) -> EvalExample:
    """Writes snippets as UTF-8, which Python reads. pytest-examples writes them in the encoding of the locale.

    For each line that a snippet prints, it also looks up the source of all callers, and uses none of it.
    """
    monkeypatch.setattr(Path, "write_text", partialmethod(Path.write_text, encoding="utf-8"))
    monkeypatch.setattr(inspect, "stack", partial(inspect.stack, context=0))
    for name in ("run", "run_print_check"):
        monkeypatch.setattr(eval_example, name, partial(_report_briefly, getattr(eval_example, name)))
    return eval_example


def _report_briefly(run: Callable[..., Any], example: CodeExample, *arguments: Any, **how: Any) -> Any:
    """Run a snippet, and report an exception without its traceback.

    Python 3.11 cannot format one that passes through a rewritten snippet: pytest would end with an internal error.
    """
    try:
        return run(example, *arguments, **how)
    except Exception as error:
        fault = f"{example}: {type(error).__name__}: {error}"
    pytest.fail(fault, pytrace=False)


SNIPPETS = snippets(*(page for page in PAGES if page.name not in SERVED))
LIVE = [example for example in SNIPPETS if LOCAL_SESSION in example.source]
"""Those that run the embedded model: what they print must not be its words."""


@pytest.mark.usefixtures("_own_registry")
@pytest.mark.parametrize("example", [each for each in SNIPPETS if each not in LIVE], ids=str)
def test_a_snippet_runs_and_prints_what_it_says(example: CodeExample, eval_example: EvalExample) -> None:
    """A snippet that does not run is wrong."""
    if "workspace=folder" in example.source and not READS_FILES:
        pytest.skip("this system refuses every file of a workspace")
    eval_example.set_config(line_length=120)
    eval_example.run_print_check(example)


@pytest.mark.exhaustive
@pytest.mark.live_local
@pytest.mark.parametrize("example", LIVE, ids=str)
def test_a_snippet_with_the_embedded_model_runs(example: CodeExample, eval_example: EvalExample) -> None:
    """It prints what the page shows, however the prompts are worded."""
    eval_example.set_config(line_length=120)
    eval_example.run_print_check(dataclasses.replace(example, source=reword_within(example.source)))


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


HANDWRITTEN_COMPLETION = {
    "id": "chatcmpl_1", "object": "chat.completion", "created": 1_790_000_000, "model": "gpt-4o",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Paris."}}],
    "usage": {"prompt_tokens": 14, "completion_tokens": 2, "total_tokens": 16},
}  # fmt: skip
HANDWRITTEN_STREAM: list[dict[str, Any]] = [
    {"type": "message_start", "message": {**HANDWRITTEN_SUMMARY, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Paris."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]


def _sse(*events: dict[str, Any]) -> HttpReply:
    return sse_reply(b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events))


def _reply(request: ReceivedRequest) -> HttpReply:
    """The path identifies the wire. If the request offers a tool, the reply calls it until its result is there."""
    if request.path.endswith("/responses"):
        if b'"stream":true' not in request.body:
            return json_reply(HANDWRITTEN_RESPONSE)
        return _sse({"type": "response.completed", "response": HANDWRITTEN_RESPONSE})
    if request.path.endswith("/chat/completions"):
        return json_reply(HANDWRITTEN_COMPLETION)
    if b'"stream":true' in request.body:
        return _sse(*HANDWRITTEN_STREAM)
    calls = b'"tools"' in request.body and b"tool_result" not in request.body
    return json_reply(HANDWRITTEN_CALL if calls else HANDWRITTEN_SUMMARY)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The providers of the examples, on loopback."""
    with FaultyServer(_reply) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/v1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.chdir(ROOT)
        yield


@pytest.mark.usefixtures("answering")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("example", snippets(*FIRST_READ), ids=str)
def test_what_is_read_first_runs(example: CodeExample, eval_example: EvalExample) -> None:
    """A tool, a preview, a swap, a stream and the cost; and the programs for users of other libraries."""
    eval_example.set_config(line_length=120)
    eval_example.run(example)


def test_the_error_tree_of_the_docs_names_every_class() -> None:
    """The page draws the tree of the module, so that every class can be looked up."""
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    tree = re.search(r"^DragomanError\n.*(?=\n\nMessages)", errors.__doc__ or "", re.MULTILINE | re.DOTALL)
    assert tree is not None
    assert f"```\n{tree[0]}\n```" in page


DEEP = ("dragoman.canonical", "dragoman.adapter.", "dragoman.session.")
"""Modules that programs do not import from; only middlewares import `dragoman.session.effects`."""


@each_row("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_a_snippet_imports_public_names(page: Path) -> None:
    """Every name that a snippet imports is listed in docs/api.md, and none comes from the inside of the library."""
    listed = parse_api_page()
    for example in snippets(page):
        imports = {
            (node.module, each.name)
            for node in ast.walk(ast.parse(example.source))
            if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "dragoman"
            for each in node.names
        }
        unlisted = {
            f"{module}.{name}"
            for module, name in imports
            if name not in listed.get(module, ()) and f"{module}.{name}" not in listed
        }
        assert unlisted == set(), example
        inside = {module for module, _ in imports if module.startswith(DEEP)} - {"dragoman.session.effects"}
        assert inside == set(), example


@each_row("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """Relative links name files that exist."""
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_page_on_batches_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eval_example: EvalExample) -> None:
    """One snippet submits a batch and the next one fetches it, from a handwritten provider."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    with serve_provider(Provider()) as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        for example in snippets(ROOT / "docs" / "batches.md"):
            eval_example.run(example)
    assert (tmp_path / "handle.json").stat().st_size


def test_the_page_on_services_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eval_example: EvalExample) -> None:
    """A handwritten provider stores the file, counts the tokens and lists models."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    with running_provider() as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        eval_example.set_config(line_length=120)
        for example in snippets(ROOT / "docs" / "services.md"):
            eval_example.run_print_check(example)
    assert provider.deleted == ["/v1/files/file_1"]


def test_the_page_on_embeddings_runs(monkeypatch: pytest.MonkeyPatch, eval_example: EvalExample) -> None:
    """A handwritten provider embeds; it fails once for the last request, which is sent again alone."""
    behind, failed = EmbeddingProvider(1536), []

    def reply(request: ReceivedRequest) -> HttpReply:
        if len(json.loads(request.body).get("texts", ())) == 12 and not failed:
            failed.append(request)
            return json_reply({"message": "not now"}, 400)
        return behind.reply(request)

    with FaultyServer(reply) as server:
        for name in ("OPENAI", "CO"):
            monkeypatch.setenv(f"{name}_API_KEY", "none")
            monkeypatch.setenv("OPENAI_BASE_URL" if name == "OPENAI" else "CO_API_URL", server.url)
        eval_example.set_config(line_length=120)
        for example in snippets(ROOT / "docs" / "embeddings.md"):
            eval_example.run_print_check(example)
    assert [len(body["texts"]) for body in behind.bodies if "texts" in body][-1] == 12


def test_the_page_on_bulk_runs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eval_example: EvalExample) -> None:
    """The second snippet continues the run of the first, so a model that has answered gets no second request."""

    def answer(request: ReceivedRequest) -> HttpReply:
        payload = json.loads(request.body)
        prompt = json.dumps(payload["messages"])
        if "Nowhere" in prompt:
            return json_reply({"type": "error", "error": {"type": "not_found", "message": "no such city"}}, status=400)
        text = "France" if "Paris" in prompt else "Italy"
        used = {"input_tokens": 40, "output_tokens": 5}
        content = [{"type": "text", "text": text}]
        return json_reply(HANDWRITTEN_SUMMARY | {"model": payload["model"], "content": content, "usage": used})

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    with FaultyServer(answer) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        eval_example.set_config(line_length=120)
        for example in snippets(ROOT / "docs" / "bulk.md"):
            eval_example.run_print_check(example)
        assert len(server.requests) == 6


def test_the_page_on_clients_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eval_example: EvalExample) -> None:
    """Sessions, runs and batches of a client, with a provider written by hand."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    with GovernedProvider().serve() as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        eval_example.set_config(line_length=120)
        for name in ("client.md", "configuration.md", "credentials.md"):
            for example in snippets(ROOT / "docs" / name):
                eval_example.run_print_check(example)


def test_the_table_of_provider_settings_is_complete() -> None:
    """Each setting of a provider and of a client has its row."""
    page = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    table = page.partition("## Settings of a provider")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(ProviderSettings.__annotations__)
    table = page.partition("## What a client sets")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(ClientSettings.__annotations__)
