"""Documents of simonw/llm: a response as `Response.to_dict` writes it, rows of `llm logs --json`, and the report that
`llm logs` prints, as such rows.

The report has no escape: a line of a text that looks like a heading of its next section begins that section. Sections
are looked for in the order in which llm prints them. Source: llm/cli.py, 0.36.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import from_json

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import ContentBlock, RedactedThinkingBlock, ThinkingBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import Usage
from dragoman.formats.document import decode_text, parse, parse_or_none, text_in
from dragoman.formats.errors import FormatError
from dragoman.formats.native import read_reply
from dragoman.formats.reading.blocks import build_usage, count_of, provider_block, read_media, text_blocks, to_text
from dragoman.formats.reading.fields import (
    Fields,
    drop_tools,
    is_count,
    is_empty,
    iter_fields,
    source_losses,
    typed_errors,
    words_of,
)
from dragoman.formats.reading.turns import Turns, read_time
from dragoman.formats.results import Conversation

_ENTRY = re.compile(
    r"^# (?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)"
    r"(?:    conversation: (?P<conversation>\S+) id: (?P<id>\S+))?\n"
    r"(?:\nModel: \*\*(?P<model>.*?)\*\*(?: \(resolved: \*\*(?P<resolved>.*?)\*\*\))?\n)?\n?## Prompt\n\n",
    re.MULTILINE,
)
_HEADINGS = (
    "### Prompt fragments", "## Options", "## System", "### System fragments", "## Schema", "### Tools",
    "### Tool results", "### Attachments", "## Reasoning", "## Response",
)  # fmt: skip
"""The headings after the prompt, in the order of the report."""
_ITEM = re.compile(r"^- \*\*(?P<name>.*?)\*\*: `(?P<id>.*?)`  \n", re.MULTILINE)
_INDENT = "    "
_KEY = re.compile(r"    ([^\n`]*):\Z")
_FENCE = re.compile(r"    `{3,}\Z")
_INLINE = re.compile(r"    (?P<key>[^\n`]*): (?P<mark>`{1,9})(?P<value>.*)(?P=mark)\Z")
_ERROR = re.compile(r"^    \*\*Error\*\*: (?P<error>.*)$", re.MULTILINE)
_ATTACHMENT = re.compile(r"^\d+\. \*\*(?P<type>.*?)\*\*: (?:`(?P<path>.*?)`|(?P<url>\S+))$", re.MULTILINE)
_THOUGHT = ("<details><summary>Reasoning trace</summary>\n\n", "\n\n</details>")
_USAGE = "\n## Token usage\n\n"
_NOTHING = "-- none --"
_START = re.compile(r"# \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:    conversation: |\n)")

Row = dict[str, Any]
FORMAT = "llm-json"


def is_report(text: str) -> bool:
    """Whether a text begins as a report of llm does."""
    return _START.match(text) is not None


def read_rows(document: str | bytes) -> list[Row]:
    """Return the rows of a report. Raises FormatError if it has none."""
    text = decode_text(document).replace("\r\n", "\n")
    entries = list(_ENTRY.finditer(text))
    if not entries or text[: entries[0].start()].strip():
        raise FormatError("this is not a report of llm: it must begin with the time and the model of a response")
    reason = "a report of llm has no escape: what looks like a heading in a text is read as one"
    source_losses().add_info("$", reason, LossKind.FLATTENED)
    rows: list[Row] = []
    system: str | None = None
    for number, entry in enumerate(entries):
        end = entries[number + 1].start() if number + 1 < len(entries) else len(text)
        row = _row(entry, text[entry.end() : end])
        system = row["system"] = row["system"] or system  # printed when it changes
        if rows and row["conversation_id"] is None:  # printed once, if the report is of one conversation
            row |= {name: rows[-1][name] for name in ("conversation_id", "model", "resolved_model")}
        rows.append(row)
    return rows


def _row(entry: re.Match[str], text: str) -> Row:
    sections = _sections(text)
    prompt, reply = sections.pop("", ""), sections.pop("## Response", "")
    response = reply[: reply.rfind(_USAGE)] if _USAGE in reply else reply
    calls: list[Row] = []
    if response.startswith("### Tool calls\n\n"):
        body, _, response = response.removeprefix("### Tool calls\n\n").partition("\n\n")
        calls = [_report_call(name, item) for name, item in _items(body)]
    thought = sections.pop("## Reasoning", "").removeprefix(_THOUGHT[0]).removesuffix(_THOUGHT[1])
    attachments = sections.pop("### Attachments", "")
    return {
        "id": entry["id"],
        "conversation_id": entry["conversation"],
        "model": entry["model"],
        "resolved_model": entry["resolved"],
        "datetime_utc": entry["time"],
        "prompt": "" if prompt == _NOTHING else prompt,
        "system": sections.pop("## System", None),
        "response": response,
        "reasoning": thought or None,
        "tool_calls": calls,
        "tool_results": [_report_result(name, item) for name, item in _items(sections.pop("### Tool results", ""))],
        "tools": sections.pop("### Tools", None),
        "attachments": [
            {name: value for name, value in found.groupdict().items() if value is not None}
            for found in _ATTACHMENT.finditer(attachments)
        ],
        "options": sections.pop("## Options", None),
        "schema_json": sections.pop("## Schema", None),
        **{name.removeprefix("### ").lower().replace(" ", "_"): text for name, text in sections.items()},
    }


def _sections(text: str) -> dict[str, str]:
    """Return the texts of an entry by heading. The prompt, which comes first, has an empty one."""
    found: dict[str, str] = {}
    name, position = "", 0
    for heading in _HEADINGS:
        mark = f"\n{heading}\n"
        start = text.find(mark, max(position - 1, 0))
        if start < 0:
            continue
        found[name] = text[position:start].strip("\n")
        name, position = heading, start + len(mark)
    rest = text[position:].removeprefix("\n")
    found[name] = rest.rstrip("\n") if name == "## Response" else rest.strip("\n")
    return found


def _items(text: str) -> list[tuple[re.Match[str], str]]:
    found = list(_ITEM.finditer(text))
    ends = [each.start() for each in found[1:]]
    return [(each, text[each.end() : end]) for each, end in zip(found, [*ends, len(text)], strict=False)]


def _report_call(name: re.Match[str], text: str) -> Row:
    arguments: Row = {}
    for key, value, is_text in _values(text):
        if is_text:
            arguments[key] = value
        elif key == "Arguments":
            arguments |= _json(value) if isinstance(_json(value), dict) else {}
        else:
            arguments[key] = _json(value)
    return {"name": name["name"], "tool_call_id": _id(name), "arguments": arguments}


def _report_result(name: re.Match[str], text: str) -> Row:
    error = _ERROR.search(text)
    output = next((value for _, value, is_text in _values(text) if is_text), "")
    failure = error["error"] if error else None
    return {"name": name["name"], "tool_call_id": _id(name), "output": output, "exception": failure}


def _values(text: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the values of an item with their names: texts between fences, and JSON between back quotes."""
    lines = text.split("\n")
    places: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        if _FENCE.match(line):
            places.setdefault(line, []).append(index)
    index, key = 0, ""
    while index < len(lines):
        line = lines[index]
        later = places.get(line, [])
        closing = later[position] if (position := bisect_right(later, index)) < len(later) else None
        if closing is not None:
            yield key, "\n".join(each.removeprefix(_INDENT) for each in lines[index + 1 : closing]), True
            index, key = closing, ""
        elif (inline := _INLINE.match(line)) is not None:
            yield inline["key"], inline["value"].strip(" "), False
        elif (named := _KEY.match(line)) is not None:
            key = named[1]
        index += 1


