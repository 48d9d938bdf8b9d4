"""Texts that templates write for models: those of chat templates, and Harmony.

Texts that chat templates write, other than ChatML and Harmony: the rows of ``templates.toml``.

A template has no escape, so a mark inside a text ends its turn. What a template adds by itself is left out: the
definitions of tools, the day, and the end marks.

OpenAI's Harmony: the JSON of `openai_harmony`, and the text that gpt-oss reads.

Channels say what a text is: ``analysis`` is reasoning, a recipient makes a call. The system's message holds settings of
the model, and the developer's the instructions and tools. No call has an id.
Source: https://developers.openai.com/cookbook/articles/openai-harmony.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from dragoman.adapter.losses import LossKind
from dragoman.adapter.package_data import read_toml
from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock
from dragoman.canonical.guard import check_text
from dragoman.canonical.message import Message, Role
from dragoman.formats.chatml import split_marks
from dragoman.formats.document import decode_text, dig, parse_json_or_lines, parse_or_none
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.blocks import provider_block, text_blocks, to_text
from dragoman.formats.reading.fields import ROLES, Fields, iter_fields, list_inside, source_losses, typed_errors
from dragoman.formats.reading.turns import Turns

_THINK = re.compile(r"\A\s*<think>(.*?)</think>\s*", re.DOTALL)
_DATES = re.compile(r"\A(?:Environment: ipython\n)?(?:Tools: [^\n]*\n)?\s*Cutting Knowledge Date: [^\n]*\nToday Date: "
                    r"[^\n]*\n\n")  # fmt: skip
_GIVEN = re.compile(r"\A(?:Given the following functions, please respond with|You have access to the following "
                    r"functions).*?Do not use variables\.\n\n", re.DOTALL)  # fmt: skip
_SECTION = re.compile(r"\A\s*# Tools\n\nYou may call one or more functions.*", re.DOTALL)
_TOOL_LIST = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
_KEY, _VALUE = ("<arg_key>", "</arg_key>"), ("<arg_value>", "</arg_value>")
_BAR = "\N{FULLWIDTH VERTICAL LINE}"
_TOKEN_CALL = (f"<{_BAR}tool▁call▁begin{_BAR}>", f"<{_BAR}tool▁call▁end{_BAR}>")
_TOKEN_CALLS = (f"<{_BAR}tool▁calls▁begin{_BAR}>", f"<{_BAR}tool▁calls▁end{_BAR}>")
_SEPARATOR = f"<{_BAR}tool▁sep{_BAR}>"
_OUTPUT = (f"<{_BAR}tool▁output▁begin{_BAR}>", f"<{_BAR}tool▁output▁end{_BAR}>")
_TAG, _RESPONSE = ("<tool_call>", "</tool_call>"), ("<tool_response>", "</tool_response>")
_FENCED = re.compile(r"\A(.*?)\n```json\n(.*)\n```\Z", re.DOTALL)
_PYTHON = "<|python_tag|>"
FORMAT = "chat-template"
_FINAL = ("<eos>", "<|endoftext|>", "</s>", "<|return|>")
"""Tokens that end the whole text."""
_SKIPPED = re.compile(r"(?:<bos>|<s>|\s)+")
_HEAD = 4096
"""Characters in which the first mark of a turn stands, if a text begins with the instructions."""


class CallReader:
    """Adds the turns of one text to the messages. ``style`` is that of the template's row."""

    def __init__(self, turns: Turns, style: str, *, is_json_result: bool) -> None:
        self._turns = turns
        self._is_json_result = is_json_result
        self._reply: Callable[[str], list[ContentBlock]] = {
            "json": self._json_reply,
            "tags": self._tagged_reply,
            "tokens": self._token_reply,
            "none": self._plain_reply,
        }[style]
        self._texts_of: dict[str, frozenset[str]] = {}
        """The parameters of each tool that are texts."""

    def turn(self, role: Role, text: str, path: str) -> None:
        match role:
            case Role.SYSTEM:
                if (kept := self._system(text, path)) is not None:
                    self._turns.start(role)
                    self._turns.add(role, text_blocks(kept), path)
            case Role.ASSISTANT:
                self._turns.start(role)
                self._turns.add(role, self._reply(text.removesuffix("\n")), path)
            case Role.TOOL:
                self._turns.start(Role.TOOL)
                answers = _between(text, *_OUTPUT) or [
                    each.removeprefix("\n").removesuffix("\n") for each in _between(text, *_RESPONSE)
                ]
                answers = answers or [text.removesuffix("\n")]
                for answer in answers:
                    content = text_blocks(_json_text(answer) if self._is_json_result else answer)
                    self._turns.add(Role.TOOL, [self._turns.result(None, None, content)], path)
            case _:
                self._turns.start(role)
                self._turns.add(role, text_blocks(self._drop_definitions(text, path).removesuffix("\n")), path)

    def _system(self, text: str, path: str) -> str | None:
        """Return the instructions; None if the template wrote all of the turn."""
        if _SECTION.match(text):
            self._learn(text)
            _report_tools(path)
            return None
        kept, count = _DATES.subn("", text)
        if count:
            reason = "the days that the template writes are not instructions: left out"
            source_losses().add_info(path, reason, LossKind.OPTION)
        kept = self._drop_definitions(kept, path)
        return kept.removesuffix("\n") if kept.strip() else None

    def _learn(self, text: str) -> None:
        for line in (line for block in _TOOL_LIST.findall(text) for line in block.split("\n")):
            tool = parse_or_none(line, format_name=FORMAT)
            function = dig(tool, "function") or tool
            if isinstance(dig(function, "parameters"), dict):
                properties = dig(function, "parameters", "properties")
                self._texts_of[str(function.get("name"))] = frozenset(
                    name for name, known in (properties.items() if isinstance(properties, dict) else ())
                    if dig(known, "type") == "string"
                )  # fmt: skip

    def _drop_definitions(self, text: str, path: str) -> str:
        """Return a text without the definitions of tools that a template of Llama puts before it."""
        given = _GIVEN.match(text)
        if given is None:
            return text
        position, decoder = given.end(), json.JSONDecoder()
        while text.startswith("{", position):
            try:
                _, position = decoder.raw_decode(text, position)
            except ValueError:
                break
            while text.startswith("\n", position):
                position += 1
        _report_tools(path)
        return text[position:]

    def _plain_reply(self, text: str) -> list[ContentBlock]:
        return [TextBlock(text=text)] if text else []

    def _json_reply(self, text: str) -> list[ContentBlock]:
        body = text.strip().removeprefix(_PYTHON)
        call = parse_or_none(body, format_name=FORMAT) if body.startswith("{") else None
        if isinstance(call, dict) and isinstance(call.get("name"), str) and call.keys() <= _CALL_KEYS and len(call) > 1:
            return [self._turns.call(None, call["name"], call.get("parameters", call.get("arguments")))]
        return self._plain_reply(text)

    def _tagged_reply(self, text: str) -> list[ContentBlock]:
        blocks, text = _think(text)
        for is_call, piece in split_marks(text, *_TAG):
            if not is_call:
                blocks += self._plain_reply(piece if piece == text else piece.strip("\n"))
                continue
            name, _, body = piece.strip().partition("\n")
            texts = self._texts_of.get(name)
            pairs = zip(_between(body, *_KEY), _between(body, *_VALUE), strict=False)
            arguments = {
                key: value if texts is not None and key in texts else _json_or_text(value) for key, value in pairs
            }
            blocks.append(self._turns.call(None, name.strip(), arguments))
        return blocks

    def _token_reply(self, text: str) -> list[ContentBlock]:
        blocks, text = _think(text)
        pieces = split_marks(text, *_TOKEN_CALLS)
        blocks += self._plain_reply("".join(piece for is_calls, piece in pieces if not is_calls))
        calls = "".join(piece for is_calls, piece in pieces if is_calls)
        for head, _, body in (call.partition(_SEPARATOR) for call in _between(calls, *_TOKEN_CALL)):
            fenced = _FENCED.match(body)  # version 3 names the type before the separator, 3.1 the tool
            name, arguments = (fenced[1], fenced[2]) if fenced else (head, body)
            blocks.append(self._turns.call(None, name.strip(), arguments))
        return blocks


