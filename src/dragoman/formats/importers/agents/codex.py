"""The logs of the Codex CLI: JSON lines (``rollout-*.jsonl``) with the items of OpenAI Responses.

A line has a type and a payload; in older versions it is the item itself. Events for the screen repeat the items and are
skipped, apart from counts of tokens. Source: https://github.com/openai/codex, codex-rs/protocol.
"""

from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import Usage
from dragoman.formats.document import copy_json_at, parse_json_or_lines
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.blocks import build_usage, text_blocks
from dragoman.formats.importers.datasets.rows import read_request
from dragoman.formats.reading.fields import Fields, iter_fields, typed_errors
from dragoman.formats.reading.losses import source_losses
from dragoman.formats.reading.turns import Turns

FORMAT = "codex"
_PROVIDER = "openai"
_SETTINGS = frozenset({"turn_context", "session_meta", "event_msg", "compacted", "world_state"})


@typed_errors
def from_codex(document: Any) -> list[Message]:
    """Read a session's log. Raises FormatError, with a path."""
    items: list[dict[str, Any]] = []
    paths: list[str] = []
    usages: list[tuple[int, Usage]] = []
    model: str | None = None
    turns = Turns()
    for line in iter_fields(parse_json_or_lines(document, format_name=FORMAT), FORMAT):
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
                usage = _usage(event)
                usages += [(len(items), usage)] if usage is not None else []
            _report_event(event, kind, line.path)
    body = {"input": items, **({"model": model} if model else {})}
    read = read_request(_PROVIDER, body, "$", paths)
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


def _report_event(event: Fields, kind: str | None, path: str) -> None:
    if kind == "compacted":
        reason = "the log was compacted here: the messages before are kept, the summary is left out"
        source_losses().add(path, reason, severity=Severity.INFO)
    event.whole()
    reason = f"settings and events of the program ({kind}) are not part of the conversation: left out"
    source_losses().add(event.path, reason, kind=LossKind.OPTION, severity=Severity.INFO)


def _instructions(fields: Fields, turns: Turns) -> None:
    """Add the instructions that Codex sends with each request."""
    base = fields.look("base_instructions")
    text = base.get("text") if isinstance(base, dict) else fields.look("instructions")
    if isinstance(text, str) and text:
        turns.add(Role.SYSTEM, text_blocks(text), fields.path)


def _usage(event: Fields) -> Usage | None:
    info = event.object("info")
    last = info.object("last_token_usage") if info is not None else None
    if last is None:
        return None
    return build_usage(
        last.count("input_tokens"),
        last.count("output_tokens"),
        cached=last.count("cached_input_tokens"),
        reasoning_tokens=last.count("reasoning_output_tokens"),
    )


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