def _id(name: re.Match[str]) -> str | None:
    return None if name["id"] == "None" else name["id"]


def _json(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return text


@typed_errors
def from_llm_json(document: Any) -> list[Conversation]:
    """Return the conversation of a response, or each conversation in the rows of a log. Raises FormatError."""
    is_text = isinstance(document, (str, bytes, bytearray))
    data = read_rows(document) if is_text and is_report(decode_text(document)) else parse(document, format_name=FORMAT)
    if isinstance(data, dict) and isinstance(data.get("prompt"), dict):
        return [Conversation(to_text(fields.look("id")) or "1", _response(fields))
                for fields in iter_fields(data, FORMAT)]  # fmt: skip
    readers: dict[str, RowReader] = {}
    for row in iter_fields(data, FORMAT):
        name = row.text("conversation_id") or row.text("id") or "1"
        readers.setdefault(name, RowReader(name)).add(row)
    return [Conversation(name, reader.turns.messages) for name, reader in readers.items()]


def _response(fields: Fields) -> list[Message]:
    """Return the chain of messages that was sent, and the reply."""
    turns = Turns()
    prompt = fields.inner("prompt")
    for message in prompt.objects("messages"):
        _message(message, turns, {"model": full_model(fields.look("model"))})
    prompt.ignore("system", "prompt", "attachments", "fragments", "system_fragments")  # parts of the messages
    drop_tools(prompt)
    usage = fields.inner("usage")
    metadata = {
        "model": full_model(fields.take("model", "resolved_model")),
        "usage": read_usage(usage.take("input"), usage.take("output"), usage.take("details")),
    }
    time = read_time(fields.take("datetime_utc"))
    replies = fields.objects("messages")
    for number, message in enumerate(replies, 1):
        _message(message, turns, metadata if number == len(replies) else {"model": metadata["model"]}, time)
    fields.skip("row")
    return turns.messages


def _message(message: Fields, turns: Turns, metadata: Mapping[str, Any], time: Any = None) -> None:
    role = message.role()
    parts = message.objects("parts")
    turns.start(role, has_results=any(part.look("type") == "tool_result" for part in parts))
    blocks = [block for part in parts for block in read_part(part, turns)]
    turns.add(role, blocks, message.path, metadata=metadata if role is Role.ASSISTANT else None, created_at=time)


def read_part(part: Fields, turns: Turns) -> list[ContentBlock]:
    """Return the blocks of a part of a message, as the documents and the tables of llm have it."""
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
    data = content if isinstance(content, str) else None
    if (block := read_media(media_type, data=data, url=url, path=path)) is not None:
        return [block]
    source_losses().add(attachment.path, "the log was written without the attachment's content", kind=LossKind.MEDIA)
    return []


class RowReader:
    """Reads the rows of one conversation: each holds what a turn added, and the reply."""

    def __init__(self, name: str) -> None:
        self.turns = Turns(name)
        self._system: str | None = None

    def add(self, row: Fields, **counts: Any) -> None:
        """Add a row; ``counts`` are further fields of the usage."""
        time = read_time(row.take("datetime_utc"))
        system = "\n".join(filter(None, [*_fragments(row, "system_fragments"), row.text("system")]))
        if system and system != self._system:
            self.turns.add(Role.SYSTEM, text_blocks(system), f"{row.path}.system", created_at=time)
            self._system = system
        results = [each for each in row.objects("tool_results") if not _is_server_executed(each)]
        for each in results:
            self.turns.add(Role.TOOL, [_result(each, self.turns)], each.path, created_at=time)
        prompt = text_blocks("\n".join(filter(None, [*_fragments(row, "prompt_fragments"), row.text("prompt")])))
        prompt += [block for each in row.objects("attachments") for block in _attachment(each)]
        if prompt or not results:
            self.turns.start(Role.USER)
            self.turns.add(Role.USER, prompt, row.path, created_at=time)
        self.turns.start(Role.ASSISTANT)
        native = row.take("response_json")
        text, reasoning = row.text("response"), row.text("reasoning")
        blocks: list[ContentBlock] = [ThinkingBlock(text=reasoning)] if reasoning else []
        blocks = read_native_reply(native, f"{row.path}.response_json") or [*blocks, *text_blocks(text)]
        calls = [call for call in row.objects("tool_calls") if not _is_server_executed(call)]
        for call in calls:
            call.ignore("id", "tool_id")
            name = call.required_text("name")
            blocks.append(self.turns.call(call.text("tool_call_id"), name, call.take("arguments")))
        model = full_model(row.take("resolved_model", "model"), None)
        tokens = row.take("input_tokens"), row.take("output_tokens"), row.take("token_details")
        metadata = {"model": model, "usage": read_usage(*tokens, **counts)}
        self.turns.add(Role.ASSISTANT, blocks, f"{row.path}.response", metadata=metadata, created_at=time)
        row.ignore("prompt_json")
        row.skip("row")
        drop_tools(row)


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


LIBRARY = "llm"
_PROVIDERS = ("anthropic", "openai", "gemini")


def read_usage(input_tokens: Any, output_tokens: Any, details: Any, **fields: Any) -> Usage | None:
    """Return the usage of a response. The details are those of the provider: Anthropic counts cached tokens apart."""
    prompt, output = (count if is_count(count) else None for count in (input_tokens, output_tokens))
    if prompt is None and output is None:
        return None
    if isinstance(details, str):
        details = parse_or_none(details, format_name=LIBRARY)
    outer = details if isinstance(details, Mapping) else {}
    inputs = _object(outer, "input_tokens_details", "prompt_tokens_details")
    outputs = _object(outer, "output_tokens_details", "completion_tokens_details")
    apart = (count_of(outer, "cache_read_input_tokens") or 0) + (count_of(outer, "cache_creation_input_tokens") or 0)
    return build_usage(
        (prompt or 0) + apart,
        output,
        cached=count_of(outer, "cache_read_input_tokens", "cachedContentTokenCount")
        or count_of(inputs, "cached_tokens"),
        written=count_of(outer, "cache_creation_input_tokens") or count_of(inputs, "cache_write_tokens"),
        reasoning_tokens=count_of(outputs, "reasoning_tokens", "thinking_tokens")
        or count_of(outer, "thoughtsTokenCount"),
        cache_creation_1h_input_tokens=count_of(_object(outer, "cache_creation"), "ephemeral_1h_input_tokens"),
        audio_input_tokens=count_of(inputs, "audio_tokens"),
        audio_output_tokens=count_of(outputs, "audio_tokens"),
        raw=dict(outer),
        **fields,
    )


def read_reasoning(text: str, metadata: Any, path: str, *, is_redacted: bool = False) -> list[ContentBlock]:
    """Return a part with reasoning, signed by the provider that its metadata name."""
    for provider, inner in metadata.items() if isinstance(metadata, Mapping) else ():
        if not isinstance(inner, Mapping):
            source_losses().add_field(path, to_text(provider), LIBRARY)
            continue
        for name, value in inner.items():
            if name not in words_of(LIBRARY).skipped["metadata"] and not is_empty(value):
                source_losses().add_field(f"{path}.{provider}", name, LIBRARY)
    known = metadata.values() if isinstance(metadata, Mapping) else ()
    inner = next((value for value in known if isinstance(value, Mapping)), {})
    sealed = inner.get("data")
    if inner.get("type") == "redacted_thinking" and isinstance(sealed, str):
        return [RedactedThinkingBlock(data=sealed)]
    names = ("signature", "encrypted_content", "thoughtSignature", "thought_signature")
    signature = text_in(*(inner.get(name) for name in names))
    if is_redacted and signature is not None:
        return [*([ThinkingBlock(text=text)] if text else []), ThinkingBlock(signature=signature)]
    return [ThinkingBlock(text=text, signature=signature)] if text or signature else []


def read_native_reply(native: Any, path: str) -> list[ContentBlock]:
    """Return what Anthropic's own reply says, which some logs store next to its text, without its calls.

    It has the signatures, citations and native blocks that the log has no columns for. Empty for other replies.
    """
    if isinstance(native, str):
        native = parse_or_none(native, format_name=LIBRARY)
    if not isinstance(native, Mapping) or native.get("type") != "message" or native.get("role") != "assistant":
        return []
    try:
        reply = read_reply("anthropic", dict(native), path)
    except FormatError:
        reason = "the provider's own reply is stored in a short form: only the columns of the log are read"
        source_losses().add_info(path, reason)
        return []
    return [block for block in reply.content if block.type != "tool_use"]


def full_model(name: Any, metadata: Any = None) -> str | None:
    """Return our name of a model: llm's plugins put the provider before a slash, and OpenAI's models have none."""
    text = to_text(name)
    provider, slash, model = text.partition("/")
    if slash and provider in _PROVIDERS:
        return f"{'google' if provider == 'gemini' else provider}:{model}"
    if isinstance(metadata, Mapping) and "openai" in metadata and text:
        return f"openai:{text}"
    return text or None


def _object(outer: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    return next((value for name in names if isinstance(value := outer.get(name), Mapping)), {})
