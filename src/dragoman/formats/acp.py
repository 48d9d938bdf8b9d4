"""Messages of the final ACP form as JSON: a list of messages, each with a role and parts.

Some parts have citation or trajectory metadata: a thought is a trajectory step, and a citation is a source of a text. A
part may have neither content nor URL if its metadata hold everything. Fields of later versions are kept.

Agents become the assistant, whatever their names. ACP has tool results in agent messages; they become tool
messages here. Source: docs/reference/message-body.md#acp.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, StrictInt, field_validator, model_validator
from pydantic_core import PydanticCustomError

from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests.request_builder import refuse_critical
from dragoman.canonical.blocks import Citation, ContentBlock, FrozenModel, TextBlock, ThinkingBlock, ToolResultBlock
from dragoman.canonical.guard import JsonObject, Text
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.formats import verbatim
from dragoman.formats.body.convert import PartWriter, block_of
from dragoman.formats.body.parts import Part, is_base64, is_url, type_fault
from dragoman.formats.document import iter_entries, validating
from dragoman.formats.labels import report_labels
from dragoman.formats.reading.pairs import report_repeated
from dragoman.formats.results import Conversion, LossCollector, as_history, describe_unknown_role
from dragoman.formats.tool_calls import ToolIdReader, split_results

FORMAT = "acp"
_LABEL = "ACP"
Fields = dict[str, Any]


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

    @field_validator("content_type")
    @classmethod
    def _check_type(cls, content_type: str) -> str:
        if (fault := type_fault(content_type)) is not None:
            raise PydanticCustomError("content_type", "{fault}", {"fault": fault})
        return content_type

    @field_validator("content_url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is not None and not is_url(url):
            raise PydanticCustomError(
                "content_url", "a content URL must be absolute, such as https://example.org/a.png"
            )
        return url

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
    losses = LossCollector(FORMAT)
    ids = verbatim.tool_ids(history, FORMAT)
    written = [
        native if native is not None else _message(history[index], ids, losses)
        for index, _, native in verbatim.iter_entries(history, FORMAT)
    ]
    loss_list = losses.report(history)
    refuse_critical(history, loss_list)
    return report_labels(Conversion(written, loss_list), history, _LABEL)


def from_acp(document: Any) -> list[Message]:
    """Read the messages of a document, from its JSON text or from Python lists and dicts.

    A message with tool results among other parts becomes several. Raises FormatError, with a path.
    """
    ids = ToolIdReader()
    entries = list(iter_entries(document, format_name=_LABEL))
    groups = [_entry(native, path, ids) for path, native in entries]
    native_ids = {canonical_id: native_id for _, group_ids in groups for canonical_id, native_id in group_ids.items()}
    report_repeated([messages for messages, _ in groups], [path for path, _ in entries])

    def write(message: Message) -> list[Fields]:
        return [_message(message, native_ids, LossCollector(FORMAT))]

    read: list[Message] = []
    for (messages, group_ids), (_, native) in zip(groups, entries, strict=True):
        read += verbatim.keep_entry(messages, FORMAT, native, group_ids, write)
    return read


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
        return split_results(role, [_block(part, ids) for part in message.parts], fields), ids.pop_native_ids()


def _block(part: AcpPart, ids: ToolIdReader | None = None) -> ContentBlock:
    metadata = part.metadata
    if isinstance(metadata, TrajectoryMetadata) and metadata.message and not metadata.tool_name and not part.content:
        return ThinkingBlock(text=metadata.message)
    block = block_of(part) if ids is None else block_of(part, ids.call_id, ids.result_id)
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
        losses.add(message, -1, "ACP has no channels", kind=LossKind.CHANNEL, severity=Severity.INFO)
    role = "agent" if message.role in (Role.ASSISTANT, Role.TOOL) else "user"
    if message.role in (Role.SYSTEM, Role.DEVELOPER):
        losses.add(message, -1, f"ACP has no {message.role}: written as the user's", kind=LossKind.ROLE)
    if not message.role.is_known:
        losses.add(message, -1, describe_unknown_role(message), kind=LossKind.ROLE)
    if message.role is Role.TOOL and len(message.content) > 1:
        reason = "each result is read as a separate message"
        losses.add(message, -1, reason, kind=LossKind.FLATTENED, severity=Severity.INFO)
    # Results become tool messages when they are read, and other parts next to them the speaker's.
    for index, block in enumerate(message.content):
        if isinstance(block, ToolResultBlock) != (message.role is Role.TOOL):
            reason = f"a {block.type} block in a {message.role} message is read as another speaker's"
            losses.add(message, index, reason, kind=LossKind.MISPLACED_BLOCK, severity=Severity.INFO)
    writer = _Writer(_LABEL, AcpPart.model_validate, bool, ids, losses)
    parts = [writer.part(message, index) for index in range(len(message.content))]
    part_dicts = [part.model_dump(mode="json", exclude_unset=True) for part in parts if part is not None]
    return {"role": role, "parts": part_dicts, "created_at": message.created_at.isoformat()}


class _Writer(PartWriter[AcpPart]):
    """Writes parts with their ACP metadata."""

    def _read(self, part: AcpPart) -> ContentBlock:
        return _block(part)

    def _candidates(self, block: ContentBlock) -> Iterator[Fields]:
        if isinstance(block, ThinkingBlock) and block.text:
            step = {"kind": "trajectory", "message": block.text}
            yield {"content_type": "text/plain", "content": "", "metadata": step}
        for fields in super()._candidates(block):
            if isinstance(block, TextBlock) and len(block.citations) == 1:
                yield {**fields, "metadata": _citation(block.citations[0])}
            yield fields


def _citation(cited: Citation) -> Fields:
    """Return a citation as ACP metadata, without the span: its offset in the whole message is unknown here."""
    fields = {"url": cited.url, "title": cited.title, "description": cited.cited_text}
    return {"kind": "citation", **{name: text for name, text in fields.items() if text is not None}}
