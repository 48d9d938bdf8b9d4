"""Blocks that a provider or a model does not support, as text; media is moved to where the model takes it, or replaced
with a note."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dragoman.adapter import wirejson
from dragoman.adapter.facts.capabilities import EMULATED, AdapterCapabilities
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.requests.turns import Turn
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaBlock,
    PromptRequestBlock,
    PromptResultBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.message import Role
from dragoman.canonical.words import UnknownWord


def flatten_block(block: ContentBlock) -> TextBlock | None:
    """Return the block as text, or None if providers support its type."""
    match block:
        case ResourceBlock():
            body = block.content if block.content is not None else "[binary content left out]"
            return TextBlock(text=f"[resource {block.name or block.uri}]\n{body}")
        case ResourceRefBlock():
            return TextBlock(text=f"[reference to {block.name or block.uri}: {block.uri}]")
        case PromptRequestBlock():
            return TextBlock(text=f"[prompt {block.name} {wirejson.dumps_text(block.arguments)}]")
        case PromptResultBlock():
            text = block.error_message if block.is_error else block.content
            return TextBlock(text=f"[prompt {block.prompt_name}]\n{text or wirejson.dumps_text(list(block.messages))}")
        case _:
            return None


def document_as_text(document: DocumentBlock) -> TextBlock:
    """Return a document of plain text as text, with its title and its note."""
    head = [f"[document {document.title or 'without a title'}]", *([document.context] if document.context else ())]
    return TextBlock(text="\n".join([*head, document.source.data]))


def call_as_text(call: ToolUseBlock) -> TextBlock:
    """Return a call as text, for a model without tools."""
    arguments = call.raw_input if call.raw_input is not None else wirejson.dumps_text(call.input)
    return TextBlock(text=f"[call of the tool {call.name} with {arguments}]")


def result_as_text(result: ToolResultBlock) -> tuple[ContentBlock, ...]:
    """Return a result as the user's text: a label and the parts."""
    label = "[error of an earlier tool call]" if result.is_error else "[result of an earlier tool call]"
    return (TextBlock(text=label), *result.content)


_MEDIA_FLAGS = {
    ImageBlock: "supports_images",
    AudioBlock: "supports_audio",
    VideoBlock: "supports_video",
    DocumentBlock: "supports_documents",
}

ResultPart = Callable[[Turn, ContentBlock, int], tuple[ContentBlock, ...]]
"""Projects a block without media of a tool's result, which is at that index of its turn's message."""


