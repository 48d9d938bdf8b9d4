"""Documents of simonw/llm: a response as `Response.to_dict` writes it, rows of `llm logs --json`, and the report of
`llm logs`.
"""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import ContentBlock, MediaSource, TextBlock, ThinkingBlock
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import decode_text, parse
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.blocks import media_block, media_from_url, provider_block, text_blocks, to_text
from dragoman.formats.importers.conversation import Conversation
from dragoman.formats.importers.datasets.rows import drop_tools
from dragoman.formats.importers.llm.markdown import is_report, read_rows
from dragoman.formats.importers.llm.parts import LIBRARY, full_model, read_native_reply, read_reasoning, read_usage
from dragoman.formats.reading.fields import Fields, iter_fields, typed_errors
from dragoman.formats.reading.losses import source_losses
from dragoman.formats.reading.turns import Turns, read_time

FORMAT = "llm-json"
_SHOWN = ("id", "conversation_name", "conversation_model", "options_json", "options", "schema_json", "duration_ms")


@typed_errors
def from_llm_json(document: Any) -> list[Conversation]:
    """Return the conversation of a response, or each conversation in the rows of a log. Raises FormatError."""
    is_text = isinstance(document, (str, bytes, bytearray))
    data = read_rows(document) if is_text and is_report(decode_text(document)) else parse(document, format_name=FORMAT)
    if isinstance(data, dict) and isinstance(data.get("prompt"), dict):
        return [Conversation(to_text(fields.look("id")) or "1", _response(fields))
                for fields in iter_fields(data, FORMAT)]  # fmt: skip
    readers: dict[str, _LogReader] = {}
    for row in iter_fields(data, FORMAT):
        name = row.text("conversation_id") or row.text("id") or "1"
        readers.setdefault(name, _LogReader(name)).add(row)
    return [Conversation(name, reader.turns.messages) for name, reader in readers.items()]


def _response(fields: Fields) -> list[Message]:
    """Return the chain of messages that was sent, and the reply."""
    turns = Turns()
    prompt = fields.object("prompt")
    assert prompt is not None
    for message in prompt.objects("messages"):
        _message(message, turns, {"model": full_model(fields.look("model"))})
    prompt.ignore("system", "prompt", "attachments", "fragments", "system_fragments")  # parts of the messages
    drop_tools(prompt)
    usage = fields.object("usage")
    metadata = {
        "model": full_model(fields.take("model", "resolved_model")),
        "usage": read_usage(usage.take("input"), usage.take("output"), usage.take("details")) if usage else None,
    }
    time = read_time(fields.take("datetime_utc"))
    replies = fields.objects("messages")
    for number, message in enumerate(replies, 1):
        _message(message, turns, metadata if number == len(replies) else {"model": metadata["model"]}, time)
    fields.ignore(*_SHOWN)
    return turns.messages


def _message(message: Fields, turns: Turns, metadata: Mapping[str, Any], time: Any = None) -> None:
    word = message.required_text("role")
    roles = {str(role): role for role in Role}
    if word not in roles:
        raise FormatError(f"unknown role {word[:80]!r}", path=f"{message.path}.role")
    role = roles[word]
    parts = message.objects("parts")
    turns.start(role, has_results=any(part.look("type") == "tool_result" for part in parts))
    blocks = [block for part in parts for block in _part(part, turns)]
    turns.add(role, blocks, message.path, metadata=metadata if role is Role.ASSISTANT else None, created_at=time)


def _part(part: Fields, turns: Turns) -> list[ContentBlock]:
    kind = part.text("type") or ""
    if part.look("server_executed") is True:
        return [provider_block(LIBRARY, kind, part.whole())]
    part.ignore("server_executed")
    match kind:
        case "text":
            return text_blocks(part.text("text"))
        case "reasoning":
            part.ignore("token_count")
            return read_reasoning(part.text("text") or "", part.take("provider_metadata"),
                                  f"{part.path}.provider_metadata", is_redacted=part.flag("redacted"))  # fmt: skip
        case "tool_call":
            name = part.required_text("name")
            return [turns.call(part.text("tool_call_id"), name, part.take("arguments"))]
        case "tool_result":
            return [_result(part, turns)]
        case "attachment":
            attachment = part.object("attachment")
            return _attachment(attachment) if attachment is not None else []
        case _:
            return [provider_block(LIBRARY, kind, part.whole())]


