"""CMF 2.0 as JSON (specification A2 to A4): a list of messages, each with the extensions that travel beside it.

``[{"message": {...}, "extensions": {...}}, ...]`` is what is written. A single one of these is read too, and so are
bare messages. What CMF has no word for is kept in ``extensions.custom`` under the name of this library, so that the way
back is whole: for other readers it is lost, and is listed as such.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import ContentBlock, ToolResultBlock
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.message import Message, Role
from dragoman.canonical.message_view.parts import CalledTool, called_tools
from dragoman.canonical.serialization import read_message
from dragoman.formats import verbatim
from dragoman.formats.cmf import extensions as cmf_slots
from dragoman.formats.cmf.called_tools import FORMAT, called_tools_in_cmf
from dragoman.formats.cmf.models import PART, CmfMessage
from dragoman.formats.cmf.parts import block_of, message_of, part_of
from dragoman.formats.conversion import Conversion, LossCollector
from dragoman.formats.document import iter_entries, kind_of, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.histories import as_history
from dragoman.formats.tool_calls import ToolIdReader, split_results

Fields = dict[str, Any]
ExtensionsLike = Extensions | Mapping[str, Any]
"""Extensions as the policy has them, or as JSON."""


def to_cmf(
    messages: Sequence[Message],
    *,
    extensions: Sequence[ExtensionsLike | None] | None = None,
    calls: Mapping[str, CalledTool] | None = None,
) -> Conversion[list[Fields]]:
    """A history as CMF. ``extensions`` are laid beside the messages, one for each or None: all that is in them, secret
    headers and claims too, so hand over what its readers may see (`dragoman.policy.filtered`). ``calls`` are tools by
    the ids of their calls, for the namespaces; what a document said of them, its messages remember.

    A loss of the severity info is a field of a block that other readers will not see; a warning is a whole block.
    Raises ValueError where there are not as many extensions as messages.
    """
    history = as_history(messages)
    given = [_as_slots(each) for each in extensions] if extensions is not None else [None] * len(history)
    if len(given) != len(history):
        raise ValueError(f"there are {len(history)} messages and {len(given)} extensions: each message needs its own")
    losses = LossCollector(FORMAT)
    writer = _Writer(history, losses, {**called_tools_in_cmf(history), **(calls or {})})
    written: list[Fields] = []
    index = 0
    while index < len(history):
        if (found := verbatim.recover(history, index, FORMAT)) is not None:
            native, count = found
            slots = given[index]
            written.append({"message": native.get("message", native), "extensions": dict(slots)} if slots else native)
            index += count
        else:
            written.append(writer.entry(history[index], given[index]))
            index += 1
    return Conversion(written, losses.report(history))


def from_cmf(document: Any) -> list[Message]:
    """The messages of a document, from its JSON text or from Python's lists and dicts.

    A message with several results of tools, or with results among other parts, becomes several. Extensions that are
    no part of the conversation come back with `to_cmf`, as long as the message is not changed; `extensions_in` reads
    them. Raises FormatError, with a path.
    """
    return [message for group, _ in _read(document) for message in group]


def read_cmf_extensions(document: Any) -> list[Fields | None]:
    """The extensions beside each message that `from_cmf` gives, without this library's own note. Raises FormatError."""
    return [_policy_extensions(native) for group, native in _read(document) for _ in group]


def _as_slots(given: ExtensionsLike | None) -> Mapping[str, Any] | None:
    if isinstance(given, Extensions):
        slots: Fields = given.model_dump(mode="json", exclude_none=True)
        return slots
    if given is None or isinstance(given, Mapping):
        return given
    raise TypeError(f"extensions are Extensions or a dict, one for each message, not a {type(given).__name__}")


class _Writer:
    def __init__(
        self, history: Sequence[Message], losses: LossCollector, tools: Mapping[str, CalledTool] | None = None
    ) -> None:
        self._tools = called_tools(history) if tools is None else tools
        self._ids = verbatim.tool_ids(history, FORMAT)
        self._losses = losses

    def entry(self, message: Message, given: Mapping[str, Any] | None) -> Fields:
        """A message with its extensions."""
        content = message.content
        written = message_of(message.role, message.channel, content, self._tools)
        noted = self._note_blocks(message, content)
        note = cmf_slots.build_note(message, written, noted)
        entry = {"message": written, "extensions": cmf_slots.write_extensions(message, note, given)}
        return _use_native_ids(entry, self._ids) if self._ids else entry

    def _note_blocks(self, message: Message, content: Sequence[ContentBlock]) -> list[Fields] | None:
        noted: list[Fields] = []
        parts = 0
        for index, block in enumerate(content):
            part = part_of(block, self._tools)
            place = None if part is None else parts
            read = None if part is None else cmf_slots.as_json(block_of(PART.validate_python(part), str, str))
            parts += part is not None
            noted.append(cmf_slots.note_block(place, cmf_slots.as_json(block), read))
            self._report_losses(message, index, noted[-1])
            if isinstance(block, ToolResultBlock) and block.tool_use_id not in self._tools:
                self._losses.add(
                    message, index, "the result answers no call, so that its tool has no name",
                    kind=LossKind.ORPHAN_RESULT, severity=Severity.INFO,
                )  # fmt: skip
        return noted if noted != [{"part": index} for index in range(len(content))] else None

    def _report_losses(self, message: Message, index: int, noted: Fields) -> None:
        block = message.content[index]
        if "part" not in noted:
            self._losses.add(message, index, f"CMF has no word for this {block.type} block: kept in custom alone")
        elif "more" in noted:
            what = ", ".join(sorted(noted["more"]))
            self._losses.add(
                message,
                index,
                f"CMF has no word for all of this {block.type} block ({what}): kept in custom",
                severity=Severity.INFO,
            )  # fmt: skip


