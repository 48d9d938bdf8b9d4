"""Decodes items into one canonical message: its blocks, and the notes that `encode` needs."""

from collections.abc import Callable, Mapping
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.wire_diff import diff_objects
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    text_block,
)
from dragoman.canonical.message import Channel, Role
from dragoman_adapters.openai_responses import encode, encode_blocks, native_calls
from dragoman_adapters.openai_responses.client_tools import canonical_name
from dragoman_adapters.openai_responses.encode_blocks import PART_PREFIX

CHANNELS = {phase: channel for channel, phase in encode.PHASES.items()}

CallId = Callable[[str | None], str]
"""Returns the canonical id of the next call, for the one that the provider gave it."""


def item_kind(native: Mapping[str, Any]) -> str:
    """Return the type of an item; messages and references may have none."""
    return native.get("type") or ("message" if "role" in native else "item_reference")


def call_reference(native: Mapping[str, Any]) -> str | None:
    """Return the id that a call's output refers to: the call's, or the item's in dialects without it."""
    return native.get("call_id") or native.get("id")


class MessageAccumulator:
    """Accumulates the blocks of one message and their notes.

    ``blocks`` of `raw` are the notes by index of block: the difference of a part or an item from our encoding.
    ``items`` are by the index of the first block of each message item: they separate the items of one message.
    ``declared`` are the names of the program's tools, as `native_calls.declared_name` takes them.
    """

    def __init__(self, provider: str, role: Role, call_id: CallId, declared: Mapping[str, str] | None = None) -> None:
        self.provider = provider
        self._declared = declared or {}
        self.role = role
        self.blocks: list[ContentBlock] = []
        self._call_id = call_id
        self._notes: dict[str, Any] = {}
        self._messages: list[tuple[int, dict[str, Any], list[dict[str, Any]]]] = []
        """The message items: the index of the first block, the item, and its parts."""

    def add(self, native: dict[str, Any]) -> None:
        """Add an item; unknown items are kept whole."""
        match item_kind(native):
            # Compacted replies hold the user's items, too. An empty message of the assistant is kept whole: it has no
            # first block, so its notes would be those of the next item.
            case "message" if native.get("role") == self.role and (
                native["content"] != [] or self.role is not Role.ASSISTANT
            ):
                self._add_message(native)
            case "reasoning":
                block = ThinkingBlock(text=join_thinking(native), signature=native.get("encrypted_content") or None)
                note = _note_reasoning(native)
                self._add_block(block, note | (diff_objects(native, encode.encode_thinking(block, note)) or {}))
            case "function_call":
                # The arguments of an incomplete call stay text, even if they parse.
                text = native["arguments"]
                arguments, malformed = wirejson.parse_arguments(text)
                if native.get("status") == "incomplete":
                    arguments, malformed = {}, text
                self._add_call(native, canonical_name(native), arguments, malformed)
            case _ if name := native_calls.declared_name(native, self._declared):
                name = canonical_name(native) if native.get("namespace") else name
                self._add_call(native, name, native_calls.read_input(native), None)
            case other:
                self.blocks.append(ProviderBlock(provider=self.provider, kind=other, data=native))

    @property
    def channel(self) -> Channel | None:
        """The channel of the message items, if all have the same one."""
        phases = {str(native.get("phase")) for _, native, _ in self._messages}
        return CHANNELS.get(phases.pop()) if len(phases) == 1 else None

    def raw(self) -> dict[str, Any]:
        """Return the notes for provider_raw that make the round trip exact."""
        starts: dict[str, Any] = {}
        channel = self.channel
        for start, native, parts in self._messages:
            # How an item differs from our encoding, apart from its parts, which have notes of their own.
            is_string = isinstance(native["content"], str)
            expected = encode.encode_message(self.role, channel, parts, {})
            note: dict[str, Any] = {} if isinstance(expected["content"], str) == is_string else {"string": is_string}
            note |= diff_objects(_without_content(native), _without_content(expected)) or {}
            # An entry starts an item. A message of others has one item, which its blocks need no entry to start.
            if note or self.role is Role.ASSISTANT or not parts:
                starts[str(start)] = note
        return {key: value for key, value in (("items", starts), ("blocks", self._notes)) if value}

    def _add_message(self, native: dict[str, Any]) -> None:
        start = len(self.blocks)
        side = "output" if self.role is Role.ASSISTANT else "input"
        plain_type = f"{side}_text"
        parts = native["content"]
        if isinstance(parts, str):
            parts = [{"type": plain_type, "text": parts}]
        for part in parts:
            if len(part) == 2 and part.get("type") == plain_type:
                self.blocks.append(text_block(part["text"]))  # as below: a plain text leaves nothing to note
                continue
            self._add_block(*decode_part(part, self.provider, side))
        self._messages.append((start, native, parts))

    def _add_block(self, block: ContentBlock, note: dict[str, Any] | None) -> None:
        if note:
            self._notes[str(len(self.blocks))] = note
        self.blocks.append(block)

    def _add_call(self, native: dict[str, Any], name: str, arguments: dict[str, Any], malformed: str | None) -> None:
        reference = call_reference(native)
        call = ToolUseBlock(id=self._call_id(reference), name=name, input=arguments, raw_input=malformed)
        self._add_block(call, diff_objects(native, encode.encode_tool_call(call, lambda _: reference or "")))


