"""Reads the summary and the parameter descriptions of a docstring, in the styles of Google, NumPy and reST."""

import inspect
import re
from collections.abc import Collection, Iterable, Iterator

_PARAMETERS = frozenset({"args", "arguments", "parameters", "params", "keyword args", "keyword arguments"})
_OTHER_SECTIONS = frozenset(
    {"return", "returns", "yields", "raises", "example", "examples", "other parameters", "see also"}
)
_SECTIONS = _PARAMETERS | _OTHER_SECTIONS

_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:\s*(.*)")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?()")
_UNDERLINE = re.compile(r"-{3,}\s*")
_FIELD_PARAMETER = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s[^:]*?(\w+)\s*:\s*(.*)")
_FIELD = re.compile(r":(?:param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises?|yields?)\b[^:]*:")


def summary(docstring: str) -> str:
    """Return the text before the first section."""
    return "\n".join(next(_sections(docstring))[1]).strip()


def parameters(docstring: str, names: Collection[str]) -> dict[str, str]:
    """Return the descriptions of the named parameters, each as one line."""
    found: dict[str, list[str]] = {}
    for header, lines in _sections(docstring):
        if field := _FIELD_PARAMETER.match(header):
            found[field[1]] = [field[2], *_paragraph(lines)]
        elif header in _PARAMETERS:
            found |= _entries(lines, _GOOGLE_ENTRY)
        elif header.rstrip("-") in _PARAMETERS:
            found |= _entries(lines, _NUMPY_ENTRY)
    joined = {name: " ".join(filter(None, texts)) for name, texts in found.items() if name in names}
    return {name: text for name, text in joined.items() if text}


def _sections(docstring: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (header, lines) of each section; the header is empty for the text before the first one.

    ``args`` is a header in Google style, ``parameters-`` an underlined one in NumPy style, ``:param x: text`` a field.
    """
    header, body = "", list[str]()
    lines = inspect.cleandoc(docstring).split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        title = line.rstrip().lower()
        if title in _SECTIONS and _UNDERLINE.fullmatch(following):
            new = f"{title}-"
        elif title.endswith(":") and title[:-1] in _SECTIONS:
            new = title[:-1]
        elif _FIELD.match(line):
            new = line
        else:
            if not (header.endswith("-") and _UNDERLINE.fullmatch(line)):
                body.append(line)
            continue
        yield header, body
        header, body = new, []
    yield header, body


def _entries(lines: Iterable[str], entry: re.Pattern[str]) -> dict[str, list[str]]:
    """Return the texts by name. Entries have the indentation of the first one; other lines continue the last entry."""
    texts: dict[str, list[str]] = {}
    open_entry: list[list[str]] = []
    depth: int | None = None
    for line in filter(str.strip, lines):
        indent = len(line) - len(line.lstrip())
        depth = indent if depth is None else depth
        if indent < depth:
            break
        match = entry.fullmatch(line.strip()) if indent == depth else None
        if match is None:
            for lines_of_entry in open_entry:
                lines_of_entry.append(line.strip())
            continue
        new_entries = {name.strip(" *"): [match[2]] for name in match[1].split(",")}
        texts |= new_entries
        open_entry = list(new_entries.values())
    return texts


def _paragraph(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines before the first empty one."""
    for line in lines:
        if not line.strip():
            return
        yield line.strip()
