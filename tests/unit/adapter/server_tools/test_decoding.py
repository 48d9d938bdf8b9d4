"""Tools of a provider's own request, read as the values that other providers understand."""

from typing import Any

from dragoman import AdapterOptions, RequestContext, ToolDefinition, get_adapter
from dragoman.server_tools import (
    Bash,
    CodeExecution,
    CustomTool,
    FileSearch,
    McpServer,
    Shell,
    ToolSearch,
    UserLocation,
    WebFetch,
    WebSearch,
)
from tests.tables import each_row
from tests.unit.adapter.server_tools.wire import CLAUDE, GEMINI_2, GPT, NOVA, entries, read, write

HI: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]

READ: list[tuple[str, dict[str, Any], ToolDefinition | None]] = [
    (CLAUDE, {"type": "web_search_20260209", "name": "web_search", "max_uses": 3, "allowed_callers": ["direct"],
              "user_location": {"type": "approximate", "city": "Ulm"}},
     WebSearch(max_uses=3, user_location=UserLocation(city="Ulm"), required=False)),
    (CLAUDE, {"type": "bash_20250124", "name": "bash"}, Bash(required=False)),
    (CLAUDE, {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
     ToolSearch(strategy="regex")),
    (CLAUDE, {"type": "web_search_20250305", "name": "web_search", "max_uses": "many"}, None),
    (CLAUDE, {"type": "advisor_20260301", "name": "advisor"}, None),
    (GPT, {"type": "web_search_preview", "search_context_size": "low"}, WebSearch(context_size="low", required=False)),
    (GPT, {"type": "mcp", "server_label": "m", "server_url": "https://x", "require_approval": "never"},
     McpServer(name="m", url="https://x", required=False)),
    (GPT, {"type": "mcp", "server_label": "m", "server_url": "https://x", "require_approval": {"never": {}}}, None),
    (GPT, {"type": "code_interpreter", "container": {"type": "auto", "network_policy": {"type": "disabled"}}},
     CodeExecution(network="off", required=False)),
    (GPT, {"type": "file_search", "vector_store_ids": ["v"]}, FileSearch(stores={"openai": ("v",)}, required=False)),
    (GPT, {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "regex", "definition": "x"}},
     CustomTool(name="c", grammar="x", syntax="regex", required=False)),
    (GPT, {"type": "shell", "environment": {"type": "local"}}, Shell(required=False)),
]  # fmt: skip


@each_row(("model", "native", "value"), READ)
def test_a_native_tool_is_read_as_a_value(model: str, native: dict[str, Any], value: ToolDefinition | None) -> None:
    """What has no common form stays a tool of its provider alone. Either goes back unchanged."""
    body = {"model": "m", "tools": [native], **({"input": "Hi"} if model == GPT else {"max_tokens": 1, "messages": HI})}
    (found,) = read(model, body)
    assert found == value if value is not None else type(found) is ToolDefinition
    assert entries(model, found) == [native]


def test_googles_tools_are_read_by_their_field() -> None:
    found = read(GEMINI_2, {"contents": [], "tools": [{"google_search": {}}, {"codeExecution": {}, "urlContext": {}}]})
    assert list(map(type, found)) == [WebSearch, CodeExecution, WebFetch]
    assert entries(CLAUDE, *found)[0] == {"type": "web_search_20250305", "name": "web_search"}


def test_novas_system_tools_are_read_by_their_name() -> None:
    """Two tools share a field."""
    tools = [{"systemTool": {"name": "nova_code_interpreter"}}, {"systemTool": {"name": "nova_grounding"}}]
    found = read(NOVA, {"messages": [{"role": "user", "content": [{"text": "Hi"}]}], "toolConfig": {"tools": tools}})
    assert list(map(type, found)) == [CodeExecution, WebSearch]


def test_a_tool_that_was_read_is_never_a_reason_to_refuse() -> None:
    """A client's tool that the next provider lacks, or cannot restrict, is left out as a loss."""
    native = {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a.de"]}
    found = read(CLAUDE, {"model": "m", "max_tokens": 1, "messages": HI, "tools": [native]})
    for model in ("mistral:mistral-large-latest", GEMINI_2):
        body, wire = write(model, *found)
        assert "tools" not in body
        assert [loss.severity for loss in wire.losses] == ["warning"]
    assert entries(GPT, *found) == [{"type": "web_search", "filters": {"allowed_domains": ["a.de"]}}]


def test_the_request_is_written_back_as_it_was() -> None:
    """Fields outside of the list of tools stay in extra, and are not written twice."""
    body = {"model": "m", "max_tokens": 1, "messages": HI,
            "mcp_servers": [{"type": "url", "url": "https://x", "name": "m"}],
            "tools": [{"type": "mcp_toolset", "mcp_server_name": "m"}]}  # fmt: skip
    adapter = get_adapter(CLAUDE)
    _, tools, options = adapter.from_wire_request(body, RequestContext(model=CLAUDE))
    assert isinstance(options, AdapterOptions)
    assert entries(CLAUDE, *tools) == body["tools"]
    assert write(CLAUDE, *tools, extra=options.extra)[0]["mcp_servers"] == body["mcp_servers"]
