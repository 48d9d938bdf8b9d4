"""What each provider is sent for a server tool (docs/server-tools.md)."""

from datetime import date
from typing import Any

import pytest

from dragoman import Message, RequestContext, ToolDefinition, get_adapter
from dragoman.errors import RequestError, UnsupportedToolError
from dragoman.server_tools import (
    Bash,
    CodeExecution,
    ComputerUse,
    CustomTool,
    FileSearch,
    ImageGeneration,
    McpServer,
    Memory,
    ProviderTool,
    ToolSearch,
    UserLocation,
    WebFetch,
    WebSearch,
)
from tests.conformance.validators import sdk_types
from tests.tables import each_row
from tests.unit.adapter.server_tools.wire import (
    CLAUDE,
    COMPOUND,
    GEMINI_2,
    GEMINI_3,
    GPT,
    GROK,
    INTERACTIONS,
    LOOK_UP,
    NOVA,
    OPENROUTER,
    OSS,
    SEARCH_MODEL,
    SONAR,
    VERTEX,
    entries,
    write,
)

BERLIN = UserLocation(city="Berlin", country="DE")
FILTER = {"type": "and", "filters": [{"type": "eq", "key": "a", "value": "x"}, {"type": "gt", "key": "b", "value": 2}]}
MCP = McpServer(name="docs", url="https://mcp.example", authorization="t", allowed_tools=("find",))

ENTRIES: list[tuple[str, ToolDefinition, dict[str, Any]]] = [
    (CLAUDE, WebSearch(max_uses=2, allowed_domains=("a.de",)),
     {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a.de"], "max_uses": 2}),
    (CLAUDE, WebSearch(user_location=BERLIN), {"type": "web_search_20250305", "name": "web_search",
     "user_location": {"city": "Berlin", "country": "DE", "type": "approximate"}}),
    (CLAUDE, WebSearch(extra={"anthropic": {"type": "web_search_20260318"}, "openai": {"x": 1}}),
     {"type": "web_search_20260318", "name": "web_search"}),
    (CLAUDE, WebFetch(max_content_tokens=9, citations=True), {"type": "web_fetch_20250910", "name": "web_fetch",
     "max_content_tokens": 9, "citations": {"enabled": True}}),
    (CLAUDE, CodeExecution(network="off"), {"type": "code_execution_20250825", "name": "code_execution"}),
    (CLAUDE, MCP, {"type": "mcp_toolset", "mcp_server_name": "docs", "default_config": {"enabled": False},
     "configs": {"find": {"enabled": True}}}),
    (CLAUDE, ToolSearch(strategy="regex"), {"type": "tool_search_tool_regex_20251119",
     "name": "tool_search_tool_regex"}),
    (CLAUDE, Memory(function=print), {"type": "memory_20250818", "name": "memory"}),
    (CLAUDE, ComputerUse(function=print, display=(1024, 768)), {"type": "computer_20250124", "name": "computer",
     "display_width_px": 1024, "display_height_px": 768}),
    (GPT, WebSearch(blocked_domains=("a.de",), context_size="low", live=False), {"type": "web_search",
     "filters": {"blocked_domains": ["a.de"]}, "search_context_size": "low", "external_web_access": False}),
    (GPT, CodeExecution(network=("a.de",), files={"openai": ("f",), "xai": ("g",)}, memory="4g"),
     {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"], "memory_limit": "4g",
      "network_policy": {"type": "allowlist", "allowed_domains": ["a.de"]}}}),
    (GPT, CodeExecution(container={"openai": "cntr_1"}), {"type": "code_interpreter", "container": "cntr_1"}),
    (GPT, FileSearch(stores={"openai": ("vs",)}, max_results=3, filter=FILTER),
     {"type": "file_search", "vector_store_ids": ["vs"], "max_num_results": 3, "filters": FILTER}),
    (GPT, ImageGeneration(aspect_ratio="3:2", format="webp"),
     {"type": "image_generation", "size": "1536x1024", "output_format": "webp"}),
    (GPT, MCP, {"type": "mcp", "server_label": "docs", "server_url": "https://mcp.example", "authorization": "t",
     "allowed_tools": ["find"], "require_approval": "never"}),
    (GPT, McpServer(name="m", connector="connector_gmail", approval=("rm",)), {"type": "mcp", "server_label": "m",
     "connector_id": "connector_gmail", "require_approval": {"always": {"tool_names": ["rm"]}}}),
    (GPT, CustomTool(function=print, name="sql", description="Runs SQL", grammar="start: x"),
     {"type": "custom", "name": "sql",
     "description": "Runs SQL", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}}),
    ("openai-chat:gpt-5.4", CustomTool(function=print, name="sql", grammar="start: x", syntax="regex"),
     {"type": "custom", "custom": {"name": "sql", "format": {"type": "grammar", "grammar": {"syntax": "regex",
      "definition": "start: x"}}}}),
    (GEMINI_2, WebSearch(since=date(2026, 1, 2), until=date(2026, 2, 3)), {"googleSearch": {"timeRangeFilter":
     {"startTime": "2026-01-02T00:00:00Z", "endTime": "2026-02-03T00:00:00Z"}}}),
    (GEMINI_2, FileSearch(stores={"google": ("fileSearchStores/a",)}, filter=FILTER), {"fileSearch":
     {"fileSearchStoreNames": ["fileSearchStores/a"], "metadataFilter": '(a = "x" AND b > 2)'}}),
    (VERTEX, WebSearch(blocked_domains=("a.de",)), {"googleSearch": {"excludeDomains": ["a.de"]}}),
    (INTERACTIONS, WebFetch(), {"type": "url_context"}),
    (INTERACTIONS, ToolSearch(), {"type": "tool_search"}),
    (INTERACTIONS, McpServer(name="m", url="https://x", allowed_tools=("a",)), {"type": "mcp_server", "name": "m",
     "url": "https://x", "allowed_tools": [{"mode": "any", "tools": ["a"]}]}),
    (GROK, WebSearch(blocked_domains=("a.de",)), {"type": "web_search", "excluded_domains": ["a.de"]}),
    (NOVA, WebSearch(), {"systemTool": {"name": "nova_grounding"}}),
    (NOVA, CodeExecution(), {"systemTool": {"name": "nova_code_interpreter"}}),
    (OPENROUTER, WebSearch(max_uses=2), {"type": "openrouter:web_search", "parameters": {"max_uses": 2}}),
    (OSS, WebSearch(), {"type": "browser_search"}),
    (GEMINI_2, ProviderTool("google", {"googleMaps": {}}), {"googleMaps": {}}),
]  # fmt: skip

