"""The logs of coding agents: Claude Code and the Codex CLI.

The logs of Claude Code: JSON lines, in which each line is an event with the id of the one before.

A reply is written as one line for each block, with the same message id; the lines become one message. Subagents
(``isSidechain``) are conversations of their own. The layout is not documented.

The logs of the Codex CLI: JSON lines (``rollout-*.jsonl``) with the items of OpenAI Responses.

A line has a type and a payload; in older versions it is the item itself. Events for the screen repeat the items and are
skipped, apart from counts of tokens. Source: https://github.com/openai/codex, codex-rs/protocol.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import Usage
from dragoman.formats.document import copy_json_at, parse_json_or_lines
from dragoman.formats.errors import FormatError
from dragoman.formats.native import read_request
from dragoman.formats.reading.blocks import build_usage, text_blocks
from dragoman.formats.reading.fields import Fields, RowNames, iter_fields, source_losses, take_counts, typed_errors
from dragoman.formats.reading.turns import Turns, read_time
from dragoman.formats.reading.words import words_of
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
            reason = f"a line of the type {str(kind)[:40]!r} is not a message: left out"
            source_losses().add(line.path, reason, severity=Severity.INFO)
            for field_name in line.whole():
                if field_name not in words_of(FORMAT).skipped["line"]:
                    source_losses().add_field(line.path, field_name, FORMAT)
            continue
        content = message.take("content")
        usage = message.object("usage")
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
            name = message.text("model")
            entry.metadata = {
                "model": f"{_PROVIDER}:{name}" if name else None,
                "usage": _usage(usage) if usage is not None else None,
                "stop_reason": words_of(FORMAT).stops.get(message.text("stop_reason") or ""),
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
            reason = "a line with this id and content is there already: left out"
            source_losses().add(entry.path, reason, severity=Severity.INFO)
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
        source_losses().add("$", "branches that the user left are not read", severity=Severity.INFO)
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


def _usage(usage: Fields) -> Usage | None:
    tier = usage.take("service_tier")
    counts = take_counts(usage)
    counts["prompt"] = sum(counts[name] or 0 for name in ("prompt", "cached", "written"))
    return build_usage(**counts, service_tier=tier if isinstance(tier, str) else None)


_CODEX = "codex"
_CODEX_PROVIDER = "openai"
_SETTINGS = frozenset({"turn_context", "session_meta", "event_msg", "compacted", "world_state"})


@typed_errors
def from_codex(document: Any) -> list[Message]:
    """Read a session's log. Raises FormatError, with a path."""
    items: list[dict[str, Any]] = []
    paths: list[str] = []
    usages: list[tuple[int, Usage]] = []
    model: str | None = None
    turns = Turns()
    for line in iter_fields(parse_json_or_lines(document, format_name=_CODEX), _CODEX):
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
                usage = _codex_usage(event)
                usages += [(len(items), usage)] if usage is not None else []
            if kind == "compacted":
                reason = "the log was compacted here: the messages before are kept, the summary is left out"
                source_losses().add(line.path, reason, severity=Severity.INFO)
            event.whole()
            reason = f"settings and events of the program ({kind}) are not part of the conversation: left out"
            source_losses().add(event.path, reason, kind=LossKind.OPTION, severity=Severity.INFO)
    body = {"input": items, **({"model": model} if model else {})}
    read = read_request(_CODEX_PROVIDER, body, "$", paths)
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


def _codex_usage(event: Fields) -> Usage | None:
    info = event.object("info")
    last = info.object("last_token_usage") if info is not None else None
    if last is None:
        return None
    return build_usage(**take_counts(last))


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
