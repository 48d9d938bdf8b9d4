"""Those who watch that nothing passes unseen: a plugin on all hooks, and wires, tools and callers that ask it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import httpx

from dragoman.canonical.message import Message
from dragoman.policy import Answer, Hook, Plugin, Step
from dragoman.session import SessionEvent, ToolAnswered
from tests.unit.session.actors import Wire

_SAID = ("text", "thinking", "content", "input", "arguments", "data")
"""The keys under which requests hold what somebody said."""


class Watching(Plugin):
    """Lets everything pass, and remembers the words of every part, by hook and by model."""

    name = "watching"
    hooks = tuple(Hook)
    window = 1

    def __init__(self) -> None:
        self._words: dict[tuple[str, str | None], set[str]] = {}

    def check(self, step: Step) -> Answer:
        model = step.extensions.llm.model_id if step.extensions.llm else None
        content = step.message.model_dump(mode="json")["content"]
        self._words.setdefault((step.hook, model), set()).update(words(content))
        return None

    def unseen(self, said: Any, *hooks: str, model: str | None = None) -> set[str]:
        """The words, or pieces of them, that none of the hooks was shown, in steps with that model if one is named."""
        shown = [seen for (hook, of), seen in self._words.items() if hook in hooks and model in (None, of)]
        known = set[str]().union(*shown)
        return {word for word in words(said) if not any(word in whole for whole in known)}


class WatchedWire(Wire):
    """A provider that takes no word which the plugin has not seen on its way to that very model."""

    def __init__(self, plugin: Watching, model: str, replies: Sequence[Any]) -> None:
        super().__init__(replies)
        self.plugin = plugin
        self.model = model

    def __call__(self, request: httpx.Request) -> httpx.Response:
        response = super().__call__(request)
        asked = self.requests[-1]
        said = list(_said([asked.get("system"), asked["messages"]]))
        assert said
        assert self.plugin.unseen(said, "cmf.llm_input", "cmf.llm_output", model=self.model) == set()
        return response


class Shown(list[SessionEvent]):
    """Events as they reach a caller, who takes no word that the plugin has not seen before."""

    def __init__(self, plugin: Watching) -> None:
        self.plugin = plugin

    def append(self, event: SessionEvent) -> None:
        if isinstance(event, ToolAnswered):
            assert self.plugin.unseen(event.result.model_dump(mode="json"), "cmf.tool_post_invoke") == set()
        else:
            told = [getattr(event, name, None) for name in ("text", "final_input")]
            whole = getattr(event, "message", None) or getattr(event, "partial", None)
            told += [] if whole is None else [whole.model_dump(mode="json")["content"]]
            assert self.plugin.unseen(told, "cmf.llm_output") == set()
        super().append(event)


def check_history(plugin: Watching, messages: Iterable[Message]) -> None:
    """Everything that a session keeps was seen."""
    for message in messages:
        assert plugin.unseen(message.model_dump(mode="json")["content"], *Hook) == set()


def words(said: Any) -> set[str]:
    """What somebody said, in these tests, are words with a digit; field names and fixed texts have none."""
    return {word for text in _texts(said) for word in re.findall(r"\w+", text) if re.search(r"\d", word)}


def _texts(said: Any) -> Iterator[str]:
    if isinstance(said, str):
        yield said
    elif isinstance(said, dict):
        for value in said.values():
            yield from _texts(value)
    elif isinstance(said, (list, tuple)):
        for value in said:
            yield from _texts(value)


def _said(body: Any) -> Iterator[str]:
    if isinstance(body, str):
        yield body
    elif isinstance(body, (list, tuple)):
        for part in body:
            yield from _said(part)
    elif isinstance(body, dict):
        for key, value in body.items():
            if key in _SAID:
                yield from _texts(value) if key in ("input", "arguments") else _said(value)
            elif isinstance(value, (dict, list)):
                yield from _said(value)
