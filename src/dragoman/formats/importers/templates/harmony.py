"""OpenAI's Harmony: the JSON of `openai_harmony`, and the text that gpt-oss reads.

Channels say what a text is: ``analysis`` is reasoning, a recipient makes a call. The system's message holds settings of
the model, and the developer's the instructions and tools. No call has an id.
Source: https://developers.openai.com/cookbook/articles/openai-harmony.
"""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import decode_text, parse_json_or_lines, parse_or_none
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.blocks import provider_block, text_blocks, to_text
from dragoman.formats.reading.fields import ROLES, Fields, iter_fields, list_inside, typed_errors
from dragoman.formats.reading.losses import source_losses
from dragoman.formats.reading.turns import Turns

FORMAT = "harmony"
START = "<|start|>"

_FUNCTIONS = "functions."
_TURN = re.compile(
    r"<\|start\|>(?P<header>[^<]*)(?:<\|channel\|>(?P<channel>[^<]*))?(?:<\|constrain\|>(?P<type>[^<]*))?"
    r"<\|message\|>(?P<text>.*?)(?:<\|end\|>|<\|call\|>|<\|return\|>|(?=<\|start\|>)|\Z)",
    re.DOTALL,
)
_INSTRUCTIONS = re.compile(r"\A# Instructions\n\n(?P<text>.*?)\s*(?:\n# Tools\n.*)?\Z", re.DOTALL)
_TOOLS = re.compile(r"(?:\A|\n)# Tools\n.*\Z", re.DOTALL)
_RECIPIENT = re.compile(r"(?:\A|\s)to=(\S+)")


@typed_errors
def from_harmony(document: Any) -> list[Message]:
    """Read the messages of a conversation, as JSON or as the text for the model. Raises FormatError, with a path."""
    if isinstance(document, (str, bytes, bytearray)) and (text := decode_text(document)).lstrip().startswith(START):
        entries: Any = list(_parse_text(text.strip()))
        at = "$"
    else:
        entries, at = list_inside(parse_json_or_lines(document, format_name=FORMAT), "messages", FORMAT)
    reader = _Reader()
    for message in iter_fields(entries, FORMAT, at):
        reader.message(message)
    return reader.finish()


def _parse_text(text: str) -> Iterator[dict[str, Any]]:
    """Yield the turns of a text as JSON has them. A header without a message is the prompt for a reply."""
    position = 0
    for turn in _TURN.finditer(text):
        if text[position : turn.start()].strip():
            raise FormatError("a text stands between two turns", path=f"$[{position}]")
        position = turn.end()
        header = turn["header"].strip()
        channel, _, kind = (turn["channel"] or "").strip().partition(" ")
        recipient = _RECIPIENT.search(f"{header} {turn['channel'] or ''}")
        author = header.split(" ")[0]
        role = author if author in ROLES else "tool"
        yield {
            "role": role,
            "name": author if role == "tool" else None,
            "content": [{"type": "text", "text": turn["text"]}],
            "channel": channel or None,
            "recipient": recipient[1] if recipient else None,
            "content_type": turn["type"] or _RECIPIENT.sub("", kind).strip() or None,
            "is_text": True,
        }
    rest = text[position:]
    if rest.strip() and not re.fullmatch(r"<\|start\|>assistant(<\|channel\|>\w*)?", rest.strip()):
        raise FormatError("the text ends inside a turn", path=f"$[{position}]")


class _Reader:
    """Joins the messages of one reply: Harmony has one for each text, thought and call."""

    def __init__(self) -> None:
        self._turns = Turns()
        self._reply: list[ContentBlock] = []
        self._path = "$"

    def finish(self) -> list[Message]:
        self._flush()
        return self._turns.messages

    def message(self, message: Fields) -> None:
        author = message.object("author")
        role = (author or message).role(ROLES)
        name = (author or message).text("name")
        channel, recipient = message.text("channel"), message.text("recipient")
        message.ignore("content_type")
        is_text = message.flag("is_text")
        parts = self._parts(message)
        if role is Role.ASSISTANT:
            self._answer(message, parts, channel, recipient)
            return
        self._flush()
        if role is Role.SYSTEM:
            for part in parts:
                if is_text or part.look("type") == "system_content":
                    part.whole()
                    reason = "the settings of the model are not part of a history: left out"
                    source_losses().add(part.path, reason, kind=LossKind.OPTION, severity=Severity.INFO)
                else:
                    self._turns.start(Role.SYSTEM)
                    self._turns.add(Role.SYSTEM, _text(part), message.path)
        elif role is Role.TOOL:
            self._turns.start(role, has_results=True)
            tool = (name or "").removeprefix(_FUNCTIONS) or None
            content = [block for part in parts for block in _text(part, is_json=is_text)]
            self._turns.add(role, [self._turns.result(None, tool, content)], message.path)
        else:
            self._turns.start(role)
            blocks = [block for part in parts for block in self._instructions(part, is_text=is_text, role=role)]
            if blocks or role is Role.USER:
                self._turns.add(role, blocks, message.path)

    def _parts(self, message: Fields) -> list[Fields]:
        if isinstance(message.look("content"), str):
            text = message.text("content")
            return [message.adopt({"type": "text", "text": text}, f"{message.path}.content")]
        return message.objects("content")

    def _answer(self, message: Fields, parts: list[Fields], channel: str | None, recipient: str | None) -> None:
        if not self._reply:
            self._path = message.path
            self._turns.start(Role.ASSISTANT)
        blocks = [block for part in parts for block in _text(part)]
        texts = "".join(block.text for block in blocks if isinstance(block, TextBlock))
        if recipient is not None and recipient not in ("all", "user", "assistant"):
            self._reply.append(self._turns.call(None, recipient.removeprefix(_FUNCTIONS), texts or None))
        elif channel == "analysis":
            self._reply += [ThinkingBlock(text=texts)] if texts else []
        else:
            self._reply += blocks

    def _instructions(self, part: Fields, *, is_text: bool, role: Role) -> list[ContentBlock]:
        if part.look("type") == "developer_content":
            part.ignore("type")
            _report_tools(part, part.take("tools"))
            return text_blocks(part.text("instructions"))
        if is_text and role is Role.DEVELOPER:
            text = to_text(part.look("text"))
            part.whole()
            if _TOOLS.search(text):
                _report_tools(part, [text])
            found = _INSTRUCTIONS.match(text)
            return text_blocks(found["text"] if found else _TOOLS.sub("", text).strip())
        return _text(part)

    def _flush(self) -> None:
        reply, self._reply = self._reply, []
        if reply:
            self._turns.add(Role.ASSISTANT, reply, self._path)


def _report_tools(part: Fields, tools: Any) -> None:
    if tools:
        source_losses().add(f"{part.path}.tools", "a history holds no definitions of tools: left out",
                            kind=LossKind.TOOLS)  # fmt: skip


def _text(part: Fields, *, is_json: bool = False) -> list[ContentBlock]:
    kind = part.text("type") or "text"
    if kind != "text":
        return [provider_block(FORMAT, kind, {"type": kind, **part.whole()})]
    text = part.text("text")
    return text_blocks(_decode(text) if is_json and text else text)


def _decode(text: str) -> str:
    """Return the text inside a JSON string: templates write a result as JSON."""
    value = parse_or_none(text, format_name=FORMAT) if text.startswith('"') else None
    return value if isinstance(value, str) else text
