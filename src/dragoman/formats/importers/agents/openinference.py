"""Spans with the conventions of OpenInference: the calls of a model.

A span repeats the messages in flat attributes, and has the request and the reply as they were sent. The latter say
more and are read if a known API or LangChain wrote them. A span that continues an earlier one replaces it.
Source: https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md.
"""

from typing import Any

from dragoman.canonical.blocks import ContentBlock, MediaSource, ThinkingBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import Usage
from dragoman.formats.document import kind_of, parse_json_or_lines, parse_or_none
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.blocks import (
    build_usage,
    count_of,
    media_block,
    media_from_url,
    model_fields_of,
    provider_block,
    text_blocks,
    to_text,
)
from dragoman.formats.importers.datasets.rows import read_request
from dragoman.formats.importers.langchain.messages import from_langchain
from dragoman.formats.native import read_reply
from dragoman.formats.reading.fields import ROLES, Fields, typed_errors
from dragoman.formats.reading.losses import is_empty, source_losses
from dragoman.formats.reading.spans import attributes_of, iter_spans, nest, report_span
from dragoman.formats.reading.turns import Turns, read_time
from dragoman.formats.results import Conversation

FORMAT = "openinference"
KIND = "openinference.span.kind"

_ROLES = {**ROLES, "human": Role.USER, "ai": Role.ASSISTANT, "model": Role.ASSISTANT, "function": Role.TOOL}
_PREFIXES = (
    "llm.", "input.", "output.", "openinference.", "metadata", "session.", "user.", "tag.", "tool.", "agent.", "graph.",
    "service.", "prompt.",
)  # fmt: skip
_REPLIES = {"chat.completion": "openai-chat", "response": "openai"}


@typed_errors
def from_openinference(document: Any) -> list[Conversation]:
    """Return the conversations in the spans of models. Raises FormatError, with a path, if there are none."""
    data = parse_json_or_lines(document, format_name=FORMAT)
    found: dict[int, tuple[str, list[Message]]] = {}
    for span, path in iter_spans(data, "$"):
        attributes = attributes_of(span.get("attributes"))
        if attributes.get(KIND) not in ("LLM", None) or not any(
            name.startswith(("llm.input_messages.", "llm.output_messages.", "llm.model_name")) for name in attributes
        ):
            continue
        report_span(span, path, FORMAT)
        for name, value in attributes.items():
            if not name.startswith(_PREFIXES) and not is_empty(value):
                source_losses().add_field(f"{path}.attributes", name, FORMAT)
        raw = _read_raw(attributes, f"{path}.attributes")
        messages = raw if raw is not None else _Attributes(span, attributes, f"{path}.attributes").read()
        keys = _prefixes(messages)
        earlier = next((key for key in reversed(keys) if key in found), None)
        if earlier is not None:
            found.pop(earlier)
        found[keys[-1]] = (to_text(attributes.get("session.id")) or str(len(found) + 1), messages)
    if not found:
        raise FormatError("no span is one of a model with messages")
    names: dict[str, int] = {}
    read = []
    for name, messages in found.values():
        names[name] = names.get(name, 0) + 1
        read.append(Conversation(name if names[name] == 1 else f"{name}-{names[name]}", messages))
    return read


def _prefixes(messages: list[Message]) -> list[int]:
    """Return a key for each beginning of the list, the empty one first."""
    keys = [0]
    for message in messages:
        calls = tuple((call.name, to_text(call.input)) for call in message.tool_uses)
        keys.append(hash((keys[-1], str(message.role), message.text, calls)))
    return keys


def _json(value: Any) -> Any:
    is_json = isinstance(value, str) and value.startswith(("{", "["))
    return parse_or_none(value, format_name=FORMAT) if is_json else None


def _read_raw(attributes: dict[str, Any], path: str) -> list[Message] | None:
    """Return the messages of a request with its reply; None if no known API and not LangChain wrote them."""
    request, reply = (_json(attributes.get(f"{side}.value")) for side in ("input", "output"))
    if not isinstance(request, dict) or not isinstance(reply, dict):
        return None
    sent, generations = request.get("messages"), reply.get("generations")
    if isinstance(generations, list) and isinstance(sent, list):
        answers = [each["message"] for each in _flat(generations)[:1] if isinstance(each.get("message"), dict)]
        return from_langchain([*_flat(sent), *answers])
    provider = _REPLIES.get(to_text(reply.get("object")))
    if provider is None and reply.get("type") == "message" and isinstance(reply.get("content"), list):
        provider = "anthropic"
    if provider is None or not isinstance(request.get("input" if provider == "openai" else "messages"), (list, str)):
        return None
    model = request.get("model")
    known = {"system", "instructions", "messages", "input", "model"}
    body = {name: value for name, value in request.items() if name in known}
    messages = read_request(provider, body, f"{path}['input.value']")
    return [*messages, read_reply(provider, {"model": model, **reply}, f"{path}['output.value']")]


