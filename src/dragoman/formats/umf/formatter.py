"""UMF's formatter of ChatML: a list of turns with a limit, a check and a count.

Source: docs/reference/umf.md#chatml.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Self

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.message import Message
from dragoman.formats.chatml import END, START
from dragoman.formats.umf.convert import to_umf

_MARKER = re.compile(r"<\|(im_start|im_end)\|>")
_UNFIT_FOR_NAMES = re.compile(r"[\n<>|]+")
_COMBINED_ID, _COMBINED_NAME = "combined_tool_results", "tool_results"
_ENCODING = "cl100k_base"

Call = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChatMLMessage:
    """One turn. ``tool_calls`` are in OpenAI's form."""

    role: str
    """Who speaks: system, user, assistant or tool."""
    content: str
    """The text of the turn; it may be empty beside calls."""
    name: str | None = None
    """Who speaks among several of one role; of a result, the name of the tool."""
    tool_call_id: str | None = None
    """The id of the call that a result answers."""
    tool_calls: tuple[Call, ...] = ()


class ChatMLFormatter:
    """Collects turns. Methods that add one return the formatter."""

    def __init__(self, messages: Sequence[ChatMLMessage] = ()) -> None:
        self.messages = list(messages)
        """The turns so far, in order."""

    @classmethod
    def of(cls, history: Sequence[Message]) -> Self:
        """Return a formatter with the turns of a history, as `to_umf` writes them with calls in OpenAI's form."""
        turns = to_umf(history, openai_calls=True).data
        return cls([
            ChatMLMessage(
                turn["role"], _text(turn.get("content")), turn.get("name"), turn.get("tool_call_id"),
                tuple(turn.get("tool_calls", ())),
            )
            for turn in turns
        ])  # fmt: skip

    def add_system(self, content: str, name: str | None = None) -> Self:
        """Add instructions."""
        return self._add(ChatMLMessage("system", content, name))

    def add_user(self, content: str, name: str | None = None) -> Self:
        """Add what the user says."""
        return self._add(ChatMLMessage("user", content, name))

    def add_assistant(self, content: str, name: str | None = None) -> Self:
        """Add a reply without calls."""
        return self._add(ChatMLMessage("assistant", content, name))

    def add_assistant_with_tool_calls(self, content: str, tool_calls: Sequence[Call]) -> Self:
        """Add a reply with calls. Its text may be empty."""
        return self._add(ChatMLMessage("assistant", content, tool_calls=tuple(tool_calls)))

    def add_tool(self, content: str, tool_call_id: str, name: str) -> Self:
        """Add the result of one call."""
        return self._add(ChatMLMessage("tool", content, name, tool_call_id))

    def add_combined_tool_results(self, content: str, name: str = _COMBINED_NAME) -> Self:
        """Add the results of several calls as one turn, for formats that cannot tell them apart."""
        return self._add(ChatMLMessage("tool", content, name, _COMBINED_ID))

    def _add(self, message: ChatMLMessage) -> Self:
        self.messages.append(message)
        return self

    def limit_history(self, count: int) -> Self:
        """Keep the first turn and the latest ones, at most ``count`` together. Raises ConfigurationError below 1."""
        if count < 1:
            raise ConfigurationError(f"a history keeps at least its first message: the limit is {count}")
        if len(self.messages) > count:
            self.messages = [self.messages[0], *self.messages[len(self.messages) - count + 1 :]]
        return self

    def faults(self) -> list[str]:
        """Return why the turns do not fit UMF's rules, one reason for each; an empty list if they do."""
        return [
            f"$[{index}]: {reason}" for index, message in enumerate(self.messages) for reason in _faults_of(message)
        ]

    def validate_messages(self) -> bool:
        """Whether every turn fits UMF's rules."""
        return not self.faults()

    def count_tokens(self) -> int | None:
        """Return the tokens of the text in the encoding cl100k_base; None if tiktoken or the encoding is not there."""
        if find_spec("tiktoken") is None:
            return None
        import tiktoken

        try:
            encoding = tiktoken.get_encoding(_ENCODING)
        except Exception:  # tiktoken fetches an encoding, and fails in the ways of its client
            return None
        return len(encoding.encode(self.to_chatml_string(), allowed_special="all"))

    def to_chatml_string(self) -> str:
        """Return the text. Calls are not in it, and a marker inside a text is split."""
        return "\n".join(
            f"{START}{message.role}{_name(message)}\n" + _MARKER.sub(r"<| \1|>", message.content) + f"\n{END}"
            for message in self.messages
        )

    def to_openai_format(self) -> list[dict[str, Any]]:
        """Return the turns as messages of Chat Completions."""
        written = []
        for message in self.messages:
            entry: dict[str, Any] = {"role": message.role, "content": message.content}
            if message.name is not None:
                entry["name"] = message.name
            if message.tool_call_id is not None:
                entry["tool_call_id"] = message.tool_call_id
            if message.tool_calls:
                entry["tool_calls"] = list(message.tool_calls)
            written.append(entry)
        return written


def _faults_of(message: ChatMLMessage) -> list[str]:
    found = []
    if not message.content and not message.tool_calls:
        found.append("a message without calls must have a content")
    if message.role == "system" and not message.name:
        found.append("a system message must have a name")
    if message.role == "assistant" and not message.name and not message.tool_calls:
        found.append("an assistant message without calls must have a name")
    if message.role == "tool" and not (message.tool_call_id and message.name):
        found.append("a tool message must have the id of its call and a name")
    return found


def _name(message: ChatMLMessage) -> str:
    return f" name={_UNFIT_FOR_NAMES.sub('_', message.name)}" if message.name is not None else ""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict) and part.get("type") == "text")