_CALL_KEYS = {"name", "parameters", "arguments", "type"}


def _think(text: str) -> tuple[list[ContentBlock], str]:
    """Return the thinking at the start of a reply, and the rest."""
    found = _THINK.match(text)
    if found is None:
        return [], text
    thought = found[1].strip("\n")
    return [ThinkingBlock(text=thought)] if thought.strip() else [], text[found.end() :]


def _between(text: str, start: str, end: str) -> list[str]:
    """Return the pieces of a text between two marks."""
    return [piece for is_marked, piece in split_marks(text, start, end) if is_marked]


def _report_tools(path: str) -> None:
    source_losses().add(path, "a history holds no definitions of tools: left out", kind=LossKind.TOOLS)


def _json_text(text: str) -> str:
    """Return the text that a template wrote as JSON, or the text itself."""
    value = parse_or_none(text, format_name=FORMAT) if text.startswith('"') else None
    return value if isinstance(value, str) else text


def _json_or_text(value: str) -> Any:
    """Return the JSON value of an argument whose type is unknown, or the text itself."""
    parsed = parse_or_none(value, format_name=FORMAT)
    return value if parsed is None and value.strip() != "null" else parsed


@dataclass(frozen=True)
class Template:
    """One row of the table."""

    starts: Sequence[str]
    skip: Sequence[str]
    turns: Mapping[str, str]
    ends: Sequence[str]
    calls: str
    results: str = "text"
    lead: str | None = None

    @cached_property
    def marks(self) -> re.Pattern[str]:
        """A pattern of the marks before the turns, the longest first."""
        return re.compile("|".join(map(re.escape, sorted(self.turns, key=len, reverse=True))))


