"""ChatML as one text: roles and texts between two markers. Source: docs/reference/umf.md#chatml.

Calls are not written, and a result has its tool's name but no id. ChatML has no escape: a marker inside a text would
forge a turn, so the marker is broken up, which is reported as a loss.

Read are also thinking, calls and results inside the texts, as the templates of Hermes and Qwen write them. A call is
JSON with ``name`` and ``arguments`` between ``<tool_call>`` marks; that of Qwen3-Coder is a ``<function=>`` with a
``<parameter=>`` for each argument. A result is a text between ``<tool_response>`` marks in a turn of the user. The
definitions of the tools are a section of the system's text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dragoman.adapter.losses import LossKind
from dragoman.adapter.requests.unsupported_blocks import flatten_block
from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock, ToolResultBlock
from dragoman.canonical.guard import check_text
from dragoman.canonical.ids import new_tool_use_id
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.formats import verbatim
from dragoman.formats.document import decode_text, kind_of, parse_or_none
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.blocks import text_blocks
from dragoman.formats.reading.fields import source_losses
from dragoman.formats.reading.tool_calls import tool_names_by_id
from dragoman.formats.reading.turns import Turns
from dragoman.formats.results import Conversion, LossCollector, as_history, describe_unknown_role, finish
from dragoman.formats.umf.models import result_text

_TOOLS = re.compile(r"\n*# Tools\n\nYou may call one or more functions.*\Z", re.DOTALL)
_DEFAULTS = ("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",)
"""The instructions that Qwen's template writes if there are none, and would write again."""
_THINK, _THOUGHT = "<think>\n", "\n</think>"
_CALL, _CALLED = "<tool_call>", "</tool_call>"
_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>\s*(.*?)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)
_RESPONSE, _ANSWERED = "<tool_response>", "</tool_response>"
FORMAT = "chatml"
START = "<|im_start|>"
END = "<|im_end|>"
MARKER = re.compile(r"<\|(im_start|im_end)\|>")
_HEADER = re.compile(r"(system|user|assistant|tool)(?: name=([^\n<>|]*))?\n")
_TURN_END = re.compile(r"<\|im_end\|>(?:\n*(?=<\|im_start\|>)|\Z)")
"""The end of a turn is followed by another turn, or by nothing: elsewhere the marker is a text that somebody wrote."""
_FIRST_LINE = re.compile(r"[^\n]*\n")
_UNFIT_FOR_NAMES = re.compile(r"[\n<>|]+")


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
                source_losses().add_info(path, reason, LossKind.OPTION)
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
            answers = split_marks(text, _RESPONSE, _ANSWERED)
            has_results = any(is_marked for is_marked, _ in answers)
            turns.start(role, has_results=has_results)
            for is_marked, piece in answers:
                if is_marked:  # the marks stand on lines of their own
                    content = text_blocks(piece.removeprefix("\n").removesuffix("\n"))
                    turns.add(Role.TOOL, [turns.result(None, None, content)], path)
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
    call = parse_or_none(text.strip(), format_name="chatml")
    return call if isinstance(call, dict) and isinstance(call.get("name"), str) else None


def _argument(text: str) -> Any:
    """Return the value of a parameter: the template writes objects and lists as JSON, and all else as a text."""
    value = parse_or_none(text, format_name=FORMAT) if text.startswith(("{", "[")) else None
    return text if value is None else value


def split_marks(text: str, start: str, end: str) -> list[tuple[bool, str]]:
    """Return the pieces of a text in order, and whether each stood between the marks."""
    pieces: list[tuple[bool, str]] = []
    position = 0
    while (begin := text.find(start, position)) >= 0 and (close := text.find(end, begin)) >= 0:
        pieces += [(False, text[position:begin])] if begin > position else []
        pieces.append((True, text[begin + len(start) : close]))
        position = close + len(end)
    return [*pieces, *([(False, text[position:])] if position < len(text) or not pieces else [])]


def to_chatml(messages: Sequence[Message]) -> Conversion[str]:
    """Write a history as ChatML. Messages without text are left out.

    Raises CriticalLossError if a block marked critical would be lost.
    """
    history = as_history(messages)
    names = tool_names_by_id(history)
    losses = LossCollector(FORMAT)
    turns = [turn for message in history for turn in _turns(message, names, losses)]
    return finish("\n".join(turns), losses, history, "ChatML")


def from_chatml(text: str | bytes) -> list[Message]:
    """Read the messages of a ChatML text, with the calls and results that templates of Hermes and Qwen write in it.

    A result of UMF's own form has no known call. Raises FormatError.
    """
    if not isinstance(text, (str, bytes, bytearray)):
        raise FormatError(f"ChatML must be a text, not {kind_of(text)}")
    text = decode_text(text)
    try:
        check_text(text)
    except ValueError as error:
        raise FormatError(str(error)) from None
    text = text.lstrip()
    first = _FIRST_LINE.match(text)
    if first is not None and first[0].endswith("\r\n"):  # the lines of the markers end as on Windows
        text = text.replace("\r\n", "\n")
    turns = _split_turns(text)
    if all(turn.is_own for turn in turns):
        return [_read(turn) for turn in turns]
    collected = Turns()
    for index, turn in enumerate(turns):
        add_turn(collected, turn.role, turn.name, turn.text, f"$[{index}]")
    return collected.messages