def _use_native_ids(entry: Fields, ids: Mapping[str, str]) -> Fields:
    """The entry with the document's own tool ids, and the note's digest to match."""
    message = entry["message"]
    for part in message["content"]:
        inner = part.get("content")
        if part["content_type"] in ("tool_call", "tool_result") and inner["tool_call_id"] in ids:
            inner["tool_call_id"] = ids[inner["tool_call_id"]]
    note = entry["extensions"]["custom"][cmf_slots.NOTE]
    note["of"] = cmf_slots.digest(CmfMessage.model_validate(message))
    return entry


def _read(document: Any) -> list[tuple[list[Message], Fields]]:
    """The messages of each entry, with the entry; it is noted on them where they would be written otherwise."""
    ids = ToolIdReader()
    groups = [(*_entry(native, path, ids), native) for path, native in iter_entries(document, format_name="CMF")]
    history = [message for messages, _, _ in groups for message in messages]
    writer = _Writer(history, LossCollector(FORMAT))
    read = []
    for messages, native_ids, native in groups:
        if len(messages) != 1 or native_ids or writer.entry(messages[0], None) != native:
            messages = [verbatim.attach_ids(message, FORMAT, native_ids) for message in messages]
            messages = verbatim.attach(messages, FORMAT, native)
        read.append((messages, native))
    return read


def _entry(native: Fields, path: str, ids: ToolIdReader) -> tuple[list[Message], dict[str, str]]:
    """The messages of an entry, and its own tool ids by ours."""
    raw, slots, at = native, cmf_slots.Slots(), path
    if "message" in native or "extensions" in native:
        at = f"{path}.message"
        raw = native.get("message", {})
        if not isinstance(raw, dict):
            raise FormatError(f"a message of CMF is an object, not {kind_of(raw)}", path=at)
        if unknown := native.keys() - {"message", "extensions", "hook"}:
            raise FormatError("beside a message there are its extensions alone", path=f"{path}.{min(unknown)}")
        given = native.get("extensions")
        with validating(given, f"{path}.extensions"):
            slots = cmf_slots.Slots.model_validate(given or {})
    with validating(raw, at):
        message = CmfMessage.model_validate(raw)
    ids.start_turn(Role(message.role), has_results=any(part.content_type == "tool_result" for part in message.content))
    if (note := slots.note) is not None:
        restored = _restore(message, note, f"{path}.extensions.custom.{cmf_slots.NOTE}")
        ids.reserve(restored.tool_uses)
        return [restored], {}
    with validating(native, path):
        blocks = [block_of(part, ids.call, ids.result) for part in message.content]
        fields = {**cmf_slots.metadata_fields(slots, message.role), "channel": message.channel}
        return split_results(Role(message.role), blocks, fields), ids.pop_native_ids()


def _restore(message: CmfMessage, note: cmf_slots.Note, path: str) -> Message:
    """The message as it was before it was written; of one that was changed since, all but what its blocks held."""
    fields = dict(note.fields)
    read = [cmf_slots.as_json(block_of(part, str, str)) for part in message.content]
    same = note.of == cmf_slots.digest(message)
    content = read
    if not same and isinstance(fields.get("metadata"), dict):
        fields["metadata"] = {name: value for name, value in fields["metadata"].items() if name != "provider_raw"}
    if same and note.content is not None:
        content = []
        for index, noted in enumerate(note.content):
            if noted.part is not None and noted.part >= len(read):
                raise FormatError(f"there is no part {noted.part}", path=f"{path}.content[{index}].part")
            content.append({**(read[noted.part] if noted.part is not None else {}), **noted.more})
    raw = {**fields, "role": message.role, "channel": message.channel, "content": content}
    with validating(raw, path):
        try:
            return read_message(raw)
        except ValueError as error:
            if isinstance(error, FormatError) or hasattr(error, "errors"):
                raise
            raise FormatError(str(error)[:200], path=path) from None


def _policy_extensions(native: Fields) -> Fields | None:
    given = native.get("extensions") if "message" in native else None
    if not isinstance(given, dict):
        return None
    custom = given.get("custom")
    if not isinstance(custom, dict) or cmf_slots.NOTE not in custom:
        return given
    rest = {name: value for name, value in custom.items() if name != cmf_slots.NOTE}
    return {name: slot for name, slot in given.items() if name != "custom"} | ({"custom": rest} if rest else {})
