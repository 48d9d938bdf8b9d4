"""What each format can carry, found by writing and reading: the table of docs/formats.md.

`python -m tests.unit.formats.loss_table` prints it.
"""

import json
import logging
import sys
from collections.abc import Callable
from typing import Any

from dragoman import Message, Role
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.blocks import (
    AudioBlock,
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    PromptRequestBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.message import Channel, MessageMetadata
from dragoman.canonical.usage import Usage
from dragoman.formats import Conversion, from_message_body, to_message_body
from dragoman.formats.registry import get_format

COLUMNS = (
    "cmf",
    "umf",
    "chatml",
    "acp",
    "message-body",
    "openai-chat",
    "openai",
    "anthropic",
    "google",
    "pydantic-ai",
    "langchain",
    "litellm",
)
NATIVE = frozenset({"openai-chat", "openai", "anthropic", "google"})

CALL = "tu_01M7YJFK7P2ZFT4X2CGGZPP6M5"
_DATA = MediaSource(kind="base64", data="iVBORw0KGgo=")
_URL = MediaSource(kind="url", data="https://example.org/a")
_CITED = (Citation(kind="url", url="https://example.org", title="A"),)

USERS: dict[str, ContentBlock] = {
    "text": TextBlock(text="a"),
    "image": ImageBlock(source=_DATA, media_type="image/png"),
    "image by URL": ImageBlock(source=_URL),
    "image in a workspace": ImageBlock(source=MediaSource(kind="file_ref", data="a.png"), media_type="image/png"),
    "audio": AudioBlock(source=_DATA, media_type="audio/wav"),
    "video": VideoBlock(source=_DATA, media_type="video/mp4"),
    "document": DocumentBlock(source=_DATA, media_type="application/pdf", title="a.pdf"),
    "resource": ResourceBlock(resource_request_id="r", uri="file:///a", resource_type="file", content="a"),
    "reference to a resource": ResourceRefBlock(resource_request_id="r", uri="file:///a", resource_type="file"),
    "prompt request": PromptRequestBlock(prompt_request_id="p", name="greet"),
}
MODELS: dict[str, ContentBlock] = {
    "cited text": TextBlock(text="a", citations=_CITED),
    "call": ToolUseBlock(id=CALL, name="f", input={"a": 1}),
    "call with broken input": ToolUseBlock(id=CALL, name="f", raw_input='{"a'),
    "thinking": ThinkingBlock(text="Hm."),
    "signed thinking": ThinkingBlock(text="Hm.", signature="c2ln"),
    "redacted thinking": RedactedThinkingBlock(data="c2VhbA=="),
    "native block of another": ProviderBlock(provider="mistral", kind="theirs", data={"a": 1}),
}
RESULTS: dict[str, ToolResultBlock] = {
    "result": ToolResultBlock(tool_use_id=CALL, content="a"),
    "failed result": ToolResultBlock(tool_use_id=CALL, content="a", is_error=True),
    "result with an image": ToolResultBlock(
        tool_use_id=CALL, content=(TextBlock(text="a"), ImageBlock(source=_DATA, media_type="image/png"))
    ),
}


def cell(column: str, history: list[Message], index: int, found: Callable[[Message], Any]) -> str:
    """Return what a format keeps of a block or field: yes, extension (only Dragoman reads it), in part, as text, no."""
    written, back = _round_trip(column, history)
    wanted = found(history[index])
    values = [value for message in back if (value := found(message)) is not None]
    lost = any(loss.message_id == history[index].id for loss in written.losses)
    if wanted in values:
        return "extension" if lost and column == "cmf" else "yes"
    if isinstance(wanted, Role):
        return f"as {values[index]}"
    if not hasattr(wanted, "type"):
        return "no"
    if any(value.type == wanted.type for value in values):
        return "in part"
    if any(isinstance(value, TextBlock) for value in values):
        return "as text"
    return f"as {values[0].type}" if values else "no"


def _round_trip(column: str, history: list[Message]) -> tuple[Conversion[Any], list[Message]]:
    if column == "message-body":
        bodies = [to_message_body(message) for message in history]
        back = [
            from_message_body(body.data.as_json(), role=each.role) for body, each in zip(bodies, history, strict=True)
        ]
        return Conversion(None, tuple(loss for body in bodies for loss in body.losses)), back
    known = get_format(column)
    assert known.read is not None
    assert known.write is not None
    written = known.write(history, None)
    return written, known.read(written.data if column == "chatml" else json.dumps(written.data), None)


def _first(message: Message) -> ContentBlock | None:
    """The first block, with the ids that it had before those of a document."""
    block = message.content[0] if message.content else None
    if isinstance(block, ToolUseBlock):
        return block.model_copy(update={"id": CALL})
    if isinstance(block, ToolResultBlock):
        return block.model_copy(update={"tool_use_id": CALL})
    return block


def rows() -> dict[str, list[str]]:
    """The cells of each row, in the order of the columns."""
    table: dict[str, list[str]] = {}

    def add(
        name: str, make_history: Callable[[str], tuple[list[Message], int]], found: Callable[[Message], Any]
    ) -> None:
        table[name] = [cell(column, *make_history(column), found) for column in COLUMNS]

    for name, block in USERS.items():
        add(name, lambda _, block=block: ([Message.user([block])], 0), _first)  # type: ignore[misc]
    for name, block in MODELS.items():
        add(name, lambda column, block=block: ([Message.user("b"), _reply_of(column, block)], 1), _models)  # type: ignore[misc]
    for name, result in RESULTS.items():
        add(name, lambda column, result=result: _answered_history(column, result), _results)  # type: ignore[misc]
    add("role developer", lambda _: ([Message.developer("a"), Message.user("b")], 0), lambda message: message.role)
    add(
        "channel",
        lambda column: ([_reply_of(column, TextBlock(text="a"), Channel.FINAL)], 0),
        lambda each: each.channel,
    )
    add("model and usage", lambda column: ([_reply_of(column, TextBlock(text="a"))], 0), _model_and_usage)
    return table


def _models(message: Message) -> ContentBlock | None:
    return _first(message) if message.role is Role.ASSISTANT else None


def _results(message: Message) -> ContentBlock | None:
    return next((block.model_copy(update={"tool_use_id": CALL}) for block in message.tool_results), None)


def _model_and_usage(message: Message) -> Any:
    usage = message.metadata.usage
    return None if usage is None else (message.metadata.model, usage.input_tokens, usage.output_tokens)


def _answered_history(column: str, result: ToolResultBlock) -> tuple[list[Message], int]:
    metadata = MessageMetadata(parent_tool_use_id=CALL)
    answer = Message(role=Role.TOOL, content=(result,), metadata=metadata)
    return [Message.user("b"), _reply_of(column, ToolUseBlock(id=CALL, name="f")), answer], 2


def _reply_of(column: str, block: ContentBlock, channel: Channel | None = None) -> Message:
    """A reply of the model of the list, for provider formats."""
    named = get_adapter(f"{column}:any").listed_models[0] if column in NATIVE else "claude-opus-5-5"
    provider = column if column in NATIVE else "anthropic"
    metadata = MessageMetadata(
        model=f"{provider}:{named}", provider=provider, usage=Usage(input_tokens=3, output_tokens=2)
    )
    return Message.assistant([block], metadata=metadata, channel=channel)


def table() -> str:
    """As it is in the page."""
    lines = ["| | " + " | ".join(COLUMNS) + " |", "| --- |" + " --- |" * len(COLUMNS)]
    lines += [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows().items()]
    return "\n".join(lines)


if __name__ == "__main__":
    logging.getLogger("dragoman").setLevel(logging.CRITICAL)
    sys.stdout.write(table() + "\n")