BODIES: list[tuple[str, ToolDefinition, dict[str, Any]]] = [
    (CLAUDE, MCP, {"mcp_servers": [
        {"type": "url", "url": "https://mcp.example", "name": "docs", "authorization_token": "t"}]}),
    (CLAUDE, CodeExecution(container={"anthropic": "c_1"}), {"container": "c_1"}),
    (GPT, WebSearch(max_uses=2), {"max_tool_calls": 2}),
    ("google:gemini-3-pro-image", ImageGeneration(aspect_ratio="16:9", size="2K"), {"generationConfig": {
        "imageConfig": {"aspectRatio": "16:9", "imageSize": "2K"}}}),
    ("google-vertex:gemini-3-pro-image", ImageGeneration(format="png"), {"generationConfig": {
        "imageConfig": {"imageOutputOptions": {"mimeType": "image/png"}}}}),
    ("google-interactions:gemini-3-pro-image", ImageGeneration(size="4K"), {"response_format": {
        "type": "image", "image_size": "4K"}}),
    (SEARCH_MODEL, WebSearch(user_location=BERLIN), {"web_search_options": {"user_location": {
        "type": "approximate", "approximate": {"city": "Berlin", "country": "DE"}}}}),
    (COMPOUND, WebSearch(allowed_domains=("a.de",)), {
        "compound_custom": {"tools": {"enabled_tools": ["web_search"]}},
        "search_settings": {"include_domains": ["a.de"]}}),
    (SONAR, WebSearch(blocked_domains=("a.de",), since=date(2026, 1, 2)), {
        "search_domain_filter": ["-a.de"], "search_after_date_filter": "01/02/2026"}),
]  # fmt: skip


