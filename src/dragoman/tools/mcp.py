"""MCP servers: their tools, prompts and resources, through the caller's own client and the session's policy.

The client is that of the package ``mcp`` (the extra of the same name), open and connected::

    async with Client(server) as client:
        files = McpServer(client)
        async with AsyncSession(model, tools=await files.tools(), policy=policy) as session:
            (said,) = await files.prompt("review", {"path": "a.py"}, session=session)
            await session.ask(said)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dragoman.adapter.errors import ConfigurationError, DragomanError, RequestError
from dragoman.canonical.blocks import (
    ContentBlock,
    PromptRequestBlock,
    PromptResultBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
)
from dragoman.canonical.extensions.extensions import ProvenanceExtension
from dragoman.canonical.extensions.mcp import MCPExtension, PromptMetadata, ResourceMetadata, ToolMetadata
from dragoman.canonical.ids import new_ulid
from dragoman.canonical.message import Message, Role
from dragoman.canonical.serialization import read_message
from dragoman.session.async_session import AsyncSession
from dragoman.tools import mcp_decode
from dragoman.tools.toolbox import Tool

_REASONS = {
    "left_out": "what was to be fetched was left out",
    "redirected": "something else was named in the place of what was to be fetched",
}
_REQUIRED_METHODS = ("list_tools", "call_tool", "list_prompts", "get_prompt", "list_resources", "read_resource")


class McpToolError(DragomanError):
    """A tool of an MCP server answered with an error: what it said is the model's to read."""


@dataclass(frozen=True, slots=True)
class McpTool(Tool):
    """A tool that an MCP server runs; ``metadata`` is what policies are told of it."""

    metadata: ToolMetadata | None = None


class McpConnection:
    """``client`` is an open ``mcp.Client``, or a ``ClientSession``; ``name`` is what policies call the server by. It is
    what the server calls itself, unless another one is given.

    Everything of it is asynchronous, so its tools need an AsyncSession. Raises ConfigurationError on anything else than
    a client; what goes wrong between client and server is raised as the client raises it.
    """

    def __init__(self, client: Any, name: str | None = None) -> None:
        if missing := [item for item in _REQUIRED_METHODS if not callable(getattr(client, item, None))]:
            raise ConfigurationError(
                f"a {type(client).__name__} is no MCP client, it has no {missing[0]}: give an open mcp.Client"
                " (pip install dragoman[mcp])"
            )
        self._client = client
        self._name = name
        self._prompts: dict[str, PromptMetadata] | None = None
        self._resources: dict[str, ResourceMetadata] | None = None

    @property
    def name(self) -> str:
        if self._name is None:
            server_info = getattr(self._client, "server_info", None)
            self._name = str(getattr(server_info, "name", None) or "mcp")
        return self._name

    async def tools(self, *, prefix: str = "", trust_hints: bool = False) -> list[McpTool]:
        """The server's tools, for ``AsyncSession(tools=...)``. Names are brought to snake_case behind ``prefix``.

        Without ``trust_hints`` each counts as one that reaches out (side effects ``network``); with it, what the server
        says of its tools is believed.
        """
        found: list[McpTool] = []
        for tool in await self._list_all("list_tools", "tools"):
            name = mcp_decode.tool_name(tool.name, prefix, [item.name for item in found])
            effects = mcp_decode.side_effects(tool, trusted=trust_hints)
            definition = mcp_decode.tool_definition(tool, name, effects)
            metadata = mcp_decode.tool_metadata(tool, name, self.name, effects)
            found.append(McpTool(definition, _Call(self._client, tool.name), metadata=metadata))
        return found

    async def prompts(self) -> tuple[PromptMetadata, ...]:
        """The prompts that the server offers."""
        if self._prompts is None:
            listed = await self._list_all("list_prompts", "prompts")
            self._prompts = {item.name: mcp_decode.prompt_metadata(item, self.name) for item in listed}
        return tuple(self._prompts.values())

    async def resources(self) -> tuple[ResourceMetadata, ...]:
        """The resources that the server lists; it may have more, behind templates."""
        if self._resources is None:
            listed = await self._list_all("list_resources", "resources")
            self._resources = {str(item.uri): mcp_decode.resource_metadata(item, self.name) for item in listed}
        return tuple(self._resources.values())

    async def prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, session: AsyncSession
    ) -> tuple[Message, ...]:
        """A rendered prompt, as messages for that session: to say, or to begin with.

        The session's policy sees the request before it is sent, and the result before anybody else does. Raises
        PolicyDeniedError.
        """
        await self.prompts()
        metadata = (self._prompts or {}).get(name) or PromptMetadata(name=name, server_id=self.name)
        check = partial(self._apply_policy, session, MCPExtension(prompt=metadata))
        request_id = f"pr_{new_ulid()}"
        request = PromptRequestBlock(
            prompt_request_id=request_id, name=name, arguments=dict(arguments or {}), server_id=self.name
        )
        checked_request = _single_block(await check("prompt_pre_fetch", Role.USER, (request,)), PromptRequestBlock)
        _require_same(session, "prompt_pre_fetch", None if checked_request is None else checked_request.name, name)
        rendered = await self._client.get_prompt(
            name, {key: str(value) for key, value in checked_request.arguments.items()}
        )
        messages = [_to_message(item, session.session_id) for item in rendered.messages]
        result = PromptResultBlock(
            prompt_request_id=request_id,
            prompt_name=name,
            messages=tuple(message.model_dump(mode="json", exclude_none=True) for message in messages),
            content="\n".join(message.text for message in messages if message.text) or None,
        )
        checked_result = _single_block(await check("prompt_post_fetch", Role.USER, (result,)), PromptResultBlock)
        _require_same(
            session, "prompt_post_fetch", None if checked_result is None else checked_result.prompt_name, name
        )
        if checked_result.messages != result.messages:
            messages = [read_message(message) for message in checked_result.messages]
        elif (
            checked_result.content != result.content
        ):  # what was changed in the text stands for all that was in the messages
            messages = [Message.user(checked_result.content or "", session_id=session.session_id)]
        checked_messages = [await check("prompt_post_fetch", message.role, message.content) for message in messages]
        if any(message.content and not kept.content for message, kept in zip(messages, checked_messages, strict=True)):
            _refuse(session, "prompt_post_fetch", "left_out")
        return tuple(checked_messages)

    async def resource(self, uri: str, *, session: AsyncSession) -> tuple[ResourceBlock, ...]:
        """A resource, as blocks to say: one, or those that it consists of. The session's policy is asked as for
        `prompt`. Raises PolicyDeniedError."""
        await self.resources()
        metadata = (self._resources or {}).get(uri) or ResourceMetadata(uri=uri, server_id=self.name)
        check = partial(self._apply_policy, session, MCPExtension(resource=metadata))
        checked_request = await check("resource_pre_fetch", Role.USER, (mcp_decode.resource_ref(uri, metadata.name),))
        _require_same(
            session, "resource_pre_fetch", getattr(_single_block(checked_request, ResourceRefBlock), "uri", None), uri
        )
        read = await self._client.read_resource(uri)
        found = mcp_decode.resources(read.contents, metadata.name)
        checked_result = await check("resource_post_fetch", Role.USER, found)
        kept = tuple(block for block in checked_result.content if isinstance(block, ResourceBlock))
        if len(kept) < len(found):
            _refuse(session, "resource_post_fetch", "left_out")
        return kept

    async def _apply_policy(
        self, session: AsyncSession, mcp: MCPExtension, hook: str, role: Role, content: Sequence[ContentBlock]
    ) -> Message:
        message = Message(role=role, content=tuple(content), session_id=session.session_id)
        provenance = ProvenanceExtension(source=f"mcp-server:{self.name}", message_id=message.id)
        return await session.apply_policy(hook, message, mcp=mcp, provenance=provenance)

    async def _list_all(self, method: str, what: str) -> list[Any]:
        """All pages of a list; nothing where the server has none of its kind."""
        capabilities = getattr(self._client, "server_capabilities", None)
        if capabilities is not None and getattr(capabilities, what, None) is None:
            return []
        found: list[Any] = []
        cursor: str | None = None
        while True:
            page = await _page(getattr(self._client, method), cursor)
            found += getattr(page, what)
            cursor = page.next_cursor
            if not cursor:
                return found