@cache
def _templates() -> tuple[Template, ...]:
    return tuple(Template(**row) for row in read_toml("dragoman.formats.importers", "templates.toml").values())


def template_of(text: str) -> Template | None:
    """Return the template that wrote a text, or None."""
    skipped = _SKIPPED.match(text)
    start = skipped.end() if skipped is not None else 0
    for template in _templates():
        if text.startswith(tuple(template.starts), start):
            return template
        if template.lead is not None and start and template.marks.search(text, start, start + _HEAD):
            return template
    return None


@typed_errors
def from_chat_template(document: Any) -> list[Message]:
    """Read the messages of a text. Raises FormatError if no known template wrote it."""
    text = decode_text(document)
    try:
        check_text(text)
    except ValueError as error:
        raise FormatError(str(error)) from None
    template = template_of(text)
    if template is None:
        raise FormatError("no known template wrote this text")
    turns = Turns()
    reader = CallReader(turns, template.calls, is_json_result=template.results == "json")
    for number, (role, content) in enumerate(_split(template, text)):
        reader.turn(role, content, f"$[{number}]")
    return turns.messages


def _split(template: Template, text: str) -> Iterator[tuple[Role, str]]:
    """Yield the turns. A last one of the assistant without text is the prompt for a reply, and is left out."""
    tokens = "|".join(map(re.escape, template.skip))
    begin = re.match(rf"(?:{tokens}|\s)*", text)
    end = len(text)
    while (final := next((each for each in _FINAL if text.endswith(each, 0, end)), None)) is not None:
        end -= len(final)
    text = text[begin.end() if begin is not None else 0 : end]
    found = list(template.marks.finditer(text))
    lead = text[: found[0].start()] if found else text
    if lead.strip():
        if template.lead is None:
            raise FormatError("a text stands before the first turn")
        yield Role(template.lead), lead
    for number, mark in enumerate(found):
        end = found[number + 1].start() if number + 1 < len(found) else len(text)
        role, content = Role(template.turns[mark[0]]), _without_end(template, text[mark.end() : end])
        is_last = number + 1 == len(found)
        if is_last and role is Role.ASSISTANT and not re.sub(r"</?think>", "", content).strip():
            return
        yield role, content


def _without_end(template: Template, content: str) -> str:
    for mark in template.ends:
        position = content.rfind(mark)
        if position >= 0 and not content[position + len(mark) :].strip():
            return content[:position]
    return content


_HARMONY = "harmony"
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
        entries, at = list_inside(parse_json_or_lines(document, format_name=_HARMONY), "messages", _HARMONY)
    reader = _Reader()
    for message in iter_fields(entries, _HARMONY, at):
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
        role = (author or message).role()
        name = (author or message).text("name")
        channel, recipient = message.text("channel"), message.text("recipient")
        message.ignore("content_type")
        is_text = message.flag("is_text")
        text = message.text("content") if isinstance(message.look("content"), str) else None
        parts = message.objects("content") if text is None else [
            message.adopt({"type": "text", "text": text}, f"{message.path}.content")
        ]  # fmt: skip
        if role is Role.ASSISTANT:
            self._answer(message, parts, channel, recipient)
            return
        self._flush()
        if role is Role.SYSTEM:
            for part in parts:
                if is_text or part.look("type") == "system_content":
                    part.whole()
                    reason = "the settings of the model are not part of a history: left out"
                    source_losses().add_info(part.path, reason, LossKind.OPTION)
                else:
                    self._turns.start(Role.SYSTEM)
                    self._turns.add(Role.SYSTEM, _text(part), message.path)
        elif role is Role.TOOL:
            self._turns.start(role)
            tool = (name or "").removeprefix(_FUNCTIONS) or None
            content = [block for part in parts for block in _text(part, is_json=is_text)]
            self._turns.add(role, [self._turns.result(None, tool, content)], message.path)
        else:
            self._turns.start(role)
            blocks = [block for part in parts for block in self._instructions(part, is_text=is_text, role=role)]
            if blocks or role is Role.USER:
                self._turns.add(role, blocks, message.path)

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
            if part.take("tools"):
                _report_tools(f"{part.path}.tools")
            return text_blocks(part.text("instructions"))
        if is_text and role is Role.DEVELOPER:
            text = to_text(part.look("text"))
            part.whole()
            if _TOOLS.search(text):
                _report_tools(f"{part.path}.tools")
            found = _INSTRUCTIONS.match(text)
            return text_blocks(found["text"] if found else _TOOLS.sub("", text).strip())
        return _text(part)

    def _flush(self) -> None:
        reply, self._reply = self._reply, []
        if reply:
            self._turns.add(Role.ASSISTANT, reply, self._path)


def _text(part: Fields, *, is_json: bool = False) -> list[ContentBlock]:
    kind = part.text("type") or "text"
    if kind != "text":
        return [provider_block(_HARMONY, kind, {"type": kind, **part.whole()})]
    text = part.text("text")
    return text_blocks(_json_text(text) if is_json and text else text)
