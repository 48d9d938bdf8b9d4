"""MCP servers: their tools, prompts and resources, through the caller's client and the session's policy.

The client is an open one of the package ``mcp`` (the extra of the same name)::

    async with Client(server) as client:
        files = McpConnection(client)
        async with AsyncSession(model, tools=await files.tools(), policy=policy) as session:
            (prompt,) = await files.prompt("review", {"path": "a.py"}, judge=session.apply_policy)
            await session.ask(prompt)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from pydantic_core import to_json

from dragoman.adapter.errors import ConfigurationError, DragomanError, RequestError
from dragoman.canonical.blocks import (
    ContentBlock,
    PromptRequestBlock,
    PromptResultBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
)
from dragoman.canonical.extensions.slots import (
    MCPExtension,
    PromptMetadata,
    ProvenanceExtension,
    ResourceMetadata,
    ToolMetadata,
)
from dragoman.canonical.guard import MAX_BODY_BYTES
from dragoman.canonical.ids import new_ulid
from dragoman.canonical.message import Message, Role, read_message
from dragoman.tools import mcp_decode
from dragoman.tools.tool import Tool

_REQUIRED_METHODS = ("list_tools", "call_tool", "list_prompts", "get_prompt", "list_resources", "read_resource")
MAX_ITEMS = 10_000
"""How many tools, prompts or resources a server may list, and in how many pages, if a program does not say so."""


class Judge(Protocol):
    """Applies a policy to what a server sends or is asked for: `AsyncSession.apply_policy` is one.

    ``require`` gets the message as the plugins left it and returns the code of a refusal, or None. A judge that changes
    nothing need not call it.
    """

    async def __call__(
        self, hook: str, message: Message, *, require: Callable[[Message], str | None] | None = None, **slots: Any
    ) -> Message: ...


class McpToolError(DragomanError):
    """A tool of an MCP server returned an error; the model reads its text."""


@dataclass(frozen=True, slots=True)
class McpTool(Tool):
    """A tool that an MCP server runs; ``metadata`` describes it to policies."""

    metadata: ToolMetadata | None = None


class McpConnection:
    """The tools, prompts and resources of one MCP server. ``client`` is an open ``mcp.Client`` or ``ClientSession``.
    ``name`` is the server's name in policies, as in ``tool://NAME/TOOL``. The name that a server reports is not used:
    it could be that of another server. A list of more than ``max_items`` entries or pages, or of over 64 MiB, raises
    RequestError.

    All methods are asynchronous, so the tools need an AsyncSession. Raises ConfigurationError if ``client`` is not a
    client. Errors between client and server are raised as the client raises them.
    """

    def __init__(self, client: Any, name: str = "mcp", *, max_items: int = MAX_ITEMS) -> None:
        if missing := [item for item in _REQUIRED_METHODS if not callable(getattr(client, item, None))]:
            raise ConfigurationError(
                f"expected an MCP client, but {type(client).__name__} has no {missing[0]}: pass an open "
                "mcp.Client (pip install dragoman[mcp])"
            )
        self._client = client
        self.name = name
        self._max_items = max_items
        self._prompts: dict[str, PromptMetadata] | None = None
        self._resources: dict[str, ResourceMetadata] | None = None

    async def tools(self, *, prefix: str = "", trust_hints: bool = False) -> list[McpTool]:
        """Return the server's tools, for ``AsyncSession(tools=...)``. Names become snake_case, after ``prefix``.

        Without ``trust_hints`` each tool has the side effects ``network``; with it, the server's hints are used.
        """
        found: list[McpTool] = []
        names: dict[str, int] = {}
        for tool in await self._list_all("list_tools", "tools"):
            name = mcp_decode.tool_name(tool.name, prefix, names)
            effects = mcp_decode.side_effects(tool, trusted=trust_hints)
            definition = mcp_decode.tool_definition(tool, name, effects)
            metadata = mcp_decode.tool_metadata(tool, name, self.name, effects)
            found.append(McpTool(definition, _Call(self._client, tool.name), metadata=metadata))
        return found

    async def prompts(self) -> tuple[PromptMetadata, ...]:
        """Return the prompts that the server offers."""
        if self._prompts is None:
            native_prompts = await self._list_all("list_prompts", "prompts")
            self._prompts = {item.name: mcp_decode.prompt_metadata(item, self.name) for item in native_prompts}
        return tuple(self._prompts.values())

    async def resources(self) -> tuple[ResourceMetadata, ...]:
        """Return the resources that the server lists. Its templates may give more."""
        if self._resources is None:
            native_resources = await self._list_all("list_resources", "resources")
            self._resources = {
                str(item.uri): mcp_decode.resource_metadata(item, self.name) for item in native_resources
            }
        return tuple(self._resources.values())

    async def prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, judge: Judge
    ) -> tuple[Message, ...]:
        """Return a rendered prompt as messages, to send or to begin a session with.

        ``judge`` is ``session.apply_policy``: the session's policy sees the request before it is sent, and the result
        before anything else does. Raises PolicyDeniedError.
        """
        await self.prompts()
        metadata = (self._prompts or {}).get(name) or PromptMetadata(name=name, server_id=self.name)
        check = partial(self._apply_policy, judge, MCPExtension(prompt=metadata))
        request_id = f"pr_{new_ulid()}"
        request = PromptRequestBlock(
            prompt_request_id=request_id, name=name, arguments=dict(arguments or {}), server_id=self.name
        )
        same_request = _require_same(PromptRequestBlock, "name", name)
        checked_request = _single_block(
            await check("prompt_pre_fetch", Role.USER, (request,), require=same_request), PromptRequestBlock
        )
        rendered = await self._client.get_prompt(
            name, {key: str(value) for key, value in checked_request.arguments.items()}
        )
        messages = [
            Message(role=Role(item.role), content=mcp_decode.blocks([item.content])) for item in rendered.messages
        ]
        result = PromptResultBlock(
            prompt_request_id=request_id,
            prompt_name=name,
            messages=tuple(message.model_dump(mode="json", exclude_none=True) for message in messages),
            content="\n".join(message.text for message in messages if message.text) or None,
        )
        same_result = _require_same(PromptResultBlock, "prompt_name", name)
        checked_result = _single_block(
            await check("prompt_post_fetch", Role.USER, (result,), require=same_result), PromptResultBlock
        )
        if checked_result.messages != result.messages:
            messages = [read_message(message) for message in checked_result.messages]
        elif checked_result.content != result.content:  # the changed text replaces all messages
            messages = [Message.user(checked_result.content or "")]
        checked_messages = []
        for message in messages:
            at_least = partial(_require_count, min(len(message.content), 1), object)
            checked_messages.append(await check("prompt_post_fetch", message.role, message.content, require=at_least))
        return tuple(checked_messages)

    async def resource(self, uri: str, *, judge: Judge) -> tuple[ResourceBlock, ...]:
        """Return the blocks of a resource, to send in a prompt. ``judge`` is as for `prompt`. Raises
        PolicyDeniedError."""
        await self.resources()
        metadata = (self._resources or {}).get(uri) or ResourceMetadata(uri=uri, server_id=self.name)
        check = partial(self._apply_policy, judge, MCPExtension(resource=metadata))
        request = mcp_decode.resource_ref(uri, metadata.name)
        same_request = _require_same(ResourceRefBlock, "uri", uri)
        await check("resource_pre_fetch", Role.USER, (request,), require=same_request)
        read = await self._client.read_resource(uri)
        found = mcp_decode.resources(read.contents, metadata.name)
        all_blocks = partial(_require_count, len(found), ResourceBlock)
        checked_result = await check("resource_post_fetch", Role.USER, found, require=all_blocks)
        return tuple(block for block in checked_result.content if isinstance(block, ResourceBlock))

    async def _apply_policy(
        self,
        judge: Judge,
        mcp: MCPExtension,
        hook: str,
        role: Role,
        content: Sequence[ContentBlock],
        *,
        require: Callable[[Message], str | None],
    ) -> Message:
        message = Message(role=role, content=tuple(content))
        provenance = ProvenanceExtension(source=f"mcp-server:{self.name}", message_id=message.id)
        return await judge(hook, message, require=require, mcp=mcp, provenance=provenance)

    async def _list_all(self, method: str, what: str) -> list[Any]:
        """Return all pages of a list; nothing if the server lacks the capability. Raises RequestError if it has no end,
        or is too long.
        """
        capabilities = getattr(self._client, "server_capabilities", None)
        if capabilities is not None and getattr(capabilities, what, None) is None:
            return []
        found: list[Any] = []
        cursor: str | None = None
        cursors: set[str] = set()
        size = 0
        while True:
            page = await _page(getattr(self._client, method), cursor)
            found += getattr(page, what)
            cursor = page.next_cursor
            size += len(to_json(page, fallback=str))
            if size > MAX_BODY_BYTES:
                raise self._endless(what, f"over {MAX_BODY_BYTES // 2**20} MiB", "use a server that lists less")
            if len(found) > self._max_items or len(cursors) > self._max_items:
                limit = f"more than {self._max_items:,} entries or pages"
                raise self._endless(what, limit, "if they are needed, set a higher max_items of McpConnection")
            if not cursor:
                return found
            if cursor in cursors:
                raise self._endless(what, "the same page again and again", "correct the cursors of the server")
            cursors.add(cursor)

    def _endless(self, what: str, content: str, advice: str) -> RequestError:
        return RequestError(f"the list of {what} of the MCP server {self.name!r:.80} has {content}: {advice}")


@dataclass(frozen=True, slots=True)
class _Call:
    """Runs one tool of a server."""

    client: Any
    name: str

    async def __call__(self, **arguments: Any) -> tuple[ContentBlock, ...]:
        result = await self.client.call_tool(self.name, arguments)
        if getattr(result, "result_type", "complete") not in ("complete", None):
            raise RequestError("the tool asks the user for more input, which is not supported")
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


def _single_block(message: Message, kind: type[Any]) -> Any:
    """Return the only block of that kind; None if there is none, or several."""
    found = [block for block in message.content if isinstance(block, kind)]
    return found[0] if len(found) == 1 else None


def _require_same(kind: type[Any], field: str, expected: str) -> Callable[[Message], str | None]:
    """Return the check that a message still holds one block of that kind, and that it names the same thing."""

    def check(message: Message) -> str | None:
        block = _single_block(message, kind)
        if block is None:
            return "left_out"
        return None if getattr(block, field) == expected else "redirected"

    return check


def _require_count(count: int, kind: type[Any], message: Message) -> str | None:
    """Refuse a message with fewer than ``count`` blocks of that kind."""
    return None if sum(isinstance(block, kind) for block in message.content) >= count else "left_out"
