"""A message as a message body, and back. A body has no role, channel or time.

Source: docs/reference/message-body.md#conversion.
"""

from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests.projection import refuse_critical
from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.formats import verbatim
from dragoman.formats.body.blocks import PartWriter, block_of
from dragoman.formats.body.message_body import FORMAT, MessageBody
from dragoman.formats.body.parts import MessageBodyPart, name_fault
from dragoman.formats.body.schema import MessageBodySchema
from dragoman.formats.conversion import Conversion, LossCollector, as_message
from dragoman.formats.document import parse
from dragoman.formats.errors import FormatError
from dragoman.formats.labels import report_labels

_LABEL = "a message body"


def to_message_body(message: Message) -> Conversion[MessageBody]:
    """Return the content of a message as a body. Raises CriticalLossError if a block marked critical would be lost."""
    losses = LossCollector(FORMAT)
    body = _write(as_message(message), losses)
    loss_list = losses.report([message])
    refuse_critical([message], loss_list)
    return report_labels(Conversion(body, loss_list), [message], _LABEL)


def from_message_body(
    body: MessageBody | Any, *, role: Role | str = Role.USER, schema: MessageBodySchema | None = None
) -> Message:
    """Return the message of a body, given as a body or as JSON. Tool ids do not change.

    The body must obey the ``schema``, and the one that a document declares: an object with ``schema`` next to its
    ``parts``. `to_message_body` restores what a message cannot hold, unless the message was changed. Raises
    FormatError, with a path, and MessageBodyError with every violation of a schema.
    """
    message_body, declared = (body, None) if isinstance(body, MessageBody) else _read_document(body)
    for each in (schema, declared):
        if each is not None:
            each.enforce(message_body)
    content = tuple(block_of(part) for part in message_body.parts)
    result_ids = [block.tool_use_id for block in content if isinstance(block, ToolResultBlock)]
    role = Role(role)
    metadata = MessageMetadata(parent_tool_use_id=result_ids[0] if len(result_ids) == 1 and role is Role.TOOL else None)
    message = Message(role=role, content=content, metadata=metadata)
    if _write(message, LossCollector(FORMAT)).as_json() == message_body.as_json():
        return message
    return verbatim.attach([message], FORMAT, {"parts": message_body.as_json()})[0]


def _read_document(document: Any) -> tuple[MessageBody, MessageBodySchema | None]:
    """Return the body in a document, and the schema that it declares."""
    value = parse(document, format_name=FORMAT)
    if not isinstance(value, dict) or "schema" not in value:
        return MessageBody.from_json(value), None
    try:
        declared = MessageBodySchema.from_json(value["schema"])
    except FormatError as error:
        raise FormatError(error.reason, path=f"$.schema{error.path.removeprefix('$')}") from None
    return MessageBody.from_json({name: each for name, each in value.items() if name != "schema"}), declared


def _write(message: Message, losses: LossCollector) -> MessageBody:
    if message.channel is not None:
        reason = f"{_LABEL} has no channels"
        losses.add(message, -1, reason, kind=LossKind.CHANNEL, severity=Severity.INFO)
    if (found := verbatim.recover([message], 0, FORMAT)) is not None:
        return MessageBody.from_json(found[0]["parts"])
    writer = PartWriter(_LABEL, MessageBodyPart.model_validate, lambda name: name_fault(name) is None, {}, losses)
    parts = [writer.part(message, index) for index in range(len(message.content))]
    return MessageBody(tuple(part for part in parts if part is not None))
