"""Message: one message of the canonical conversation. Source: docs/reference/canonical.md#messages."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Self

from dragoman.canonical.blocks import SINGLE_VALUES, TEXT_ALONE, ContentBlock, TextBlock, ToolResultBlock, assemble
from dragoman.canonical.message_fields import (
    SCHEMA_VERSION,
    Alternative,
    Channel,
    InputTransformation,
    MessageFields,
    MessageMetadata,
    MessageStatus,
    Role,
    StopReason,
    check_content_size,
    share_field_names,
)

if TYPE_CHECKING:
    from dragoman.canonical.extensions.slots import BaseExtensions
    from dragoman.canonical.message_view.parts import CalledTool
    from dragoman.canonical.message_view.view import MessageView
    from dragoman.canonical.versions import Upgrade

__all__ = [
    "SCHEMA_VERSION",
    "Alternative",
    "Channel",
    "InputTransformation",
    "Message",
    "MessageMetadata",
    "MessageStatus",
    "Role",
    "StopReason",
    "read_message",
    "write_message",
]

_MAX_REPR = 60
"""Characters of the text that the repr of a message shows."""


class Message(MessageFields):
    """A role and an ordered tuple of blocks. Immutable: change one with `model_copy(update=...)`.

    Raises pydantic.ValidationError, with the path, for lone surrogates, NaN, infinity, more than 128 levels
    or more than 64 MiB. `rules.check` checks the invariants of the role.
    """

    @classmethod
    def user(cls, content: str | Iterable[ContentBlock], **fields: Any) -> Self:
        """Return a message of the user."""
        return cls(role=Role.USER, content=_to_content(content), **fields)

    @classmethod
    def assistant(cls, content: str | Iterable[ContentBlock], **fields: Any) -> Self:
        """Return a message of the model."""
        return cls(role=Role.ASSISTANT, content=_to_content(content), **fields)

    @classmethod
    def system(cls, content: str | Iterable[ContentBlock], **fields: Any) -> Self:
        """Return instructions for the model."""
        return cls(role=Role.SYSTEM, content=_to_content(content), **fields)

    @classmethod
    def developer(cls, content: str | Iterable[ContentBlock], **fields: Any) -> Self:
        """Return instructions of the developer, for models that tell them from the system's."""
        return cls(role=Role.DEVELOPER, content=_to_content(content), **fields)

    @classmethod
    def tool(
        cls, tool_use_id: str, content: str | Iterable[ContentBlock], *, is_error: bool = False, **fields: Any
    ) -> Self:
        """Return a tool message with one tool_result block and parent_tool_use_id set.

        Source: docs/reference/canonical.md#invariants.
        """
        result = ToolResultBlock(tool_use_id=tool_use_id, content=_to_content(content), is_error=is_error)
        metadata: MessageMetadata = fields.pop("metadata", None) or MessageMetadata()
        if metadata.parent_tool_use_id is None:
            metadata = metadata.model_copy(update={"parent_tool_use_id": tool_use_id})
        return cls(role=Role.TOOL, content=(result,), metadata=metadata, **fields)

    def iter_views(
        self,
        hook: str | None = None,
        extensions: "BaseExtensions | None" = None,
        *,
        calls: "Mapping[str, CalledTool] | None" = None,
    ) -> "Iterator[MessageView]":
        """Return one read-only view for each block, in order, as policies see them.

        See `dragoman.canonical.message_view.view.iter_views`. Raises UnknownPartError if a block has no view: native
        blocks of a provider, and kinds of a newer version.
        """
        from dragoman.canonical.message_view.view import iter_views

        return iter_views(self, hook, extensions, calls=calls)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        """One line: the role, the beginning of the content, and what kinds of blocks it has."""
        text = self.text if len(self.text) <= _MAX_REPR else f"{self.text[:_MAX_REPR]}…"
        kinds = ", ".join(dict.fromkeys(block.type for block in self.content if not isinstance(block, TextBlock)))
        return f"Message({self.role}, {text!r}{f', {kinds}' if kinds else ''})"

    def _repr_html_(self) -> str | None:
        return render_html([self])


