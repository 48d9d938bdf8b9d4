"""Thinking, calls and results inside the texts of ChatML, as the templates of Hermes and Qwen write them.

A call is JSON with ``name`` and ``arguments`` between ``<tool_call>`` marks; that of Qwen3-Coder is a ``<function=>``
with a ``<parameter=>`` for each argument. A result is a text between ``<tool_response>`` marks in a turn of the user.
The definitions of the tools are a section of the system's text.
"""

import re
from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock
from dragoman.canonical.message import Role
from dragoman.formats.document import parse
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.blocks import text_blocks
from dragoman.formats.reading.losses import source_losses
from dragoman.formats.reading.turns import Turns

_TOOLS = re.compile(r"\n*# Tools\n\nYou may call one or more functions.*\Z", re.DOTALL)
_DEFAULTS = ("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",)
"""The instructions that Qwen's template writes if there are none, and would write again."""
_THINK, _THOUGHT = "<think>\n", "\n</think>"
_CALL, _CALLED = "<tool_call>", "</tool_call>"
_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>\s*(.*?)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)
_RESPONSE, _ANSWERED = "<tool_response>", "</tool_response>"


def add_turn(turns: Turns, role: Role, name: str | None, text: str, path: str) -> None:
    """Add what one turn says to the messages: one message, or one for each result in it."""
    match role:
        case Role.SYSTEM:
            kept, count = _TOOLS.subn("", text)
            if count:
                reason = "a history holds no definitions of tools: left out"
                source_losses().add(path, reason, kind=LossKind.TOOLS)
            if kept in _DEFAULTS:
                reason = "the template itself wrote these instructions, because there were none: left out"
                source_losses().add(path, reason, kind=LossKind.OPTION, severity=Severity.INFO)
                return
            if kept or not count:
                turns.add(role, text_blocks(kept), path)
        case Role.ASSISTANT:
            turns.start(role)
            turns.add(role, _reply(turns, text), path)
        case Role.TOOL:
            turns.start(role)
            turns.add(role, [turns.result(None, name, text_blocks(text))], path)
        case _:
            _prompt(turns, role, text, path)


def _prompt(turns: Turns, role: Role, text: str, path: str) -> None:
    answers = split_marks(text, _RESPONSE, _ANSWERED)
    has_results = any(is_marked for is_marked, _ in answers)
    turns.start(role, has_results=has_results)
    for is_marked, piece in answers:
        if is_marked:
            turns.add(Role.TOOL, [turns.result(None, None, text_blocks(_inner(piece)))], path)
        elif not has_results or piece.strip():
            turns.add(role, text_blocks(piece), path)


def _reply(turns: Turns, text: str) -> list[ContentBlock]:
    blocks: list[ContentBlock] = []
    if text.startswith(_THINK) and (end := text.find(_THOUGHT)) >= 0:
        thought = text[len(_THINK) : end].strip("\n")
        blocks += [ThinkingBlock(text=thought)] if thought else []
        text = text[end + len(_THOUGHT) :].lstrip("\n")
    pieces = split_marks(text, _CALL, _CALLED)
    for number, (is_marked, piece) in enumerate(pieces):
        call = _read_call(piece) if is_marked else None
        if call is not None:
            blocks.append(turns.call(None, call["name"], call.get("arguments", call.get("parameters"))))
            continue
        plain = f"{_CALL}{piece}{_CALLED}" if is_marked else piece
        is_followed = number + 1 < len(pieces)
        plain = plain.removesuffix("\n") if is_followed and not is_marked else plain
        if plain.strip() or (plain and len(pieces) == 1):
            blocks.append(TextBlock(text=plain))
    return blocks


def _read_call(text: str) -> dict[str, Any] | None:
    """Return a call; None if the text between the marks is none."""
    if (function := _FUNCTION.fullmatch(text)) is not None:
        name, arguments = function.groups()
        if _PARAMETER.sub("", arguments):
            return None
        return {"name": name, "arguments": {key: _argument(value) for key, value in _PARAMETER.findall(arguments)}}
    try:
        call = parse(text.strip(), format_name="chatml")
    except FormatError:
        return None
    return call if isinstance(call, dict) and isinstance(call.get("name"), str) else None


def _argument(text: str) -> Any:
    """Return the value of a parameter: the template writes objects and lists as JSON, and all else as a text."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return parse(text, format_name="chatml")
    except FormatError:
        return text


def split_marks(text: str, start: str, end: str) -> list[tuple[bool, str]]:
    """Return the pieces of a text in order, and whether each stood between the marks."""
    pieces: list[tuple[bool, str]] = []
    position = 0
    while (begin := text.find(start, position)) >= 0 and (close := text.find(end, begin)) >= 0:
        pieces += [(False, text[position:begin])] if begin > position else []
        pieces.append((True, text[begin + len(start) : close]))
        position = close + len(end)
    return [*pieces, *([(False, text[position:])] if position < len(text) or not pieces else [])]


def _inner(piece: str) -> str:
    """Return the text between two marks that stand on lines of their own."""
    return piece.removeprefix("\n").removesuffix("\n")
