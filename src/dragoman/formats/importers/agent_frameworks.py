"""What frameworks for agents store: AutoGen and Google's Agent Development Kit.

AutoGen's messages and events as their `dump` writes them, and the saved states of agents and teams.

A thought before calls is the text of the reply: AutoGen sends it as the content of the message with the calls. Any
other thought is reasoning. Source: autogen_agentchat/messages.py and autogen_ext/models/openai/_openai_client.py, 0.7.

Sessions and events of ADK, in camel or snake case, and its SQLite files.

An event of a model is a reply of Gemini with fields of its own. Source: google/adk/events/event.py,
google/adk/sessions/session.py and google/adk/sessions/schemas, 2.13.
"""

import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import dig, objects_in, parse_json_or_lines, read_list
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.blocks import (
    build_usage,
    cite_last_text,
    media_block,
    provider_block,
    read_citation,
    signature_notes,
    text_blocks,
    to_text,
)
from dragoman.formats.reading.entry_marks import named
from dragoman.formats.reading.fields import (
    Fields,
    is_empty,
    iter_fields,
    source_losses,
    take_counts,
    typed_errors,
    words_of,
)
from dragoman.formats.reading.turns import Turns, read_time, stop_after
from dragoman.formats.results import Conversation
from dragoman.sqlite_files import read_database

FORMAT = "autogen"
_USERS = frozenset({"user", "user_proxy", "UserProxyAgent"})


@typed_errors
def from_autogen(document: Any) -> list[Conversation]:
    """Return the conversation in a list of messages, or those in the saved state of an agent or a team.

    Raises FormatError, with a path.
    """
    data = parse_json_or_lines(document, format_name=FORMAT)
    found = [Conversation(name, _Reader().read(messages, at)) for name, messages, at in _lists(data, "$", "1")]
    if not found:
        raise FormatError("the state holds no messages")
    return found


def _lists(data: Any, path: str, name: str) -> list[tuple[str, Any, str]]:
    """Return the lists of messages in a document, with their names and paths."""
    if not isinstance(data, dict) or named("autogen")(data):
        return [(name, data, path)]
    fields = Fields(data, path, FORMAT)
    fields.ignore("type", "version", "stop_reason", "current_turn", "next_speaker_index", "previous_speaker")
    found: list[tuple[str, Any, str]] = []
    held = [key for key in ("messages", "message_thread") if isinstance(fields.look(key), list)]
    found += [(name, fields.take(key), f"{path}.{key}") for key in held]
    for key in ("llm_context", "agent_state", "inner_team_state"):
        if isinstance(fields.look(key), dict):
            found += _lists(fields.take(key), f"{path}.{key}", name)
    states = fields.take("agent_states")
    for agent, state in states.items() if isinstance(states, dict) else ():
        found += _lists(state, f"{path}.agent_states.{agent}", agent)
    fields.close()
    return found


class _Reader:
    def __init__(self) -> None:
        self._turns = Turns()
        self._thought: tuple[str, str] | None = None
        """The text and the path of a thought whose message has not come yet."""

    def read(self, messages: Any, path: str) -> list[Message]:
        for message in iter_fields(messages, FORMAT, path):
            message.ignore("id")
            message.drop("metadata", "a program's own metadata is left out")
            self._message(message, message.required_text("type"))
        self._flush()
        return self._turns.messages

    def _message(self, message: Fields, kind: str) -> None:
        source, time = message.text("source"), read_time(message.take("created_at"))
        usage = message.inner("models_usage")
        role = Role.USER if kind == "UserMessage" or (source in _USERS and kind != "AssistantMessage") else None
        if kind == "ThoughtEvent":
            self._flush()
            self._thought = (message.text("content") or "", message.path)
            return
        if kind == "SystemMessage":
            self._add(Role.SYSTEM, text_blocks(message.text("content")), message)
        elif kind in ("ToolCallExecutionEvent", "FunctionExecutionResultMessage"):
            self._flush()
            self._turns.start(Role.TOOL)
            blocks: list[ContentBlock] = []
            for result in message.objects("content"):
                native_id, name = result.text("call_id"), result.text("name")
                content = text_blocks(result.take("content"))
                blocks.append(self._turns.result(native_id, name, content, is_error=result.flag("is_error")))
            self._add(Role.TOOL, blocks, message)
        elif kind in words_of(FORMAT).skipped["steps"]:
            message.whole()
            source_losses().add(message.path, f"a {kind} is a step of the program: left out")
        elif named("autogen")({"type": kind}):
            if source is not None and role is None and source != "assistant":
                source_losses().add(f"{message.path}.source", "a message has no name of its speaker: left out")
            blocks = self._content(message, kind)
            counts = build_usage(usage.count("prompt_tokens"), usage.count("completion_tokens"))
            metadata = {"usage": counts} if role is None else None
            self._add(role or Role.ASSISTANT, blocks, message, metadata=metadata, created_at=time)
        else:
            blocks = [provider_block(FORMAT, kind, message.whole())]
            self._add(role or Role.ASSISTANT, blocks, message, created_at=time)

    def _add(self, role: Role, blocks: list[ContentBlock], message: Fields, **fields: Any) -> None:
        self._turns.add(role, blocks, message.path, **fields)

    def _content(self, message: Fields, kind: str) -> list[ContentBlock]:
        """Return the blocks of a message, after the thought before it."""
        content = message.look("content")
        is_reply = (
            kind not in ("UserMessage", "TextMessage", "MultiModalMessage") or message.look("source") not in _USERS
        )
        has_calls = is_reply and isinstance(content, list) and any(isinstance(each, dict) and "arguments" in each
                                                                   for each in content)  # fmt: skip
        thoughts = [self._thought[0] if self._thought is not None else None, message.text("thought")]
        self._thought = None
        self._turns.start(Role.ASSISTANT if is_reply else Role.USER)
        kind_of_thought = TextBlock if has_calls else ThinkingBlock
        blocks: list[ContentBlock] = [kind_of_thought(text=thought) for thought in thoughts if thought]
        if kind in ("HandoffMessage", "ToolCallSummaryMessage"):
            message.ignore("target", "context", "tool_calls", "results")  # copies, and the next agent's name
        if has_calls:
            return blocks + [
                self._turns.call(call.text("id"), call.required_text("name"), call.take("arguments"))
                for call in message.objects("content")
            ]
        if isinstance(content, list):
            return [*blocks, *(self._part(item, path, message) for item, path in message.items("content"))]
        return [*blocks, *text_blocks(message.take("content"))]

    def _part(self, item: Any, path: str, message: Fields) -> ContentBlock:
        if isinstance(item, str):
            return TextBlock(text=item)
        if not isinstance(item, dict):
            return TextBlock(text=to_text(item))
        part = message.adopt(item, path)
        if isinstance(part.look("data"), str):
            # AutoGen stores every image as a PNG.
            return media_block("base64", part.required_text("data"), "image/png")
        return provider_block(FORMAT, "part", part.whole())

    def _flush(self) -> None:
        """Add a thought that no message of the model follows."""
        if self._thought is not None:
            (text, path), self._thought = self._thought, None
            self._turns.start(Role.ASSISTANT)
            self._turns.add(Role.ASSISTANT, [ThinkingBlock(text=text)] if text else [], path)