def join_thinking(native: Mapping[str, Any]) -> str:
    """Return the parts of the summary, joined by a blank line, or of the reasoning itself if there is no summary."""
    return encode.SEPARATOR.join(part["text"] for part in native.get("summary") or native.get("content") or ())


def _note_reasoning(native: Mapping[str, Any]) -> dict[str, Any]:
    field = "summary" if native.get("summary") or not native.get("content") else "content"
    texts = [part["text"] for part in native.get(field) or ()]
    note: dict[str, Any] = {"field": field} if field == "content" else {}
    if len(texts) > 1 or texts == [""]:
        note["lengths"] = [len(text) for text in texts]
    return note


def decode_tool_result(
    native: dict[str, Any], tool_use_id: str, provider: str
) -> tuple[ToolResultBlock, dict[str, Any]]:
    """Decode the output of a function to a block and its note."""
    answer = native.get("output")
    note: dict[str, Any] = {}
    if isinstance(answer, list):
        content: list[ContentBlock] = []
        for index, part in enumerate(answer):
            block, part_note = decode_part(part, provider, "input")
            content.append(block)
            if part_note:
                note.setdefault("parts", {})[str(index)] = part_note
        note["list"] = True
    else:
        content = [text_block(answer)] if answer else []
    result = ToolResultBlock(tool_use_id=tool_use_id, content=tuple(content))
    encoded = encode.encode_tool_result(result, lambda _: native.get("call_id", ""), note)
    return result, note | (diff_objects(native, encoded) or {})


def _without_content(native: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in native.items() if key != "content"}


def decode_block(native: dict[str, Any], provider: str) -> ContentBlock:
    """Decode a part; unknown parts are kept whole."""
    match native.get("type"):
        case "input_text" | "output_text" | "text":
            if not (annotations := native.get("annotations")):
                return text_block(native["text"])
            return TextBlock(text=native["text"], citations=tuple(map(_decode_citation, annotations)))
        case "refusal":
            return text_block(native["refusal"])
        case "input_image" if found := _decode_source(native, "image_url", "image_url", provider):
            return ImageBlock(source=found[0], media_type=found[1], detail=native.get("detail"))
        case "input_file" if found := _decode_source(native, "file_data", "file_url", provider):
            return DocumentBlock(source=found[0], media_type=found[1], title=native.get("filename"))
        case kind:
            return ProviderBlock(provider=provider, kind=f"{PART_PREFIX}{kind}", data=native)


def decode_part(native: dict[str, Any], provider: str, side: str) -> tuple[ContentBlock, dict[str, Any]]:
    """Decode a part to a block, and a note of its form and of what our encoding does not hold."""
    block, note = decode_block(native, provider), dict[str, Any]()
    if native.get("type") == "refusal":
        note["form"] = "refusal"
    elif isinstance(data := native.get("file_data"), str) and not _split_data_url(data)[0]:
        note["form"] = "bare"
    return block, note | (diff_objects(native, encode_blocks.encode_block(block, side, note)) or {})


def _decode_citation(native: dict[str, Any]) -> Citation:
    return Citation(
        kind=native["type"],
        title=native.get("title") or native.get("filename"),
        url=native.get("url"),
        start=native.get("start_index"),
        end=native.get("end_index"),
        data=native,
    )


def _decode_source(
    native: Mapping[str, Any], data_field: str, url_field: str, provider: str
) -> tuple[MediaSource, str | None] | None:
    """Return the source of a part and its media type. An image has its data in its URL, a file has a field for each."""
    if isinstance(data := native.get(data_field), str):
        media_type, data = _split_data_url(data)
        if media_type or data_field != url_field:
            return MediaSource(kind="base64", data=data), media_type
    if isinstance(url := native.get(url_field), str):
        return MediaSource(kind="url", data=url), None
    if isinstance(file_id := native.get("file_id"), str):
        return MediaSource(kind="file_id", data=file_id, provider=provider), None
    return None


def _split_data_url(url: str) -> tuple[str | None, str]:
    """Split a data URL into media type and base64 data; for any other text, None and the whole text."""
    head, comma, data = url.partition(",")
    media_type = head.removeprefix("data:").removesuffix(";base64")
    if comma and head == f"data:{media_type};base64" and media_type and ";" not in media_type:
        return media_type, data
    return None, url
