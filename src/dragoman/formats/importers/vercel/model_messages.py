"""``ModelMessage``: what `generateText` takes and returns. Results of tools are messages with the role tool."""

from typing import Any

from dragoman.canonical.blocks import ContentBlock
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import parse_json_or_lines
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.blocks import model_fields_of, provider_block, text_blocks
from dragoman.formats.importers.vercel import parts
from dragoman.formats.importers.vercel.parts import LIBRARY, PartMetadata
from dragoman.formats.reading.fields import Fields, iter_fields, list_inside, typed_errors
from dragoman.formats.reading.turns import Turns

FORMAT = "vercel-model"
_ROLES = {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL}


@typed_errors
def from_vercel_model(document: Any) -> list[Message]:
    """Read a list of messages, an object with one as ``messages``, or a single message. Raises FormatError."""
    data, at = list_inside(parse_json_or_lines(document, format_name=FORMAT), "messages", FORMAT)
    turns = Turns()
    for message in iter_fields(data, FORMAT, at):
        _MessageReader(message, turns).read()
    return turns.messages


class _MessageReader:
    def __init__(self, message: Fields, turns: Turns) -> None:
        self._message = message
        self._turns = turns
        self._model: dict[str, Any] = {}
        self._server_calls: set[str] = set()

    def read(self) -> None:
        message = self._message
        word = message.required_text("role")
        if word not in _ROLES:
            raise FormatError(f"unknown role {word[:80]!r}", path=f"{message.path}.role")
        role = _ROLES[word]
        message.ignore("id")
        content = message.look("content")
        self._turns.start(role, has_results=role is Role.TOOL)
        if isinstance(content, str):
            blocks: list[ContentBlock] = text_blocks(message.text("content"))
        else:
            blocks = [block for part in message.objects("content") for block in self._part(part)]
        metadata = parts.name_model(self._model) if role is Role.ASSISTANT else None
        self._turns.add(role, blocks, message.path, metadata=metadata)

    def _part(self, part: Fields) -> list[ContentBlock]:
        kind = part.text("type") or ""
        if kind == "custom":
            return self._custom(part)
        metadata = PartMetadata(part, "providerOptions", "providerMetadata")
        if metadata.provider is not None:
            self._model.setdefault("provider", metadata.provider)
        match kind:
            case "text":
                block = parts.read_text(part.text("text") or "", metadata, part)
                return [block] if block is not None else []
            case "reasoning":
                return [parts.read_reasoning(part.text("text") or "", metadata)]
            case "image" | "file":
                return list(parts.read_file(part, "image", "data"))
            case "tool-call":
                return [self._call(part)]
            case "tool-result":
                return [self._result(part)]
            case _:
                return [provider_block(LIBRARY, kind, part.whole())]

    def _custom(self, part: Fields) -> list[ContentBlock]:
        """A part of version 7 with what a provider's stream began with: only its model is of interest."""
        named = model_of_custom(part)
        if named is None:
            return [provider_block(LIBRARY, "custom", part.whole())]
        self._model.update(named)
        return []

    def _call(self, part: Fields) -> ContentBlock:
        native_id = part.text("toolCallId")
        name = part.required_text("toolName")
        if part.flag("providerExecuted"):
            self._server_calls.add(native_id or name)
            return provider_block(LIBRARY, name, part.whole())
        return self._turns.call(native_id, name, part.take("input", "args"))

    def _result(self, part: Fields) -> ContentBlock:
        native_id, name = part.text("toolCallId"), part.text("toolName")
        if part.flag("providerExecuted") or (native_id or name) in self._server_calls:
            return provider_block(LIBRARY, f"{name}_result", part.whole())
        output = part.look("output")
        if isinstance(output, dict) and "type" in output:
            inner = part.object("output")
            assert inner is not None
            content, failed = parts.read_output(inner)
        else:
            content, failed = text_blocks(part.take("output", "result")), part.flag("isError")
        return self._turns.result(native_id, name, content, is_error=failed)


def model_of_custom(part: Fields) -> dict[str, Any] | None:
    """Return provider and model of a ``message_start`` part; None for other custom parts."""
    kind = part.look("kind")
    if not isinstance(kind, str) or not kind.endswith(".message_start"):
        return None
    provider = kind.partition(".")[0]
    metadata = part.look("providerOptions") or part.look("providerMetadata")
    inner = metadata.get(provider) if isinstance(metadata, dict) else None
    name = inner.get("model") if isinstance(inner, dict) else None
    part.whole()
    return model_fields_of(LIBRARY, provider, name if isinstance(name, str) else None)
