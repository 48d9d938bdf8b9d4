"""The marks of messages of frameworks, protocols and traces in the entries of a list."""

from collections.abc import Mapping

from dragoman.formats.reading.marks import Entry, EntryMark, no_objection, parts_of, role_objection, word
from dragoman.formats.reading.spans import attributes_of

AUTOGEN_TYPES = frozenset(
    {
        "TextMessage", "MultiModalMessage", "StopMessage", "HandoffMessage", "ToolCallSummaryMessage", "ThoughtEvent",
        "ToolCallRequestEvent", "ToolCallExecutionEvent", "MemoryQueryEvent", "UserInputRequestedEvent",
        "ModelClientStreamingChunkEvent", "SelectSpeakerEvent", "SelectorEvent", "CodeGenerationEvent",
        "CodeExecutionEvent", "SystemMessage", "UserMessage", "AssistantMessage", "FunctionExecutionResultMessage",
    }
)  # fmt: skip
"""The types of messages and events, of agents and of models."""
_HAYSTACK_PARTS = frozenset({"text", "tool_call", "tool_call_result", "reasoning", "image", "file"})
_MCP_PARTS = frozenset({"text", "image", "audio", "tool_use", "tool_result", "resource", "resource_link"})
_MCP_MARKS = frozenset({"toolUseId", "mimeType", "_meta", "annotations", "resource"})
_HARMONY_PARTS = frozenset({"system_content", "developer_content"})
_HARMONY_CHANNELS = frozenset({"analysis", "commentary", "final"})


def _is_autogen(entry: Entry) -> bool:
    return word(entry, "type") in AUTOGEN_TYPES and "source" in entry and "content" in entry


def _autogen_objection(entry: Entry) -> str | None:
    known = word(entry, "type") in AUTOGEN_TYPES
    return None if known else f"an entry has the type {str(entry.get('type'))[:40]!r}"


def _is_haystack(entry: Entry) -> bool:
    parts = list(parts_of(entry)) or list(parts_of(entry, "_content"))
    return ("meta" in entry or "_meta" in entry) and any(
        part.keys() & _HAYSTACK_PARTS and "type" not in part for part in parts
    )


def _haystack_objection(entry: Entry) -> str | None:
    if not isinstance(entry.get("role", entry.get("_role")), str):
        return "an entry has no role"
    parts = [*parts_of(entry), *parts_of(entry, "_content")]
    return "a part has a type" if any("type" in part for part in parts) else None


def _is_llama_index(entry: Entry) -> bool:
    return "role" in entry and isinstance(entry.get("blocks"), list) and (
        "additional_kwargs" in entry or any("block_type" in block for block in parts_of(entry, "blocks"))
    )  # fmt: skip


def _llama_index_objection(entry: Entry) -> str | None:
    if (found := role_objection(entry)) is not None:
        return found
    if not isinstance(entry.get("blocks"), list):
        return "an entry has no blocks"
    return None if all("block_type" in block for block in parts_of(entry, "blocks")) else "a block has no type"


def is_google_adk(entry: Entry) -> bool:
    return "author" in entry and ("invocationId" in entry or "invocation_id" in entry)


def _google_adk_objection(entry: Entry) -> str | None:
    return None if is_google_adk(entry) else "an entry has no author"


def _is_harmony(entry: Entry) -> bool:
    kinds = {word(part, "type") for part in parts_of(entry)}
    return "role" in entry and bool(
        kinds & _HARMONY_PARTS or (word(entry, "channel") in _HARMONY_CHANNELS and "schema_version" not in entry)
    )


def _harmony_objection(entry: Entry) -> str | None:
    if word(entry, "role") not in ("system", "developer", "user", "assistant", "tool"):
        return "an entry has none of its roles"
    known = all(word(part, "type") in (*_HARMONY_PARTS, "text") for part in parts_of(entry))
    return None if known else "a part has none of its types"


def _mcp_parts(entry: Entry) -> list[Entry]:
    content = entry.get("content")
    return [content] if isinstance(content, Mapping) else list(parts_of(entry))


def _is_mcp(entry: Entry) -> bool:
    if "role" not in entry:
        return False
    marked = isinstance(entry.get("content"), Mapping) or "stopReason" in entry
    return (marked or any(part.keys() & _MCP_MARKS for part in _mcp_parts(entry))) and not _mcp_objection(entry)


def _mcp_objection(entry: Entry) -> str | None:
    if word(entry, "role") not in ("user", "assistant"):
        return "an entry has none of its roles"
    parts = _mcp_parts(entry)
    if not parts and entry.get("content") != []:
        return "a content is neither a part nor a list of parts"
    for part in parts:
        if word(part, "type") not in _MCP_PARTS or "source" in part or "tool_use_id" in part:
            return f"a part of the type {str(part.get('type'))[:40]!r} is of another format"
    return None


def is_mcp_result(entry: Entry) -> bool:
    """Whether the object is the result of one call of a tool."""
    marks = ("isError", "structuredContent", "resultType")
    return "role" not in entry and isinstance(entry.get("content"), list) and any(name in entry for name in marks)


def _is_langsmith(entry: Entry) -> bool:
    return "run_type" in entry and "inputs" in entry


def _langsmith_objection(entry: Entry) -> str | None:
    return None if _is_langsmith(entry) else "an entry is not a run"


def is_openinference(entry: Entry) -> bool:
    """Whether the entry is a span of OpenInference, without the messages of OpenTelemetry's conventions."""
    names = [str(name) for name in attributes_of(entry.get("attributes"))]
    marked = any(name.startswith(("llm.input_messages", "llm.output_messages", "openinference.")) for name in names)
    return marked and not any(name in ("gen_ai.input.messages", "gen_ai.output.messages") for name in names)


FRAMEWORK_MARKS: tuple[EntryMark, ...] = (
    EntryMark("autogen", _is_autogen, _autogen_objection),
    EntryMark("langsmith", _is_langsmith, _langsmith_objection),
    EntryMark("openinference", is_openinference, no_objection),
    EntryMark("google-adk", is_google_adk, _google_adk_objection),
    EntryMark("llama-index", _is_llama_index, _llama_index_objection),
    EntryMark("haystack", _is_haystack, _haystack_objection),
    EntryMark("harmony", _is_harmony, _harmony_objection),
    EntryMark("mcp", _is_mcp, _mcp_objection),
)
"""The marks, in the order in which they are tried."""