@dataclass(slots=True)
class MediaFilter:
    """Knows what one model takes. Losses are added to ``losses``."""

    provider: str
    model: str
    capabilities: AdapterCapabilities
    losses: list[Loss]
    other_part: ResultPart

    def filter(self, turns: Iterable[Turn]) -> Iterable[Turn]:
        """Replace unsupported media with a short note. Media of tools and of the assistant may move after them, to a
        message of the user."""
        moved: list[ContentBlock] = []
        source, before = None, None
        for turn in turns:
            # Results may follow the last of neighbouring messages of the assistant, and nothing may stand before them.
            goes_on = turn.role is Role.TOOL or (turn.role is before is Role.ASSISTANT)
            before = turn.role
            if source is not None and not goes_on:
                yield Turn.synthetic(source.message, Role.USER, tuple(moved))
                moved, source = [], None
            if not turn.ordinary:
                turn, following = self._filter_turn_media(turn)
                if following:
                    moved += following
                    source = turn
            yield turn
        if source is not None:
            yield Turn.synthetic(source.message, Role.USER, tuple(moved))

    def _filter_turn_media(self, turn: Turn) -> tuple[Turn, list[ContentBlock]]:
        """Return the turn with supported media, and the media that must follow in a user's turn."""
        following: list[ContentBlock] = []

        def change(block: ContentBlock, index: int) -> tuple[ContentBlock, ...]:
            if isinstance(block, ToolResultBlock):
                return (self._filter_result(turn, block, index, following),)
            if not isinstance(block, MediaBlock):
                return (block,)
            why = self._media_problem(block)
            if why is None and turn.role not in self.capabilities.media_roles:
                # Generated speech is sent as its transcript.
                has_transcript = isinstance(block, AudioBlock) and block.transcript is not None
                if turn.role is Role.ASSISTANT and "user" in self.capabilities.media_roles and not has_transcript:
                    reason = f"the {block.type} of the assistant follows in a message of the user"
                    return (self._move_media(turn, block, index, following, reason),)
                why = f"{self.model} takes no {block.type} in a message of the role {turn.role}"
            return (self._replace_media(turn, block, index, why),) if why else (block,)

        return turn.map_blocks(change), following

    def _move_media(
        self, turn: Turn, block: MediaBlock, index: int, following: list[ContentBlock], reason: str
    ) -> TextBlock:
        """Move media to a message of the user that follows."""
        self._record(turn, index, LossKind.FLATTENED, reason, Severity.INFO)
        following.append(block)
        return TextBlock(text=f"[{block.type} follows]")

    def _filter_result(
        self, turn: Turn, block: ToolResultBlock, index: int, following: list[ContentBlock]
    ) -> ToolResultBlock:
        support = self.capabilities.supports_tool_result_media
        parts: list[ContentBlock] = []
        for part in block.content:
            if not isinstance(part, MediaBlock):
                parts += self.other_part(turn, part, index)
            elif (why := self._media_problem(part)) or not support:
                why = why or f"{self.model} takes no {part.type} in a tool's answer"
                parts.append(self._replace_media(turn, part, index, why))
            elif support is EMULATED:
                reason = f"the tool's {part.type} follows its answer"
                parts.append(self._move_media(turn, part, index, following, reason))
            else:
                parts.append(part)
        content = tuple(parts)
        return block if content == block.content else block.model_copy(update={"content": content})

    def _replace_media(self, turn: Turn, block: MediaBlock, index: int, why: str) -> TextBlock:
        if isinstance(block, AudioBlock) and block.transcript is not None:
            self._record(turn, index, LossKind.MEDIA, f"{why}: its transcript is sent")
            return TextBlock(text=block.transcript)
        if isinstance(block, DocumentBlock) and block.source.kind == "text":
            self._record(turn, index, LossKind.FLATTENED, f"{why}: its text is sent", Severity.INFO)
            return document_as_text(block)
        self._record(turn, index, LossKind.MEDIA, why)
        return TextBlock(text=f"[{block.type} left out: {why}]")

    def _media_problem(self, block: MediaBlock) -> str | None:
        model = self.model
        if not getattr(self.capabilities, _MEDIA_FLAGS[type(block)]):
            return f"{model} takes no {block.type}"
        source = block.source
        if isinstance(source.kind, UnknownWord):
            return f"the kind of source {source.kind!r} is unknown to this version"
        if source.kind == "url" and not self.capabilities.supports_media_urls:
            return f"{model} takes no media by URL"
        if source.kind == "file_id" and source.provider not in (self.provider, None):
            return f"the file is kept by {source.provider}"
        if source.kind == "file_ref":
            return "the file was not read before the request was made"
        sources = self.capabilities.media_sources.get(block.type)
        if sources is not None and source.kind not in sources:
            return f"{model} takes no {block.type} by {source.kind}"
        accepted = self.capabilities.accepted_media_types.get(block.type, ())
        if isinstance(block, ImageBlock):
            accepted = accepted or self.capabilities.accepted_image_media_types
        if block.media_type and accepted and block.media_type not in accepted:
            return f"{model} takes no {block.media_type}"
        return None

    def _record(
        self, turn: Turn, index: int, kind: LossKind, reason: str, severity: Severity = Severity.WARNING
    ) -> None:
        self.losses.append(turn.loss(index, kind, reason, severity))
