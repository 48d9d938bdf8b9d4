"""Tokens that clients write before their prompt: the patterns of client_tokens.toml."""

import re
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import Self

from dragoman import Loss, Message, Role, TextBlock
from dragoman.answers import LossKind, Severity

_REASON = "a token of the client that is not a prompt, and that no prompt cache would recognise, was left out"


class ClientTokens:
    """The tokens of one wire."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(re.compile(pattern) for pattern in patterns)

    @classmethod
    def of(cls, wire: str) -> Self:
        """Return the tokens of a wire by its name."""
        text = files("dragoman_gateway.wires").joinpath("client_tokens.toml").read_text("utf-8")
        return cls(tomllib.loads(text)[wire]["patterns"])

    def remove(self, messages: Sequence[Message]) -> tuple[Sequence[Message], Loss | None]:
        """Return the messages without a token in the first one, and the loss; None if there is no token."""
        first = messages[0] if messages else None
        if first is None or first.role is not Role.SYSTEM:
            return messages, None
        kept = tuple(block for block in first.content if not self._is_token(block))
        if len(kept) == len(first.content):
            return messages, None
        loss = Loss(LossKind.FIELD, first.id, 0, _REASON, Severity.INFO, "text")
        changed = (first.model_copy(update={"content": kept}),) if kept else ()
        return (*changed, *messages[1:]), loss

    def _is_token(self, block: object) -> bool:
        return isinstance(block, TextBlock) and any(pattern.fullmatch(block.text) for pattern in self.patterns)