@dataclass(frozen=True, slots=True)
class _Turn:
    """``is_own``: the end mark is on a line of its own, as UMF writes it. The makers of models write none before it."""

    role: Role
    name: str | None
    text: str
    is_own: bool


def _split_turns(text: str) -> list[_Turn]:
    """Return the turns. The last may have no end; one without text is the prompt for a reply, and is left out."""
    turns: list[_Turn] = []
    position = 0
    text = text.rstrip("\r\n") if text.rstrip("\r\n").endswith(END) else text
    while position < len(text):
        path = f"$[{len(turns)}]"
        if not text.startswith(START, position):
            raise FormatError(f"a turn begins with {START}", path=path)
        header = _HEADER.match(text, position + len(START))
        if header is None:
            raise FormatError("a turn must begin with its role: system, user, assistant or tool", path=path)
        ended = _TURN_END.search(text, header.end())
        body = text[header.end() : ended.start() if ended else len(text)]
        if START in body or (ended is None and END in body):
            raise FormatError("a marker occurs inside a turn", path=path)
        is_own = ended is not None and text[ended.start() - 1] == "\n"
        role = Role(header[1])
        if ended is None and role is Role.ASSISTANT and not body.replace("<think>", "").replace("</think>", "").strip():
            break
        turns.append(_Turn(role, header[2], body, is_own))
        position = ended.end() if ended else len(text)
    is_own = all(turn.is_own for turn in turns)
    return [replace(turn, text=turn.text.removesuffix("\n")) for turn in turns] if is_own else turns


def _read(turn: _Turn) -> Message:
    content: tuple[ContentBlock, ...] = (TextBlock(text=turn.text),)
    metadata = MessageMetadata()
    if turn.role is Role.TOOL:
        call_id = new_tool_use_id()
        content = (ToolResultBlock(tool_use_id=call_id, content=content if turn.text else ()),)
        metadata = MessageMetadata(parent_tool_use_id=call_id)
    message = Message(role=turn.role, content=content, metadata=metadata)
    return verbatim.attach([message], FORMAT, {"name": turn.name})[0] if turn.name is not None else message


def _turns(message: Message, names: dict[str, str], losses: LossCollector) -> list[str]:
    """Return the text of the message and each result in it as turns."""
    if message.channel is not None:
        losses.add_info(message, -1, "ChatML has no channels", LossKind.CHANNEL)
    found = verbatim.recover([message], 0, FORMAT)
    name = str(found[0]["name"]) if found else None
    turns: list[str] = []
    texts: list[str] = []
    for index, block in enumerate(message.content):
        if isinstance(block, ToolResultBlock):
            missing = "neither the failure nor the call" if block.is_error else "no call"
            losses.add_info(message, index, f"a result in ChatML names {missing}", LossKind.TOOLS)
            answer = _break_markers(message, index, result_text(message, index, block, losses), losses)
            turns.append(write_turn("tool", names.get(block.tool_use_id) if name is None else name, answer))
        elif (text := _text(message, index, block, losses)) is not None:
            texts.append(text)
    if texts:
        turns.append(write_turn(_speaker(message, losses), name, "".join(texts)))
        if len(texts) > 1:
            losses.add_info(message, -1, "a turn of ChatML is one text: the texts are joined", LossKind.FLATTENED)
    elif not turns:
        losses.add_info(
            message, -1, "nothing of the message can be written in ChatML: left out", LossKind.EMPTY_MESSAGE
        )
    return turns


def _speaker(message: Message, losses: LossCollector) -> str:
    if message.role is Role.DEVELOPER:
        losses.add_info(message, -1, "ChatML has no developer: written as the system's", LossKind.ROLE)
        return "system"
    if message.role is Role.TOOL:
        reason = "other content of a message with results is written as the user's"
        losses.add_info(message, -1, reason, LossKind.MISPLACED_BLOCK)
        return "user"
    if not message.role.is_known:
        losses.add(message, -1, describe_unknown_role(message), kind=LossKind.ROLE)
        return "user"
    return str(message.role)


def _text(message: Message, index: int, block: ContentBlock, losses: LossCollector) -> str | None:
    if isinstance(block, TextBlock):
        if block.citations:
            losses.add(message, index, "ChatML has no citations: left out")
        return _break_markers(message, index, block.text, losses)
    if (flat := flatten_block(block)) is not None:
        losses.add(message, index, f"ChatML has no form for this {block.type} block: written as text")
        return _break_markers(message, index, flat.text, losses)
    kind = LossKind.TOOLS if block.type == "tool_use" else None
    losses.add(message, index, f"ChatML has no form for this {block.type} block: left out", kind=kind)
    return None


def _break_markers(message: Message, index: int, text: str, losses: LossCollector) -> str:
    broken, times = MARKER.subn(r"<| \1|>", text)
    if times:
        losses.add(message, index, "a marker of ChatML in a text is split, because it would end the turn")
    return broken


def write_turn(role: str, name: str | None, text: str) -> str:
    """Return a turn; the text must not have a marker."""
    header = f"{role} name={_UNFIT_FOR_NAMES.sub('_', name)}" if name is not None else role
    return f"{START}{header}\n{text}\n{END}"