_ADK = "google-adk"
_PROVIDER = "google"

_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")
_COLUMNS = (
    "content", "author", "invocation_id", "grounding_metadata", "usage_metadata", "citation_metadata", "error_code",
    "error_message", "partial", "turn_complete", "custom_metadata", "branch", "interrupted",
)  # fmt: skip
"""The columns of an event before version 1 of the schema."""


@typed_errors
def from_google_adk(document: Any) -> list[Conversation]:
    """Return the conversation of a session or of a list of events, or those of several sessions.

    Raises FormatError, with a path.
    """
    data = parse_json_or_lines(document, format_name=_ADK)
    first = data[0] if isinstance(data, list) and data else data
    if not isinstance(dig(first, "events"), list):
        return [Conversation("1", _read_events(data, "$"))]
    found: list[Conversation] = []
    for native in iter_fields(data, _ADK):
        session = _Snake(native.whole(), native.path, _ADK)
        session.ignore("app_name", "user_id", "last_update_time")
        session.drop("state", "the state of a program is not part of its conversation: left out")
        name = session.text("id") or str(len(found) + 1)
        found.append(Conversation(name, _read_events(session.take("events"), f"{session.path}.events")))
        session.close()
    return found


def from_google_adk_file(path: Path) -> list[Conversation]:
    """Return the conversations of a SQLite file of ADK's `DatabaseSessionService`. Raises FormatError."""
    try:
        return read_database(path, _stored)
    except (OSError, sqlite3.Error) as error:
        raise FormatError(f"this is not a file of ADK's sessions: {error}") from None


def _stored(database: sqlite3.Connection) -> list[Conversation]:
    database.row_factory = sqlite3.Row
    columns = {row["name"] for row in database.execute("pragma table_info(events)")}
    if not {"session_id", "timestamp"} <= columns:
        raise FormatError("this is not a file of ADK's sessions: it has no table of events")
    events: dict[str, list[Any]] = {}
    for row in database.execute("select * from events order by session_id, timestamp, rowid"):
        if "event_data" in columns:
            event = _column(row["event_data"])
        else:
            event = {name: _column(row[name]) for name in _COLUMNS if name in columns}
        if isinstance(event, dict):
            event.setdefault("timestamp", row["timestamp"])
        events.setdefault(to_text(row["session_id"]), []).append(event)
    return [Conversation(name, _read_events(found, f"$.events[{name}]")) for name, found in events.items()]


def _column(value: Any) -> Any:
    if not isinstance(value, (str, bytes)):
        return value
    try:
        return from_json(value)
    except ValueError:
        return value


