"""Keeps the special tokens of a vocabulary out of what people and tools write.

A tokenizer turns ``<|im_end|>`` into the token that ends a message, wherever it stands: a web page could end the user's
message and begin one of the system. So each such text is split with a mark before the chat template is applied, and
the prompt is tokenized in the pieces between the marks. The model reads the same characters, as ordinary tokens.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_OPENINGS = ("<", "[")
"""How special tokens begin, in all vocabularies in use; the check of each takes time."""
_FIRST_MARK, _LAST_MARK = 0xE000, 0xF8FF
"""Characters that Unicode leaves to private use."""


def special_tokens(tokenizer: Any) -> tuple[str, ...]:
    """Return the special tokens of a vocabulary: those that the tokenizer leaves out of decoded text."""
    found: list[str] = []
    for token, number in tokenizer.get_vocab().items():
        text = token.decode("utf-8", "ignore") if isinstance(token, bytes) else token
        if len(text) > 1 and text.startswith(_OPENINGS) and tokenizer.decode([number]) == "":
            found.append(text)
    return tuple(sorted(found))


class SpecialTokenFilter:
    """Splits special tokens in the contents of messages."""

    def __init__(self, tokens: Iterable[str]) -> None:
        # The longest first: one may begin another.
        names = sorted(tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, names))) if names else None

    def protect(self, messages: Sequence[Mapping[str, str]]) -> tuple[list[dict[str, str]], str]:
        """Return the messages with a mark inside each special token, and the mark; it is empty if there are none."""
        texts = [message["content"] for message in messages]
        pattern = self._pattern
        if pattern is None or not any(map(pattern.search, texts)):
            return [dict(message) for message in messages], ""
        used = set().union(*texts)
        mark = next(character for code in range(_FIRST_MARK, _LAST_MARK) if (character := chr(code)) not in used)

        def split(text: str) -> str:
            # Splitting one token may leave another, that begins inside it.
            while pattern.search(text):
                text = pattern.sub(lambda found: found[0][0] + mark + found[0][1:], text)
            return text

        return [{**message, "content": split(message["content"])} for message in messages], mark