def _flat(items: list[Any]) -> list[dict[str, Any]]:
    nested = [each for item in items for each in (item if isinstance(item, list) else [item])]
    return [each for each in nested if isinstance(each, dict)]


class _Attributes:
    """Reads a span whose request is not stored: from its flat attributes."""

    def __init__(self, span: dict[str, Any], attributes: dict[str, Any], path: str) -> None:
        self._turns = Turns()
        self._attributes = attributes
        self._path = path
        self._time = read_time(span.get("start_time", span.get("startTimeUnixNano")))

    def read(self) -> list[Message]:
        llm = nest({name: value for name, value in self._attributes.items() if name.startswith("llm.")}).get("llm")
        llm = llm if isinstance(llm, dict) else {}
        for side in ("input_messages", "output_messages"):
            for number, each in enumerate(_listed(llm.get(side))):
                at = f"{self._path}['llm.{side}.{number}']"
                native = each.get("message") if isinstance(each, dict) else None
                if not isinstance(native, dict):
                    raise FormatError(f"a message must be an object, not {kind_of(native)}", path=at)
                fields = Fields(native, f"{at}.message", FORMAT)
                self._message(fields, is_reply=side == "output_messages")
                fields.close()
        return self._turns.messages

    def _message(self, message: Fields, *, is_reply: bool) -> None:
        word = to_text(message.take("role")) or ("assistant" if is_reply else "user")
        role = _ROLES.get(word.lower())
        if role is None:
            raise FormatError(f"unknown role {word[:80]!r}", path=f"{message.path}.role")
        native_id, name = message.text("tool_call_id"), message.text("name")
        self._turns.start(role, has_results=role is Role.TOOL)
        blocks: list[ContentBlock] = []
        for item in _listed(message.take("contents")):
            blocks += self._content(item, message)
        if not blocks:
            blocks += text_blocks(message.take("content"))
        else:
            message.ignore("content")
        for item in _listed(message.take("tool_calls")):
            call = item.get("tool_call") if isinstance(item, dict) else None
            if isinstance(call, dict):
                blocks.append(self._call(message.adopt(call, f"{message.path}.tool_calls")))
        if role is Role.TOOL:
            blocks = [self._turns.result(native_id, name, blocks)]
        metadata = {**self._named(), "usage": self._usage() if is_reply else None} if role is Role.ASSISTANT else None
        self._turns.add(role, blocks, message.path, metadata=metadata, created_at=self._time if is_reply else None)

    def _call(self, call: Fields) -> ContentBlock:
        native_id, function = call.text("id"), call.object("function")
        if function is None:
            raise call.fault("function", "is missing")
        return self._turns.call(native_id, function.required_text("name"), function.take("arguments"))

    def _content(self, item: Any, message: Fields) -> list[ContentBlock]:
        native = item.get("message_content") if isinstance(item, dict) else None
        if not isinstance(native, dict):
            return []  # a call, which is among the calls as well
        part = message.adopt(native, f"{message.path}.contents")
        match part.take("type"):
            case "text" | None:
                return text_blocks(part.take("text"))
            case "reasoning":
                return [ThinkingBlock(text=to_text(part.take("text", "reasoning")), signature=part.text("signature"))]
            case "image":
                url = ((part.take("image") or {}).get("image") or {}).get("url")
                return [media_from_url(url, kind="image")] if isinstance(url, str) else []
            case "audio":
                audio = (part.take("audio") or {}).get("audio") or {}
                return [media_block(MediaSource(kind="url", data=to_text(audio.get("url"))), audio.get("mime_type"),
                                    kind="audio")]  # fmt: skip
            case "tool_use":
                part.whole()
                return []
            case other:
                return [provider_block(FORMAT, to_text(other), part.whole())]

    def _named(self) -> dict[str, Any]:
        provider = self._attributes.get("llm.provider") or self._attributes.get("llm.system")
        model = self._attributes.get("llm.model_name")
        known = provider if isinstance(provider, str) else None
        return model_fields_of(FORMAT, known, model if isinstance(model, str) else None)

    def _usage(self) -> Usage | None:
        def count(name: str) -> int | None:
            return count_of(self._attributes, f"llm.token_count.{name}")

        return build_usage(
            count("prompt"),
            count("completion"),
            cached=count("prompt_details.cache_read"),
            written=count("prompt_details.cache_write"),
            reasoning_tokens=count("completion_details.reasoning"),
        )


def _listed(value: Any) -> list[Any]:
    """Return the items of a list, or of an object whose keys are positions."""
    if isinstance(value, dict):
        return [value[key] for key in sorted(value, key=lambda key: (len(key), key)) if key.isdigit()]
    return value if isinstance(value, list) else []
