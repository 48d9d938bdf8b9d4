"""Plugins for the tests of policies."""

from collections.abc import Iterable
from typing import Any

from dragoman.canonical.blocks import TextBlock, ThinkingBlock, ToolResultBlock
from dragoman.policy import CheckResult, Hook, Mode, Plugin, PluginResult, Step, Violation

SECRET = "hunter2"


class RecordingPlugin(Plugin):
    """Lets everything pass, and records the hook, the role and the searchable text."""

    name = "noting"
    hooks: Iterable[Hook | str] = tuple(Hook)

    def __init__(self, **declared: Any) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self.steps: list[Step] = []
        vars(self).update(declared)

    def check(self, step: Step) -> CheckResult:
        text = " ".join(view.content for view in step.views() if view.content)
        self.seen.append((step.hook, str(step.message.role), text))
        self.steps.append(step)
        return None

    def at(self, hook: str) -> list[str]:
        """The texts at that hook, in order."""
        return [text for seen, _, text in self.seen if seen == hook]


class DenyingPlugin(Plugin):
    """Denies content with a word; everything if the word is empty."""

    name = "denying"
    hooks: Iterable[Hook | str] = tuple(Hook)

    def __init__(self, word: str = "", **declared: Any) -> None:
        self.word = word
        vars(self).update(declared)

    def check(self, step: Step) -> CheckResult:
        if any(self.word in (view.content or "") for view in step.views()):
            return Violation("it contains a forbidden word", code="word")
        return None


class RedactingPlugin(Plugin):
    """Replaces a word with ***, in texts, thinking, arguments and answers."""

    name = "hiding"
    mode = Mode.TRANSFORM
    hooks: Iterable[Hook | str] = tuple(Hook)

    def __init__(self, word: str = SECRET, label: str | None = None, **declared: Any) -> None:
        self.word = word
        self.label = label
        vars(self).update(declared)

    def check(self, step: Step) -> CheckResult:
        message = step.message
        content = tuple(map(self._redact, message.content))
        if content == message.content:
            return None
        labelled = None
        if self.label is not None:
            security = (step.extensions.security or _empty_security()).model_copy(
                update={"labels": frozenset({self.label})}
            )
            labelled = step.extensions.model_copy(update={"security": security})
        return PluginResult(message=message.model_copy(update={"content": content}), extensions=labelled)

    def _redact(self, block: Any) -> Any:
        if isinstance(block, (TextBlock, ThinkingBlock)):
            return block.model_copy(update={"text": block.text.replace(self.word, "***")})
        if isinstance(block, ToolResultBlock):
            return block.model_copy(update={"content": tuple(map(self._redact, block.content))})
        if hasattr(block, "input"):
            return block.model_copy(update={"input": _replace(block.input, self.word)})
        return block


def _replace(value: Any, word: str) -> Any:
    if isinstance(value, str):
        return value.replace(word, "***")
    if isinstance(value, dict):
        return {key: _replace(item, word) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace(item, word) for item in value]
    return value


def _empty_security() -> Any:
    from dragoman.policy import SecurityExtension

    return SecurityExtension()
