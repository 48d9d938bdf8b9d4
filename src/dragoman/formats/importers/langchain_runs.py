"""What the programs around LangChain store: checkpoints of LangGraph and runs of LangSmith.

What LangGraph stores: checkpoints in MessagePack or JSON, and the SQLite files of its saver.

MessagePack has JSON types here, and objects as their fields. Nothing is instantiated.
Sources: https://github.com/msgpack/msgpack/blob/master/spec.md, langgraph/checkpoint/serde/jsonplus.py, 4.3, and
langgraph/checkpoint/sqlite, 3.1.

Runs of LangSmith: one for each call of a model, with what was sent and what came back.

A run keeps the messages that were sent, or only their text, as `get_buffer_string` writes it. In such a text a line
that begins with a speaker begins a message, and the replies of earlier runs replace the lines that repeat them.
Source: langsmith/schemas.py, 0.15, and langchain_core/messages/utils.py, 1.7.
"""

import ast
import re
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dragoman.adapter.losses import LossKind
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH
from dragoman.formats.document import kind_of, nested_objects_in, parse, read_list
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.langchain import from_langchain
from dragoman.formats.reading.fields import Fields, iter_rows, source_losses, typed_errors
from dragoman.formats.results import Conversation
from dragoman.sqlite_files import read_database

_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_LENGTHS = {
    0xC4: ("bytes", ">B"), 0xC5: ("bytes", ">H"), 0xC6: ("bytes", ">I"),
    0xC7: ("object", ">B"), 0xC8: ("object", ">H"), 0xC9: ("object", ">I"),
    0xD9: ("text", ">B"), 0xDA: ("text", ">H"), 0xDB: ("text", ">I"),
    0xDC: ("list", ">H"), 0xDD: ("list", ">I"), 0xDE: ("map", ">H"), 0xDF: ("map", ">I"),
}  # fmt: skip
_CONSTANTS: dict[int, Any] = {0xC0: None, 0xC2: False, 0xC3: True}
_MODELS = (4, 5)
"""The codes of pydantic models: module, class, fields, method."""
FORMAT = "langgraph"
_CHANNEL = "messages"


