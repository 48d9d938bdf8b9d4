"""Texts that chat templates write, other than ChatML and Harmony: the rows of ``templates.toml``.

A template has no escape, so a mark inside a text ends its turn. What a template adds by itself is left out: the
definitions of tools, the day, and the end marks.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from dragoman.canonical.guard import check_text
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import decode_text
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.templates.calls import CallReader
from dragoman.formats.reading.fields import typed_errors
from dragoman.formats.reading.turns import Turns

FORMAT = "chat-template"

_FINAL = ("<eos>", "<|endoftext|>", "</s>", "<|return|>")
"""Tokens that end the whole text."""
_SKIPPED = re.compile(r"(?:<bos>|<s>|\s)+")
_HEAD = 4096
"""Characters in which the first mark of a turn stands, if a text begins with the instructions."""


@dataclass(frozen=True, slots=True)
class Template:
    """One row of the table."""

    name: str
    starts: tuple[str, ...]
    skip: tuple[str, ...]
    turns: dict[str, str]
    ends: tuple[str, ...]
    calls: str
    results: str = "text"
    lead: str | None = None
    marks: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        longest = sorted(self.turns, key=len, reverse=True)
        object.__setattr__(self, "marks", re.compile("|".join(map(re.escape, longest))))


@cache
def _templates() -> tuple[Template, ...]:
    text = files("dragoman.formats.importers.templates").joinpath("templates.toml").read_text(encoding="utf-8")
    return tuple(
        Template(
            name, tuple(row.pop("starts")), tuple(row.pop("skip")), row.pop("turns"), tuple(row.pop("ends")), **row
        )
        for name, row in tomllib.loads(text).items()
    )


def template_of(text: str) -> Template | None:
    """Return the template that wrote a text, or None."""
    skipped = _SKIPPED.match(text)
    start = skipped.end() if skipped is not None else 0
    for template in _templates():
        if text.startswith(template.starts, start):
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
