"""``@sonnet`` at the start of what is said: the model that this one message is for.

The mention begins the text and ends at white space or with the text; an e-mail address, a handle with a server, a
name further behind are text like any other. It is taken out of what is sent. ``\\@sonnet`` says it literally: the
backslash is taken out instead.
"""

import re
from typing import NamedTuple

from dragoman.routing.aliases import ALIAS

_MENTION = re.compile(rf"@([a-z][a-z0-9-]{{0,63}}:\S{{1,200}}|{ALIAS})(?=\s|\Z)")
_GAP = re.compile(r"[^\S\n]*\n?")
"""What parts the mention from the text: the rest of its line where nothing follows there, so that the indentation
of what begins on the next line stays."""


class Mention(NamedTuple):
    """``name``: an alias or model id, as written; None where there is none. ``rest``: what is left to be sent."""

    name: str | None
    rest: str


def read_mention(text: str) -> Mention:
    if text.startswith("\\") and _MENTION.match(text, 1):
        return Mention(None, text[1:])
    found = _MENTION.match(text)
    if found is None or not found[1].isprintable():
        return Mention(None, text)
    gap = _GAP.match(text, found.end())
    return Mention(found[1], text[gap.end() if gap else found.end() :])
