"""CMF 2.0 as JSON: a list of messages, each with its extensions. Source: docs/reference/cmf.md#conversion.

The written form is ``[{"message": {...}, "extensions": {...}}, ...]``. A single entry can be read too, and so can bare
messages. Content without a CMF form is stored in ``extensions.custom`` under the name of this library, so that reading
it back is lossless. Other readers do not see it, so it is listed as a loss.

CMF repeats the namespace and the name of a tool with each call and each result. A message has no field for the
namespace, because it belongs to the tool; views get it from ``calls``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import ContentBlock, ToolResultBlock
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.message_labels import labels_of_messages, with_message_labels
from dragoman.canonical.message import Message, Role, read_message
from dragoman.canonical.message_view.parts import CalledTool, called_tools
from dragoman.formats import verbatim
from dragoman.formats.cmf import extensions as cmf_slots
from dragoman.formats.cmf import models as cmf
from dragoman.formats.cmf.models import PART, CmfMessage
from dragoman.formats.cmf.parts import KNOWN, block_of, message_of, part_of
from dragoman.formats.document import iter_entries, kind_of, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.labels import add_labels
from dragoman.formats.reading.pairs import report_repeated
from dragoman.formats.results import Conversion, LossCollector, as_history, describe_unknown_role
from dragoman.formats.tool_calls import ToolIdReader, split_results

FORMAT = "cmf"
Fields = dict[str, Any]
ExtensionsLike = Extensions | Mapping[str, Any]
"""Extensions as a model or as JSON."""


def called_tools_in_cmf(messages: Iterable[Message]) -> dict[str, CalledTool]:
    """Return the tools of the calls and results in messages from `from_cmf`, by call id.

    Pass them as ``calls`` to `Message.iter_views`, a `Pipeline` or `to_cmf`. Call this before you change the content of
    messages: a changed message no longer has its document's entry.
    """
    history = list(messages)
    found = called_tools(history)
    for start, message in enumerate(history):
        if (entry := verbatim.noted_entry(message, FORMAT)) is None:
            continue
        native, count = entry
        group = history[start : start + count]
        tools = _tools_in_entry(native.get("message", native))
        for call_id, native_id in _call_ids(group):
            tool = tools.get(native_id)
            if tool is None or (call_id in found and found[call_id].name != tool.name):
                continue
            known = found.get(call_id)
            found[call_id] = CalledTool(tool.name, tool.namespace or (known.namespace if known else None))
    return found


def _tools_in_entry(raw: Any) -> dict[str, CalledTool]:
    """Return the tools in an entry, by its own ids; a call takes precedence over its result."""
    try:
        message = cmf.CmfMessage.model_validate(raw)
    except ValidationError:
        return {}
    tools: dict[str, CalledTool] = {}
    for part in message.content:
        if isinstance(part, cmf.ToolCallContentPart):
            tools[part.content.tool_call_id] = CalledTool(part.content.name, part.content.namespace)
        elif isinstance(part, cmf.ToolResultContentPart) and part.content.tool_name:
            tools.setdefault(part.content.tool_call_id, CalledTool(part.content.tool_name))
    return tools


def _call_ids(group: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Yield the call ids in these messages, each with the document's own."""
    native_ids = verbatim.tool_ids(group, FORMAT)
    for message in group:
        for call_id in (*(use.id for use in message.tool_uses), *(part.tool_use_id for part in message.tool_results)):
            yield call_id, native_ids.get(call_id, call_id)


