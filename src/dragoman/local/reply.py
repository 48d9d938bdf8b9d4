"""Turns the text that the model writes into the lines of its reply, piece by piece.

A line is a JSON object: start, text, call, arguments, call_end, end or error. A whole reply is one object that merges
its lines.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from dragoman.adapter import wirejson

Json = dict[str, Any]

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
_HEAD = re.compile(r'<tool_call>\{"name": ("(?:[^"\\]|\\.)*"), "arguments": ')
CALL_TAIL = "}" + CALL_CLOSE
"""The text after a call's arguments; `call_head` is the text before them."""
_STATUS = {"invalid_request": 400, "context_overflow": 400, "timeout": 408, "runtime": 500}


class LocalRequestError(Exception):
    """A refused request, as the error object that the adapter reads. ``kind`` is its type there."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = _STATUS[kind]

    @property
    def line(self) -> Json:
        return {"type": "error", "error": {"type": self.kind, "message": str(self)}}


def call_head(name: str) -> str:
    """Return the text before the arguments of a call of that tool."""
    return f'{CALL_OPEN}{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '


class StopFilter:
    """Passes text on up to the first stop string, and holds back what may become one."""

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._buffer = ""
        self.is_stopped = False

    def feed(self, text: str) -> str:
        if self.is_stopped or not self._stops:
            return "" if self.is_stopped else text
        text, self._buffer = self._buffer + text, ""
        found = [position for stop in self._stops if (position := text.find(stop)) >= 0]
        if found:
            self.is_stopped = True
            return text[: min(found)]
        held_length = max(_overlap(text, stop) for stop in self._stops)
        if held_length:
            text, self._buffer = text[:-held_length], text[-held_length:]
        return text

    def finish(self) -> str:
        """Return the text that was held back and is not a stop string."""
        text, self._buffer = self._buffer, ""
        return text


class Splitter:
    """Turns text into lines. ``calls``: whether to look for calls; otherwise all of it is text.

    ``call_count`` counts the complete calls.
    """

    def __init__(self, *, calls: bool) -> None:
        self.call_count = 0
        self._finds_calls = calls
        self._take: Callable[[Splitter, list[Json]], bool] = Splitter._take_text
        """The step for what comes next: it consumes a part of the buffer, and says whether to continue."""
        self._buffer = ""
        self._after_call = False
        self._object = _ObjectEnd()

    def feed(self, text: str) -> list[Json]:
        """Return the lines that this piece completes."""
        if not self._finds_calls:
            return [{"type": "text", "text": text}] if text else []
        self._buffer += text
        lines: list[Json] = []
        while self._take(self, lines):
            pass
        return lines

    def finish(self) -> list[Json]:
        """Return the lines of the rest. A call that is cut before its name is complete is text."""
        lines: list[Json] = []
        if self._take is Splitter._take_tail:
            self._end_call(lines)
        elif self._take is not Splitter._take_arguments:
            self._emit_text(self._buffer, lines)
        self._buffer = ""
        return lines

    def _take_text(self, lines: list[Json]) -> bool:
        before, opening, after = self._buffer.partition(CALL_OPEN)
        if opening:
            self._emit_text(before, lines)
            self._buffer, self._take = opening + after, Splitter._take_head
            return True
        held_length = _overlap(before, CALL_OPEN)
        self._emit_text(before[: len(before) - held_length], lines)
        self._buffer = before[len(before) - held_length :]
        return False

    def _take_head(self, lines: list[Json]) -> bool:
        head = _HEAD.match(self._buffer)
        if head is None:
            return False
        lines.append({"type": "call", "name": json.loads(head[1])})
        self._buffer, self._take, self._object = self._buffer[head.end() :], Splitter._take_arguments, _ObjectEnd()
        return True

    def _take_arguments(self, lines: list[Json]) -> bool:
        end = self._object.find(self._buffer)
        consumed = self._buffer if end is None else self._buffer[:end]
        if consumed:
            lines.append({"type": "arguments", "text": consumed})
        self._buffer = self._buffer[len(consumed) :]
        if end is not None:
            self._take = Splitter._take_tail
        return end is not None

    def _take_tail(self, lines: list[Json]) -> bool:
        if not self._buffer.startswith(CALL_TAIL):
            return False
        self._buffer = self._buffer[len(CALL_TAIL) :]
        self._end_call(lines)
        return True

    def _end_call(self, lines: list[Json]) -> None:
        lines.append({"type": "call_end"})
        self.call_count += 1
        self._take, self._after_call = Splitter._take_text, True

    def _emit_text(self, text: str, lines: list[Json]) -> None:
        # Line feeds between calls come from the grammar, not from the model.
        if self._after_call:
            text = text.lstrip()
        if text:
            self._after_call = False
            lines.append({"type": "text", "text": text})


class _ObjectEnd:
    """Finds the end of a JSON object that arrives in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def find(self, text: str) -> int | None:
        """Return the index in this piece at which the object ends; None if it continues."""
        for position, character in enumerate(text):
            if self._escaped:
                self._escaped = False
            elif self._in_string:
                self._escaped = character == "\\"
                self._in_string = character != '"'
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth == 0:
                    return position + 1
        return None


def merge_lines(lines: Iterable[Json]) -> Json:
    """Return the reply object of a finished reply's lines. Arguments that are not an object stay text."""
    reply: Json = {}
    content: list[Json] = []
    for line in lines:
        match line["type"]:
            case "start":
                reply["model"] = line["model"]
            case "text":
                if not content or content[-1]["type"] != "text":
                    content.append({"type": "text", "text": ""})
                content[-1]["text"] += line["text"]
            case "call":
                content.append({"type": "call", "name": line["name"], "arguments": ""})
            case "arguments":
                content[-1]["arguments"] += line["text"]
            case "call_end":
                value, malformed = wirejson.parse_arguments(content[-1]["arguments"])
                content[-1]["arguments"] = value if malformed is None else malformed
            case "end":
                reply |= {"content": content} | {key: value for key, value in line.items() if key != "type"}
            case kind:
                raise AssertionError(f"unknown type of a reply line: {kind}")
    return reply


def _overlap(text: str, word: str) -> int:
    """Return the length of the longest proper prefix of the word that the text ends with."""
    longest = min(len(text), len(word) - 1)
    return next((length for length in range(longest, 0, -1) if text.endswith(word[:length])), 0)