class _Snake(Fields):
    """The fields of an object by their names in snake case, whichever case the document has."""

    __slots__ = ("_names",)

    def __init__(self, native: Mapping[str, Any], path: str, format_name: str) -> None:
        self._names = {_CAPITAL.sub(lambda capital: f"_{capital[0]}", name).lower(): name for name in native}
        super().__init__({snake: native[name] for snake, name in self._names.items()}, path, format_name)

    def _path_of(self, name: str) -> str:
        return super()._path_of(self._names.get(name, name))

    def whole(self) -> dict[str, Any]:
        """Take all fields, and return those that are not empty as the document names them."""
        return {self._names[name]: value for name, value in super().whole().items() if not is_empty(value)}


def _read_events(events: Any, path: str) -> list[Message]:
    turns = Turns()
    for native in iter_fields(events, _ADK, path):
        event = _Snake(native.whole(), native.path, _ADK)
        if event.look("partial") is True:  # a piece of a stream: the whole follows
            event.whole()
        else:
            _event(event, turns)
        event.close()
    return turns.messages


def _event(event: Fields, turns: Turns) -> None:
    time = read_time(event.take("timestamp"))
    event.skip("event")
    author = event.text("author")
    actions = event.take("actions")
    for name, value in actions.items() if isinstance(actions, dict) else ():
        if not is_empty(value) and value is not False:
            reason = "what an event changes outside the conversation is left out"
            source_losses().add(f"{event.path}.actions.{name}", reason)
    content = event.object("content")
    if (code := event.take("error_code")) is not None:
        reason = f"the model failed: {to_text(code)[:80]}: {to_text(event.take('error_message'))[:200]}"
        source_losses().add(event.path, reason)
    model, usage = event.text("model_version"), event.inner("usage_metadata")
    grounding, at = event.take("grounding_metadata"), f"{event.path}.grounding_metadata"
    word = event.text("finish_reason")
    for name in ("custom_metadata", "citation_metadata", "input_transcription", "output_transcription"):
        event.drop(name, "a message has no place for it: left out")
    if content is None:
        return
    role = Role.USER if (content.text("role") or author) == "user" else Role.ASSISTANT
    parts = content.objects("parts")
    has_results = any("function_response" in part for part in parts)
    turns.start(role, has_results=has_results)
    blocks: list[ContentBlock] = []
    signatures: dict[int, str] = {}
    for part in parts:
        if (signature := part.text("thought_signature")) is not None:
            signatures[len(blocks)] = signature
        blocks += _part(part, turns)
    if role is not Role.ASSISTANT:
        turns.add(role, blocks, event.path, created_at=time)
        return
    # The sources of a search stand next to the reply.
    name = "grounding_chunks" if dig(grounding, "groundingChunks") is None else "groundingChunks"
    sources = objects_in([dig(each, "web") for each in read_list(dig(grounding, name), f"{at}.{name}")])
    blocks = cite_last_text(blocks, [read_citation({"type": "grounding_chunk", **source}) for source in sources])
    signed = {index: text for index, text in signatures.items() if index < len(blocks)}
    counts = take_counts(usage)  # Gemini counts what tools add to a prompt, and the thoughts, apart
    counts["prompt"] = (counts["prompt"] or 0) + (counts.pop("tools") or 0)
    counts["output"] = (counts["output"] or 0) + (counts["reasoning_tokens"] or 0)
    stop = words_of(_ADK).stops.get((word or "").rpartition(".")[2])
    metadata = {
        "provider": _PROVIDER,
        "model": f"{_PROVIDER}:{model}" if model else None,
        "usage": build_usage(**counts),
        "stop_reason": stop_after(blocks, stop),
        "provider_raw": signature_notes(_PROVIDER, signed),
    }
    turns.add(role, blocks, event.path, metadata=metadata, created_at=time)


def _part(part: Fields, turns: Turns) -> list[ContentBlock]:
    if (call := part.object("function_call")) is not None:
        call.ignore("will_continue", "partial_args")
        return [turns.call(call.text("id"), call.text("name") or "", call.take("args"))]
    if (response := part.object("function_response")) is not None:
        return [_response(response, turns)]
    for name, field in (("inline_data", "data"), ("file_data", "file_uri")):
        if (media := part.object(name)) is not None:
            data, media_type, title = media.text(field) or "", media.text("mime_type"), media.text("display_name")
            if name == "file_data":
                return [media_block("url", data, media_type, title=title)]
            return [media_block("base64", data.replace("-", "+").replace("_", "/"), media_type, title=title)]
    if (text := part.text("text")) is not None:
        kind = ThinkingBlock if part.take("thought") is True else TextBlock
        return [kind(text=text)] if text else []
    rest = part.whole()
    return [provider_block(_PROVIDER, next(iter(rest)), rest)] if rest else []


def _response(response: Fields, turns: Turns) -> ContentBlock:
    """Return a result. ADK puts a text under ``result``, and the text of a failed call under ``error``."""
    response.ignore("will_continue", "scheduling")
    native_id, name, body = response.text("id"), response.text("name"), response.take("response")
    key = next(iter(body)) if isinstance(body, dict) and len(body) == 1 else ""
    content = text_blocks(body[key] if key in ("result", "output", "error") else body)
    for part in response.objects("parts"):
        content += _part(part, turns)
    return turns.result(native_id, name, content, is_error=key == "error")
