"""Text search: which text of a message can be found, and how.

A hit contains the query literally, in any script, ignoring case. Both sides are folded here, not by the database, so
that every database finds the same.
"""

import unicodedata
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal_column, select, table, text
from sqlalchemy.sql import column

from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolResultBlock
from dragoman.canonical.message import Message
from dragoman.store.schema import SEARCH_TABLE, messages

_PIECE = 3
"""Characters of a trigram in SQLite's index."""
_MAX_PIECES = 32


def fold(value: str) -> str:
    """Return the text without differences of case and of form (NFKC)."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", value).casefold()).replace("\0", " ")


def search_text(message: Message) -> str | None:
    """Return the text of text blocks, including those of tool results; None if there is none."""
    return "\n".join(fold(part) for part in _texts(message.content)) or None


def _texts(content: Iterable[ContentBlock]) -> Iterable[str]:
    for block in content:
        if isinstance(block, TextBlock):
            yield block.text
        elif isinstance(block, ToolResultBlock):
            yield from _texts(block.content)


def contains_condition(folded_query: str, *, sqlite: bool, indexed: bool) -> ColumnElement[bool]:
    """Return the condition on messages. Nothing in ``folded_query`` is a pattern, an operator or SQL."""
    if not sqlite:
        # LIKE, because an index with gin_trgm_ops supports it.
        return messages.c.search_text.contains(folded_query, autoescape=True)
    condition: ColumnElement[bool] = func.instr(messages.c.search_text, folded_query) > 0
    if not indexed or len(folded_query) < _PIECE:
        return condition
    pieces = dict.fromkeys(folded_query[start : start + _PIECE] for start in range(len(folded_query) - _PIECE + 1))
    wanted = " AND ".join('"' + piece.replace('"', '""') + '"' for piece in list(pieces)[:_MAX_PIECES])
    candidates: Select[Any] = (
        select(column("rowid"))
        .select_from(table(SEARCH_TABLE))
        .where(text(f"{SEARCH_TABLE} MATCH :wanted").bindparams(wanted=wanted))
    )
    return literal_column("messages.rowid").in_(candidates.scalar_subquery()) & condition
