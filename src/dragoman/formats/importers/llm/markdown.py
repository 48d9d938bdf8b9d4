"""The report that `llm logs` prints, as rows of `llm logs --json`.

The report has no escape: a line of a text that looks like a heading of its next section begins that section. Sections
are looked for in the order in which llm prints them. Source: llm/cli.py, 0.36.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

from dragoman.adapter.losses import LossKind, Severity
from dragoman.formats.document import decode_text
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.losses import source_losses

_ENTRY = re.compile(
    r"^# (?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)"
    r"(?:    conversation: (?P<conversation>\S+) id: (?P<id>\S+))?\n"
    r"(?:\nModel: \*\*(?P<model>.*?)\*\*(?: \(resolved: \*\*(?P<resolved>.*?)\*\*\))?\n)?\n?## Prompt\n\n",
    re.MULTILINE,
)
_HEADINGS = (
    "### Prompt fragments", "## Options", "## System", "### System fragments", "## Schema", "### Tools",
    "### Tool results", "### Attachments", "## Reasoning", "## Response",
)  # fmt: skip
"""The headings after the prompt, in the order of the report."""
_ITEM = re.compile(r"^- \*\*(?P<name>.*?)\*\*: `(?P<id>.*?)`  \n", re.MULTILINE)
_INDENT = "    "
_KEY = re.compile(r"    ([^\n`]*):\Z")
_FENCE = re.compile(r"    `{3,}\Z")
_INLINE = re.compile(r"    (?P<key>[^\n`]*): (?P<mark>`{1,9})(?P<value>.*)(?P=mark)\Z")
_ERROR = re.compile(r"^    \*\*Error\*\*: (?P<error>.*)$", re.MULTILINE)
_ATTACHMENT = re.compile(r"^\d+\. \*\*(?P<type>.*?)\*\*: (?:`(?P<path>.*?)`|(?P<url>\S+))$", re.MULTILINE)
_THOUGHT = ("<details><summary>Reasoning trace</summary>\n\n", "\n\n</details>")
_USAGE = "\n## Token usage\n\n"
_NOTHING = "-- none --"
_START = re.compile(r"# \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:    conversation: |\n)")

Row = dict[str, Any]


def is_report(text: str) -> bool:
    """Whether a text begins as a report of llm does."""
    return _START.match(text) is not None


def read_rows(document: str | bytes) -> list[Row]:
    """Return the rows of a report. Raises FormatError if it has none."""
    text = decode_text(document).replace("\r\n", "\n")
    entries = list(_ENTRY.finditer(text))
    if not entries or text[: entries[0].start()].strip():
        raise FormatError("this is not a report of llm: it must begin with the time and the model of a response")
    source_losses().add(
        "$",
        "a report of llm has no escape: what looks like a heading in a text is read as one",
        kind=LossKind.FLATTENED,
        severity=Severity.INFO,
    )
    rows: list[Row] = []
    system: str | None = None
    for number, entry in enumerate(entries):
        end = entries[number + 1].start() if number + 1 < len(entries) else len(text)
        row = _row(entry, text[entry.end() : end])
        system = row["system"] = row["system"] or system  # printed when it changes
        if rows and row["conversation_id"] is None:  # printed once, if the report is of one conversation
            row |= {name: rows[-1][name] for name in ("conversation_id", "model", "resolved_model")}
        rows.append(row)
    return rows


def _row(entry: re.Match[str], text: str) -> Row:
    sections = _sections(text)
    prompt, reply = sections.pop("", ""), sections.pop("## Response", "")
    response = reply[: reply.rfind(_USAGE)] if _USAGE in reply else reply
    calls: list[Row] = []
    if response.startswith("### Tool calls\n\n"):
        body, _, response = response.removeprefix("### Tool calls\n\n").partition("\n\n")
        calls = [_call(name, item) for name, item in _items(body)]
    thought = sections.pop("## Reasoning", "").removeprefix(_THOUGHT[0]).removesuffix(_THOUGHT[1])
    attachments = sections.pop("### Attachments", "")
    return {
        "id": entry["id"],
        "conversation_id": entry["conversation"],
        "model": entry["model"],
        "resolved_model": entry["resolved"],
        "datetime_utc": entry["time"],
        "prompt": "" if prompt == _NOTHING else prompt,
        "system": sections.pop("## System", None),
        "response": response,
        "reasoning": thought or None,
        "tool_calls": calls,
        "tool_results": [_result(name, item) for name, item in _items(sections.pop("### Tool results", ""))],
        "tools": sections.pop("### Tools", None),
        "attachments": [
            {name: value for name, value in found.groupdict().items() if value is not None}
            for found in _ATTACHMENT.finditer(attachments)
        ],
        "options": sections.pop("## Options", None),
        "schema_json": sections.pop("## Schema", None),
        **{name.removeprefix("### ").lower().replace(" ", "_"): text for name, text in sections.items()},
    }


def _sections(text: str) -> dict[str, str]:
    """Return the texts of an entry by heading. The prompt, which comes first, has an empty one."""
    found: dict[str, str] = {}
    name, position = "", 0
    for heading in _HEADINGS:
        mark = f"\n{heading}\n"
        start = text.find(mark, max(position - 1, 0))
        if start < 0:
            continue
        found[name] = text[position:start].strip("\n")
        name, position = heading, start + len(mark)
    rest = text[position:].removeprefix("\n")
    found[name] = rest.rstrip("\n") if name == "## Response" else rest.strip("\n")
    return found


def _items(text: str) -> list[tuple[re.Match[str], str]]:
    found = list(_ITEM.finditer(text))
    ends = [each.start() for each in found[1:]]
    return [(each, text[each.end() : end]) for each, end in zip(found, [*ends, len(text)], strict=False)]


def _call(name: re.Match[str], text: str) -> Row:
    arguments: Row = {}
    for key, value, is_text in _values(text):
        if is_text:
            arguments[key] = value
        elif key == "Arguments":
            arguments |= _json(value) if isinstance(_json(value), dict) else {}
        else:
            arguments[key] = _json(value)
    return {"name": name["name"], "tool_call_id": _id(name), "arguments": arguments}


def _result(name: re.Match[str], text: str) -> Row:
    error = _ERROR.search(text)
    output = next((value for _, value, is_text in _values(text) if is_text), "")
    return {
        "name": name["name"],
        "tool_call_id": _id(name),
        "output": output,
        "exception": error["error"] if error else None,
    }


def _values(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the values of an item with their names: texts between fences, and JSON between back quotes."""
    lines = text.split("\n")
    places: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        if _FENCE.match(line):
            places.setdefault(line, []).append(index)
    index, key = 0, ""
    while index < len(lines):
        line = lines[index]
        later = places.get(line, [])
        closing = later[position] if (position := bisect_right(later, index)) < len(later) else None
        if closing is not None:
            yield key, "\n".join(each.removeprefix(_INDENT) for each in lines[index + 1 : closing]), True
            index, key = closing, ""
        elif (inline := _INLINE.match(line)) is not None:
            yield inline["key"], inline["value"].strip(" "), False
        elif (named := _KEY.match(line)) is not None:
            key = named[1]
        index += 1


def _id(name: re.Match[str]) -> str | None:
    return None if name["id"] == "None" else name["id"]


def _json(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return text
