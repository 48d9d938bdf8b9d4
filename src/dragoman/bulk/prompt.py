"""Reads a row: its prompt, from templates with {column} placeholders, and its labels."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b
from string import Formatter
from typing import Any

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.names import nearest_name
from dragoman.bulk.rows import PROMPT, Row
from dragoman.canonical.message import Message


class Template:
    """A text with {column} placeholders; ``{{`` and ``}}`` are braces. Raises ConfigurationError for an invalid one.

    A column is looked up by its whole name: no attribute, index or format is interpreted.
    """

    def __init__(self, text: str) -> None:
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise ConfigurationError(
                f"{text!r:.80} is not a valid template: {error}; write {{{{ for a literal brace"
            ) from None
        for _, column, format_spec, conversion in parts:
            if column == "" or format_spec or conversion:
                raise ConfigurationError(
                    f"{text!r:.80} is not a valid template: a placeholder is just {{column}}; write "
                    f"{{{{ for a literal brace"
                )
        self._parts = [(before, column) for before, column, _, _ in parts]

    @property
    def columns(self) -> set[str]:
        return {column for _, column in self._parts if column is not None}

    def fill(self, row: Row) -> str:
        """Return the text for a row. Raises RequestError if the row lacks the column, or has null there."""
        return "".join(before + ("" if column is None else _column_text(row, column)) for before, column in self._parts)


Labels = str | Callable[[Row], Iterable[str]]
"""The labels of a row: the name of a column, or a function of the row."""


class RowReader:
    """Reads the prompt, an optional system prompt, and the labels of each row."""

    def __init__(self, template: str | Template | None, system: str | None, labels: Labels | None = None) -> None:
        given = f"{{{PROMPT}}}" if template is None else template
        self._prompt = given if isinstance(given, Template) else Template(given)
        self._system = None if system is None else Template(system)
        self._labels = labels

    def check(self, rows: Iterable[Row]) -> None:
        """Raise ConfigurationError for a column that no row has. All rows are read only if the first one lacks it."""
        missing = self._prompt.columns | (set() if self._system is None else self._system.columns)
        known: tuple[str, ...] = ()
        for row in rows:
            known = known or tuple(row)
            missing -= row.keys()
            if not missing:
                return
        if known:
            name = min(missing)
            raise ConfigurationError(f"no row has the column {name!r:.80}{nearest_name(name, known)}")

    def render(self, row: Row) -> tuple[str, ...]:
        """Return the prompt, followed by the system prompt if there is one. Raises RequestError."""
        prompt = self._prompt.fill(row)
        if not prompt.strip():
            raise RequestError("the prompt is empty")
        return (prompt,) if self._system is None else (prompt, self._system.fill(row))

    def known_labels(self, row: Row) -> frozenset[str]:
        """Return the labels; none if they cannot be read: such a row is not sent."""
        try:
            return self.labels(row)
        except RequestError:
            return frozenset()

    def labels(self, row: Row) -> frozenset[str]:
        """Return the labels: those of a list, or of a text that separates them by commas or is a list in JSON, as a
        CSV file of answers has it. Raises RequestError."""
        if self._labels is None:
            return frozenset()
        if callable(self._labels):
            found: Any = self._labels(row)
        elif self._labels in row:
            found = row[self._labels]
        else:
            raise RequestError(f"the row has no column {self._labels!r:.80} with its labels")
        if isinstance(found, str):
            text, found = found, [label.strip() for label in found.split(",")]
            if text.startswith("["):
                with suppress(ValueError):
                    found = list(json.loads(text))
        elif not isinstance(found, Iterable) or isinstance(found, bytes | Mapping):
            found = () if found is None else (found,)
        labels = list(found)
        if not all(isinstance(label, str) for label in labels):
            raise RequestError("the labels of the row must be texts: a list of them, or one text with commas")
        return frozenset(filter(None, labels))


def build_messages(texts: tuple[str, ...]) -> list[Message]:
    prompt, *system = texts
    return [*map(Message.system, system), Message.user(prompt)]


def prompt_digest(texts: tuple[str, ...]) -> str:
    """Identify the rendered prompt, so that a later process notices a changed row."""
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _column_text(row: Row, column: str) -> str:
    if column not in row:
        raise RequestError(f"the row has no column {column!r:.80}; it has {', '.join(map(str, row))!s:.200}")
    value: Any = row[column]
    if value is None:
        raise RequestError(f"the column {column!r:.80} of the row is empty")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
