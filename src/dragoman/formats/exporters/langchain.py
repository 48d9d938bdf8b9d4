"""LangChain messages as `messages_to_dict` or `dumpd` write them, with content in LangChain's own blocks (version 1).

A block of a provider goes into the list as a non-standard one; its package sends it back.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    MediaBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import Usage
from dragoman.formats.exporters.shared import (
    Entry,
    LibraryWriter,
    block_signature,
    media_type_of,
    plain_content,
    result_content,
    split_results,
)
from dragoman.formats.reading.fields import words_of
from dragoman.formats.results import Conversion

_TYPES = {Role.SYSTEM: "system", Role.DEVELOPER: "system", Role.USER: "human", Role.TOOL: "human"}
_CLASSES = {"system": "SystemMessage", "human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}


def to_langchain(
    messages: Sequence[Message], *, form: Literal["messages_to_dict", "dumpd"] = "messages_to_dict"
) -> Conversion[list[Entry]]:
    """Write a history for `messages_from_dict`, or in the form of `dumpd` for `load`.

    Raises CriticalLossError if a critical block would be lost, and ConfigurationError for another form.
    """
    if form not in ("messages_to_dict", "dumpd"):
        raise ConfigurationError(f"the form of LangChain's messages is messages_to_dict or dumpd, not {form!r:.80}")
    writer = _Writer(messages)
    entries = [entry for message in writer.history for entry in writer.entries(message)]
    if form == "dumpd":  # the class, and the arguments that have a value
        for number, entry in enumerate(entries):
            arguments = {name: value for name, value in entry["data"].items() if value is not None}
            path = ["langchain", "schema", "messages", _CLASSES[entry["type"]]]
            entries[number] = {"lc": 1, "type": "constructor", "id": path, "kwargs": arguments}
    return writer.finish(entries)


def to_langchain_dumpd(messages: Sequence[Message]) -> Conversion[list[Entry]]:
    """Write a history in the form of `dumpd`."""
    return to_langchain(messages, form="dumpd")


class _Writer(LibraryWriter):
    library, label = "langchain", "LangChain"

    def entries(self, message: Message) -> list[Entry]:
        self.check_message(message)
        if message.role is Role.ASSISTANT:
            return [self._reply(message)]
        results, others = split_results(message)
        entries = [
            _entry(
                "tool",
                content=result_content(block, partial(self._part, message, index)),
                tool_call_id=block.tool_use_id,
                name=self.names.get(block.tool_use_id),
                status="error" if block.is_error else "success",
            )
            for index, block in results
        ]
        if message.role is Role.TOOL and others:
            self.report_role(message, "user")
        if others:
            content = [part for index, block in others for part in self._part(message, index, block)]
            kwargs = {"additional_kwargs": {"__openai_role__": "developer"}} if message.role is Role.DEVELOPER else {}
            entries.append(_entry(_TYPES[message.role], content=plain_content(content), **kwargs))
        return entries

    def _reply(self, message: Message) -> Entry:
        content = [part for index, block in enumerate(message.content) for part in self._part(message, index, block)]
        calls = [block for block in message.content if isinstance(block, ToolUseBlock)]
        provider, model = self.model(message)
        stop, stops = message.metadata.stop_reason, words_of(self.library).written_stops
        named = {
            "model_provider": provider,
            "model_name": model,
            "finish_reason": stops.get(stop) if stop else None,
            "output_version": "v1",
        }
        if stop is not None and stop not in stops:
            self.leave_out(message, -1, f"stop reason {stop}", kind=LossKind.STOP_REASON)
        signed = {
            block.id: signature
            for index, block in enumerate(message.content)
            if isinstance(block, ToolUseBlock) and (signature := block_signature(message, index)) is not None
        }
        return _entry(
            "ai",
            content=content,
            additional_kwargs={"__gemini_function_call_thought_signatures__": signed} if signed else {},
            response_metadata={name: value for name, value in named.items() if value is not None},
            tool_calls=[
                {"type": "tool_call", "name": call.name, "args": call.input, "id": call.id}
                for call in calls
                if call.raw_input is None
            ],
            invalid_tool_calls=[
                {"type": "invalid_tool_call", "name": call.name, "args": call.raw_input, "id": call.id, "error": None}
                for call in calls
                if call.raw_input is not None
            ],
            usage_metadata=_usage(message.usage) if message.usage is not None else None,
        )

    def _part(self, message: Message, index: int, block: ContentBlock) -> list[Entry]:
        match block:
            case TextBlock():
                cited = self.citations(message, index, block)
                return [{"type": "text", "text": block.text, **({"annotations": cited} if cited else {})}]
            case ThinkingBlock():
                signed = {"extras": {"signature": block.signature}} if block.signature else {}
                return [{"type": "reasoning", "reasoning": block.text, **signed}]
            case RedactedThinkingBlock():
                return [{"type": "non_standard", "value": {"type": "redacted_thinking", "data": block.data}}]
            case ToolUseBlock():
                if block.raw_input is not None:
                    return []  # next to the content only
                return [{"type": "tool_call", "name": block.name, "args": block.input, "id": block.id}]
            case _ if isinstance(block, MEDIA_BLOCKS):
                return self._media(message, index, block)
            case ProviderBlock(provider=self.library):
                return [dict(block.data)]
            case ProviderBlock() if message.role is Role.ASSISTANT and (
                (message.metadata.model or "").partition(":")[0] == block.provider
            ):
                if "type" not in block.data:
                    reason = "a native block without a type is read again as one of LangChain's"
                    self.losses.add_info(message, index, reason, LossKind.NATIVE_BLOCK)
                return [{"type": "non_standard", "value": dict(block.data)}]
            case _:
                return self.text_parts(message, index, block)

    def _media(self, message: Message, index: int, block: MediaBlock) -> list[Entry]:
        kind = "file" if block.type == "document" else block.type
        self.check_medium(message, index, block, typed=("base64", "text"), texts=True,
                          unknown=("duration_ms", "transcript"))  # fmt: skip
        names = {"media_type": "mime_type", "title": "filename", "context": "context", "detail": "detail"}
        named: Entry = {theirs: value for ours, theirs in names.items() if (value := getattr(block, ours, None))}
        match block.source.kind:
            case "base64":
                return [{"type": kind, "base64": block.source.data, **named, "mime_type": media_type_of(block)}]
            case "url":
                return [{"type": kind, "url": block.source.data, **named}]
            case "file_id":
                return [{"type": kind, "file_id": block.source.data, **named}]
            case "text" if block.type == "document":
                return [{"type": "text-plain", "text": block.source.data, **named, "mime_type": media_type_of(block)}]
            case other:
                self.leave_out(message, index, f"{block.type} with a {other} source")
                return []


def _entry(kind: str, **data: object) -> Entry:
    """Return a message with the fields that all messages of LangChain have."""
    fields: Entry = {"additional_kwargs": {}, "response_metadata": {}, "type": kind, "name": None, "id": None}
    return {"type": kind, "data": {**fields, **data}}


def _usage(usage: Usage) -> Entry:
    inputs = {
        "cache_read": usage.cached_input_tokens or None,
        "cache_creation": usage.cache_creation_input_tokens or None,
        "ephemeral_1h_input_tokens": usage.cache_creation_1h_input_tokens or None,
        "audio": usage.audio_input_tokens,
    }
    outputs = {"reasoning": usage.reasoning_tokens, "audio": usage.audio_output_tokens}
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "input_token_details": {name: count for name, count in inputs.items() if count is not None},
        "output_token_details": {name: count for name, count in outputs.items() if count is not None},
    }
