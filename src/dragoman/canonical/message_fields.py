"""What a message holds: its role, content and metadata. Source: docs/reference/canonical.md#messages.

Views and extensions read messages as `MessageFields`, so that `Message` can depend on them.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Self

from pydantic import BaseModel, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from dragoman.canonical import guard
from dragoman.canonical.blocks import (
    TEXT_ALONE,
    Content,
    ContentBlock,
    FrozenModel,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    assemble,
)
from dragoman.canonical.guard import Count, JsonObject, NameSet, Text
from dragoman.canonical.ids import new_message_id
from dragoman.canonical.usage import Usage
from dragoman.canonical.words import OpenEnum


class RoutingMode(OpenEnum):
    """Which link of the routing chain chose the model. Source: docs/reference/routing-and-events.md#chain."""

    OVERRIDE = "override"
    MANUAL = "manual"
    RULE = "rule"
    PATTERN = "pattern"
    DELEGATE = "delegate"
    DEFAULT = "default"


class Refusal(StrEnum):
    """Why a model cannot take a turn. Source: docs/reference/routing-and-events.md#validation."""

    NOT_CONFIGURED = "not_configured"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    NO_VISION_SUPPORT = "no_vision_support"
    EXCEEDS_CONTEXT_WINDOW = "exceeds_context_window"
    NO_TOOL_SUPPORT = "no_tool_support"
    NO_SYSTEM_PROMPT_SUPPORT = "no_system_prompt_support"
    NO_STRUCTURED_OUTPUT_SUPPORT = "no_structured_output_support"


class RoutingDecisionRecord(FrozenModel):
    """Why this model answered. Source: docs/reference/routing-and-events.md#decision-record."""

    mode: RoutingMode
    """Which link of the routing chain chose the model."""
    chosen_model: Text
    """The model, as ``provider:name``."""
    reason: Text
    """One sentence for people."""
    rule_name: Text | None = None
    """The rule that won, if a rule did."""
    confidence: float | None = Field(default=None, ge=0, le=1)
    """The recommender's confidence, from 0 to 1, if a recommendation won."""
    alternatives_considered: tuple[Text, ...] = ()
    """The other models of the chain, in its order."""


SCHEMA_VERSION = 1


class Role(OpenEnum):
    """Who speaks. Source: docs/reference/canonical.md#roles."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    DEVELOPER = "developer"
    TOOL = "tool"


class Channel(OpenEnum):
    """The kind of output of an assistant: its reasoning, a remark on the way, or the answer."""

    ANALYSIS = "analysis"
    COMMENTARY = "commentary"
    FINAL = "final"


class MessageStatus(OpenEnum):
    """How a message ended. All but ``complete`` lack a part."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    CANCELLED = "cancelled"
    ERROR = "error"


class StopReason(OpenEnum):
    """Why the model stopped. Source: docs/reference/canonical.md#stop-reasons."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    REFUSAL = "refusal"
    CONTEXT_OVERFLOW = "context_overflow"
    PAUSE = "pause"
    CANCELLED = "cancelled"
    ERROR = "error"


class InputTransformation(FrozenModel):
    """A change that the provider made to a request before the model read it, as reported with the reply.

    ``kind`` and ``reason`` are the provider's words, such as thinking_dropped and prefix_binding_mismatch. ``where`` is
    the path in the request, or the id of the item.
    """

    kind: Text
    reason: Text | None = None
    where: Text | None = None


class Alternative(FrozenModel):
    """Another answer to the same prompt: what the model wrote, and why it stopped."""

    content: Content = ()
    """The blocks of the other answer, in the model's order."""
    stop_reason: StopReason | None = None
    """Why the model stopped; None if the provider does not say."""

    @property
    def text(self) -> str:
        """The text blocks, joined without a separator."""
        return "".join([block.text for block in self.content if isinstance(block, TextBlock)])


class MessageMetadata(FrozenModel):
    """Everything about a message except its content. Source: docs/reference/canonical.md#metadata.

    ``model`` is the full id (``provider:name``). ``provider_raw`` belongs to the adapter that wrote it: nothing
    else reads it, and it counts neither for equality nor for the hash.
    """

    model: Text | None = None
    provider: Text | None = None
    """The provider that answered."""
    routing: RoutingDecisionRecord | None = None
    """How the model was chosen; None if no router chose it."""
    usage: Usage | None = None
    """Tokens and cost of the reply; None if the provider reported nothing."""
    parent_tool_use_id: Text | None = None
    """The id of the call that a tool's message answers."""
    status: MessageStatus = MessageStatus.COMPLETE
    """Whether the reply is complete."""
    provider_raw: JsonObject | None = None
    user_id: Text | None = None
    """The id of the user who asked, as the program names users."""
    team_id: Text | None = None
    """The id of the user's team, as the program names teams."""

    # The fields above are the specification's own; the rest is added to it.
    stop_reason: StopReason | None = None
    """Why the model stopped; None for messages of others."""
    input_transformations: tuple[InputTransformation, ...] | None = None
    """What the provider changed in the prompt, if it says so."""
    critical: bool | tuple[Count, ...] = False
    """The indexes of the blocks that no projection may lose; True means all blocks."""
    cache_breakpoints: tuple[Count, ...] | None = None
    """The indexes of the blocks up to which a provider is asked to cache the prompt, for as long as the option
    ``prompt_cache`` says, or for five minutes."""
    summary_of: tuple[Text, ...] | None = None
    """The ids of the earlier messages that a summary replaces, which may be summaries themselves."""
    alternatives: tuple[Alternative, ...] | None = None
    """The other answers, if the option ``n`` asked for several. They are in no later request."""
    labels: NameSet | None = None
    """The security labels of the conversation when the message was added, without those declassified since."""


