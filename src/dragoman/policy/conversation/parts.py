"""What a model reads beside messages: names, descriptions and schemas of tools that others wrote, and options.

They are judged as a message of the system, one text for each, and are sent as the plugins leave them.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dragoman.adapter.contract import AdapterOptions, NamedTool
from dragoman.canonical.blocks import TextBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ServerTool, ToolDefinition
from dragoman.policy.conversation.context import settings_of

IsForeign = Callable[[ToolDefinition], bool]
"""Whether a tool was described by somebody else than the program: by a server, or by a client of the program."""

_OPTIONS = ("user", "metadata", "stop_sequences", "output_schema")
_WORDS = (
    "tool_choice", "effort", "prompt_cache", "service_tier", "verbosity", "reasoning_summary", "safety", "server_state",
    "keep_alive",
)  # fmt: skip
"""Options that are one word each. One that holds more is judged, and cannot change."""


@dataclass(frozen=True, slots=True)
class RequestParts:
    """The parts of one request, and the texts in which they are judged."""

    tools: tuple[ToolDefinition, ...]
    options: AdapterOptions
    provider: str
    is_foreign: IsForeign

    def is_same(self, other: "RequestParts") -> bool:
        """Whether the parts are the very same objects."""
        return (
            self.options is other.options
            and self.provider == other.provider
            and len(self.tools) == len(other.tools)
            and all(ours is theirs for ours, theirs in zip(self.tools, other.tools, strict=True))
        )

    def as_message(self, session_id: str) -> Message | None:
        """Return the message; None if there is nothing to judge."""
        texts = [text for tool in self.tools if self.is_foreign(tool) for text in _texts_of(tool)]
        texts += [_dump(value) for _, value in self._given_options()]
        content = tuple(TextBlock(text=text) for text in texts)
        return Message(role=Role.SYSTEM, content=content, session_id=session_id) if content else None

    def replaced(self, judged: Message) -> tuple[tuple[ToolDefinition, ...], AdapterOptions]:
        """Return the parts as the plugins left them. Raises ValueError if what they left cannot be sent."""
        if not all(isinstance(block, TextBlock) for block in judged.content):
            raise ValueError("a part that is not text")
        texts = iter([getattr(block, "text", "") for block in judged.content])
        tools = tuple(_with_texts(tool, texts) if self.is_foreign(tool) else tool for tool in self.tools)
        changes: dict[str, Any] = {}
        for name, value in self._given_options():
            text = next(texts, "")
            if text == _dump(value):
                continue
            new = json.loads(text)
            if name in _WORDS:
                raise ValueError(f"the option {name} cannot change so")
            if type(new) is not type(json.loads(_dump(value))):
                raise ValueError(f"the option {name} is of another type")
            if name == "extra":
                removed = {key: each for key, each in self.options.extra[self.provider].items() if each is ...}
                new = {**self.options.extra, self.provider: {**new, **removed}}
            changes[name] = tuple(new) if name == "stop_sequences" else new
        options = replace(self.options, **changes) if changes else self.options
        if next(texts, None) is not None:
            raise ValueError("a part that was added")
        return tools, options

    def _given_options(self) -> Iterator[tuple[str, Any]]:
        for name in _OPTIONS:
            value = getattr(self.options, name)
            if value is not None and value != ():
                yield name, value
        for name in _WORDS:
            value = getattr(self.options, name)
            text = value.name if isinstance(value, NamedTool) else value
            if isinstance(text, str) and any(map(str.isspace, text)):
                yield name, text
        given = self.options.extra.get(self.provider, {})
        if extra := {key: value for key, value in given.items() if value is not ...}:
            yield "extra", extra


def _texts_of(tool: ToolDefinition) -> tuple[str, str, str]:
    """Return the name, the description, and the schema or, of a tool that a provider runs, its settings."""
    details = settings_of(tool) if isinstance(tool, ServerTool) else tool.input_schema
    return tool.name, tool.description, _dump(details)


def _with_texts(tool: ToolDefinition, texts: Iterator[str]) -> ToolDefinition:
    before = _texts_of(tool)
    name, description, schema = (next(texts, "") for _ in range(3))
    if (name, description, schema) == before:
        return tool
    if name != tool.name or (isinstance(tool, ServerTool) and schema != before[2]):
        raise ValueError(f"the tool {tool.name} cannot change so")
    # Its wire's own copy would bring the words back.
    changes: dict[str, Any] = {"description": description, "provider_raw": None}
    if not isinstance(tool, ServerTool):
        changes["input_schema"] = json.loads(schema)
    return tool.model_copy(update=changes)


def _dump(value: Any) -> str:
    def plain(each: Any) -> Any:
        return None if each is ... else [*each] if isinstance(each, Sequence | set | frozenset) else str(each)

    return json.dumps(value, ensure_ascii=False, default=plain)
