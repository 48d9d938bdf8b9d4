"""The keyword arguments of sessions, typed for editors and type checkers."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from dragoman.adapter.contract import AdapterOptions, Prices, ToolChoice
from dragoman.canonical.blocks import ContentBlock, ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.limits.budget import Budget
from dragoman.session.identity import Pseudonyms
from dragoman.tools.tool import Tool
from dragoman.transport.fetch import FetchedMedia

if TYPE_CHECKING:
    from dragoman.canonical.extensions.extensions import Extensions
    from dragoman.events.bus import EventBus
    from dragoman.formats.body.schema import MessageBodySchema
    from dragoman.limits import Limits
    from dragoman.policy import Pipeline
    from dragoman.routing import Router
    from dragoman.session.answer import AnswerValidator

UserInput = str | ContentBlock | Iterable[ContentBlock] | Message
"""A prompt: a text, a block, several blocks, or a whole message."""

Approve = Callable[[ToolUseBlock, ToolDefinition], bool | Awaitable[bool]]
"""Decides whether a call may run. Only an AsyncSession can await the decision."""


class SessionSettings(TypedDict, total=False):
    """The arguments of a session that a stored session does not contain; see `Conversation` for each."""

    tools: Iterable[Tool | Callable[..., Any]]
    options: AdapterOptions | None
    providers: Mapping[str, Mapping[str, Any]] | None
    workspace: str | Path | None
    fetch: Callable[[str], FetchedMedia] | None
    approve: Approve | None
    max_rounds: int
    budgets: Iterable[Budget]
    limits: "Limits | None"
    router: "Router | None"
    events: "EventBus | None"
    policy: "Pipeline | None"
    extensions: "Extensions | None"
    prices: Prices | None
    new_id: Callable[[], str]
    clock: Callable[[], datetime]
    user_id: str | None
    team_id: str | None
    pseudonyms: Pseudonyms | None


class TurnOptions(TypedDict, total=False):
    """Options that replace the session's for one turn; see `AdapterOptions` for each."""

    max_output_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    frequency_penalty: float | None
    presence_penalty: float | None
    seed: int | None
    stop_sequences: tuple[str, ...]
    tool_choice: ToolChoice | None
    parallel_tool_calls: bool | None
    output_schema: "Mapping[str, Any] | MessageBodySchema | None"
    effort: str | None
    thinking: bool | None
    thinking_budget: int | None
    prompt_cache: Literal["5m", "1h"] | None
    strict_prefix: bool
    headers: Mapping[str, str]
    extra: Mapping[str, Mapping[str, Any]]


def merge_options(options: AdapterOptions, overrides: TurnOptions | None = None) -> AdapterOptions:
    """Merge the options of a session and of one turn, as adapters take them. Raises RequestError."""
    fields: dict[str, Any] = {**(overrides or {})}
    merged = replace(options, **fields)
    if merged.output_schema is None or isinstance(merged.output_schema, Mapping):
        return merged
    from dragoman.session.answer import with_json_schema

    return with_json_schema(merged)


def new_answer_validator(options: AdapterOptions, overrides: TurnOptions, *, early: bool) -> "AnswerValidator | None":
    """Return the validator of the turn's answer if it has to be a message body, else None. Raises RequestError."""
    schema = overrides.get("output_schema", options.output_schema)
    if schema is None or isinstance(schema, Mapping):
        return None
    from dragoman.session.answer import AnswerValidator, require_body_schema

    return AnswerValidator(require_body_schema(schema), early=early)
