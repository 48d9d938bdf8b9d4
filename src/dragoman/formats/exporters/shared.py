"""What the writers for other libraries share: losses, models, media and native blocks."""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from dragoman.adapter.losses import LossKind
from dragoman.adapter.registry import adapter_class, is_provider
from dragoman.adapter.requests.unsupported_blocks import flatten_block
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    MediaBlock,
    MediaSource,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.formats.reading.blocks import library_provider, read_citation
from dragoman.formats.reading.tool_calls import tool_names_by_id
from dragoman.formats.reading.turns import put_results_first
from dragoman.formats.results import Conversion, LossCollector, as_history, describe_unknown_role, finish

Entry = dict[str, Any]
Item = TypeVar("Item")

ANY_TYPE = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "document": "application/octet-stream"}


class LibraryWriter:
    """The base of the writers: one history, its losses, and the names of its tools."""

    library: str
    label: str

    def __init__(self, messages: Sequence[Message]) -> None:
        self.losses = LossCollector(self.library)
        # Return the history with results directly behind their calls: no library keeps instructions between them.
        history = as_history(messages)
        for index, message in enumerate(history):
            if not message.role.is_known:
                self.losses.add(message, -1, describe_unknown_role(message), kind=LossKind.ROLE)
                history[index] = message.model_copy(update={"role": Role.USER})
        ordered = put_results_first(history)
        moved = {message.id for before, message in zip(history, ordered, strict=True) if before.id != message.id}
        for message in ordered:
            if message.id in moved:
                reason = f"{self.label} has no instructions between a call and its result: they change places"
                self.losses.add_info(message, -1, reason, LossKind.ROLE)
        self.history = ordered
        self.names = tool_names_by_id(self.history)

    def check_medium(
        self, message: Message, index: int, block: MediaBlock, *, typed: Sequence[str], url_type: bool = True,
        owner: bool = False, texts: bool = False, unknown: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Report what the library does not keep of a medium. ``typed`` are the kinds of sources that it requires a type
        for, ``url_type``: it keeps one next to a URL, ``owner``: it keeps whose a file is, ``texts``: it has documents
        that are texts, ``unknown``: fields that it does not have.
        """
        kind = block.source.kind
        if block.media_type is None and kind in typed:
            reason = f"{self.label} requires the type of a medium: it is unknown, written as {media_type_of(block)}"
            self.losses.add_info(message, index, reason, LossKind.MEDIA)
        if getattr(block, "citations", None) is not None:
            self.leave_out(message, index, "request for citations of a document", kind=LossKind.MEDIA)
        if kind == "text" and not texts:
            reason = f"{self.label} has no document as a text: written as base64"
            self.losses.add_info(message, index, reason, LossKind.MEDIA)
        if block.media_type is not None and kind == "url" and not url_type:
            self.leave_out(message, index, "type of a medium by URL", kind=LossKind.MEDIA)
        if block.source.provider is not None and not owner:
            self.leave_out(message, index, "owner of a file", kind=LossKind.MEDIA)
        for name in unknown:
            if getattr(block, name, None) is not None:
                self.leave_out(message, index, f"{name} of a {block.type}", kind=LossKind.MEDIA)

    def write(self, entries: Callable[[Message], list[Entry]]) -> Conversion[list[Entry]]:
        """Return the entries of all messages. Raises CriticalLossError."""
        return self.finish([entry for message in self.history for entry in entries(message)])

    def tool_entry(self, block: ToolResultBlock, content: object) -> Entry:
        """Return a result as Chat Completions has it, with the name of its tool."""
        name = self.names.get(block.tool_use_id)
        entry: Entry = {"role": "tool", "tool_call_id": block.tool_use_id, "content": content}
        return entry | ({"name": name} if name else {})

    def finish(self, document: list[Entry]) -> Conversion[list[Entry]]:
        """Return the document with its losses. Raises CriticalLossError."""
        return finish(document, self.losses, self.history, self.label)

    def leave_out(self, message: Message, index: int, what: str = "", *, kind: LossKind | None = None) -> None:
        named = what or f"{message.content[index].type} block"
        self.losses.add(message, index, f"{self.label} has no form for this {named}: left out", kind=kind)

    def as_texts(self, message: Message, index: int, block: ContentBlock) -> list[str]:
        """Return a block without a form as a text, which is a loss; none if it is left out."""
        flat = flatten_block(block)
        if flat is None:
            self.leave_out(message, index, f"{block.type} block")
            return []
        self.losses.add(message, index, f"{self.label} has no form for this {block.type} block: written as text")
        return [flat.text]

    def text_parts(self, message: Message, index: int, block: ContentBlock) -> list[Entry]:
        """As `as_texts`, as the parts of a content."""
        return [{"type": "text", "text": text} for text in self.as_texts(message, index, block)]

    def object_arguments(self, message: Message, index: int, call: ToolUseBlock) -> Mapping[str, Any]:
        """Return the arguments of a call for a library that takes only an object."""
        if call.raw_input is None:
            return call.input
        reason = "arguments are an object: the broken ones are written as the field raw_input of one"
        self.losses.add(message, index, reason, kind=LossKind.INVALID_INPUT)
        return {"raw_input": call.raw_input}

    def leave_out_usage(self, message: Message) -> None:
        if message.metadata.usage is not None or message.metadata.model is not None:
            self.losses.add_info(message, -1, f"{self.label} has no models and no usage: left out", LossKind.USAGE)

    def leave_out_error(self, message: Message, index: int, result: ToolResultBlock) -> None:
        if result.is_error:
            reason = f"a result of {self.label} has no flag for errors: left out"
            self.losses.add_info(message, index, reason, LossKind.TOOLS)

    def check_message(self, message: Message) -> None:
        """Report the fields of a message that no library stores."""
        if message.channel is not None:
            self.losses.add_info(message, -1, f"{self.label} has no channels", LossKind.CHANNEL)
        for index, block in enumerate(message.content):
            if isinstance(block, ToolUseBlock) and block.raw_input == "":
                reason = "the arguments of the call are an empty text: they are read again as none"
                self.losses.add_info(message, index, reason)

    def citations(self, message: Message, index: int, block: TextBlock) -> list[Entry]:
        """Return the citations of a text; report general fields that are added to a provider's own."""
        written = [citation_fields(citation) for citation in block.citations]
        own = [citation.data for citation in block.citations]
        if any(data is not None and fields != data for fields, data in zip(written, own, strict=True)):
            reason = f"{self.label} has general fields of a citation: they are added to the provider's own"
            self.losses.add_info(message, index, reason, LossKind.CITATIONS)
        return written

    def report_role(self, message: Message, other: str) -> None:
        reason = f"{self.label} has no {message.role} with this content: written as the {other}'s"
        self.losses.add_info(message, -1, reason, LossKind.ROLE)

    def model(self, message: Message) -> tuple[str | None, str | None]:
        """Return the library's name of the provider, and the name of the model."""
        provider, colon, name = (message.metadata.model or "").partition(":")
        if colon:
            return library_provider(self.library, provider), None if name == "unnamed" else name
        issuer = message.metadata.provider
        return issuer and library_provider(self.library, issuer), provider or None


def data_url(block: MediaBlock) -> str:
    """Return the URL of a medium: its own, or its content as a data URL."""
    data = base64_of(block.source)
    return block.source.data if data is None else f"data:{media_type_of(block)};base64,{data}"


def split_results(message: Message) -> tuple[list[tuple[int, ToolResultBlock]], list[tuple[int, ContentBlock]]]:
    """Return the results of a message, and its other blocks, with their positions."""
    blocks = list(enumerate(message.content))
    results = [(index, block) for index, block in blocks if isinstance(block, ToolResultBlock)]
    return results, [(index, block) for index, block in blocks if not isinstance(block, ToolResultBlock)]


def base64_of(source: MediaSource) -> str | None:
    """Return the content of a source as base64; None if it is elsewhere."""
    if source.kind == "text":
        return base64.b64encode(source.data.encode()).decode()
    return source.data if source.kind == "base64" else None


def media_type_of(block: MediaBlock) -> str:
    if block.media_type is None and block.source.kind == "text":
        return "text/plain"
    return block.media_type or ANY_TYPE[block.type]


def result_texts(block: ToolResultBlock) -> str | None:
    """Return a result as one text, if it is only text."""
    if not all(isinstance(part, TextBlock) and not part.citations for part in block.content) or len(block.content) > 1:
        return None
    return "".join(part.text for part in block.content if isinstance(part, TextBlock))


def result_content(block: ToolResultBlock, write: Callable[[ContentBlock], list[Item]]) -> str | list[Item]:
    """Return a result as one text, or as what ``write`` makes of its parts."""
    text = result_texts(block)
    return [item for part in block.content for item in write(part)] if text is None else text


def plain_content(parts: list[Entry]) -> str | list[Entry]:
    """Return a content that is only one text as this text."""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"} and isinstance(parts[0]["text"], str):
        return parts[0]["text"]
    return parts


def citation_fields(citation: Citation) -> Entry:
    """Return a citation with the fields that all have, and those of its provider."""
    fields = {
        "url": citation.url,
        "title": citation.title,
        "cited_text": citation.cited_text,
        "start_index": citation.start,
        "end_index": citation.end,
    }
    own = citation.data or {}
    said = read_citation({**own, "type": citation.kind})
    known = (said.url, said.title, said.cited_text, said.start, said.end) if own else (None,) * len(fields)
    added = {name: value for (name, value), has in zip(fields.items(), known, strict=True) if value != has}
    return {**own, "type": citation.kind, **{name: value for name, value in added.items() if value is not None}}


def block_signature(message: Message, index: int) -> str | None:
    """Return the signature on a block other than thinking, which the adapter of the message's provider notes."""
    issuer = message.metadata.provider
    return adapter_class(issuer).block_signature(message, index) if issuer and is_provider(issuer) else None
