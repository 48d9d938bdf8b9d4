"""Message: one turn of the canonical conversation (specification D2)."""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from dragoman.canonical.blocks import (
    Content,
    ContentBlock,
    Frozen,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.guard import MAX_BODY_BYTES, JsonObject
from dragoman.canonical.ids import new_message_id
from dragoman.canonical.routing import RoutingDecisionRecord
from dragoman.canonical.usage import Usage

SCHEMA_VERSION = 1


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    DEVELOPER = "developer"
    TOOL = "tool"


class Channel(StrEnum):
    ANALYSIS = "analysis"
    COMMENTARY = "commentary"
    FINAL = "final"


class MessageStatus(StrEnum):
    COMPLETE = "complete"
    PARTIAL = "partial"
    CANCELLED = "cancelled"
    ERROR = "error"


class StopReason(StrEnum):
    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    REFUSAL = "refusal"
    CONTEXT_OVERFLOW = "context_overflow"
    PAUSE = "pause"
    CANCELLED = "cancelled"
    ERROR = "error"


class MessageMetadata(Frozen):
    """Everything about a message that is not what was said.

    ``model`` is the full id (``provider:name``). ``provider_raw`` belongs to the adapter that wrote it: nothing
    else reads it, and it counts neither for equality nor for the hash.
    """

    model: str | None = None
    provider: str | None = None
    routing: RoutingDecisionRecord | None = None
    usage: Usage | None = None
    parent_tool_use_id: str | None = None
    status: MessageStatus = MessageStatus.COMPLETE
    stop_reason: StopReason | None = None
    provider_raw: JsonObject | None = None
    user_id: str | None = None
    team_id: str | None = None
    critical: bool | tuple[int, ...] = False
    """Blocks that may not be lost in a projection, by index; True means all of them."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageMetadata):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self.model_dump_json(exclude={"provider_raw"}))

    def _compared(self) -> dict[str, Any]:
        return {**self.__dict__, **(self.model_extra or {}), "provider_raw": None}


class Message(Frozen):
    """A role and an ordered tuple of blocks. Immutable: change one with `model_copy(update=...)`.

    Raises pydantic.ValidationError, naming the path, on lone surrogates, NaN, infinity, more than 128 levels
    or more than 64 MiB. Whether a message obeys the invariants of its role is for `rules.check` to say.
    """

    id: str = Field(default_factory=new_message_id)
    session_id: str = ""
    role: Role
    content: Content = ()
    channel: Channel | None = None
    metadata: MessageMetadata = Field(default_factory=MessageMetadata)
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    schema_version: int = SCHEMA_VERSION

    _memo: dict[Any, Any] = PrivateAttr(default_factory=dict)

    @field_validator("created_at")
    @classmethod
    def _in_utc(cls, value: datetime) -> datetime:
        if value.tzinfo is None:
            raise PydanticCustomError("naive_time", "created_at needs a time zone; canonical times are UTC")
        return value.astimezone(UTC)

    @model_validator(mode="after")
    def _within_size(self) -> Self:
        size = 0
        for index, block in enumerate(self.content):
            size += _text_size(block)
            if size > MAX_BODY_BYTES:
                raise PydanticCustomError(
                    "too_large",
                    "content[{index}] takes the message over {limit} bytes",
                    {"index": index, "limit": MAX_BODY_BYTES},
                )
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self.__dict__ == other.__dict__ and self.model_extra == other.model_extra

    def __hash__(self) -> int:
        return hash(self.model_dump_json(exclude={"metadata": {"provider_raw"}}))

    def model_copy(self, *, update: Any = None, deep: bool = False) -> Self:
        """As pydantic's, but forgets what was memoised and, where the content changes, the provider's raw copy."""
        copy = super().model_copy(update=update, deep=deep)
        copy._memo = {}
        if update and "content" in update and "metadata" not in update and copy.metadata.provider_raw:
            object.__setattr__(copy, "metadata", copy.metadata.model_copy(update={"provider_raw": None}))
            copy.__dict__["metadata"] = copy.metadata
        return copy

    @classmethod
    def user(cls, content: str | Iterable[ContentBlock], **fields: Any) -> Self:
        return cls(role=Role.USER, content=_content(content), **fields)

    @classmethod
    def assistant(cls, content: str | Iterable[ContentBlock], **fields: Any) -> Self:
        return cls(role=Role.ASSISTANT, content=_content(content), **fields)

    @classmethod
    def system(cls, content: str | Iterable[ContentBlock], **fields: Any) -> Self:
        return cls(role=Role.SYSTEM, content=_content(content), **fields)

    @classmethod
    def developer(cls, content: str | Iterable[ContentBlock], **fields: Any) -> Self:
        return cls(role=Role.DEVELOPER, content=_content(content), **fields)

    @classmethod
    def tool(
        cls, tool_use_id: str, content: str | Iterable[ContentBlock], *, is_error: bool = False, **fields: Any
    ) -> Self:
        """A tool's answer: one tool_result block, with parent_tool_use_id set as specification D3 asks."""
        result = ToolResultBlock(tool_use_id=tool_use_id, content=_content(content), is_error=is_error)
        metadata = fields.pop("metadata", None) or MessageMetadata(parent_tool_use_id=tool_use_id)
        return cls(role=Role.TOOL, content=(result,), metadata=metadata, **fields)

    @property
    def text(self) -> str:
        """The text blocks, joined without a separator."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def thinking(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, ThinkingBlock))

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolUseBlock))

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolResultBlock))

    @property
    def usage(self) -> Usage | None:
        return self.metadata.usage

    @property
    def stop_reason(self) -> StopReason | None:
        return self.metadata.stop_reason


def _content(content: str | Iterable[ContentBlock]) -> Any:
    return (TextBlock(text=content),) if isinstance(content, str) else tuple(content)


def _text_size(block: ContentBlock) -> int:
    source = getattr(block, "source", None)
    if source is not None:
        return len(source.data)
    if isinstance(block, ToolResultBlock):
        return sum(_text_size(part) for part in block.content)
    return len(getattr(block, "text", "") or getattr(block, "data", "") or "")