@each_row(("model", "tool", "entry"), ENTRIES)
def test_the_list_of_tools_has_the_providers_own_object(
    model: str, tool: ToolDefinition, entry: dict[str, Any]
) -> None:
    """Each setting is in the provider's field, and functions stand beside it."""
    found = entries(model, tool, LOOK_UP)
    assert found[0] == entry
    assert len(found) == 2


@each_row(("model", "tool", "fields"), BODIES)
def test_what_is_outside_of_the_list_is_in_the_body(model: str, tool: ToolDefinition, fields: dict[str, Any]) -> None:
    """What is outside of the list is in the body: servers, containers and settings of the whole request."""
    body, _ = write(model, tool)
    assert {name: body.get(name) for name in fields} == fields


@each_row(("model", "tool"), [(model, tool) for model, tool, _ in (*ENTRIES, *BODIES)])
def test_the_sdks_types_accept_the_body(model: str, tool: ToolDefinition) -> None:
    """Beta tools are not in the stable types of Anthropic's SDK, and OpenAI takes a filter that its types lack."""
    body, wire = write(model, tool)
    if "anthropic-beta" in wire.headers:
        return
    faults = list(sdk_types.faults(model.partition(":")[0], body))
    assert [fault for fault in faults if "web_search.filters.blocked_domains: Extra" not in fault] == []


def test_beta_headers_are_added_to_the_programs_own() -> None:
    """The header is a list."""
    _, wire = write(CLAUDE, MCP, headers={"anthropic": {"Anthropic-Beta": "files"}})
    assert wire.headers["anthropic-beta"] == "files,mcp-client-2025-11-20"
    _, wire = write(CLAUDE, WebSearch())
    assert "anthropic-beta" not in wire.headers


def test_lists_of_several_tools_are_added_to_each_other() -> None:
    other = McpServer(name="other", url="https://other.example")
    assert [server["name"] for server in write(CLAUDE, MCP, other)[0]["mcp_servers"]] == ["docs", "other"]
    body, _ = write(COMPOUND, WebSearch(), CodeExecution())
    assert body["compound_custom"]["tools"]["enabled_tools"] == ["web_search", "code_interpreter"]


def test_gemini_3_gets_the_switch_for_functions_beside_built_in_tools() -> None:
    """Gemini 2.5 refuses it, Vertex does not have it, and one kind of tools needs none."""
    switch = {"includeServerSideToolInvocations": True}
    assert write(GEMINI_3, WebSearch(), LOOK_UP)[0]["toolConfig"] == switch
    for model, tools in ((GEMINI_3, [WebSearch()]), (GEMINI_3, [LOOK_UP]), (GEMINI_2, [WebSearch(), LOOK_UP]),
                         (VERTEX, [WebSearch(), LOOK_UP])):  # fmt: skip
        assert "toolConfig" not in write(model, *tools)[0]


def test_a_dual_endpoint_uses_the_api_that_has_the_tool() -> None:
    """xAI runs tools in its Responses API only, also in a conversation that began in the other one."""
    adapter = get_adapter(GROK)
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]}
    messages, _, options = adapter.from_wire_request(body, RequestContext(model=GROK))
    for tools, path in (([LOOK_UP], "/chat/completions"), ([WebSearch()], "/responses")):
        assert adapter.to_wire([*messages, Message.user("Hi")], tools, options).path == path


