"""Chat data sets as Hugging Face's tools write and train on them: one conversation a row.

Rows have ``messages``, or ``prompt`` with ``completion`` or ``chosen`` and ``rejected`` (TRL), or ``conversations``
with ``from`` and ``value`` (ShareGPT). Calls are those of chat templates: arguments are objects, and no call has an id.
Source: https://huggingface.co/docs/trl/dataset_formats and https://huggingface.co/docs/transformers/chat_templating.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import ContentBlock, ThinkingBlock
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import dig, objects_in, parse, parse_json_or_lines, parse_or_none
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.blocks import media_block, media_from_url, provider_block, text_blocks, to_text
from dragoman.formats.reading.fields import (
    Fields,
    RowNames,
    drop_tools,
    iter_fields,
    iter_rows,
    source_losses,
    typed_errors,
    words_of,
)
from dragoman.formats.reading.turns import Turns
from dragoman.formats.results import Conversation

_BATCH = 1024
FORMAT = "hf"
_LISTS = ("messages", "conversations", "conversation", "prompt", "completion", "chosen")
_THINKING = ("reasoning_content", "thinking", "reasoning")


def iter_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file as JSON has them, in constant memory.

    Raises ConfigurationError if duckdb is not installed, and FormatError if the file is damaged.
    """
    try:
        import duckdb
    except ImportError:
        raise ConfigurationError(
            "a Parquet file is read by duckdb: pip install 'dragoman[report]', or write JSON lines"
        ) from None
    with duckdb.connect() as database:
        try:
            database.execute("select to_json(rows)::varchar from read_parquet(?) as rows", [str(path)])
            while found := database.fetchmany(_BATCH):
                for (row,) in found:
                    yield json.loads(row)
        except duckdb.Error as error:
            raise FormatError(f"this is not a readable Parquet file: {str(error)[:200]}") from None


@typed_errors
def from_hugging_face(document: Any) -> list[Conversation]:
    """Return one conversation for each row of JSON lines or of a list, or the one in a list of messages.

    Raises FormatError, with a path.
    """
    document = parse_json_or_lines(document, format_name=FORMAT)
    if isinstance(document, list) and document and isinstance(document[0], dict) and "role" in document[0]:
        document = {"messages": document}
    names = RowNames()
    return [Conversation(names.next(row.take("id")), _RowReader(row).read()) for row in iter_rows(document, FORMAT)]


@typed_errors
def from_hugging_face_file(path: Path) -> list[Conversation]:
    """Return one conversation for each row of a Parquet file. Raises FormatError, with a path."""
    names = RowNames()
    return [
        Conversation(names.next(row.take("id")), _RowReader(row).read())
        for number, native in enumerate(iter_parquet(path))
        for row in iter_fields(native, FORMAT, f"$[{number}]")
    ]


