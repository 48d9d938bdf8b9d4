"""What applications for people keep: the logs of Claude Code and of the Codex CLI, and the export of ChatGPT.

The logs of Claude Code: JSON lines, in which each line is an event with the id of the one before.

A reply is written as one line for each block, with the same message id; the lines become one message. Subagents
(``isSidechain``) are conversations of their own. The layout is not documented.

The logs of the Codex CLI: JSON lines (``rollout-*.jsonl``) with the items of OpenAI Responses.

A line has a type and a payload; in older versions it is the item itself. Events for the screen repeat the items and are
skipped, apart from counts of tokens. Source: https://github.com/openai/codex, codex-rs/protocol.

The export of ChatGPT: ``conversations.json``, in which each conversation is a tree of messages.

The branch that the user saw last is read. A call of one of ChatGPT's own tools is a message of the assistant whose
recipient is the tool. The layout is not documented.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import ContentBlock, ThinkingBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import Usage
from dragoman.formats.document import copy_json_at, dig, parse, parse_json_or_lines, text_in
from dragoman.formats.errors import FormatError
from dragoman.formats.native import read_request
from dragoman.formats.reading.blocks import build_usage, media_block, provider_block, text_blocks, to_text
from dragoman.formats.reading.fields import (
    Fields,
    RowNames,
    iter_fields,
    iter_rows,
    source_losses,
    take_counts,
    typed_errors,
    words_of,
)
from dragoman.formats.reading.turns import Turns, read_time
from dragoman.formats.results import Conversation

FORMAT = "claude-code"
_PROVIDER = "anthropic"
_EVENTS = frozenset({"user", "assistant"})


@dataclass(slots=True)
class _Entry:
    """One message of Anthropic's list, from one line or several."""

    role: str
    path: str
    content: list[Any]
    time: Any = None
    message_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    uuid: str | None = None
    parent: str | None = None
    is_side: bool = False


@typed_errors
def from_claude_code(document: Any) -> list[Conversation]:
    """Return the session in a log, and each of its subagents. Raises FormatError, with a path."""
    entries = list(_drop_repeated(_entries(parse_json_or_lines(document, format_name=FORMAT))))
    names = RowNames()
    main = _branch([entry for entry in entries if not entry.is_side])
    found = [Conversation(names.next(), _read(main))] if main else []
    roots: dict[str | None, str | None] = {}
    sides: dict[str | None, list[_Entry]] = {}
    for entry in entries:
        if entry.is_side:  # a subagent's entries have its first one as an ancestor
            root = roots[entry.uuid] = roots.get(entry.parent, entry.uuid)
            sides.setdefault(root, []).append(entry)
    found += [Conversation(names.next(), _read(group)) for group in sides.values()]
    if not found:
        raise FormatError("the log of Claude Code has no message")
    return found


def _entries(data: Any) -> Iterator[_Entry]:
    for line in iter_fields(data, FORMAT):
        kind = line.text("type")
        message = line.object("message") if kind in _EVENTS else None
        if message is None:
            source_losses().add_info(line.path, f"a line of the type {str(kind)[:40]!r} is not a message: left out")
            for field_name in line.whole():
                if field_name not in words_of(FORMAT).skipped["line"]:
                    source_losses().add_field(line.path, field_name, FORMAT)
            continue
        content = message.take("content")
        usage = message.inner("usage")
        entry = _Entry(
            role=message.required_text("role"),
            path=f"{message.path}.content",
            content=copy_json_at(content, f"{message.path}.content")
            if isinstance(content, list)
            else [{"type": "text", "text": content}] if isinstance(content, str) and content else [],
            time=line.take("timestamp"),
            message_id=message.text("id"),
            uuid=line.text("uuid"),
            parent=line.text("parentUuid"),
            is_side=line.flag("isSidechain"),
        )  # fmt: skip
        if kind == "assistant":
            name, tier, counts = message.text("model"), text_in(usage.take("service_tier")), take_counts(usage)
            counts["prompt"] = sum(counts[each] or 0 for each in ("prompt", "cached", "written"))
            entry.metadata = {
                "model": f"{_PROVIDER}:{name}" if name else None,
                "usage": build_usage(**counts, service_tier=tier),
                "stop_reason": message.stop_reason("stop_reason"),
            }
        message.ignore("type", "stop_sequence", "container", "context_management", "stop_details")
        line.skip("line")
        yield entry