_UNSET = MessageMetadata().__dict__


def assemble_metadata(**fields: Any) -> MessageMetadata:
    """Return ``MessageMetadata(**fields)`` without its validation: the caller made the values, and no one else holds
    its objects."""
    return assemble(MessageMetadata, {**_UNSET, **fields}, shared_names(frozenset(fields)))


def share_field_names(*models: BaseModel) -> None:
    """Let models with the same given fields share the set of their names: it takes more memory than a short message.

    pydantic gives each model a set of its own, so that an assignment can add to it. Frozen models have no assignments.
    """
    for model in models:
        if (given := model.__pydantic_fields_set__) is TEXT_ALONE:
            continue
        object.__setattr__(model, "__pydantic_fields_set__", shared_names(frozenset(given)))


@lru_cache(maxsize=256)
def shared_names(names: frozenset[str]) -> set[str]:
    """Return the set that all models with these given fields share."""
    return set(names)


def check_content_size(content: Iterable[ContentBlock]) -> int:
    """Return the approximate size of the blocks in bytes. Raises PydanticCustomError if a message cannot hold them."""
    size = 0
    for index, block in enumerate(content):
        if isinstance(block, TextBlock) and not (block.citations or block.__pydantic_extra__):
            size += len(block.text)
        else:
            size += guard.json_size(block)
        if size > guard.MAX_BODY_BYTES:
            raise PydanticCustomError(
                "too_large",
                "content[{index}] makes the message larger than {limit} bytes",
                {"index": index, "limit": guard.MAX_BODY_BYTES},
            )
    return size


class MessageFields(FrozenModel):
    """The fields of a message and their validation. Programs use `Message`, which builds on it."""

    id: Text = Field(default_factory=new_message_id)
    """The id of the message: a new ULID unless one is given."""
    session_id: Text = ""
    """The session that the message belongs to; empty outside of one."""
    role: Role
    """Who speaks."""
    content: Content = ()
    """Blocks in order. A text becomes one block of text."""
    channel: Channel | None = None
    """The kind of reader that a model wrote for, if its wire has channels."""
    metadata: MessageMetadata = Field(default_factory=MessageMetadata)
    """Everything that was not said: model, usage, why it stopped."""
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    """When the message was made, in UTC."""
    schema_version: int = Field(default=SCHEMA_VERSION, ge=SCHEMA_VERSION, le=SCHEMA_VERSION)
    """The version of the stored form."""

    @field_validator("created_at")
    @classmethod
    def _to_utc(cls, value: datetime) -> datetime:
        if value.tzinfo is UTC:  # the common case
            return value
        if value.tzinfo is None:
            raise PydanticCustomError("naive_time", "created_at needs a time zone, such as UTC")
        try:
            return value.astimezone(UTC)
        except OverflowError:
            raise PydanticCustomError("time_out_of_range", "created_at must be in the years 1 to 9999 in UTC") from None

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        size = check_content_size(self.content)
        if self.alternatives and size + sum(map(guard.json_size, self.alternatives)) > guard.MAX_BODY_BYTES:
            limit = guard.MAX_BODY_BYTES
            raise PydanticCustomError(
                "too_large", "the alternatives make the message larger than {limit} bytes", {"limit": limit}
            )
        share_field_names(self, self.metadata, *self.content)
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy as all canonical data. If the content changes, what belongs to the old content is dropped: the
        provider's raw copy and the alternatives."""
        changed = super().model_copy(update=update, deep=deep)
        old, new = self.metadata, changed.metadata
        if (new.provider_raw is None and new.alternatives is None) or changed.content == self.content:
            return changed
        given = ((name, getattr(new, name)) for name in ("provider_raw", "alternatives"))
        dropped = [name for name, value in given if value is not None and value == getattr(old, name)]
        if not dropped:
            return changed
        metadata = new.model_copy(update=dict.fromkeys(dropped))
        return super(MessageFields, changed).model_copy(update={"metadata": metadata})

    @property
    def text(self) -> str:
        """The text blocks, joined without a separator."""
        return "".join([block.text for block in self.content if isinstance(block, TextBlock)])

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The other answers, if the option ``n`` asked for several."""
        return self.metadata.alternatives or ()

    @property
    def thinking(self) -> str:
        """The thinking, joined without a separator."""
        return "".join(block.text for block in self.content if isinstance(block, ThinkingBlock))

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        """The calls of tools, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolUseBlock))

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """The results of calls, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolResultBlock))

    @property
    def usage(self) -> Usage | None:
        """Tokens and cost; None if the provider reported nothing."""
        return self.metadata.usage

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the model stopped."""
        return self.metadata.stop_reason