_GIVEN = {"id", "session_id", "role", "content", "channel", "metadata", "created_at"}


def assemble_message(
    *,
    id: str,  # noqa: A002 - the name of the field
    session_id: str,
    role: Role,
    content: tuple[ContentBlock, ...],
    channel: Channel | None,
    metadata: MessageMetadata,
    created_at: datetime,
    is_checked: bool = False,
) -> Message:
    """Return ``Message(...)`` of these fields, whose blocks and metadata are valid already: only the rest is checked.
    ``is_checked``: the content is that of another message.

    A reader makes a message from each entry of a request, and pydantic would take five times as long.
    """
    if not (id.isascii() and session_id.isascii() and type(created_at) is datetime and created_at.tzinfo is UTC):
        return Message(
            id=id, session_id=session_id, role=role, content=content, channel=channel, metadata=metadata,
            created_at=created_at,
        )  # fmt: skip
    if not is_checked and (
        len(content) != 1 or content[0].__pydantic_fields_set__ is not TEXT_ALONE
    ):  # one `text_block` needs no more
        check_content_size(content)
        share_field_names(*content)
    fields = {
        "id": id,
        "session_id": session_id,
        "role": role,
        "content": content,
        "channel": channel,
        "metadata": metadata,
        "created_at": created_at,
        "schema_version": SCHEMA_VERSION,
    }
    return assemble(Message, fields, _GIVEN)


def _to_content(content: str | Iterable[ContentBlock]) -> Any:
    """Return the content as a tuple of blocks. Anything else is left to the validation, which names the fault."""
    if isinstance(content, str):
        return (TextBlock(text=content),)
    if isinstance(content, (tuple, list)):
        return tuple(content)
    return tuple(content) if isinstance(content, Iterable) and not isinstance(content, SINGLE_VALUES) else content


def read_message(data: Mapping[str, Any] | str | bytes, *, upgrades: "Mapping[int, Upgrade] | None" = None) -> Message:
    """Read a message from JSON of any version.

    Raises pydantic.ValidationError if it is not a message, and ValueError if the JSON is malformed or unsafe
    (see `guard`), or if its schema version is too old to upgrade or newer than this version can read.
    """
    from dragoman.canonical.versions import read_as  # imported late: only stored messages are read

    return read_as(Message, data, upgrades=upgrades)


def write_message(message: Message) -> bytes:
    """Return the message as JSON, including provider_raw and unknown fields."""
    return message.model_dump_json(exclude_none=True).encode()


_MAX_MESSAGES = 20
"""How many messages of a conversation a notebook shows: the output of a cell is stored in the notebook's file."""


def render_html(messages: Sequence[Any]) -> str | None:
    """Return the messages as an HTML fragment; None if the renderer or one of its requirements is not installed."""
    renderer = _renderer()
    return None if renderer is None else renderer(messages)


def render_end(messages: Sequence[Any]) -> str | None:
    """Return the last messages as `render_html` does, after a line that counts them if there are more; None if there
    are none. A result is not shown without its call."""
    shown = messages[-_MAX_MESSAGES:]
    while len(shown) < len(messages) and shown[:1] and shown[0].role == "tool":
        shown = shown[1:]
    html = render_html(shown) if shown else None
    if html is None or len(shown) == len(messages):
        return html
    return f"<p><i>The last {len(shown)} of {len(messages)} messages:</i></p>\n{html}"


@cache
def _renderer() -> Callable[[Sequence[Any]], str | None] | None:
    for entry in entry_points(group="dragoman.renderers", name="html"):
        try:
            renderer: Callable[[Sequence[Any]], str | None] = entry.load()
        except ImportError:
            return None
        return renderer
    return None
