"""Tools, prompts and resources of a real MCP server, through a session and its policy."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
from mcp import Client, ClientSession, StdioServerParameters
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.canonical.blocks import PromptRequestBlock, PromptResultBlock
from dragoman.canonical.glob import Glob
from dragoman.canonical.tools import schema_problems
from dragoman.events import EventBus
from dragoman.policy import (
    DataPolicy,
    Extensions,
    Pipeline,
    PolicyDeniedError,
    SecurityExtension,
    Step,
    Violation,
    hook,
)
from dragoman.session import AsyncSession, Session
from dragoman.tools.mcp import McpConnection
from tests.unit.session.drivers import ANTHROPIC, KEY, Wire, texts
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic
from tests.unit.session.middleware.policy_plugins import DenyingPlugin, RecordingPlugin, RedactingPlugin
from tests.unit.tools import mcp_server
from tests.unit.tools.mcp_server import SECRET


@pytest.fixture(autouse=True)
def server_log() -> Iterator[list[str]]:
    """The calls that the server received."""
    mcp_server.calls.clear()
    yield mcp_server.calls
    mcp_server.calls.clear()


def run_with_server(main: Callable[[McpConnection], Awaitable[None]]) -> None:
    """Runs with a client of the server in this process."""

    async def run() -> None:
        async with Client(mcp_server.server) as client:
            await main(McpConnection(client, "desk"))

    asyncio.run(run())


def session(*replies: Any, **settings: Any) -> AsyncSession:
    client = httpx.AsyncClient(transport=httpx.MockTransport(Wire(replies)))
    return AsyncSession(ANTHROPIC, providers={"anthropic": {"client": client, "api_key": KEY}}, **settings)


def test_a_server_tool_is_a_tool_of_the_session(server_log: list[str]) -> None:
    """It runs there, and the model reads its answer or its error."""

    async def main(server: McpConnection) -> None:
        calls = [
            Call("toolu_1", "look_up", {"word": "x"}),
            Call("toolu_2", "send_mail", {"to": "me"}),
            Call("c", "fail"),
        ]
        chat = session(handwritten_anthropic(*calls), handwritten_anthropic("Done."), tools=await server.tools())
        await chat.ask("Go")
        answers = [text for role, text in texts(chat) if role == "tool"]
        assert answers[0] == f"x means {SECRET}"
        assert '"sent"' in answers[1]
        assert answers[2] == "McpToolError: Error executing tool fail"
        assert [message.tool_results[0].is_error for message in chat.messages[2:5]] == [False, False, True]

    run_with_server(main)
    assert sorted(server_log) == ["look_up x", "send-Mail me"]


def test_definitions_fit_what_models_accept() -> None:
    """Names in snake_case with a prefix, schemas in the subset, and side effects whose hints need not be trusted."""

    async def main(server: McpConnection) -> None:
        tools = await server.tools(prefix="desk_")
        assert [tool.name for tool in tools] == ["desk_look_up", "desk_send_mail", "desk_fail"]
        assert all(schema_problems(tool.definition.input_schema) == [] for tool in tools)
        assert {str(tool.definition.side_effects) for tool in tools} == {"network"}
        assert tools[1].metadata is not None
        assert tools[1].metadata.annotations["mcpName"] == "send-Mail"
        trusted = await server.tools(trust_hints=True)
        assert [str(tool.definition.side_effects) for tool in trusted] == ["read", "network", "network"]
        assert [prompt.name for prompt in await server.prompts()] == ["review"]
        assert [resource.uri for resource in await server.resources()] == ["note://today"]

    run_with_server(main)


@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}])
def test_a_tool_without_a_schema_takes_an_object(schema: dict[str, Any] | None) -> None:
    """A tool that takes nothing may come without any: its model calls it with an empty object."""
    ran: list[Any] = []

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="ping", input_schema={"type": "object"})])

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        ran.append(params.arguments)
        return CallToolResult(content=[TextContent(type="text", text="pong")])

    class Lenient(Client):
        """A client that keeps what the server left out."""

        async def list_tools(self, **options: Any) -> ListToolsResult:
            found = await super().list_tools(**options)
            return found.model_copy(
                update={"tools": [tool.model_copy(update={"input_schema": schema}) for tool in found.tools]}
            )

    async def main() -> None:
        async with Lenient(Server("desk", on_list_tools=list_tools, on_call_tool=call_tool)) as client:
            tools = await McpConnection(client, "desk").tools()
            assert tools[0].definition.input_schema == {"type": "object", "properties": {}}
            chat = session(
                handwritten_anthropic(Call("toolu_1", "ping", {})), handwritten_anthropic("Done."), tools=tools
            )
            await chat.ask("Go")
            assert ("tool", "pong") in texts(chat)

    asyncio.run(main())
    assert ran == [{}]


def test_plugins_see_server_and_schema(server_log: list[str]) -> None:
    """MCPExtension and the URI name the server, before a call, after it, and in what the model then reads."""
    recording = RecordingPlugin()

    async def main(server: McpConnection) -> None:
        reply = handwritten_anthropic(Call("toolu_1", "look_up", {"word": "x"}))
        chat = session(reply, handwritten_anthropic("Done."), tools=await server.tools(), policy=Pipeline([recording]))
        await chat.ask("Go")

    run_with_server(main)
    steps = {step.hook: step for step in recording.steps if step.extensions.mcp}
    assert set(steps) == {"cmf.tool_pre_invoke", "cmf.tool_post_invoke", "cmf.llm_input"}
    for step in steps.values():
        assert step.extensions.mcp is not None
        tool = step.extensions.mcp.tool
        assert tool is not None
        assert (tool.name, tool.server_id, tool.annotations["readOnlyHint"]) == ("look_up", "desk", True)
        assert (tool.input_schema or {})["properties"]["word"] == {"title": "Word", "type": "string"}
    assert steps["cmf.tool_pre_invoke"].views()[0].uri == "tool://desk/look_up"
    provenance = steps["cmf.tool_post_invoke"].extensions.provenance
    assert provenance is not None
    assert provenance.source == "mcp-server:desk"


@hook("cmf.tool_pre_invoke", "cmf.prompt_pre_fetch", "cmf.resource_pre_fetch")
def deny_all(step: Step) -> Violation | None:
    """Denies all that the server has, by URI."""
    patterns = [Glob(pattern) for pattern in ("tool://desk/**", "prompt://desk/**", "note://**")]
    if any(pattern.matches(view.uri or "") for view in step.views() for pattern in patterns):
        return Violation("the desk is closed", code="closed")
    return None


def test_a_denied_request_is_not_sent(server_log: list[str]) -> None:
    async def main(server: McpConnection) -> None:
        reply = handwritten_anthropic(Call("toolu_1", "look_up", {"word": "x"}))
        chat = session(reply, tools=await server.tools(), policy=Pipeline([deny_all]))
        for step in (chat.ask("Go"), server.prompt("review", {"topic": "x"}, judge=chat.apply_policy)):
            with pytest.raises(PolicyDeniedError, match="closed"):
                await step
        with pytest.raises(PolicyDeniedError, match="closed"):
            await server.resource("note://today", judge=chat.apply_policy)

    run_with_server(main)
    assert server_log == []


def test_a_denied_result_reaches_no_caller(server_log: list[str]) -> None:
    """The server returned it, and it is dropped."""

    async def main(server: McpConnection) -> None:
        chat = session(policy=Pipeline([DenyingPlugin(SECRET)]))
        with pytest.raises(PolicyDeniedError, match="prompt_post_fetch"):
            await server.prompt("review", {"topic": "x"}, judge=chat.apply_policy)
        with pytest.raises(PolicyDeniedError, match="resource_post_fetch"):
            await server.resource("note://today", judge=chat.apply_policy)

    run_with_server(main)
    assert server_log == ["review x", "today"]


def test_prompts_and_resources_are_returned_as_plugins_change_them() -> None:
    """Their text is changed in the messages and blocks that the program receives."""

    async def main(server: McpConnection) -> None:
        chat = session(handwritten_anthropic("Fine."), policy=Pipeline([RedactingPlugin()]))
        question, answer = await server.prompt("review", {"topic": "x"}, judge=chat.apply_policy)
        assert (question.role, question.text) == ("user", "Review x, the password is ***.")
        assert (answer.role, answer.text) == ("assistant", "Which part?")
        await chat.ask(question)

        @hook("cmf.resource_post_fetch")
        def blank(step: Step) -> Any:
            content = tuple(
                block.model_copy(update={"content": (block.content or "").replace(SECRET, "***")})  # type: ignore[union-attr]
                for block in step.message.content
            )
            return step.message.model_copy(update={"content": content})

        (note,) = await server.resource("note://today", judge=session(policy=Pipeline([blank])).apply_policy)
        assert (note.content, note.mime_type, note.name) == ("Buy milk. ***", "text/plain", "today")

    run_with_server(main)


def test_a_change_of_the_prompt_result_changes_its_messages() -> None:
    """Plugins that know prompt results only work as well."""

    @hook("cmf.prompt_post_fetch")
    def whole(step: Step) -> Any:
        content = tuple(
            block.model_copy(update={"content": "***"}) if isinstance(block, PromptResultBlock) else block
            for block in step.message.content
        )
        return step.message.model_copy(update={"content": content})

    async def main(server: McpConnection) -> None:
        chat = session(policy=Pipeline([whole]))
        assert [message.text for message in await server.prompt("review", {"topic": "x"}, judge=chat.apply_policy)] == [
            "***"
        ]

    run_with_server(main)


def test_no_plugin_redirects_a_request() -> None:
    """It may change the arguments; other changes are denied and emitted as events."""

    @hook("cmf.prompt_pre_fetch")
    def elsewhere(step: Step) -> Any:
        other = PromptRequestBlock(prompt_request_id="p", name="other")
        return step.message.model_copy(update={"content": (other,)})

    @hook("cmf.prompt_pre_fetch")
    def nowhere(step: Step) -> Any:
        return step.message.model_copy(update={"content": ()})

    @hook("cmf.resource_pre_fetch")
    def other_file(step: Step) -> Any:
        (part,) = step.message.content
        return step.message.model_copy(update={"content": (part.model_copy(update={"uri": "note://other"}),)})

    @hook("cmf.prompt_post_fetch", "cmf.resource_post_fetch")
    def nothing(step: Step) -> Any:
        return step.message.model_copy(update={"content": ()})

    events: list[Any] = []
    denied: list[tuple[str, str]] = []

    async def main(server: McpConnection) -> None:
        with EventBus(strict=True) as bus:
            bus.subscribe(events.append, types="policy.denied")
            for plugin in (elsewhere, nowhere, nothing):
                chat = session(policy=Pipeline([plugin]), events=bus)
                with pytest.raises(PolicyDeniedError) as raised:
                    await server.prompt("review", {"topic": "x"}, judge=chat.apply_policy)
                denied.append((raised.value.hook, raised.value.code))
            for plugin in (other_file, nothing):
                chat = session(policy=Pipeline([plugin]), events=bus)
                with pytest.raises(PolicyDeniedError) as raised:
                    await server.resource("note://today", judge=chat.apply_policy)
                denied.append((raised.value.hook, raised.value.code))

    run_with_server(main)
    assert denied == [
        ("cmf.prompt_pre_fetch", "redirected"),
        ("cmf.prompt_pre_fetch", "left_out"),
        ("cmf.prompt_post_fetch", "left_out"),
        ("cmf.resource_pre_fetch", "redirected"),
        ("cmf.resource_post_fetch", "left_out"),
    ]
    assert [(event.payload.hook, event.payload.code) for event in events] == denied


def test_resource_data_are_labelled_by_uri() -> None:
    """The labels stay with the session."""
    labels: list[frozenset[str]] = []

    @hook("cmf.llm_input", capabilities=["read_labels"])
    def look(step: Step) -> None:
        labels.append(step.extensions.security.labels if step.extensions.security else frozenset())

    async def main(server: McpConnection) -> None:
        host = Extensions(security=SecurityExtension(data={"note://today": DataPolicy(apply_labels=["PRIVATE"])}))
        chat = session(handwritten_anthropic("Fine."), policy=Pipeline([look]), extensions=host)
        await chat.ask([*await server.resource("note://today", judge=chat.apply_policy)])

    run_with_server(main)
    assert labels == [frozenset({"PRIVATE"})]


def test_without_a_policy_everything_passes() -> None:
    """Unchanged, through the same calls."""

    async def main(server: McpConnection) -> None:
        chat = session()
        assert len(await server.prompt("review", {"topic": "x"}, judge=chat.apply_policy)) == 2
        assert SECRET in ((await server.resource("note://today", judge=chat.apply_policy))[0].content or "")

    run_with_server(main)


def test_a_server_does_not_name_itself() -> None:
    """The name in URIs comes from the program: a server could report the name of one that a policy allows."""

    async def run() -> None:
        async with Client(mcp_server.server) as client:
            assert client.server_info.name == "desk"
            for server, name in ((McpConnection(client), "mcp"), (McpConnection(client, "mine"), "mine")):
                assert {tool.metadata.server_id for tool in await server.tools() if tool.metadata} == {name}

    asyncio.run(run())


def _endless_server(behaviour: str) -> Server:
    """A server whose list of tools has no end, or is larger than any list needs to be."""

    async def list_tools(_: Any, parameters: PaginatedRequestParams | None) -> ListToolsResult:
        number = int((parameters and parameters.cursor) or 0)
        count, size, last = {
            "new pages": (1, 1, 10**9),
            "empty pages": (0, 1, 10**9),
            "the same page": (1, 1, 10**9),
            "one long page": (101, 1, 0),
            "large entries": (2, 40 * 2**20, 0),
            "many small pages": (10, 1, 9),
        }[behaviour]
        tools = [Tool(name="look", description="x" * size, input_schema={"type": "object"})] * count
        following = "7" if behaviour == "the same page" else str(number + 1)
        return ListToolsResult(tools=tools, next_cursor=None if number >= last else following)

    return Server("endless", on_list_tools=list_tools)


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        ("new pages", "more than 100 entries or pages: .* set a higher max_items"),
        ("empty pages", "more than 100 entries or pages: "),
        ("the same page", "the same page again and again: correct the cursors"),
        ("one long page", "more than 100 entries or pages: "),
        ("large entries", "over 64 MiB: use a server that lists less"),
        ("many small pages", None),
    ],
)
def test_a_list_without_an_end_is_refused(behaviour: str, error: str | None) -> None:
    """A list without an end is refused with an error that says what to do. A hundred tools of one name get names of
    their own.
    """

    async def run() -> None:
        async with Client(_endless_server(behaviour)) as client:
            server = McpConnection(client, "desk", max_items=100)
            if error is None:
                names = [tool.name for tool in await server.tools()]
                assert names == ["look", *(f"look_{number}" for number in range(2, 101))]
                return
            with pytest.raises(RequestError, match=f"the list of tools of the MCP server 'desk' has {error}"):
                await asyncio.wait_for(server.tools(), 60)

    asyncio.run(run())


@pytest.mark.exhaustive
def test_a_server_over_pipes_works_as_well() -> None:
    """A server over pipes works as well, as a program of its own, through the client's older session object."""

    async def main() -> None:
        parameters = StdioServerParameters(command=sys.executable, args=["-m", "tests.unit.tools.mcp_server"])
        async with Client(parameters) as client:
            assert isinstance(client.session, ClientSession)
            server = McpConnection(client.session, "desk")
            chat = session(policy=Pipeline([RedactingPlugin()]))
            assert [tool.name for tool in await server.tools()] == ["look_up", "send_mail", "fail"]
            question, _ = await server.prompt("review", {"topic": "x"}, judge=chat.apply_policy)
            assert question.text == "Review x, the password is ***."

    asyncio.run(main())


def test_a_server_needs_a_client_and_an_async_session() -> None:
    """Anything else is reported at once."""
    with pytest.raises(ConfigurationError, match="expected an MCP client"):
        McpConnection(object())

    async def main(server: McpConnection) -> None:
        with pytest.raises(ConfigurationError, match="coroutines need an AsyncSession"):
            Session(ANTHROPIC, tools=await server.tools())

    run_with_server(main)
