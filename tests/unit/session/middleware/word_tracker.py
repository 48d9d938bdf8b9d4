"""Checks that plugins see everything: a plugin on all hooks, and wires, tools and callers that compare with it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import httpx

from dragoman.canonical.message import Message
from dragoman.policy import CheckResult, Hook, Plugin, Step
from dragoman.session import SessionEvent, ToolAnswered
from tests.unit.session.drivers import Wire

_TEXT_KEYS = ("text", "thinking", "content", "input", "arguments", "data")
"""The keys under which requests hold content."""


class WordTracker(Plugin):
    """Lets everything pass, and remembers the words of every part, by hook and by model."""

    name = "watching"
    hooks = tuple(Hook)
    window = 1

    def __init__(self) -> None:
        self._words: dict[tuple[str, str | None], set[str]] = {}

    def check(self, step: Step) -> CheckResult:
        model = step.extensions.llm.model_id if step.extensions.llm else None
        content = step.message.model_dump(mode="json")["content"]
        self._words.setdefault((step.hook, model), set()).update(words(content))
        return None

    def unseen(self, value: Any, *hooks: str, model: str | None = None) -> set[str]:
        """The words, or parts of words, that no hook has seen; with a model, in steps for that model."""
        shown = [seen for (hook, of), seen in self._words.items() if hook in hooks and model in (None, of)]
        known = set[str]().union(*shown)
        return {word for word in words(value) if not any(word in whole for whole in known)}


class CheckedWire(Wire):
    """A provider that fails on a word that the plugin has not seen in a step for that model."""

    def __init__(self, plugin: WordTracker, model: str, replies: Sequence[Any]) -> None:
        super().__init__(replies)
        self.plugin = plugin
        self.model = model

    def __call__(self, request: httpx.Request) -> httpx.Response:
        response = super().__call__(request)
        request_body = self.requests[-1]
        sent_texts = list(_message_texts([request_body.get("system"), request_body["messages"]]))
        assert sent_texts
        assert self.plugin.unseen(sent_texts, "cmf.llm_input", "cmf.llm_output", model=self.model) == set()
        return response


class CheckedEvents(list[SessionEvent]):
    """Events of a caller, which fails on a word that the plugin has not seen before."""

    def __init__(self, plugin: WordTracker) -> None:
        self.plugin = plugin

    def append(self, event: SessionEvent) -> None:
        if isinstance(event, ToolAnswered):
            assert self.plugin.unseen(event.result.model_dump(mode="json"), "cmf.tool_post_invoke") == set()
        else:
            values = [getattr(event, name, None) for name in ("text", "final_input")]
            whole = getattr(event, "message", None) or getattr(event, "partial", None)
            values += [] if whole is None else [whole.model_dump(mode="json")["content"]]
            assert self.plugin.unseen(values, "cmf.llm_output") == set()
        super().append(event)


def check_history(plugin: WordTracker, messages: Iterable[Message]) -> None:
    """Everything that a session keeps was seen."""
    for message in messages:
        assert plugin.unseen(message.model_dump(mode="json")["content"], *Hook) == set()


def words(value: Any) -> set[str]:
    """In these tests, content has words with a digit; field names and fixed texts have none."""
    return {word for text in _texts(value) for word in re.findall(r"\w+", text) if re.search(r"\d", word)}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _message_texts(body: Any) -> Iterator[str]:
    if isinstance(body, str):
        yield body
    elif isinstance(body, (list, tuple)):
        for part in body:
            yield from _message_texts(part)
    elif isinstance(body, dict):
        for key, value in body.items():
            if key in _TEXT_KEYS:
                yield from _texts(value) if key in ("input", "arguments") else _message_texts(value)
            elif isinstance(value, (dict, list)):
                yield from _message_texts(value)