def _drop_repeated(entries: Iterator[_Entry]) -> Iterator[_Entry]:
    """Yield each entry once: a log that was continued may repeat the lines before. Another message with the same id
    stays.
    """
    known: dict[str, _Entry] = {}
    for entry in entries:
        first = known.setdefault(entry.uuid, entry) if entry.uuid is not None else entry
        if first is entry:
            yield entry
        elif (first.role, first.content) == (entry.role, entry.content):
            source_losses().add_info(entry.path, "a line with this id and content is there already: left out")
        else:
            reason = "the id of a line occurs again with another message: both are kept"
            source_losses().add(entry.path, reason)
            yield entry


def _branch(entries: list[_Entry]) -> list[_Entry]:
    """Return the entries on the way to the last one. Raises FormatError for a circle."""
    if not entries or any(entry.uuid is None for entry in entries):
        return entries
    by_id = {entry.uuid: entry for entry in entries}
    positions = {entry.uuid: index for index, entry in enumerate(entries)}
    chain: dict[str | None, _Entry] = {}
    current: _Entry | None = entries[-1]
    while current is not None:
        if current.uuid in chain:
            raise FormatError("a line is its own ancestor", path=current.path)
        chain[current.uuid] = current
        before = by_id.get(current.parent) if current.parent is not None else None
        if before is None and current.parent is not None:  # the line before is not a message, or is in another file
            index = positions[current.uuid] - 1
            before = entries[index] if index >= 0 and entries[index].uuid not in chain else None
        current = before
    # A reply has a line for each block: all lines with an id of the branch are its own.
    ids = {entry.message_id for entry in chain.values() if entry.message_id}
    kept = [
        entry
        for entry in entries
        if entry.uuid in chain
        or entry.message_id in ids
        or (
            entry.role == "user"
            and entry.parent in chain
            and chain[entry.parent].role == "assistant"
            and any(isinstance(block, dict) and block.get("type") == "tool_result" for block in entry.content)
        )
    ]
    if len(by_id) > len(chain) and len(kept) < len(entries):
        source_losses().add_info("$", "branches that the user left are not read")
    return kept


def _read(entries: list[_Entry]) -> list[Message]:
    """Return the messages of one conversation, with what the log says about each reply."""
    merged: list[_Entry] = []
    for entry in entries:
        last = merged[-1] if merged else None
        same = last is not None and last.role == entry.role
        if last is not None and same and (entry.role == "user" or last.message_id == entry.message_id):
            last.content += entry.content
            last.metadata = {**last.metadata, **{key: value for key, value in entry.metadata.items() if value}}
        elif entry.content:
            merged.append(entry)
    listed = [{"role": entry.role, "content": entry.content} for entry in merged]
    read = read_request(_PROVIDER, {"messages": listed}, "$", [entry.path for entry in merged])
    replies = iter([entry for entry in merged if entry.role == "assistant"])
    found = []
    for message in read:
        if message.role is not Role.ASSISTANT:
            found.append(message)
            continue
        entry = next(replies)
        known = {key: value for key, value in entry.metadata.items() if value is not None}
        fields: dict[str, Any] = {"metadata": message.metadata.model_copy(update=known)}
        if (time := read_time(entry.time)) is not None:
            fields["created_at"] = time
        found.append(message.model_copy(update=fields))
    return found


_CODEX = "codex"
_SETTINGS = frozenset({"turn_context", "session_meta", "event_msg", "compacted", "world_state"})


