"""UMF as data: messages, blocks, and UMF's own constructors. Source: docs/reference/umf.md#messages.

Nulls and empty metadata are accepted and never written. Unknown keys are ignored.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag


class UmfModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, hide_input_in_errors=True)


class Base64Source(UmfModel):
    type: Literal["base64"] = "base64"
    media_type: str
    data: str


class UrlSource(UmfModel):
    type: Literal["url"] = "url"
    url: str


class Text(UmfModel):
    type: Literal["text"] = "text"
    text: str


class Image(UmfModel):
    type: Literal["image"] = "image"
    source: Annotated[Base64Source | UrlSource, Discriminator("type")]


class ToolUse(UmfModel):
    """``input`` is any JSON."""

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: Any


class ToolResult(UmfModel):
    """The block-level encoding of a result; it has no flag for errors."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: str


Block = Annotated[Text | Image | ToolUse | ToolResult, Discriminator("type")]


def _text_or_blocks(value: Any) -> str | None:
    if isinstance(value, str):
        return "string"
    return "blocks" if isinstance(value, list) else None


Content = Annotated[
    Annotated[str, Tag("string")] | Annotated[list[Block], Tag("blocks")],
    Discriminator(
        _text_or_blocks,
        custom_error_type="no_content",
        custom_error_message="content must be a text or a list of blocks",
    ),
]


class CalledFunction(UmfModel):
    """``arguments`` is the JSON text of an object."""

    name: str
    arguments: str | dict[str, Any] = "{}"


class ToolCall(UmfModel):
    """A call in OpenAI's form."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class InternalMessage(UmfModel):
    """One message of UMF. ``metadata`` is any JSON by name. ``tool_call_id`` and ``name`` belong to the message-level
    encoding of a result: the role ``tool`` and a text. ``tool_calls`` are calls in OpenAI's form, next to the content.
    """

    role: Literal["system", "user", "assistant", "tool"]
    """Who speaks. UMF has no developer role."""
    content: Content
    """A text, or blocks."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    tool_call_id: str | None = None
    name: str | None = None
    tool_calls: list[ToolCall] = Field(default_factory=list)

    @classmethod
    def system(cls, text: str) -> Self:
        """Return a message with instructions."""
        return cls(role="system", content=text)

    @classmethod
    def user(cls, text: str) -> Self:
        """Return a message of the user."""
        return cls(role="user", content=text)

    @classmethod
    def assistant(cls, text: str) -> Self:
        """Return a reply without calls."""
        return cls(role="assistant", content=text)

    @classmethod
    def assistant_with_tools(cls, text: str, calls: Sequence[ToolUse]) -> Self:
        """The text comes first, even if it is empty."""
        return cls(role="assistant", content=[Text(text=text), *calls])

    @classmethod
    def tool_result(cls, tool_call_id: str, name: str, text: str) -> Self:
        """Return the message-level encoding of a result."""
        return cls(role="tool", content=text, tool_call_id=tool_call_id, name=name)

    @classmethod
    def tool(cls, text: str) -> Self:
        """Return the old form of a result, without a call id."""
        return cls(role="tool", content=text)

    def text(self) -> str:
        """Return the text, or the joined texts of the blocks."""
        if isinstance(self.content, str):
            return self.content
        return "".join(block.text for block in self.content if isinstance(block, Text))

    def blocks(self) -> list[Block]:
        """Return the blocks; a text is one block."""
        return [Text(text=self.content)] if isinstance(self.content, str) else list(self.content)

    def as_dict(self) -> dict[str, Any]:
        """Return the message in its written form: without nulls, and without empty metadata."""
        written = self.model_dump(exclude={"tool_call_id", "name", "metadata", "tool_calls"})
        if self.tool_calls:
            written["tool_calls"] = [call.model_dump() for call in self.tool_calls]
        if self.metadata:
            written["metadata"] = dict(self.metadata)
        optional = {"tool_call_id": self.tool_call_id, "name": self.name}
        return written | {name: value for name, value in optional.items() if value is not None}
