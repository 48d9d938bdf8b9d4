"""MCP servers: their tools, prompts and resources, through the caller's client and the session's policy.

The client is an open one of the package ``mcp`` (the extra of the same name)::

    async with Client(server) as client:
        files = McpConnection(client)
        async with AsyncSession(model, tools=await files.tools(), policy=policy) as session:
            (prompt,) = await files.prompt("review", {"path": "a.py"}, judge=session.apply_policy)
            await session.ask(prompt)
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from pydantic_core import to_json

from dragoman.adapter import wirejson
from dragoman.adapter.errors import ConfigurationError, DragomanError, RequestError
from dragoman.adapter.facts.capabilities import SchemaRule
from dragoman.adapter.requests.schemas import fit_schema
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    ImageBlock,
    MediaSource,
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
from dragoman.canonical.tools import KEYWORDS, SideEffects, ToolDefinition
from dragoman.tools.tool import SIDE_EFFECTS, Tool

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
            name = _tool_name(tool.name, prefix, names)
            effects = _side_effects(tool, trusted=trust_hints)
            definition = _tool_definition(tool, name, effects)
            metadata = _tool_metadata(tool, name, self.name, effects)
            found.append(McpTool(definition, _Call(self._client, tool.name), metadata=metadata))
        return found

    async def prompts(self) -> tuple[PromptMetadata, ...]:
        """Return the prompts that the server offers."""
        if self._prompts is None:
            native_prompts = await self._list_all("list_prompts", "prompts")
            self._prompts = {item.name: _prompt_metadata(item, self.name) for item in native_prompts}
        return tuple(self._prompts.values())

    async def resources(self) -> tuple[ResourceMetadata, ...]:
        """Return the resources that the server lists. Its templates may give more."""
        if self._resources is None:
            native_resources = await self._list_all("list_resources", "resources")
            self._resources = {str(item.uri): _resource_metadata(item, self.name) for item in native_resources}
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
        messages = [Message(role=Role(item.role), content=(_decode_block(item.content),)) for item in rendered.messages]
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
        request = _resource_ref(uri, metadata.name)
        same_request = _require_same(ResourceRefBlock, "uri", uri)
        await check("resource_pre_fetch", Role.USER, (request,), require=same_request)
        read = await self._client.read_resource(uri)
        found = tuple(_decode_resource(item, metadata.name) for item in read.contents)
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
        content = tuple(map(_decode_block, result.content))
        if result.is_error:
            raise McpToolError(
                "\n".join(block.text for block in content if isinstance(block, TextBlock)) or "it failed"
            )
        if not content and result.structured_content is not None:
            return (TextBlock(text=wirejson.dumps_text(result.structured_content)),)
        return content or (TextBlock(text=""),)


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


_MCP_NAME = "mcpName"
"""The annotation with the server's name of a tool, if the session uses another one."""

_SUBSET = SchemaRule(keywords=tuple(sorted(KEYWORDS)), values={"additionalProperties": (True, False)}, root="object")
_MAX_NAME_LENGTH = 64


def _resource_ref(uri: str, name: str | None = None) -> ResourceRefBlock:
    return ResourceRefBlock(
        resource_request_id=f"rr_{new_ulid()}", uri=uri, name=name, resource_type="file" if _is_file(uri) else "uri"
    )


def _tool_definition(tool: Any, name: str, effects: SideEffects) -> ToolDefinition:
    """Return the definition for models. Its schema is fitted to the subset; dropped keywords become descriptions."""
    schema = fit_schema(tool.input_schema or {"type": "object"}, _SUBSET).schema
    return ToolDefinition(
        name=name,
        description=tool.description or tool.title or "",
        input_schema={"properties": {}, **schema},
        side_effects=effects,
        requires_workspace=False,
    )


def _tool_metadata(tool: Any, name: str, server_id: str, effects: SideEffects) -> ToolMetadata:
    """Return the server's metadata of its tool, with the session's name and side effects."""
    hints = _annotations(tool)
    if tool.name != name:
        hints[_MCP_NAME] = tool.name
    return ToolMetadata(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        server_id=server_id,
        annotations={**hints, SIDE_EFFECTS: str(effects)},
    )


def _side_effects(tool: Any, *, trusted: bool) -> SideEffects:
    """A server counts as network access, unless it is trusted and its hints say that it does less."""
    hints = _annotations(tool) if trusted else {}
    if hints.get("openWorldHint") is not False:
        return SideEffects.NETWORK
    return SideEffects.READ if hints.get("readOnlyHint") is True else SideEffects.EXECUTE


def _prompt_metadata(prompt: Any, server_id: str) -> PromptMetadata:
    arguments = None
    if prompt.arguments is not None:
        arguments = [_to_dict(item) for item in prompt.arguments]
    return PromptMetadata(
        name=prompt.name, description=prompt.description, arguments=arguments, server_id=server_id, annotations={}
    )


def _resource_metadata(resource: Any, server_id: str) -> ResourceMetadata:
    return ResourceMetadata(
        uri=str(resource.uri),
        name=resource.name,
        description=resource.description,
        mime_type=resource.mime_type,
        server_id=server_id,
        annotations=_annotations(resource),
    )


def _tool_name(name: str, prefix: str, taken: dict[str, int]) -> str:
    """Return a unique name for the tool, in snake_case. ``taken`` has the names so far, each with its last number."""
    snake_name = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")
    base_name = f"{prefix}{snake_name or 'tool'}"[:_MAX_NAME_LENGTH]
    base_name = base_name if base_name[0].isalpha() else f"t_{base_name}"[:_MAX_NAME_LENGTH]
    candidate, number = base_name, taken.get(base_name, 1)
    while candidate in taken:
        number += 1
        suffix = f"_{number}"
        candidate = base_name[: _MAX_NAME_LENGTH - len(suffix)] + suffix
    taken |= {candidate: 1, base_name: number}
    return candidate


def _decode_block(part: Any) -> ContentBlock:
    match part.type:
        case "text":
            return TextBlock(text=part.text)
        case "image":
            return ImageBlock(source=MediaSource(kind="base64", data=part.data), media_type=part.mime_type)
        case "audio":
            return AudioBlock(source=MediaSource(kind="base64", data=part.data), media_type=part.mime_type)
        case "resource":
            return _decode_resource(part.resource, None)
        case "resource_link":
            return _resource_ref(str(part.uri), part.name)
        case other:
            raise RequestError(f"the MCP server sent content of the kind {other!r:.80}, which is unknown")


def _decode_resource(contents: Any, name: str | None) -> ResourceBlock:
    uri = str(contents.uri)
    text, blob = getattr(contents, "text", None), getattr(contents, "blob", None)
    return ResourceBlock(
        resource_request_id=f"rr_{new_ulid()}",
        uri=uri,
        name=name,
        resource_type="blob" if blob is not None else "file" if _is_file(uri) else "uri",
        content=text,
        blob=blob,
        mime_type=contents.mime_type,
    )


def _is_file(uri: str) -> bool:
    return uri.startswith("file:")


def _annotations(item: Any) -> dict[str, Any]:
    return {} if item.annotations is None else _to_dict(item.annotations)


def _to_dict(model: Any) -> dict[str, Any]:
    fields: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return fields
