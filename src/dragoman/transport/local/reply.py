"""From the text that the model writes to the lines of its reply, piece by piece.

A line is a JSON object: start, text, call, arguments, call_end, end or error. A whole reply is one object that holds
what its lines add up to.
"""

import json
import re
from collections.abc import Iterable
from enum import Enum, auto
from typing import Any

from dragoman.adapter import wirejson

Json = dict[str, Any]

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
_HEAD = re.compile(r'<tool_call>\{"name": ("(?:[^"\\]|\\.)*"), "arguments": ')
CALL_TAIL = "}" + CALL_CLOSE
"""What stands behind a call's arguments; `call_head` is what stands before them."""
_STATUS = {"invalid_request": 400, "context_overflow": 400, "timeout": 408, "runtime": 500}


class RefusalError(Exception):
    """A request that is not served, as the error object that the adapter reads. ``kind`` is its type there."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = _STATUS[kind]

    @property
    def line(self) -> Json:
        return {"type": "error", "error": {"type": self.kind, "message": str(self)}}


def call_head(name: str) -> str:
    """What stands before the arguments of a call of that tool."""
    return f'{CALL_OPEN}{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '


class StopFilter:
    """Passes text on up to the first stop string, which it holds back, as it does what may become one."""

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.met = False

    def feed(self, text: str) -> str:
        if self.met or not self._stops:
            return "" if self.met else text
        text, self._held = self._held + text, ""
        found = [position for stop in self._stops if (position := text.find(stop)) >= 0]
        if found:
            self.met = True
            return text[: min(found)]
        kept = max(_overlap(text, stop) for stop in self._stops)
        if kept:
            text, self._held = text[:-kept], text[-kept:]
        return text

    def finish(self) -> str:
        """What was held back and became no stop string."""
        text, self._held = self._held, ""
        return text


class _Place(Enum):
    TEXT = auto()
    HEAD = auto()
    ARGUMENTS = auto()
    TAIL = auto()


class Splitter:
    """Text in, lines out. ``calls``: whether calls are to be found in it; else all of it is text.

    ``called`` counts the calls that are complete.
    """

    def __init__(self, *, calls: bool) -> None:
        self.called = 0
        self._finds_calls = calls
        self._place = _Place.TEXT
        self._held = ""
        self._after_call = False
        self._object = _ObjectEnd()

    def feed(self, text: str) -> list[Json]:
        """The lines that this piece completes."""
        if not self._finds_calls:
            return [{"type": "text", "text": text}] if text else []
        self._held += text
        lines: list[Json] = []
        while self._step(lines):
            pass
        return lines

    def finish(self) -> list[Json]:
        """The lines of what was held back. A call that is cut within its head is text: it has no name yet."""
        lines: list[Json] = []
        if self._place is _Place.TAIL:
            self._close(lines)
        elif self._place is not _Place.ARGUMENTS:
            self._say(self._held, lines)
        self._held = ""
        return lines

    def _step(self, lines: list[Json]) -> bool:
        """Takes from what is held; whether there may be more to take."""
        match self._place:
            case _Place.TEXT:
                return self._take_text(lines)
            case _Place.HEAD:
                return self._take_head(lines)
            case _Place.ARGUMENTS:
                return self._take_arguments(lines)
            case _Place.TAIL:
                if not self._held.startswith(CALL_TAIL):
                    return False
                self._held = self._held[len(CALL_TAIL) :]
                self._close(lines)
                return True

    def _take_text(self, lines: list[Json]) -> bool:
        before, opening, after = self._held.partition(CALL_OPEN)
        if opening:
            self._say(before, lines)
            self._held, self._place = opening + after, _Place.HEAD
            return True
        kept = _overlap(before, CALL_OPEN)
        self._say(before[: len(before) - kept], lines)
        self._held = before[len(before) - kept :]
        return False

    def _take_head(self, lines: list[Json]) -> bool:
        head = _HEAD.match(self._held)
        if head is None:
            return False
        lines.append({"type": "call", "name": json.loads(head[1])})
        self._held, self._place, self._object = self._held[head.end() :], _Place.ARGUMENTS, _ObjectEnd()
        return True

    def _take_arguments(self, lines: list[Json]) -> bool:
        end = self._object.find(self._held)
        taken = self._held if end is None else self._held[:end]
        if taken:
            lines.append({"type": "arguments", "text": taken})
        self._held = self._held[len(taken) :]
        if end is not None:
            self._place = _Place.TAIL
        return end is not None

    def _close(self, lines: list[Json]) -> None:
        lines.append({"type": "call_end"})
        self.called += 1
        self._place, self._after_call = _Place.TEXT, True

    def _say(self, text: str, lines: list[Json]) -> None:
        # Line feeds between calls are the grammar's, not words of the model.
        if self._after_call:
            text = text.lstrip()
        if text:
            self._after_call = False
            lines.append({"type": "text", "text": text})


class _ObjectEnd:
    """Finds the end of a JSON object that comes in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def find(self, text: str) -> int | None:
        """Where in this piece the object ends; None where it goes on."""
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


def whole(lines: Iterable[Json]) -> Json:
    """The reply object that the lines of a finished reply add up to. Arguments that are no object stay text."""
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
                content[-1]["arguments"] = _parsed(content[-1]["arguments"])
            case "end":
                reply |= {"content": content} | {key: value for key, value in line.items() if key != "type"}
            case kind:
                raise AssertionError(f"no reply holds a line of the type {kind}")
    return reply


def _parsed(text: str) -> Any:
    value, malformed = wirejson.parse_arguments(text)
    return value if malformed is None else malformed


def _overlap(text: str, word: str) -> int:
    """How long an end of the text is a beginning of the word, without being all of it."""
    longest = min(len(text), len(word) - 1)
    return next((length for length in range(longest, 0, -1) if text.endswith(word[:length])), 0)


def encoded(line: Json) -> bytes:
    """A line as it goes over the wire."""
    return wirejson.dumps(line) + b"\n"