class _RowReader:
    def __init__(self, row: Fields) -> None:
        self._row = row
        self._turns = Turns()
        self._parameters = _parameters(row.look("tools"))

    def read(self) -> list[Message]:
        row = self._row
        if not any(name in row for name in _LISTS):
            raise FormatError(f"a row must have one of {', '.join(_LISTS)}", path=row.path)
        system = row.text("system")
        if system:
            self._turns.add(Role.SYSTEM, text_blocks(system), f"{row.path}.system")
        for name in _LISTS:
            if isinstance(row.look(name), str):
                role = Role.USER if name == "prompt" else Role.ASSISTANT
                self._turns.start(role)
                self._turns.add(role, text_blocks(row.text(name)), f"{row.path}.{name}")
            else:
                for message in row.objects(name):
                    self._message(message)
        row.drop("rejected", "a conversation has one continuation: the rejected one is left out")
        drop_tools(row)
        return self._turns.messages

    def _message(self, message: Fields) -> None:
        word = message.required_text("role", "from")
        role = words_of(FORMAT).roles.get(word.lower())
        if role is None:
            raise FormatError(f"unknown role {word[:80]!r}", path=message.path)
        content = message.take("content", "value")
        name = message.text("name")
        native_id = message.text("tool_call_id")
        thinking = message.text(*_THINKING)
        blocks: list[ContentBlock] = [ThinkingBlock(text=thinking)] if thinking else []
        self._turns.start(role)
        if role is Role.TOOL:
            blocks.append(self._turns.result(native_id, name, _content(content, message)))
        elif word == "function_call":
            blocks += self._sharegpt_call(content, message)
        else:
            blocks += _content(content, message)
            if name is not None:
                source_losses().add_field(message.path, "name", FORMAT)
        blocks += [self._call(call) for call in message.objects("tool_calls")]
        self._turns.add(role, blocks, message.path)

    def _call(self, call: Fields) -> ContentBlock:
        call.ignore("type", "index")
        native_id = call.text("id")
        function = call.object("function") or call
        name = function.required_text("name")
        arguments, known = function.take("arguments"), self._parameters.get(name)
        if isinstance(arguments, dict) and known is not None:
            # A column has the arguments of all tools in each row: null stands for those that this one does not take.
            kept = {key: value for key, value in arguments.items() if value is not None or known.get(key, False)}
            if len(kept) < len(arguments):
                reason = "the column has null for arguments that are absent: left out"
                source_losses().add_info(f"{function.path}.arguments", reason, LossKind.INVALID_INPUT)
            arguments = kept
        return self._turns.call(native_id, name, arguments)

    def _sharegpt_call(self, content: Any, message: Fields) -> list[ContentBlock]:
        """Return the call in a text, or the calls: JSON with name and arguments."""
        try:
            calls = parse(content, format_name=FORMAT)
        except FormatError as error:
            raise FormatError(error.reason, path=f"{message.path}.value") from None
        blocks: list[ContentBlock] = []
        for call in calls if isinstance(calls, list) else [calls]:
            if not isinstance(call, dict) or not isinstance(call.get("name"), str):
                raise FormatError("a call must be an object with a name", path=f"{message.path}.value")
            fields = message.adopt(call, f"{message.path}.value")
            blocks.append(self._turns.call(None, fields.required_text("name"), fields.take("arguments", "parameters")))
        return blocks


def _content(content: Any, message: Fields) -> list[ContentBlock]:
    if not isinstance(content, list):
        return text_blocks(content)
    blocks: list[ContentBlock] = []
    for index, item in enumerate(content):
        if not isinstance(item, dict):
            blocks += text_blocks(item)
            continue
        part = message.adopt(item, f"{message.path}.content[{index}]")
        kind = part.text("type")
        if kind == "text":
            blocks += text_blocks(part.text("text"))
        elif kind == "thinking":
            blocks.append(ThinkingBlock(text=part.text("thinking") or ""))
        elif kind in ("image", "audio", "video", "image_url"):
            blocks.append(_media(part, kind))
        else:
            blocks.append(provider_block(FORMAT, to_text(kind), part.whole()))
    return blocks


def _media(part: Fields, kind: str) -> ContentBlock:
    value = part.take(kind, "url", "path", "base64", "image_url")
    if isinstance(value, dict) and isinstance(value.get("url"), str):
        value = value["url"]
    kind = kind.removesuffix("_url")
    if isinstance(value, str) and value.startswith(("http:", "https:", "data:")):
        return media_from_url(value, kind=kind)
    if isinstance(value, str) and value:
        is_base64 = part.look("base64") == value
        return media_block("base64" if is_base64 else "file_ref", value, kind=kind)
    return provider_block(FORMAT, kind, part.whole())  # the image itself is in another column


def _parameters(tools: Any) -> dict[str, dict[str, bool]]:
    """Return, for each tool of a row, its parameters: whether null is a value of it."""
    if isinstance(tools, str):
        tools = parse_or_none(tools, format_name=FORMAT)
    found: dict[str, dict[str, bool]] = {}
    for tool in objects_in(tools):
        function = tool.get("function", tool)
        if isinstance(properties := dig(function, "parameters", "properties"), dict):
            found[to_text(function.get("name"))] = {
                name: "null" in to_text(dig(known, "type")) for name, known in properties.items()
            }
    return found
