"""Messages of the final ACP form as JSON: a list of messages, each with a role and parts.

Some parts have citation or trajectory metadata: a thought is a trajectory step, and a citation is a source of a text. A
part may have neither content nor URL if its metadata hold everything. Fields of later versions are kept.

Agents become the assistant, whatever their names. ACP has tool results in agent messages; they become tool
messages here. Source: docs/reference/message-body.md#acp.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, StrictInt, model_validator
from pydantic_core import PydanticCustomError

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import Citation, ContentBlock, FrozenModel, TextBlock, ThinkingBlock, ToolResultBlock
from dragoman.canonical.guard import JsonObject, Text
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.formats import verbatim
from dragoman.formats.body.convert import Fields, Ids, PartWriter, block_of
from dragoman.formats.body.message_body import Part, is_base64
from dragoman.formats.document import validating
from dragoman.formats.reading.tool_calls import ToolIdReader, split_results
from dragoman.formats.results import Conversion, LossCollector, as_history, describe_unknown_role, finish

_ACP = "acp"
_ACP_LABEL = "ACP"


class CitationMetadata(FrozenModel):
    """The source of a part. The span counts characters over all texts of the message."""

    model_config = ConfigDict(extra="allow")

    kind: Literal["citation"] = "citation"
    start_index: StrictInt | None = None
    end_index: StrictInt | None = None
    url: Text | None = None
    title: Text | None = None
    description: Text | None = None


class TrajectoryMetadata(FrozenModel):
    """A step on the way to the answer: a thought, or a tool call."""

    model_config = ConfigDict(extra="allow")

    kind: Literal["trajectory"] = "trajectory"
    message: Text | None = None
    tool_name: Text | None = None
    tool_input: JsonObject | None = None
    tool_output: JsonObject | None = None


AcpMetadata = Annotated[CitationMetadata | TrajectoryMetadata, Field(discriminator="kind")]


class AcpPart(Part):
    """A part with a name is an artifact. Any text may be a name."""

    model_config = ConfigDict(extra="allow")

    content_type: Annotated[
        Text, BeforeValidator(lambda content_type: "text/plain" if content_type is None else content_type)
    ] = "text/plain"
    metadata: AcpMetadata | None = None

    @model_validator(mode="after")
    def _check_one_content(self) -> Self:
        if self.content is not None and self.content_url is not None:
            raise PydanticCustomError("one_content", "a part can have content or a content_url, not both")
        if self.content is not None and self.is_base64 and not is_base64(self.content):
            raise PydanticCustomError("base64", "the content is not valid base64")
        return self


class AcpMessage(FrozenModel):
    model_config = ConfigDict(extra="allow")

    role: Annotated[str, Field(pattern=r"^(user|agent(/[a-zA-Z0-9_\-]+)?)\z")]
    parts: tuple[AcpPart, ...]
    created_at: datetime | None = None
    completed_at: datetime | None = None


def to_acp(messages: Sequence[Message]) -> Conversion[list[Fields]]:
    """Write a history as ACP messages. Raises CriticalLossError if a block marked critical would be lost."""
    history = as_history(messages)
    losses = LossCollector(_ACP)
    ids = verbatim.tool_ids(history, _ACP)
    written = [
        native if native is not None else _message(history[index], ids, losses)
        for index, _, native in verbatim.iter_entries(history, _ACP)
    ]
    return finish(written, losses, history, _ACP_LABEL)


def from_acp(document: Any) -> list[Message]:
    """Read the messages of a document, from its JSON text or from Python lists and dicts.

    A message with tool results among other parts becomes several. Raises FormatError, with a path.
    """

    def writer(_: object, ids: Mapping[str, str]) -> Callable[[Message], list[Fields]]:
        return lambda message: [_message(message, ids, LossCollector(_ACP))]

    read = verbatim.read_entries(document, _ACP, _ACP_LABEL, _entry, writer)
    return [message for messages, _ in read for message in messages]


def _entry(native: Fields, path: str, ids: ToolIdReader) -> tuple[list[Message], dict[str, str]]:
    """Return the messages of an entry, and the document's own tool ids by ours."""
    with validating(native, path):
        message = AcpMessage.model_validate(native)
        role = Role.USER if message.role == "user" else Role.ASSISTANT
        has_results = any((part.name or "").startswith("/tool_results/") for part in message.parts)
        ids.start_turn(role, has_results=has_results)
        fields: Fields = {"metadata": MessageMetadata()}
        if (at := message.created_at) is not None:
            fields["created_at"] = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return split_results(
            role, [_block(part, ids.call_id, ids.result_id) for part in message.parts], fields
        ), ids.pop_native_ids()


def _block(part: AcpPart, call_id: Ids = str, result_id: Ids = str) -> ContentBlock:
    metadata = part.metadata
    if isinstance(metadata, TrajectoryMetadata) and metadata.message and not metadata.tool_name and not part.content:
        return ThinkingBlock(text=metadata.message)
    block = block_of(part, call_id, result_id)
    if isinstance(metadata, CitationMetadata) and isinstance(block, TextBlock):
        cited = Citation(
            kind="citation",
            title=metadata.title,
            url=metadata.url,
            cited_text=metadata.description,
            start=metadata.start_index,
            end=metadata.end_index,
        )
        return block.model_copy(update={"citations": (cited,)})
    return block


def _message(message: Message, ids: Mapping[str, str], losses: LossCollector) -> Fields:
    if message.channel is not None:
        losses.add_info(message, -1, "ACP has no channels", LossKind.CHANNEL)
    role = "agent" if message.role in (Role.ASSISTANT, Role.TOOL) else "user"
    if message.role in (Role.SYSTEM, Role.DEVELOPER):
        losses.add(message, -1, f"ACP has no {message.role}: written as the user's", kind=LossKind.ROLE)
    if not message.role.is_known:
        losses.add(message, -1, describe_unknown_role(message), kind=LossKind.ROLE)
    if message.role is Role.TOOL and len(message.content) > 1:
        losses.add_info(message, -1, "each result is read as a separate message", LossKind.FLATTENED)
    # Results become tool messages when they are read, and other parts next to them the speaker's.
    for index, block in enumerate(message.content):
        if isinstance(block, ToolResultBlock) != (message.role is Role.TOOL):
            reason = f"a {block.type} block in a {message.role} message is read as another speaker's"
            losses.add_info(message, index, reason, LossKind.MISPLACED_BLOCK)
    parts = _Writer(_ACP_LABEL, AcpPart.model_validate, bool, ids, losses, _block).parts(message)
    part_dicts = [part.model_dump(mode="json", exclude_unset=True) for part in parts]
    return {"role": role, "parts": part_dicts, "created_at": message.created_at.isoformat()}


class _Writer(PartWriter[AcpPart]):
    """Writes parts with their ACP metadata."""

    def _candidates(self, block: ContentBlock) -> Iterator[Fields]:
        if isinstance(block, ThinkingBlock) and block.text:
            step = {"kind": "trajectory", "message": block.text}
            yield {"content_type": "text/plain", "content": "", "metadata": step}
        for fields in super()._candidates(block):
            if isinstance(block, TextBlock) and len(block.citations) == 1:
                # Without the span: its offset in the whole message is unknown here.
                (cited,) = block.citations
                source = {"url": cited.url, "title": cited.title, "description": cited.cited_text}
                known = {name: text for name, text in source.items() if text is not None}
                yield {**fields, "metadata": {"kind": "citation", **known}}
            yield fields