def to_cmf(
    messages: Sequence[Message],
    *,
    extensions: Sequence[ExtensionsLike | None] | None = None,
    calls: Mapping[str, CalledTool] | None = None,
) -> Conversion[list[Fields]]:
    """Write a history as CMF.

    ``extensions`` has one item or None for each message. They are written in full, secret headers and claims
    included, so pass what the readers may see (`dragoman.policy.filter_extensions`). ``calls`` maps call ids to
    tools, for the namespaces; messages from a CMF document remember theirs.

    A loss of severity info is a field of a block that other readers will not see; a warning is a whole block.
    Raises ValueError if the number of extensions and messages differs.
    """
    history = as_history(messages)
    slots_by_message = [_as_slots(each) for each in extensions] if extensions is not None else [None] * len(history)
    if len(slots_by_message) != len(history):
        raise ValueError(
            f"there are {len(history)} messages but {len(slots_by_message)} extensions: pass one for each message"
        )
    losses = LossCollector(FORMAT)
    writer = _Writer(history, losses, {**called_tools_in_cmf(history), **(calls or {})})
    written: list[Fields] = []
    for index, count, native in verbatim.iter_entries(history, FORMAT):
        slots = slots_by_message[index]
        if native is None:
            written.append(writer.entry(history[index], slots))
        elif slots:
            labelled = add_labels(slots, labels_of_messages(history[index : index + count]))
            written.append({"message": native.get("message", native), "extensions": labelled})
        else:
            written.append(native)
    return Conversion(written, losses.report(history))


def from_cmf(document: Any) -> list[Message]:
    """Read the messages of a document, from its JSON text or from Python lists and dicts.

    A message with several tool results, or with results among other parts, becomes several. `to_cmf` restores
    extensions that are not part of the conversation, unless the message was changed; `read_cmf_extensions` reads them.
    Raises FormatError, with a path.
    """
    return [message for group, _ in _read(document) for message in group]


def read_cmf_extensions(document: Any) -> list[Fields | None]:
    """Return the extensions of each message of `from_cmf`, without this library's own note. Raises FormatError."""
    return [_policy_extensions(native) for group, native in _read(document) for _ in group]


def _as_slots(extensions: ExtensionsLike | None) -> Mapping[str, Any] | None:
    if isinstance(extensions, Extensions):
        slots: Fields = extensions.model_dump(mode="json", exclude_none=True)
        return slots
    if extensions is None or isinstance(extensions, Mapping):
        return extensions
    raise TypeError(f"pass extensions as Extensions or a dict for each message, not a {type(extensions).__name__}")


class _Writer:
    def __init__(
        self, history: Sequence[Message], losses: LossCollector, tools: Mapping[str, CalledTool] | None = None
    ) -> None:
        self._tools = called_tools(history) if tools is None else tools
        self._ids = verbatim.tool_ids(history, FORMAT)
        self._losses = losses

    def entry(self, message: Message, slots: Mapping[str, Any] | None) -> Fields:
        """Return a message with its extensions."""
        content = message.content
        written = message_of(message.role, message.channel, content, self._tools)
        noted = self._note_blocks(message, content)
        note = cmf_slots.build_note(message, written, noted)
        if not message.role.is_known:
            reason = f"{describe_unknown_role(message)}, and kept in custom"
            self._losses.add(message, -1, reason, kind=LossKind.ROLE, severity=Severity.INFO)
        entry = {"message": written, "extensions": cmf_slots.write_extensions(message, note, slots)}
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
            if "part" not in noted[-1]:
                self._losses.add(message, index, f"CMF has no form for this {block.type} block: kept only in custom")
            elif "more" in noted[-1]:
                what = ", ".join(sorted(noted[-1]["more"]))
                reason = f"CMF has no form for all of this {block.type} block ({what}): kept in custom"
                self._losses.add(message, index, reason, severity=Severity.INFO)
            if isinstance(block, ToolResultBlock) and block.tool_use_id not in self._tools:
                self._losses.add(
                    message, index, "the result answers no call, so its tool has no name",
                    kind=LossKind.ORPHAN_RESULT, severity=Severity.INFO,
                )  # fmt: skip
        return noted if noted != [{"part": index} for index in range(len(content))] else None