@typed_errors
def from_codex(document: Any) -> list[Message]:
    """Read a session's log. Raises FormatError, with a path."""
    items: list[dict[str, Any]] = []
    paths: list[str] = []
    usages: list[tuple[int, Usage]] = []
    model: str | None = None
    turns = Turns()
    for line in iter_rows(document, _CODEX):
        line.ignore("timestamp", "ordinal")
        kind = line.text("type")
        if kind == "response_item" or (kind not in _SETTINGS and "payload" not in line):
            if kind is None:
                _instructions(line, turns)  # the first line of older logs
                line.whole()
            elif (item := _item(line)) is not None:
                items.append(item[0])
                paths.append(item[1])
        elif (event := line.object("payload")) is not None:
            if kind == "turn_context":
                model = event.text("model") or model
            elif kind == "session_meta":
                _instructions(event, turns)
            elif kind == "event_msg" and event.look("type") == "token_count":
                usage = build_usage(**take_counts(event.inner("info").inner("last_token_usage")))
                usages += [(len(items), usage)] if usage is not None else []
            if kind == "compacted":
                reason = "the log was compacted here: the messages before are kept, the summary is left out"
                source_losses().add_info(line.path, reason)
            event.whole()
            reason = f"settings and events of the program ({kind}) are not part of the conversation: left out"
            source_losses().add_info(event.path, reason, LossKind.OPTION)
    body = {"input": items, **({"model": model} if model else {})}
    read = read_request("openai", body, "$", paths)
    return [*turns.messages, *_with_usage(read, items, usages)]


def _item(line: Fields) -> tuple[dict[str, Any], str] | None:
    """Return the item of a line, and its path; None for a state of the program. Older logs have it without a frame."""
    has_frame = "payload" in line
    item, path = (line.take("payload"), f"{line.path}.payload") if has_frame else (line.whole(), line.path)
    if not isinstance(item, dict):
        raise FormatError("an item must be an object", path=path)
    if item.get("type") == "ghost_snapshot" or item.get("record_type") == "state":
        line.whole()
        return None
    return copy_json_at(item, path), path


def _instructions(fields: Fields, turns: Turns) -> None:
    """Add the instructions that Codex sends with each request."""
    base = fields.look("base_instructions")
    text = base.get("text") if isinstance(base, dict) else fields.look("instructions")
    if isinstance(text, str) and text:
        turns.add(Role.SYSTEM, text_blocks(text), fields.path)


def _with_usage(read: list[Message], items: list[dict[str, Any]], usages: list[tuple[int, Usage]]) -> list[Message]:
    """Return the messages with the counts on the replies before them. Events may repeat the same counts."""
    replies = [index for index, message in enumerate(read) if message.role is Role.ASSISTANT]
    turns_before = [0]  # how many replies have begun before each position in the items
    in_reply = False
    for item in items:
        is_output = item.get("role") in ("user", "developer", "system") or str(item.get("type")).endswith("_output")
        turns_before.append(turns_before[-1] + (not is_output and not in_reply))
        in_reply = not is_output
    found = list(read)
    for position, usage in usages:
        number = turns_before[position]
        if number == 0 or number > len(replies):
            continue
        message = found[replies[number - 1]]
        if message.usage is None:
            metadata = message.metadata.model_copy(update={"usage": usage})
            found[replies[number - 1]] = message.model_copy(update={"metadata": metadata})
    return found


_CHATGPT = "chatgpt"
_POINTERS = {
    "image_asset_pointer": "image",
    "audio_asset_pointer": "audio",
    "video_container_asset_pointer": "video",
}
_EVERYONE = "all"


@typed_errors
def from_chatgpt(document: Any) -> list[Conversation]:
    """Return each conversation of an export, by its id. Raises FormatError, with a path."""
    names = RowNames()
    found = []
    for native in iter_fields(parse(document, format_name=_CHATGPT), _CHATGPT):
        if not isinstance(native.look("mapping"), dict):
            raise FormatError("a conversation of ChatGPT must have a mapping", path=native.path)
        name = names.next(native.look("conversation_id") or native.look("id"))
        found.append(Conversation(name, _ConversationReader(native, name).read()))
        native.skip("settings")
    return found