def _result(result: Fields, turns: Turns) -> ContentBlock:
    result.ignore("id", "tool_id", "instance")
    attached = [block for each in result.objects("attachments") for block in _attachment(each)]
    content = [*text_blocks(result.take("output")), *attached]
    failed = result.take("exception") is not None
    return turns.result(result.text("tool_call_id"), result.text("name"), content, is_error=failed)


def _attachment(attachment: Fields) -> list[ContentBlock]:
    """Return the attachment. `llm logs` only says that it has content."""
    media_type = attachment.text("type")
    attachment.ignore("id", "content_length")
    content, url, path = attachment.take("content"), attachment.text("url"), attachment.text("path")
    if isinstance(content, str):
        return [media_block(MediaSource(kind="base64", data=content), media_type)]
    if url is not None:
        return [media_from_url(url, media_type)]
    if path is not None:
        return [media_block(MediaSource(kind="file_ref", data=path), media_type)]
    source_losses().add(attachment.path, "the log was written without the attachment's content", kind=LossKind.MEDIA)
    return []


class _LogReader:
    """Reads the rows of one conversation: each holds what a turn added, and the reply."""

    def __init__(self, name: str) -> None:
        self.turns = Turns(name)
        self._system: str | None = None

    def add(self, row: Fields) -> None:
        time = read_time(row.take("datetime_utc"))
        system = "\n".join(filter(None, [*_fragments(row, "system_fragments"), row.text("system")]))
        if system and system != self._system:
            self.turns.add(Role.SYSTEM, text_blocks(system), f"{row.path}.system", created_at=time)
            self._system = system
        results = [each for each in row.objects("tool_results") if not _is_server_executed(each)]
        for each in results:
            block = _result(each, self.turns)
            self.turns.add(Role.TOOL, [block], each.path, created_at=time)
        prompt = text_blocks("\n".join(filter(None, [*_fragments(row, "prompt_fragments"), row.text("prompt")])))
        prompt += [block for each in row.objects("attachments") for block in _attachment(each)]
        if prompt or not results:
            self.turns.start(Role.USER)
            self.turns.add(Role.USER, prompt, row.path, created_at=time)
        self._reply(row, time)
        row.ignore("id", "prompt_json", *_SHOWN)
        drop_tools(row)

    def _reply(self, row: Fields, time: Any) -> None:
        self.turns.start(Role.ASSISTANT)
        native = row.take("response_json")
        text, reasoning = row.text("response"), row.text("reasoning")
        blocks: list[ContentBlock] = [ThinkingBlock(text=reasoning)] if reasoning else []
        if text:
            blocks.append(TextBlock(text=text))
        blocks = read_native_reply(native, f"{row.path}.response_json") or blocks
        calls = [call for call in row.objects("tool_calls") if not _is_server_executed(call)]
        for call in calls:
            call.ignore("id", "tool_id")
            name = call.required_text("name")
            blocks.append(self.turns.call(call.text("tool_call_id"), name, call.take("arguments")))
        model = full_model(row.take("resolved_model", "model"), None)
        usage = read_usage(row.take("input_tokens"), row.take("output_tokens"), row.take("token_details"))
        metadata = {"model": model, "usage": usage}
        self.turns.add(Role.ASSISTANT, blocks, f"{row.path}.response", metadata=metadata, created_at=time)


def _is_server_executed(fields: Fields) -> bool:
    """Whether the provider ran the tool: its call and result are in its own reply."""
    if fields.take("server_executed") is not True:
        return False
    fields.whole()
    return True


def _fragments(row: Fields, name: str) -> list[str]:
    found = []
    for fragment in row.objects(name):
        fragment.ignore("hash", "id", "source", "aliases", "datetime_utc")
        found.append(fragment.text("content") or "")
    return found
