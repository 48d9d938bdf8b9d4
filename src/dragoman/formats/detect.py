"""Detects the format of a document by features that only one format has. It reads only the first entries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dragoman.formats.chatml import START
from dragoman.formats.document import parse_json_or_lines
from dragoman.formats.errors import FormatError
from dragoman.formats.own_messages import SESSION

_SQLITE = b"SQLite format 3\0"
_HEAD = 100
_MAX_ENTRIES = 50
"""Entries of a list."""

_LANGCHAIN_TYPES = frozenset({"system", "human", "ai", "tool", "function", "chat", "remove"})
_RESPONSES_ITEMS = frozenset({"message", "reasoning", "function_call", "function_call_output", "item_reference"})
_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file", "refusal"})
_ANTHROPIC_PARTS = frozenset({"thinking", "redacted_thinking", "document", "server_tool_use"})
_BEDROCK_PARTS = frozenset({"toolUse", "toolResult", "reasoningContent", "cachePoint"})
_GOOGLE_PARTS = frozenset({"text", "functionCall", "functionResponse", "inlineData", "fileData", "thought"})
_LITELLM_FIELDS = frozenset({"thinking_blocks", "provider_specific_fields"})

Entry = Mapping[str, Any]


def detect(data: Any) -> str | None:
    """Return the name of the format, as for `get_format`, or None.

    A list with nothing but roles and texts fits many formats. It counts as Chat Completions, whose reader reads all of
    them.
    """
    if isinstance(data, (bytes, bytearray)) and bytes(data[: len(_SQLITE)]) == _SQLITE:
        return "llm"
    if isinstance(data, (str, bytes, bytearray)):
        head = data[:_HEAD]
        text = head if isinstance(head, str) else bytes(head).decode(errors="replace")
        start = text.removeprefix("---").lstrip()
        if start.startswith(START):
            return "chatml"
        if start.startswith(("interactions:", "http_interactions:")):
            return "vcr"
    try:
        document = parse_json_or_lines(data, format_name="JSON")
    except FormatError:
        return None
    if isinstance(document, Mapping):
        return _detect_object(document)
    return _detect_list(document) if isinstance(document, (list, tuple)) else None


def _detect_object(document: Entry) -> str | None:
    if SESSION in document:
        return "session"
    if "interactions" in document or "http_interactions" in document:
        return "vcr"
    if "contents" in document:
        return "google"
    if "input" in document:
        return "openai"
    if "choices" in document or ("messages" in document and isinstance(document.get("response"), Mapping)):
        return "litellm"
    if isinstance(document.get("parts"), list) and "role" not in document and "kind" not in document:
        return "message-body"
    entries = document.get("messages")
    if not isinstance(entries, list):
        return _detect_list([document])
    found = _detect_list(entries)
    if found == "openai-chat" and "system" in document:
        first = document["system"]
        is_bedrock = isinstance(first, list) and any(isinstance(each, Mapping) and "type" not in each for each in first)
        return "bedrock" if is_bedrock else "anthropic"
    return found


def _detect_list(document: Sequence[Any]) -> str | None:
    entries = [entry for entry in document[:_MAX_ENTRIES] if isinstance(entry, Mapping)]
    if not entries:
        return None
    for name, matches in _DETECTORS:
        if any(map(matches, entries)):
            has_tool_role = any(entry.get("role") == "tool" for entry in entries)
            return "umf" if name == "anthropic" and has_tool_role else name  # Anthropic's lists do not have this role
    return "openai-chat" if all("role" in entry for entry in entries) else None


def _is_umf_event(entry: Entry) -> bool:
    return "event_type" in entry and "payload" in entry


def _is_pydantic_ai(entry: Entry) -> bool:
    return entry.get("kind") in ("request", "response") and "parts" in entry


def _is_langchain(entry: Entry) -> bool:
    if "lc" in entry:
        return True
    kind = str(entry.get("type")).removesuffix("Chunk")
    named = kind in _LANGCHAIN_TYPES or kind.removesuffix("Message").lower() in _LANGCHAIN_TYPES
    return named and ("data" in entry or "content" in entry) and ("role" not in entry or kind == "chat")


def _is_cmf(entry: Entry) -> bool:
    message = entry.get("message", entry)
    if not isinstance(message, Mapping) or "role" not in message:
        return False
    is_marked = "message" in entry or message.get("schema_version") == "2.0"
    return is_marked or any("content_type" in part for part in _parts(message))


def _is_dragoman(entry: Entry) -> bool:
    return entry.get("schema_version") == 1 and "role" in entry


def _is_acp(entry: Entry) -> bool:
    return "role" in entry and any("content_type" in part for part in _parts(entry, "parts"))


def _is_message_body(entry: Entry) -> bool:
    return "content_type" in entry and "role" not in entry


def _is_google(entry: Entry) -> bool:
    return "role" in entry and any(part.keys() & _GOOGLE_PARTS for part in _parts(entry, "parts"))


def _is_responses(entry: Entry) -> bool:
    if "role" not in entry:
        return entry.get("type") in _RESPONSES_ITEMS
    return any(part.get("type") in _RESPONSES_PARTS for part in _parts(entry))


def _is_litellm(entry: Entry) -> bool:
    return bool(entry.keys() & _LITELLM_FIELDS)


def _is_ollama(entry: Entry) -> bool:
    arguments = (call.get("function") for call in _parts(entry, "tool_calls"))
    has_object_arguments = any(
        isinstance(each, Mapping) and isinstance(each.get("arguments"), Mapping) for each in arguments
    )
    return "role" in entry and (has_object_arguments or "tool_name" in entry or isinstance(entry.get("images"), list))


def _is_bedrock(entry: Entry) -> bool:
    return any(part.keys() & _BEDROCK_PARTS or ("text" in part and "type" not in part) for part in _parts(entry))


def _is_umf(entry: Entry) -> bool:
    metadata = entry.get("metadata")
    noted = isinstance(metadata, Mapping) and metadata and all(isinstance(value, str) for value in metadata.values())
    return "role" in entry and bool(noted)


def _is_cohere(entry: Entry) -> bool:
    return "tool_plan" in entry


def _is_mistral(entry: Entry) -> bool:
    return any(isinstance(part.get("thinking"), list) for part in _parts(entry))


def _is_anthropic(entry: Entry) -> bool:
    for part in _parts(entry):
        kind = part.get("type")
        if kind in _ANTHROPIC_PARTS or kind in ("tool_use", "tool_result") or isinstance(part.get("source"), Mapping):
            return True
    return False


def _parts(entry: Entry, name: str = "content") -> Iterator[Entry]:
    parts = entry.get(name)
    return (part for part in parts if isinstance(part, Mapping)) if isinstance(parts, list) else iter(())


_DETECTORS: tuple[tuple[str, Callable[[Entry], bool]], ...] = (
    ("umf-events", _is_umf_event),
    ("pydantic-ai", _is_pydantic_ai),
    ("langchain", _is_langchain),
    ("messages", _is_dragoman),
    ("cmf", _is_cmf),
    ("acp", _is_acp),
    ("message-body", _is_message_body),
    ("google", _is_google),
    ("openai", _is_responses),
    ("litellm", _is_litellm),
    ("umf", _is_umf),
    ("ollama", _is_ollama),
    ("bedrock", _is_bedrock),
    ("cohere", _is_cohere),
    ("mistral", _is_mistral),
    ("anthropic", _is_anthropic),
)
"""The detectors, in the order in which they are tried."""