REFUSED: list[tuple[str, ToolDefinition, str]] = [
    ("mistral:mistral-large-latest", WebSearch(), "conversations API.*anthropic, .*xai"),
    ("ollama:qwen3", WebSearch(), "has no web_search"),
    ("cohere:command-a-03-2025", ImageGeneration(), "providers that have it: azure-openai, google.*, openrouter, xai"),
    ("bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0", WebSearch(), "Nova 2"),
    (GEMINI_2, WebSearch(allowed_domains=("a.de",)), "allowed_domains restricts"),
    (GEMINI_2, WebSearch(live=False), "live restricts"),
    (GEMINI_2, WebSearch(max_uses=1), "max_uses restricts"),
    (GEMINI_2, WebSearch(since=date(2026, 1, 1)), "all of since, until"),
    (GEMINI_2, McpServer(name="m", url="https://x", approval="always"), "approval restricts"),
    (GEMINI_2, FileSearch(stores={"openai": ("vs",)}), "needs stores"),
    (GPT, WebSearch(since=date(2026, 1, 1)), "since restricts"),
    (GPT, WebSearch(allowed_domains=tuple(f"{n}.de" for n in range(101))), "takes 100"),
    (GROK, WebSearch(allowed_domains=tuple("abcdef")), "takes 5"),
    (CLAUDE, CodeExecution(network=("a.de",)), "network restricts"),
    (CLAUDE, McpServer(name="m", url="https://x", headers={"a": "b"}), "headers restricts"),
    (CLAUDE, CustomTool(function=print, name="sql", grammar="x"), "no custom .sql."),
    (CLAUDE, ComputerUse(function=print), "needs display"),
]  # fmt: skip


@each_row(("model", "tool", "match"), REFUSED)
def test_a_required_tool_or_a_restriction_that_is_missing_is_refused(
    model: str, tool: ToolDefinition, match: str
) -> None:
    """Before anything is sent. With required=False the tool is left out, as a loss."""
    with pytest.raises(UnsupportedToolError, match=match):
        write(model, tool)
    optional = tool.model_copy(update={"required": False})
    body, wire = write(model, optional)
    assert "tools" not in body
    assert [(loss.kind, loss.severity) for loss in wire.losses] == [("tools", "warning")]


def test_a_setting_that_only_tunes_is_a_loss() -> None:
    """The tool is sent without it."""
    body, wire = write(CLAUDE, WebSearch(context_size="high", images=True))
    assert body["tools"] == [{"type": "web_search_20250305", "name": "web_search"}]
    assert [loss.severity for loss in wire.losses] == ["info", "info"]


def test_another_providers_own_tool_is_left_out() -> None:
    """It is never translated."""
    body, wire = write(GPT, ProviderTool("google", {"googleMaps": {}}))
    assert "tools" not in body
    assert "runs at google only" in wire.losses[0].reason


def test_a_tool_of_the_program_is_a_function_where_the_provider_has_no_such_tool() -> None:
    """The behaviour is the program's own, so nothing is lost."""
    body, wire = write(GPT, Memory(function=print), Bash(function=print))
    assert [(tool["type"], tool["name"]) for tool in body["tools"]] == [("function", "memory"), ("function", "bash")]
    assert wire.losses == ()


def test_fetching_is_part_of_searching_at_openai() -> None:
    """One object is sent for both."""
    body, wire = write(GPT, WebSearch(), WebFetch())
    assert body["tools"] == [{"type": "web_search"}]
    assert [loss.severity for loss in wire.losses] == ["info"]
    assert entries(GPT, WebFetch()) == [{"type": "web_search"}]


def test_fields_of_functions() -> None:
    """strict and defer_loading have a place at several providers; what one vendor has stands under its name."""
    tool = LOOK_UP.model_copy(
        update={
            "strict": True,
            "defer_loading": True,
            "extra": {"anthropic": {"allowed_callers": ["code_execution_20250825"], "eager_input_streaming": True}},
        }
    )
    (claude,) = entries(CLAUDE, tool)
    assert (claude["strict"], claude["defer_loading"], claude["eager_input_streaming"]) == (True, True, True)
    (gpt,) = entries(GPT, tool)
    assert (gpt["strict"], gpt["defer_loading"], "allowed_callers" in gpt) == (True, True, False)
    body, wire = write("openai-chat:gpt-5.4", tool)
    assert body["tools"][0]["function"]["strict"] is True
    assert ["defer_loading" in loss.reason for loss in wire.losses] == [True]


def test_values_are_checked() -> None:
    """What every provider refuses is refused at once, and a key is in no repr."""
    with pytest.raises(ValueError, match="either allowed_domains or blocked_domains"):
        WebSearch(allowed_domains=("a",), blocked_domains=("b",))
    with pytest.raises(ValueError, match="either a url or a connector"):
        McpServer(name="m")
    assert "SECRET" not in repr(McpServer(name="m", url="https://x", authorization="SECRET"))
    assert issubclass(UnsupportedToolError, RequestError)