def _use_native_ids(entry: Fields, ids: Mapping[str, str]) -> Fields:
    """Replace the tool ids by the document's own, and update the note's digest."""
    message = entry["message"]
    for part in message["content"]:
        inner = part.get("content")
        if part["content_type"] in ("tool_call", "tool_result") and inner["tool_call_id"] in ids:
            inner["tool_call_id"] = ids[inner["tool_call_id"]]
    note = entry["extensions"]["custom"][cmf_slots.NOTE]
    note["of"] = cmf_slots.digest(CmfMessage.model_validate(message))
    return entry


def _read(document: Any) -> list[tuple[list[Message], Fields]]:
    """Return the messages of each entry, with the entry. Messages that would be written
    differently keep their entry.
    """
    ids = ToolIdReader()
    entries = list(iter_entries(document, format_name="CMF"))
    groups = [_entry(native, path, ids) for path, native in entries]
    report_repeated([messages for messages, _ in groups], [path for path, _ in entries])
    writer = _Writer([message for messages, _ in groups for message in messages], LossCollector(FORMAT))
    read = []
    for (messages, native_ids), (_, native) in zip(groups, entries, strict=True):
        kept = verbatim.keep_entry(messages, FORMAT, native, native_ids, lambda message: [writer.entry(message, None)])
        read.append((kept, native))
    return read


def _entry(native: Fields, path: str, ids: ToolIdReader) -> tuple[list[Message], dict[str, str]]:
    """Return the messages of an entry, and its own tool ids by ours."""
    raw, slots, at = native, cmf_slots.Slots(), path
    if "message" in native or "extensions" in native:
        at = f"{path}.message"
        raw = native.get("message", {})
        if not isinstance(raw, dict):
            raise FormatError(f"a message of CMF must be an object, not {kind_of(raw)}", path=at)
        if unknown := native.keys() - {"message", "extensions", "hook"}:
            raise FormatError("only extensions can accompany a message", path=f"{path}.{min(unknown)}")
        native_extensions = native.get("extensions")
        with validating(native_extensions, f"{path}.extensions"):
            slots = cmf_slots.Slots.model_validate(native_extensions or {})
    with validating(raw, at):
        message = CmfMessage.model_validate(raw)
    ids.start_turn(Role(message.role), has_results=any(part.content_type == "tool_result" for part in message.content))
    if (note := slots.note) is not None:
        restored = _restore(message, note, f"{path}.extensions.custom.{cmf_slots.NOTE}")
        restored = with_message_labels(restored, slots.labels or frozenset())
        ids.reserve(restored.tool_uses)
        return [restored], {}
    with validating(native, path):
        blocks = [block_of(part, ids.call_id, ids.result_id) for part in message.content]
        fields = {**cmf_slots.metadata_fields(slots, message.role), "channel": message.channel}
        return split_results(Role(message.role), blocks, fields), ids.pop_native_ids()


def _restore(message: CmfMessage, note: cmf_slots.Note, path: str) -> Message:
    """Restore the message from its note. If it was changed since, its blocks are not restored."""
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
    if same:  # a note cannot change a word that other readers know
        raw |= {name: note.fields[name] for name in KNOWN.keys() & note.fields if note.fields[name] not in KNOWN[name]}
    with validating(raw, path):
        try:
            return read_message(raw)
        except ValueError as error:
            if isinstance(error, FormatError) or hasattr(error, "errors"):
                raise
            raise FormatError(str(error)[:200], path=path) from None


def _policy_extensions(native: Fields) -> Fields | None:
    native_extensions = native.get("extensions") if "message" in native else None
    if not isinstance(native_extensions, dict):
        return None
    custom = native_extensions.get("custom")
    if not isinstance(custom, dict) or cmf_slots.NOTE not in custom:
        return native_extensions
    rest = {name: value for name, value in custom.items() if name != cmf_slots.NOTE}
    return {name: slot for name, slot in native_extensions.items() if name != "custom"} | (
        {"custom": rest} if rest else {}
    )