def _has_content(message: Any) -> bool:
    """Whether a message is more than the hidden ones at the root of each conversation."""
    parts = dig(message, "content", "parts")
    has_parts = any(parts) if isinstance(parts, list) else False
    return has_parts or any(dig(message, "content", name) for name in ("text", "thoughts", "content"))


class _ConversationReader:
    def __init__(self, native: Fields, name: str) -> None:
        self._nodes = native.inner("mapping")
        self._current = native.text("current_node")
        self._turns = Turns(name)

    def read(self) -> list[Message]:
        nodes = self._branch()
        for node in nodes:
            message = node.object("message")
            if message is not None:
                self._message(message)
        for node in nodes:
            node.ignore("id", "children")
        others = sum(
            isinstance(node, dict) and _has_content(node.get("message")) for node in self._nodes.whole().values()
        ) - sum(_has_content(node.look("message")) for node in nodes)
        if others > 0:
            source_losses().add_info(self._nodes.path, "other branches of the conversation are left out")
        return self._turns.messages

    def _branch(self) -> list[Fields]:
        """Return the nodes from the root to the current one. Raises FormatError for a circle or a missing node."""
        name = self._current
        for each, native in self._nodes.whole().items() if name is None else ():
            if isinstance(native, dict) and not native.get("children"):
                name = each  # an export without a current node: the last one without children
        found: dict[str, Fields] = {}
        while name is not None:
            node = self._nodes.object(name)
            if node is None or name in found:
                problem = "is missing" if node is None else "is its own ancestor"
                raise FormatError(f"the node {name[:80]!r} {problem}", path=self._nodes.path)
            found[name] = node
            name = node.text("parent")
        return list(found.values())[::-1]

    def _message(self, message: Fields) -> None:
        author = message.object("author")
        if author is None:
            raise message.fault("author", "is missing")
        role = author.role()
        content = message.object("content")
        blocks = self._content(content) if content is not None else []
        recipient = message.text("recipient") or _EVERYONE
        self._turns.start(role)
        metadata: dict[str, Any] | None = None
        if role is Role.ASSISTANT:
            metadata = {"model": text_in(dig(message.look("metadata"), "model_slug"))}
            if recipient != _EVERYONE:
                arguments = "".join(to_text(getattr(block, "text", "")) for block in blocks)
                blocks = [self._turns.call(None, recipient, arguments)]
        elif role is Role.TOOL:
            blocks = [self._turns.result(None, author.text("name"), blocks)]
        elif not blocks:
            message.ignore("create_time")
            message.skip("message")
            return  # hidden messages without content stand at the root of each conversation
        self._turns.add(
            role, blocks, message.path, metadata=metadata, created_at=read_time(message.take("create_time"))
        )
        message.skip("message")
        author.ignore("name", "metadata")

    def _content(self, content: Fields) -> list[ContentBlock]:
        kind = content.text("content_type") or ""
        match kind:
            case "text" | "multimodal_text":
                return [block for item, path in content.items("parts") for block in self._item(item, path)]
            case "code" | "execution_output" | "system_error" | "tether_quote":
                content.ignore("language", "response_format_name", "name")
                return text_blocks(content.take("text"))
            case "thoughts":
                content.ignore("source_analysis_msg_id")
                thoughts = content.objects("thoughts")
                for thought in thoughts:
                    thought.ignore("summary", "chunks", "finished")
                return [ThinkingBlock(text=to_text(thought.take("content"))) for thought in thoughts]
            case _:
                return [provider_block(_CHATGPT, kind, content.whole())]

    def _item(self, item: Any, path: str) -> list[ContentBlock]:
        if not isinstance(item, dict):
            return text_blocks(item)
        kind = to_text(item.get("content_type"))
        pointer = item.get("asset_pointer")
        if kind == "audio_transcription":
            return text_blocks(item.get("text"))
        if kind in _POINTERS and isinstance(pointer, str):
            source_losses().add(path, "the export holds the file next to the conversation: only its id is read",
                                kind=LossKind.MEDIA)  # fmt: skip
            return [media_block("file_id", pointer, kind=_POINTERS[kind], owner=_CHATGPT)]
        return [provider_block(_CHATGPT, kind, item)]