@dataclass(frozen=True, slots=True)
class _Call:
    """Runs one tool of a server."""

    client: Any
    name: str

    async def __call__(self, **arguments: Any) -> tuple[ContentBlock, ...]:
        result = await self.client.call_tool(self.name, arguments)
        if getattr(result, "result_type", "complete") not in ("complete", None):
            raise RequestError("the tool asks for more input, which nobody here can give")
        content = mcp_decode.blocks(result.content)
        if result.is_error:
            raise McpToolError(
                "\n".join(block.text for block in content if isinstance(block, TextBlock)) or "it failed"
            )
        if not content and result.structured_content is not None:
            return mcp_decode.structured_blocks(result.structured_content)
        return content or mcp_decode.empty_blocks()


async def _page(listing: Any, cursor: str | None) -> Any:
    if cursor is None:
        return await listing()
    try:
        return await listing(cursor=cursor)
    except TypeError:
        from mcp.types import PaginatedRequestParams  # of a ClientSession, so the package is there

        return await listing(params=PaginatedRequestParams(cursor=cursor))


def _to_message(message: Any, session_id: str) -> Message:
    return Message(role=Role(message.role), content=mcp_decode.blocks([message.content]), session_id=session_id)


def _single_block(message: Message, kind: type[Any]) -> Any:
    """The one block of a fetch; None where it was left out, or there are several."""
    found = [block for block in message.content if isinstance(block, kind)]
    return found[0] if len(found) == 1 else None


def _require_same(session: AsyncSession, hook: str, actual: str | None, expected: str) -> None:
    if actual != expected:
        _refuse(session, hook, "left_out" if actual is None else "redirected")


def _refuse(session: AsyncSession, hook: str, code: str) -> None:
    """Raises PolicyDeniedError, which the session's bus is told of."""
    if session._policy_hooks is not None:  # as it is: nobody else changes what is fetched
        session._policy_hooks.refuse_fetch(hook, code, _REASONS[code])
