"""A mention such as ``@sonnet`` at the start of a prompt chooses the model of this one message, if the router reads
mentions.

The mention begins the text and ends at white space or with the text. An e-mail address, a handle with a server, or a
name later in the text is ordinary text. The mention is removed before sending. ``\\@sonnet`` is literal: only the
backslash is removed.
"""

import re
from typing import NamedTuple

from dragoman.routing.aliases import ALIAS

_MENTION = re.compile(rf"@([a-z][a-z0-9-]{{0,63}}:\S{{1,200}}|{ALIAS})(?=\s|\Z)")
_GAP = re.compile(r"[^\S\n]*\n?")
"""The white space after the mention, up to the end of its line at most, so that the indentation of the next line
stays."""


class Mention(NamedTuple):
    """``name``: an alias or model id as written, None without a mention. ``rest``: the text to send."""

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
