"""``UIMessage`` of the Vercel AI SDK, versions 5 and 6: what a user interface loads again.

One message of the assistant holds all steps of its turn, with the outputs of its tools. ``metadata`` has the usual
fields: ``createdAt``, and ``model`` and ``usage`` of the last step. Source: https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message.
"""

from collections.abc import Iterator, Sequence

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.formats.exporters.shared import (
    Entry,
    LibraryWriter,
    block_signature,
    data_url,
    media_type_of,
    result_texts,
    split_results,
)
from dragoman.formats.results import Conversion

_SIGNATURE_NAMES = {"openai": "reasoningEncryptedContent", "azure": "reasoningEncryptedContent",
                    "google": "thoughtSignature", "vertex": "thoughtSignature"}  # fmt: skip
"""The field of a provider's metadata with the signature of reasoning. All others call it ``signature``."""


def to_vercel_ui(messages: Sequence[Message]) -> Conversion[list[Entry]]:
    """Write a history as a list of ``UIMessage``. Raises CriticalLossError if a critical block would be lost."""
    writer = _Writer(messages)
    return writer.finish([entry for turn in _turns(writer.history) if (entry := writer.turn(turn)) is not None])


def _turns(history: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield the messages of each ``UIMessage``: the assistant's with the results of its calls, or one of another role.

    A result without its call in the turn is alone: as a text, it must not become the assistant's.
    """
    turn: list[Message] = []
    called: set[str] = set()
    for message in history:
        joins = message.role is Role.ASSISTANT or (
            message.role is Role.TOOL and any(result.tool_use_id in called for result in message.tool_results)
        )
        if turn and not (turn[0].role is Role.ASSISTANT and joins):
            yield turn
            turn, called = [], set()
        turn.append(message)
        called |= {call.id for call in message.tool_uses}
        called -= {result.tool_use_id for result in message.tool_results}
    if turn:
        yield turn


class _Writer(LibraryWriter):
    library, label = "vercel-ai", "a UIMessage"

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__(messages)
        self._open: dict[str, tuple[Entry, str]] = {}
        """The parts of the calls of this turn that have no output yet, with the ids of their messages."""
        self._latest = ""
        """The id of the assistant's latest message."""

    def turn(self, turn: Sequence[Message]) -> Entry | None:
        first = turn[0]
        role = {Role.DEVELOPER: "system", Role.TOOL: "user"}.get(first.role, str(first.role))
        if first.role is Role.DEVELOPER:
            self.report_role(first, role)
        self._open = {}
        parts: list[Entry] = []
        for message in turn:
            self.check_message(message)
            parts += self._message(message, is_step=first.role is Role.ASSISTANT)
        if first.role is Role.TOOL:
            self.report_role(first, role)
        if not any(part["type"] != "step-start" for part in parts):
            reason = f"{self.label} has at least one part: the message is left out"
            self.losses.add(first, -1, reason, kind=LossKind.EMPTY_MESSAGE)
            return None
        return {"id": first.id, "role": role, "metadata": self._metadata(turn), "parts": parts}

    def _metadata(self, turn: Sequence[Message]) -> Entry:
        replies = [message for message in turn if message.role is Role.ASSISTANT]
        metadata: Entry = {"createdAt": turn[0].created_at.isoformat()}
        if not replies:
            return metadata
        last = replies[-1]
        for message in replies[:-1]:
            if message.metadata.model != last.metadata.model:
                reason = f"{self.label} has one model for all steps: that of the last one is written"
                self.losses.add_info(message, -1, reason, LossKind.USAGE)
            if message.usage is not None:
                reason = f"{self.label} has one usage for all steps: that of the last one is written"
                self.losses.add_info(message, -1, reason, LossKind.USAGE)
        for message in replies:
            if message.stop_reason is not None:
                reason = f"{self.label} has no reason for the end of a reply: left out"
                self.losses.add_info(message, -1, reason, LossKind.STOP_REASON)
        if last.metadata.model is not None:
            metadata["model"] = last.metadata.model
        if last.usage is not None:
            metadata["usage"] = {
                "inputTokens": last.usage.prompt_tokens,
                "outputTokens": last.usage.output_tokens,
                "totalTokens": last.usage.total_tokens,
                "inputTokenDetails": {
                    "noCacheTokens": last.usage.input_tokens,
                    "cacheReadTokens": last.usage.cached_input_tokens,
                    "cacheWriteTokens": last.usage.cache_creation_input_tokens,
                },
                "outputTokenDetails": {"reasoningTokens": last.usage.reasoning_tokens},
            }
        return metadata

    def _message(self, message: Message, *, is_step: bool) -> Iterator[Entry]:
        results, others = split_results(message)
        for index, block in results:
            text = result_texts(block)
            if text is None:
                reason = f"{self.label} has one value as the output of a tool: the content is written as text"
                self.losses.add(message, index, reason, kind=LossKind.FLATTENED)
                texts = [text for each in block.content for text in self.as_texts(message, index, each)]
                text = "\n\n".join(filter(None, texts))
            part, step = self._open.pop(block.tool_use_id, (None, ""))
            if part is not None and step != self._latest:
                reason = f"{self.label} has a result in the step of its call: it changes places with the next step"
                self.losses.add_info(message, index, reason, LossKind.MISPLACED_BLOCK)
            if part is None:
                reason = f"{self.label} has no result without its call: written as text"
                self.losses.add(message, index, reason, kind=LossKind.ORPHAN_RESULT)
                yield {"type": "text", "text": text}
            elif block.is_error:
                part |= {"state": "output-error", "errorText": text}
            else:
                part |= {"state": "output-available", "output": text}
        if is_step and message.role is Role.ASSISTANT:
            self._latest = message.id
            yield {"type": "step-start"}
        for index, other in others:
            yield from self._part(message, index, other)

    def _part(self, message: Message, index: int, block: ContentBlock) -> Iterator[Entry]:
        match block:
            case TextBlock():
                yield from self._text(message, index, block)
            case ThinkingBlock():
                name = _SIGNATURE_NAMES.get(self.model(message)[0] or "", "signature")
                named = {name: block.signature} if block.signature is not None else {}
                yield {"type": "reasoning", "text": block.text, **self._provided(message, index, named)}
            case RedactedThinkingBlock():
                provided = self._provided(message, index, {"redactedData": block.data})
                if provided:
                    yield {"type": "reasoning", "text": "", **provided}
            case ToolUseBlock():
                arguments = block.input if block.raw_input is None else block.raw_input
                part: Entry = {"type": f"tool-{block.name}", "toolCallId": block.id, "state": "input-available",
                               "input": arguments}  # fmt: skip
                if (signature := block_signature(message, index)) is not None:
                    part |= self._provided(message, index, {"thoughtSignature": signature}, "callProviderMetadata")
                self._open[block.id] = part, message.id
                yield part
            case _ if isinstance(block, MEDIA_BLOCKS) and block.source.kind != "file_ref":
                self.check_medium(message, index, block, typed=("base64", "url"))
                if getattr(block, "detail", None) is not None:
                    self.leave_out(message, index, "detail of an image", kind=LossKind.MEDIA)
                named = {"filename": title} if (title := getattr(block, "title", None)) else {}
                yield {"type": "file", "mediaType": media_type_of(block), "url": data_url(block), **named}
            case _:
                yield from self.text_parts(message, index, block)

    def _text(self, message: Message, index: int, block: TextBlock) -> Iterator[Entry]:
        """Yield a text, and the sources that it cites as parts behind it."""
        signature = block_signature(message, index)
        named = {} if signature is None else {"thoughtSignature": signature}
        yield {"type": "text", "text": block.text, **self._provided(message, index, named)}
        if block.citations:
            reason = f"{self.label} has the address and the title of a source: where and what it supports is left out"
            self.losses.add_info(message, index, reason, LossKind.CITATIONS)
        for number, citation in enumerate(block.citations):
            if citation.url is None:
                self.leave_out(message, index, "citation without an address", kind=LossKind.CITATIONS)
                continue
            title = {"title": citation.title} if citation.title else {}
            yield {"type": "source-url", "sourceId": f"{message.id}-{index}-{number}", "url": citation.url, **title}

    def _provided(self, message: Message, index: int, fields: Entry, name: str = "providerMetadata") -> Entry:
        """Return the metadata of the provider that spoke, if there is any."""
        provider, _ = self.model(message)
        if fields and provider is None:
            self.leave_out(message, index, "signature without the name of its provider", kind=LossKind.THINKING)
        return {name: {provider: fields}} if fields and provider is not None else {}
