"""The keyword arguments of sessions, spelt out for editors and type checkers."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from dragoman.adapter.contract import AdapterOptions, Prices, ToolChoice
from dragoman.canonical.blocks import ContentBlock, ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.session.budget import Budget
from dragoman.session.toolbox import Tool
from dragoman.transport.fetch import Fetched

if TYPE_CHECKING:
    from dragoman.events.bus import EventBus
    from dragoman.routing import Router

Said = str | ContentBlock | Iterable[ContentBlock] | Message
"""What a user says: a text, a block, several blocks, or a whole message."""

Approve = Callable[[ToolUseBlock, ToolDefinition], bool | Awaitable[bool]]
"""Whether a call may run. Only an AsyncSession can await the answer."""


class Settings(TypedDict, total=False):
    """What the program brings to a session, and a stored session does not hold; see `Conversation` for each."""

    tools: Iterable[Tool | Callable[..., Any]]
    options: AdapterOptions | None
    providers: Mapping[str, Mapping[str, Any]] | None
    workspace: str | Path | None
    fetch: Callable[[str], Fetched] | None
    approve: Approve | None
    max_rounds: int
    budgets: Iterable[Budget]
    router: "Router | None"
    events: "EventBus | None"
    prices: Prices | None
    new_id: Callable[[], str]
    clock: Callable[[], datetime]
    user_id: str | None
    team_id: str | None


class Options(TypedDict, total=False):
    """The options of one turn, in place of the session's own; see `AdapterOptions` for each."""

    max_output_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    seed: int | None
    stop_sequences: tuple[str, ...]
    tool_choice: ToolChoice | None
    parallel_tool_calls: bool | None
    output_schema: Mapping[str, Any] | None
    effort: str | None
    thinking: bool | None
    thinking_budget: int | None
    prompt_cache: Literal["5m", "1h"] | None
    strict_prefix: bool
    headers: Mapping[str, str]
    extra: Mapping[str, Mapping[str, Any]]