def unpack(data: bytes) -> Any:
    """Return the value. A model of pydantic is an object in the form of LangChain's `dumpd`, with its class.

    Raises FormatError if the bytes are not MessagePack, or are nested too deep.
    """
    try:
        reader = _Reader(data)
        value = reader.value(0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise FormatError(f"this is not valid MessagePack: {error}") from None
    if reader.position != len(data):
        raise FormatError(f"this is not valid MessagePack: it ends at byte {reader.position}")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def value(self, depth: int) -> Any:
        if depth > MAX_DOCUMENT_DEPTH:
            raise FormatError(f"this is nested deeper than {MAX_DOCUMENT_DEPTH} levels")
        code = self._bytes(1)[0]
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            return self._number(_NUMBERS[code])
        if code < 0x80 or code >= 0xE0:
            return code if code < 0x80 else code - 0x100
        if code in _LENGTHS:
            kind, size = _LENGTHS[code]
            return self._sized(kind, int(self._number(size)), depth)
        if 0xD4 <= code <= 0xD8:
            return self._sized("object", 1 << (code - 0xD4), depth)
        kind = "map" if code < 0x90 else "list" if code < 0xA0 else "text"
        if code >= 0xC0:
            raise FormatError(f"this is not valid MessagePack: {code:#x} at byte {self.position - 1}")
        return self._sized(kind, code & (0x1F if kind == "text" else 0x0F), depth)

    def _sized(self, kind: str, size: int, depth: int) -> Any:
        match kind:
            case "text":
                return self._bytes(size).decode()
            case "bytes":
                return self._bytes(size).hex()
            case "list":
                return [self.value(depth + 1) for _ in range(size)]
            case "map":
                return {str(self.value(depth + 1)): self.value(depth + 1) for _ in range(size)}
            case _:
                code = self._bytes(1)[0]
                content = _Reader(self._bytes(size)).value(depth + 1)
                if not isinstance(content, list) or len(content) < 3:
                    return content
                module, name, fields = content[:3]
                if code in _MODELS and isinstance(fields, dict):  # a model, as `dumpd` writes it
                    path = [*str(module).split("."), str(name)]
                    return {"lc": 1, "type": "constructor", "id": path, "kwargs": fields}
                return fields

    def _number(self, size: str) -> int | float:
        number: int | float = struct.unpack(size, self._bytes(struct.calcsize(size)))[0]
        return number

    def _bytes(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self._data):
            raise IndexError(f"it ends inside a value, at byte {len(self._data)}")
        taken = self._data[self.position : end]
        self.position = end
        return taken


def is_checkpoint(data: bytes) -> bool:
    """Whether the bytes begin as a checkpoint in MessagePack: a map whose first key is the version."""
    return data[:1] >= b"\x81" and data[:1] <= b"\x8f" and data[1:3] == b"\xa1v" and b"\xaechannel_values" in data


@typed_errors
def from_langgraph(document: Any) -> list[Conversation]:
    """Return the conversation in the channel ``messages`` of a checkpoint. Raises FormatError, with a path."""
    if isinstance(document, (bytes, bytearray)) and is_checkpoint(bytes(document)):
        document = unpack(bytes(document))
    native = parse(document, format_name=FORMAT)
    if not isinstance(native, dict):
        raise FormatError(f"a checkpoint must be an object, not {kind_of(native)}")
    checkpoint = Fields(native, "$", FORMAT)
    checkpoint.skip("checkpoint")
    values = checkpoint.inner("channel_values")
    messages = values.take(_CHANNEL)
    if not isinstance(messages, list):
        raise FormatError(f"a checkpoint must have a channel {_CHANNEL!r} with a list", path="$.channel_values")
    for name in values.rest():
        reason = "a channel of a graph other than its messages is left out"
        source_losses().add(f"{values.path}.{name}", reason)
    checkpoint.close()
    return [Conversation("1", from_langchain(messages))]


_LATEST_CHECKPOINTS = (
    "select thread_id, type, checkpoint from checkpoints as latest where checkpoint_ns = '' and checkpoint_id = "
    "(select max(checkpoint_id) from checkpoints where thread_id = latest.thread_id and checkpoint_ns = '') "
    "order by thread_id"
)


def from_langgraph_file(path: Path) -> list[Conversation]:
    """Return the latest state of each thread in a file of the SQLite saver. Raises FormatError."""
    try:
        rows = read_database(path, lambda database: database.execute(_LATEST_CHECKPOINTS).fetchall())
    except (OSError, sqlite3.Error) as error:
        raise FormatError(f"this is not a file of LangGraph's checkpoints: {error}") from None
    found = []
    for thread, kind, data in rows:
        if kind not in ("msgpack", "json") or not isinstance(data, (bytes, str)):
            raise FormatError(f"a checkpoint of the type {str(kind)[:40]!r} is not read", path=f"$.threads[{thread}]")
        checkpoint = unpack(bytes(data)) if kind == "msgpack" and isinstance(data, bytes) else data
        try:
            found.append(Conversation(str(thread), from_langgraph(checkpoint)[0].messages))
        except FormatError as error:
            raise FormatError(error.reason, path=f"$.threads[{thread}]{error.path.removeprefix('$')}") from None
    return found


_LANGSMITH = "langsmith"

_SPEAKER = re.compile(r"^(System|Human|AI|Tool|Function): ", re.MULTILINE)
_TYPES = {"System": "system", "Human": "human", "AI": "ai", "Tool": "tool", "Function": "tool"}
_CALLS = "[{'name': "
_RUN_MODELS = ("llm", "chat_model")

Native = dict[str, Any]


@typed_errors
def from_langsmith(document: Any) -> list[Conversation]:
    """Return the conversations in runs of models. A run that continues an earlier one replaces it.

    Raises FormatError, with a path, if no run is one of a model.
    """
    found: dict[int, tuple[str, list[Native]]] = {}
    for run in iter_rows(document, _LANGSMITH):
        kind, name = run.look("run_type"), run.look("id")
        run.skip("run")
        if kind is not None and kind not in _RUN_MODELS:
            run.whole()
            source_losses().add(run.path, "only runs of models hold messages: left out", kind=LossKind.EMPTY_MESSAGE)
            continue
        messages = list(_sent(run))
        earlier = next((key for key in reversed(_prefixes(messages)) if key in found), None)
        if earlier is not None:  # its replies say more than the text that repeats them
            before = found.pop(earlier)[1]
            messages[: len(before)] = before
        messages += _replies(run)
        found[_prefixes(messages)[-1]] = name if isinstance(name, str) else str(len(found) + 1), messages
    if not found:
        raise FormatError("no run is one of a model")
    return [Conversation(name, from_langchain(messages)) for name, messages in found.values()]


def _sent(run: Fields) -> Iterator[Native]:
    """Yield the messages that a run sent."""
    inputs = run.inner("inputs")
    inputs.ignore("invocation_params", "options")
    messages = inputs.take("messages", "input")
    if isinstance(messages, list):
        yield from nested_objects_in(messages)
        return
    prompts = inputs.take("prompts", "prompt")
    for prompt in prompts if isinstance(prompts, list) else [prompts]:
        if isinstance(prompt, str):
            reason = "the run has the messages as one text: its lines are split at the names of speakers"
            source_losses().add(f"{inputs.path}.prompts", reason, kind=LossKind.FLATTENED)
            yield from _read_text(prompt)


def _read_text(text: str) -> Iterator[Native]:
    """Yield the messages of a text. The calls of a reply follow its text as Python's list of them."""
    waiting: list[Native] = []
    marks = list(_SPEAKER.finditer(text))
    for number, mark in enumerate(marks):
        end = marks[number + 1].start() - 1 if number + 1 < len(marks) else len(text)
        kind, content = _TYPES[mark[1]], text[mark.end() : end]
        message: Native = {"type": kind, "content": content}
        if kind == "ai":
            waiting = _calls(content)
            if waiting:
                message |= {"content": content[: content.find(_CALLS)], "tool_calls": list(waiting)}
        elif kind == "tool" and waiting:
            call = waiting.pop(0)
            message |= {"tool_call_id": call.get("id"), "name": call.get("name")}
        yield message


def _calls(content: str) -> list[Native]:
    start = content.find(_CALLS)
    if start < 0 or not content.endswith("}]"):
        return []
    try:
        calls = ast.literal_eval(content[start:])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return calls if isinstance(calls, list) and all(isinstance(call, dict) for call in calls) else []


def _replies(run: Fields) -> list[Native]:
    """Return the first answer of a run, as LangChain's message. A failed run has none."""
    error, outputs = run.take("error"), run.inner("outputs")
    if error is not None:
        reason = f"the call failed and has no reply: {str(error).partition(chr(10))[0][:200]}"
        source_losses().add(run.path, reason, kind=LossKind.EMPTY_MESSAGE)
        outputs.whole()
        return []
    outputs.ignore("llm_output", "run", "type")
    generations = nested_objects_in(read_list(outputs.take("generations"), f"{outputs.path}.generations"))
    if len(generations) > 1:
        reason = "a conversation has one continuation: the other answers are left out"
        source_losses().add(f"{outputs.path}.generations", reason, kind=LossKind.EMPTY_MESSAGE)
    messages = outputs.take("messages", "output")
    for native in generations[:1]:
        generation = outputs.adopt(native, f"{outputs.path}.generations[0]")
        generation.ignore("text", "generation_info", "type")
        if isinstance(message := generation.take("message"), dict):
            messages = [message]
    listed = [messages] if isinstance(messages, dict) else read_list(messages, f"{outputs.path}.messages")
    return nested_objects_in(listed)


def _prefixes(messages: Sequence[Native]) -> list[int]:
    """Return a key for each beginning of the list, the empty one first. Equal beginnings have equal keys."""
    keys = [0]
    for message in messages:  # in any of its forms
        data = message.get("kwargs", message.get("data", message))
        data = data if isinstance(data, dict) else {}
        content = data.get("content")
        if isinstance(content, list):
            content = "".join(str(each.get("text", "")) for each in content
                              if isinstance(each, dict) and each.get("type") == "text")  # fmt: skip
        name = str(data.get("type", message.get("type")))
        keys.append(hash((keys[-1], name, content if isinstance(content, str) else "")))
    return keys
