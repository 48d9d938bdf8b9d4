"""Globs over names and URIs, without regular expressions.

``*`` matches any characters except ``/``, ``**`` matches any characters, and everything else matches itself, including
``.``, ``?`` and ``[``. The whole text must match, with a newline at its end. Three or more stars are the same as two.
In a pattern with braces, ``/**/`` also matches one slash, as a globstar does.
Source: docs/reference/cmf.md#globs.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

MAX_ALTERNATIVES = 1_000
"""The maximum number of patterns that the braces of one may expand to."""
MAX_PATTERN = 4_096
"""Characters of one pattern; the longest paths of file systems are no longer."""
_MAX_STATES = 65_536
"""Characters of all expansions of one pattern: a step of a match takes time in proportion."""

_GLOBSTAR = re.compile(r"/(?:\*\*/)+")

_Group = tuple[int, list[int], int]
"""The position of an opening brace, of the commas on its own level, and of the closing brace."""


class Glob:
    """A compiled pattern. With ``braces``, ``{a,b}`` matches either; groups may be nested.

    Braces without a comma or without a partner match themselves. Raises ValueError if the pattern is longer than
    4,096 characters, or if its braces expand to more than 1,000 patterns or 65,536 characters.

    A match takes one step for each character of the text, whatever the pattern. Bit n of an integer says that the first
    n literals have matched, so one shift follows all ways through the pattern at once.
    """

    __slots__ = ("_accepting", "_any_states", "_literals", "_segment_states", "braces", "pattern", "start")

    def __init__(self, pattern: str, *, braces: bool = False) -> None:
        if len(pattern) > MAX_PATTERN:
            raise ValueError(f"the pattern is longer than {MAX_PATTERN} characters: write several patterns")
        self.pattern = pattern
        self.braces = braces
        self._literals: dict[str, int] = {}
        self.start = 0
        """The first state of a match in steps: call `advance` for each character, and `accepts` at the end."""
        self._accepting = self._any_states = 0
        """The states in which any character may be skipped; _segment_states are those in which any but a slash may."""
        self._segment_states = 0
        state = 1
        alternatives = expand_braces(pattern) if braces else [pattern]
        if sum(map(len, alternatives)) > _MAX_STATES:
            raise ValueError(f"the braces expand to more than {_MAX_STATES} characters: write several patterns")
        for alternative in alternatives:
            self.start |= state
            starred = False
            for character in alternative:
                if character == "*":
                    self._segment_states |= state
                    if starred:
                        self._any_states |= state
                else:
                    self._literals[character] = self._literals.get(character, 0) | state
                    state <<= 1
                starred = character == "*"
            self._accepting |= state
            state <<= 1

    def advance(self, states: int, character: str) -> int:
        """Return the state after a character, or 0 if no text with this prefix can match."""
        skipped = states & (self._any_states if character == "/" else self._segment_states)
        return ((states & self._literals.get(character, 0)) << 1) | skipped

    def accepts(self, states: int) -> bool:
        """Return True if the text matches if it ends here."""
        return bool(states & self._accepting)

    def matches_prefix(self, text: str) -> bool:
        """Return True if any text with this prefix matches."""
        states = self.start
        for character in text:
            states = self.advance(states, character)
            if not states:
                return False
        return True

    @property
    def literals(self) -> frozenset[str]:
        """The characters that stand for themselves in the pattern."""
        return frozenset(self._literals)

    def matches(self, text: str) -> bool:
        literals, any_states, segment_states = self._literals, self._any_states, self._segment_states
        states = self.start
        for character in text:
            skipped = states & (any_states if character == "/" else segment_states)
            states = ((states & literals.get(character, 0)) << 1) | skipped
            if not states:
                return False
        return bool(states & self._accepting)

    def __repr__(self) -> str:
        return f"Glob({self.pattern!r}{', braces=True' if self.braces else ''})"


@lru_cache(maxsize=1_024)
def glob(pattern: str, *, braces: bool = False) -> Glob:
    """Return the compiled pattern, from a cache."""
    return Glob(pattern, braces=braces)


def expand_braces(pattern: str) -> list[str]:
    """Return all expansions of the braces in a pattern, in written order, with and without the folders of ``/**/``."""
    expanded: list[str] = []
    pending = [_GLOBSTAR.sub("/{**/,}", pattern)]
    while pending:
        text = pending.pop()
        group = min(_groups(text), default=None)
        if group is None:
            expanded.append(text)
        else:
            opening, commas, closing = group
            starts, ends = [opening, *commas], [*commas, closing]
            chosen = (text[start + 1 : end] for start, end in zip(starts, ends, strict=True))
            pending += reversed([text[:opening] + choice + text[closing + 1 :] for choice in chosen])
        if len(expanded) + len(pending) > MAX_ALTERNATIVES:
            raise ValueError(f"the braces expand to more than {MAX_ALTERNATIVES} patterns: write several patterns")
    return expanded


def _groups(text: str) -> Iterator[_Group]:
    """Yield the brace groups that offer a choice."""
    open_groups: list[tuple[int, list[int]]] = []
    for position, character in enumerate(text):
        if character == "{":
            open_groups.append((position, []))
        elif character == "," and open_groups:
            open_groups[-1][1].append(position)
        elif character == "}" and open_groups:
            opening, commas = open_groups.pop()
            if commas:
                yield opening, commas, position
