"""Makes sure that only content that a policy has judged is stored: a word that a plugin removes is in no database."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dragoman import Message
from dragoman.blocks import TextBlock
from dragoman.policy import Extensions, Hook, Pipeline, PolicyDeniedError
from dragoman.policy.extensions import LLMExtension
from dragoman_gateway.stored.records import StoredResponse
from dragoman_gateway.turn.unread import is_word

_LONGEST_WORD = 2_000
"""Characters. A longer text without any space is data, such as a picture."""


class StoredJudge:
    """Judges JSON for storage, as the input of a model. Parts that a policy has judged before stay as they are."""

    def __init__(self, policy: Pipeline, extensions: Extensions) -> None:
        """``extensions`` are those of the request."""
        self._policy = policy
        self._extensions = extensions

    async def judge(self, value: Any, model: str) -> Any:
        """Return a copy with its texts as the plugins leave them. ``model`` is the one that was asked for them.

        Raises PolicyDeniedError."""
        texts = list(dict.fromkeys(text for text in _texts(value) if text.strip()))
        if not texts or not self._policy.has_plugins(Hook.LLM_INPUT):
            return value
        message = Message.user([TextBlock(text=text) for text in texts])
        extensions = self._extensions.model_copy(update={"llm": LLMExtension(model_id=model)})
        found = (await self._policy.run_async(Hook.LLM_INPUT, message, extensions)).message.content
        if len(found) != len(texts) or not all(isinstance(block, TextBlock) for block in found):
            raise PolicyDeniedError(Hook.LLM_INPUT, "the gateway", "cannot_change", "a plugin took a part out")
        changed = {
            text: block.text
            for text, block in zip(texts, found, strict=True)
            if isinstance(block, TextBlock) and block.text != text
        }
        return _replaced(value, changed) if changed else value

    async def response(self, stored: StoredResponse, model: str) -> StoredResponse:
        """Return the response as it may be stored. Raises PolicyDeniedError."""
        judged = await self.judge({"input": list(stored.input), "response": stored.response}, model)
        return replace(stored, input=judged["input"], response=judged["response"])


def _texts(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, str):
        if not (is_word(name, value) or _is_data(value)):
            yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(each, key)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each, name)


def _is_data(text: str) -> bool:
    return len(text) > _LONGEST_WORD and not any(letter.isspace() for letter in text)


def _replaced(value: Any, changed: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return changed.get(value, value)
    if isinstance(value, Mapping):
        return {key: _replaced(each, changed) for key, each in value.items()}
    return [_replaced(each, changed) for each in value] if isinstance(value, (list, tuple)) else value
