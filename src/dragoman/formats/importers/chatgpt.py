"""The export of ChatGPT: ``conversations.json``, in which each conversation is a tree of messages.

The branch that the user saw last is read. A call of one of ChatGPT's own tools is a message of the assistant whose
recipient is the tool. The layout is not documented.
"""

from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import ContentBlock, ThinkingBlock
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import parse
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.blocks import media_block, provider_block, text_blocks, to_text
from dragoman.formats.reading.fields import Fields, RowNames, iter_fields, source_losses, typed_errors
from dragoman.formats.reading.turns import Turns, read_time
from dragoman.formats.reading.words import words_of
from dragoman.formats.results import Conversation

FORMAT = "chatgpt"
_POINTERS = {
    "image_asset_pointer": "image",
    "audio_asset_pointer": "audio",
    "video_container_asset_pointer": "video",
}
_EVERYONE = "all"


@typed_errors
def from_chatgpt(document: Any) -> list[Conversation]:
    """Return each conversation of an export, by its id. Raises FormatError, with a path."""
    names = RowNames()
    found = []
    for native in iter_fields(parse(document, format_name=FORMAT), FORMAT):
        if not isinstance(native.look("mapping"), dict):
            raise FormatError("a conversation of ChatGPT must have a mapping", path=native.path)
        name = names.next(native.look("conversation_id") or native.look("id"))
        found.append(Conversation(name, _ConversationReader(native, name).read()))
        native.skip("settings")
    return found


def _has_content(message: Any) -> bool:
    """Whether a message is more than the hidden ones at the root of each conversation."""
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, dict):
        return False
    parts = content.get("parts")
    return any(content.get(name) for name in ("text", "thoughts", "content")) or any(
        parts if isinstance(parts, list) else ()
    )


class _ConversationReader:
    def __init__(self, native: Fields, name: str) -> None:
        mapping = native.object("mapping")
        assert mapping is not None
        self._nodes = mapping
        self._current = native.text("current_node")
        self._turns = Turns(name)

    def read(self) -> list[Message]:
        nodes = self._branch()
        for node in nodes:
            message = node.object("message")
            if message is not None:
                self._message(message)
        for node in nodes:
            node.ignore("id", "children")
        others = sum(
            isinstance(node, dict) and _has_content(node.get("message")) for node in self._nodes.whole().values()
        ) - sum(_has_content(node.look("message")) for node in nodes)
        if others > 0:
            reason = "other branches of the conversation are left out"
            source_losses().add(self._nodes.path, reason, severity=Severity.INFO)
        return self._turns.messages

    def _branch(self) -> list[Fields]:
        """Return the nodes from the root to the current one. Raises FormatError for a circle or a missing node."""
        name = self._current
        for each, native in self._nodes.whole().items() if name is None else ():
            if isinstance(native, dict) and not native.get("children"):
                name = each  # an export without a current node: the last one without children
        found: dict[str, Fields] = {}
        while name is not None:
            node = self._nodes.object(name)
            if node is None or name in found:
                problem = "is missing" if node is None else "is its own ancestor"
                raise FormatError(f"the node {name[:80]!r} {problem}", path=self._nodes.path)
            found[name] = node
            name = node.text("parent")
        return list(found.values())[::-1]

    def _message(self, message: Fields) -> None:
        author = message.object("author")
        if author is None:
            raise message.fault("author", "is missing")
        role = author.role(words_of(FORMAT).roles)
        content = message.object("content")
        blocks = self._content(content) if content is not None else []
        recipient = message.text("recipient") or _EVERYONE
        self._turns.start(role, has_results=role is Role.TOOL)
        metadata: dict[str, Any] | None = None
        if role is Role.ASSISTANT:
            slug = message.look("metadata")
            model = slug.get("model_slug") if isinstance(slug, dict) else None
            metadata = {"model": model if isinstance(model, str) and model else None}
            if recipient != _EVERYONE:
                arguments = "".join(to_text(getattr(block, "text", "")) for block in blocks)
                blocks = [self._turns.call(None, recipient, arguments)]
        elif role is Role.TOOL:
            blocks = [self._turns.result(None, author.text("name"), blocks)]
        elif not blocks:
            message.ignore("create_time")
            message.skip("message")
            return  # hidden messages without content stand at the root of each conversation
        self._turns.add(
            role, blocks, message.path, metadata=metadata, created_at=read_time(message.take("create_time"))
        )
        message.skip("message")
        author.ignore("name", "metadata")

    def _content(self, content: Fields) -> list[ContentBlock]:
        kind = content.text("content_type") or ""
        match kind:
            case "text" | "multimodal_text":
                return [block for item, path in content.items("parts") for block in self._item(item, path)]
            case "code" | "execution_output" | "system_error" | "tether_quote":
                content.ignore("language", "response_format_name", "name")
                return text_blocks(content.take("text"))
            case "thoughts":
                content.ignore("source_analysis_msg_id")
                thoughts = content.objects("thoughts")
                for thought in thoughts:
                    thought.ignore("summary", "chunks", "finished")
                return [ThinkingBlock(text=to_text(thought.take("content"))) for thought in thoughts]
            case _:
                return [provider_block(FORMAT, kind, content.whole())]

    def _item(self, item: Any, path: str) -> list[ContentBlock]:
        if not isinstance(item, dict):
            return text_blocks(item)
        kind = to_text(item.get("content_type"))
        pointer = item.get("asset_pointer")
        if kind == "audio_transcription":
            return text_blocks(item.get("text"))
        if kind in _POINTERS and isinstance(pointer, str):
            source_losses().add(path, "the export holds the file next to the conversation: only its id is read",
                                kind=LossKind.MEDIA)  # fmt: skip
            return [media_block("file_id", pointer, kind=_POINTERS[kind], owner=FORMAT)]
        return [provider_block(FORMAT, kind, item)]
