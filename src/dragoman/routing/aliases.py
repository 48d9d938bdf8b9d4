"""Names of models in a program and in a text: aliases, and mentions such as ``@sonnet`` at the start of a prompt.

A program adds aliases to the bundled ones, or puts them in their place. A mention chooses the model of one message, if
the router reads mentions. It begins the text and ends at white space or with the text. An e-mail address, a handle with
a server, or a name later in the text is ordinary text. The mention is removed before sending. ``\\@sonnet`` is literal:
only the backslash is removed.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.names import bundled_aliases
from dragoman.adapter.registry import parse_model
from dragoman.canonical.ids import ModelId

ALIAS = r"[A-Za-z][A-Za-z0-9_.-]{0,63}"
_ALIAS = re.compile(ALIAS)
_MENTION = re.compile(rf"@([a-z][a-z0-9-]{{0,63}}:\S{{1,200}}|{ALIAS})(?=\s|\Z)")
_GAP = re.compile(r"[^\S\n]*\n?")
"""The white space after the mention, up to the end of its line at most, so that the indentation of the next line
stays."""


class Aliases:
    """Case-insensitive names without a colon, for model ids.

    Raises ConfigurationError for an invalid name, and for a value that is not a model id.
    """

    def __init__(self, custom: Mapping[str, str] | None = None) -> None:
        self.custom: dict[str, str] = {}
        """The aliases that are not bundled, in lower case."""
        for name, model in (custom or {}).items():
            if not (isinstance(name, str) and _ALIAS.fullmatch(name)):
                raise ConfigurationError(
                    f"{name!r:.80} is not a valid alias: use letters, digits, '-', '_' and '.', starting with a letter"
                )
            try:
                self.custom[name.lower()] = str(ModelId.parse(model))
            except (ValueError, AttributeError):
                raise ConfigurationError(
                    f"the alias {name!r} stands for {model!r:.80}, which is not a model id"
                ) from None

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.custom or name.lower() in bundled_aliases()

    def resolve(self, name: str) -> str:
        """Return the model id of an alias; a model id is returned unchanged.

        Raises UnknownProviderError, with the nearest names, for anything else.
        """
        return str(parse_model(name, self.custom))


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
