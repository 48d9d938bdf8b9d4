"""The marks of formats in the entries of a list: a feature that only one format has, and what a format cannot have."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.formats.importers.traces import attributes_of

Entry = Mapping[str, Any]
Mark = Callable[[Entry], bool]
Objection = Callable[[Entry], str | None]
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
_LANGCHAIN_TYPES = frozenset({"system", "human", "ai", "tool", "function", "chat", "remove"})
_RESPONSES_ITEMS = frozenset({"message", "reasoning", "function_call", "function_call_output", "item_reference"})
_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file", "refusal"})
_ANTHROPIC_PARTS = frozenset({"thinking", "redacted_thinking", "document", "server_tool_use"})
_BEDROCK_PARTS = frozenset({"toolUse", "toolResult", "reasoningContent", "cachePoint"})
_BEDROCK_MEDIA = frozenset(
    {"text", "image", "document", "video", "audio", "guardContent", "citationsContent", "searchResult"}
)
_GOOGLE_PARTS = frozenset({"text", "functionCall", "functionResponse", "inlineData", "fileData", "thought",
                           "thoughtSignature", "executableCode", "codeExecutionResult"})  # fmt: skip
_GOOGLE_ROLES = frozenset({"user", "model", "function", "tool", "system"})
_LITELLM_FIELDS = frozenset({"thinking_blocks", "provider_specific_fields"})
_CHAT_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_CHAT_PARTS = frozenset(
    {
        "text",
        "image_url",
        "input_audio",
        "file",
        "refusal",
        "thinking",
        "video_url",
        "document_url",
        "reference",
        "image",
    }
)
_FOREIGN_FIELDS = frozenset({"parts", "blocks", "kind", "meta", "channel", "recipient", "additional_kwargs", "source"})
"""Fields in which other libraries keep content or calls. A list for Chat Completions has none of them."""
_CALL_FIELDS = ("tool_calls", "function_call", "refusal")
_UI_PARTS = frozenset(
    {"text", "reasoning", "file", "source-url", "source-document", "step-start", "dynamic-tool", "custom"}
)
_MODEL_PARTS = frozenset({"text", "image", "file", "reasoning", "tool-call", "tool-result", "custom",
                          "tool-approval-request", "tool-approval-response"})  # fmt: skip
_MODEL_MARKS = frozenset({"tool-call", "tool-result", "reasoning", "custom"})
_TRACE_PARTS = frozenset({"text", "tool_call", "tool_call_response", "reasoning", "thinking", "blob", "uri", "file"})
_CODEX_LINES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_LOG_LINES = frozenset({"user", "assistant", "system", "summary"})


@dataclass(frozen=True, slots=True)
class EntryMark:
    """``has`` finds the feature; ``objection`` says why an entry cannot be of the format, or returns None."""

    name: str
    has: Mark
    objection: Objection = lambda _: None


def requires(fits: Mark, reason: str) -> Objection:
    """Return the objection to every entry that does not fit."""
    return lambda entry: None if fits(entry) else reason


def requires_type(fits: Mark) -> Objection:
    """As `requires`; the reason names the type of the entry."""
    return lambda entry: None if fits(entry) else f"an entry has the type {str(entry.get('type'))[:40]!r}"


def parts_of(entry: Entry, name: str = "content") -> Iterator[Entry]:
    parts = entry.get(name)
    return (part for part in parts if isinstance(part, Mapping)) if isinstance(parts, list) else iter(())


def word(entry: Entry, name: str) -> str:
    """Return a field that is a word of a list, such as a type; nothing if it is not a text at all."""
    found = entry.get(name)
    return found if isinstance(found, str) else ""


role_objection = requires(lambda entry: isinstance(entry.get("role"), str), "an entry has no role")


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


def is_openinference(entry: Entry) -> bool:
    """Whether the entry is a span of OpenInference, without the messages of OpenTelemetry's conventions."""
    names = [str(name) for name in attributes_of(entry.get("attributes"))]
    marked = any(name.startswith(("llm.input_messages", "llm.output_messages", "openinference.")) for name in names)
    return marked and not any(name in ("gen_ai.input.messages", "gen_ai.output.messages") for name in names)


def _is_pydantic_ai(entry: Entry) -> bool:
    return entry.get("kind") in ("request", "response") and "parts" in entry


def _is_langchain(entry: Entry) -> bool:
    if "lc" in entry:
        return True
    kind = str(entry.get("type")).removesuffix("Chunk")
    named = kind in _LANGCHAIN_TYPES or kind.removesuffix("Message").lower() in _LANGCHAIN_TYPES
    return named and ("data" in entry or "content" in entry) and ("role" not in entry or kind == "chat")


def _is_langchain_chat(entry: Entry) -> bool:
    """Whether a message of Chat Completions has blocks of LangChain or of Responses in its content."""
    marks = ("reasoning", "summary", "call_id", "args")
    kinds = {word(part, "type") for part in parts_of(entry) if any(name in part for name in marks)}
    return "role" in entry and bool(kinds & {"reasoning", "function_call", "tool_call"})


def _langchain_chat_objection(entry: Entry) -> str | None:
    if word(entry, "role") not in _CHAT_ROLES or entry.keys() & _FOREIGN_FIELDS:
        return "an entry is not a message of Chat Completions"
    return None if isinstance(entry.get("content"), (str, list)) else "an entry has no content"


def _is_cmf(entry: Entry) -> bool:
    message = entry.get("message", entry)
    if not isinstance(message, Mapping) or "role" not in message:
        return False
    is_marked = "message" in entry or message.get("schema_version") == "2.0"
    return is_marked or any("content_type" in part for part in parts_of(message))


def _cmf_objection(entry: Entry) -> str | None:
    if "uuid" in entry or "author" in entry:
        return "an entry is an event of a log"
    message = entry.get("message", entry)
    return None if isinstance(message, Mapping) and "role" in message else "an entry has no role"


def _is_ui_part(part: Entry) -> bool:
    kind = str(part.get("type"))
    if kind in ("text", "reasoning"):
        return isinstance(part.get("text"), str)
    return kind in _UI_PARTS or kind.startswith(("tool-", "data-"))


def _ui_objection(entry: Entry) -> str | None:
    if word(entry, "role") not in ("system", "user", "assistant") or not isinstance(entry.get("parts"), list):
        return "an entry has no parts of a user, an assistant or a system"
    if not isinstance(entry.get("id"), str):
        return "a message has no id"
    return None if all(map(_is_ui_part, parts_of(entry, "parts"))) else "a part has none of its types"


def _is_model_message(entry: Entry) -> bool:
    return any(
        word(part, "type") in _MODEL_MARKS
        or (word(part, "type") == "image" and "image" in part)
        or (word(part, "type") == "file" and "mediaType" in part)
        for part in parts_of(entry)
    )


def _model_message_objection(entry: Entry) -> str | None:
    if word(entry, "role") not in ("system", "user", "assistant", "tool"):
        return "an entry has none of its roles"
    for part in parts_of(entry):
        if word(part, "type") not in _MODEL_PARTS or "source" in part:
            return f"a part has the type {str(part.get('type'))[:40]!r}"
    return None


def _is_trace_part(part: Entry) -> bool:
    return word(part, "type") in _TRACE_PARTS and (word(part, "type") != "text" or "content" in part)


def _trace_objection(entry: Entry) -> str | None:
    if "role" not in entry or not isinstance(entry.get("parts"), list) or "id" in entry:
        return "an entry has no role with parts"
    return None if all(map(_is_trace_part, parts_of(entry, "parts"))) else "a part has none of its types"


def _is_a2a(entry: Entry) -> bool:
    return ("messageId" in entry or "message_id" in entry) and isinstance(entry.get("parts"), list)


def _is_llm_row(entry: Entry) -> bool:
    return "conversation_id" in entry and "prompt" in entry and "response" in entry and "model" in entry


def is_row(entry: Entry) -> bool:
    """Whether the entry is a whole conversation of a data set."""
    if "role" in entry or "contents" in entry:
        return False
    lists = (entry.get(name) for name in ("messages", "conversations", "prompt", "chosen", "conversation"))
    return any(
        isinstance(each, list) and each and all(isinstance(item, Mapping) and ("role" in item or "from" in item)
                                                for item in each)
        for each in lists
    )  # fmt: skip


def is_finetuning_row(entry: Entry) -> bool:
    return "preferred_output" in entry or (
        "role" not in entry
        and ("parallel_tool_calls" in entry or any("weight" in part for part in parts_of(entry, "messages")))
    )


def is_openai_batch_row(entry: Entry) -> bool:
    return "custom_id" in entry and ("url" in entry or ("response" in entry and "result" not in entry))


def is_anthropic_batch_row(entry: Entry) -> bool:
    return "custom_id" in entry and (
        isinstance(entry.get("params"), Mapping) or isinstance(entry.get("result"), Mapping)
    )


def is_chatgpt(entry: Entry) -> bool:
    mapping = entry.get("mapping")
    return isinstance(mapping, Mapping) and ("current_node" in entry or "title" in entry)


def _google_objection(entry: Entry) -> str | None:
    if entry.get("role") is not None and word(entry, "role") not in _GOOGLE_ROLES:
        return f"an entry has the role {str(entry.get('role'))[:40]!r}"
    if "messageId" in entry or "message_id" in entry:
        return "an entry has a message id"
    return "a part has a type" if any("type" in part or "kind" in part for part in parts_of(entry, "parts")) else None


def _is_responses(entry: Entry) -> bool:
    if "role" not in entry:
        return word(entry, "type") in _RESPONSES_ITEMS
    return any(word(part, "type") in _RESPONSES_PARTS for part in parts_of(entry))


def _responses_objection(entry: Entry) -> str | None:
    if "tool_calls" in entry or "data" in entry:
        return "an entry has calls as Chat Completions has them"
    return None if "role" in entry or isinstance(entry.get("type"), str) else "an entry has neither role nor type"


def chat_objection(entry: Entry) -> str | None:
    """Why an entry cannot be a message of Chat Completions, or None."""
    if word(entry, "role") not in _CHAT_ROLES:
        return f"an entry has the role {str(entry.get('role'))[:40]!r}"
    if found := entry.keys() & _FOREIGN_FIELDS:
        return f"an entry has the field {min(found)!r}"
    content = entry.get("content")
    if content is None and not any(entry.get(name) for name in (*_CALL_FIELDS, "audio", *_LITELLM_FIELDS)):
        return "an entry has no content" if "content" not in entry else None
    if content is not None and not isinstance(content, (str, list)):
        return "a content is neither a text nor a list"
    for part in parts_of(entry):
        if word(part, "type") not in _CHAT_PARTS:
            return f"a part has the type {str(part.get('type'))[:40]!r}"
        if word(part, "type") == "image" and "image" not in part and "url" not in part:
            return "an image has none of its forms"
    return None


def _is_ollama(entry: Entry) -> bool:
    has_object_arguments = any(isinstance(each.get("arguments"), Mapping) for each in _functions(entry))
    return "role" in entry and (has_object_arguments or "tool_name" in entry or isinstance(entry.get("images"), list))


def _functions(entry: Entry) -> Iterator[Entry]:
    functions = (call.get("function") for call in parts_of(entry, "tool_calls"))
    return (each for each in functions if isinstance(each, Mapping))


def _ollama_objection(entry: Entry) -> str | None:
    if (found := role_objection(entry)) is not None:
        return found
    if word(entry, "role") == "tool" and "tool_name" not in entry and "tool_call_id" not in entry:
        return "a result has no tool_name"
    if any(isinstance(each.get("arguments"), str) for each in _functions(entry)) or "reasoning_content" in entry:
        return "a message is of Chat Completions"
    return "a content is not text" if isinstance(entry.get("content"), list) else None


def is_without_ids(entry: Entry) -> bool:
    """Whether the entry is a result that names no call, as in chat templates."""
    return word(entry, "role") == "tool" and not entry.get("tool_call_id") and "tool_name" not in entry


def _bedrock_objection(entry: Entry) -> str | None:
    if found := entry.keys() - {"role", "content"}:
        return f"an entry has the field {min(map(str, found))!r}"
    known = _BEDROCK_PARTS | _BEDROCK_MEDIA
    return None if all(len(part) == 1 and part.keys() <= known for part in parts_of(entry)) else "a part is not its own"


def _is_umf(entry: Entry) -> bool:
    metadata = entry.get("metadata")
    noted = isinstance(metadata, Mapping) and metadata and all(isinstance(value, str) for value in metadata.values())
    return "role" in entry and bool(noted)


def _umf_objection(entry: Entry) -> str | None:
    if any(entry.get(name) for name in _CALL_FIELDS):
        return "an entry has calls or refusals next to its content"
    if entry.keys() & _FOREIGN_FIELDS:
        return "an entry has fields of another library"
    return None if isinstance(entry.get("content"), (str, list)) else "an entry has no content"


def _is_anthropic(entry: Entry) -> bool:
    for part in parts_of(entry):
        kind = word(part, "type")
        if kind in _ANTHROPIC_PARTS or kind in ("tool_use", "tool_result") or isinstance(part.get("source"), Mapping):
            return True
    return False


def _anthropic_objection(entry: Entry) -> str | None:
    if (found := role_objection(entry)) is not None:
        return found
    if any(entry.get(name) for name in _CALL_FIELDS) or entry.keys() & (_FOREIGN_FIELDS - {"source"}):
        return "an entry has fields of another library"
    if not isinstance(entry.get("content"), (str, list)):
        return "a content is neither a text nor a list"
    for part in parts_of(entry):
        if "type" not in part or "toolUseId" in part or "mimeType" in part or "_meta" in part or "annotations" in part:
            return "a part is of another format"
    return None


def _is_run(entry: Entry) -> bool:
    return "run_type" in entry and "inputs" in entry


def has_gen_ai_attributes(entry: Entry) -> bool:
    """Whether the entry is a span with attributes of OpenTelemetry's conventions."""
    attributes = entry.get("attributes")
    return isinstance(attributes, Mapping) and any(str(name).startswith("gen_ai.") for name in attributes)


def _has_part(name: str, fits: Mark) -> Mark:
    """Return the mark of entries with a role and such a part in the list of this name."""
    return lambda entry: "role" in entry and any(map(fits, parts_of(entry, name)))


ENTRY_MARKS: tuple[EntryMark, ...] = (
    EntryMark("umf-events", lambda entry: "event_type" in entry and "payload" in entry),
    EntryMark(
        "autogen",
        lambda entry: word(entry, "type") in AUTOGEN_TYPES and "source" in entry and "content" in entry,
        requires_type(lambda entry: word(entry, "type") in AUTOGEN_TYPES),
    ),
    EntryMark("langsmith", _is_run, requires(_is_run, "an entry is not a run")),
    EntryMark("openinference", is_openinference),
    EntryMark("google-adk", is_google_adk, requires(is_google_adk, "an entry has no author")),
    EntryMark("llama-index", _is_llama_index, _llama_index_objection),
    EntryMark("haystack", _is_haystack, _haystack_objection),
    EntryMark("harmony", _is_harmony, _harmony_objection),
    EntryMark("mcp", _is_mcp, _mcp_objection),
    EntryMark("pydantic-ai", _is_pydantic_ai,
              requires(_is_pydantic_ai, "an entry is neither a request nor a response with parts")),
    EntryMark("langchain", _is_langchain, requires_type(_is_langchain)),
    EntryMark("messages", lambda entry: entry.get("schema_version") == 1 and "role" in entry, role_objection),
    EntryMark(
        "claude-code",
        lambda entry: "uuid" in entry and isinstance(entry.get("message"), Mapping)
        and word(entry, "type") in _LOG_LINES,
    ),
    EntryMark("llm-json", _is_llm_row, requires(_is_llm_row, "a row has no prompt with a response")),
    EntryMark("otel", has_gen_ai_attributes),
    EntryMark(
        "codex",
        lambda entry: word(entry, "type") in _CODEX_LINES and isinstance(entry.get("payload"), Mapping),
        requires(lambda entry: isinstance(entry.get("payload"), Mapping), "a line has no payload"),
    ),
    EntryMark("chatgpt", is_chatgpt),
    EntryMark("openai-batch", is_openai_batch_row),
    EntryMark("anthropic-batch", is_anthropic_batch_row),
    EntryMark("openai-finetuning", is_finetuning_row),
    EntryMark("hf", is_row, requires(is_row, "a row has no list of messages")),
    EntryMark("cmf", _is_cmf, _cmf_objection),
    EntryMark("acp", _has_part("parts", lambda part: "content_type" in part), role_objection),
    EntryMark("message-body", lambda entry: "content_type" in entry and "role" not in entry),
    EntryMark("a2a", _is_a2a, requires(_is_a2a, "an entry has no message id")),
    EntryMark("vercel-ui", _has_part("parts", _is_ui_part), _ui_objection),
    EntryMark("otel", _has_part("parts", _is_trace_part), _trace_objection),
    EntryMark("google", _has_part("parts", lambda part: bool(part.keys() & _GOOGLE_PARTS)), _google_objection),
    EntryMark("openai", _is_responses, _responses_objection),
    EntryMark("langchain", _is_langchain_chat, _langchain_chat_objection),
    EntryMark("vercel-model", _is_model_message, _model_message_objection),
    EntryMark("litellm", lambda entry: bool(entry.keys() & _LITELLM_FIELDS), chat_objection),
    EntryMark("umf", _is_umf, _umf_objection),
    EntryMark("ollama", _is_ollama, _ollama_objection),
    EntryMark(
        "bedrock",
        lambda entry: any(part.keys() & _BEDROCK_PARTS or ("text" in part and "type" not in part)
                          for part in parts_of(entry)),
        _bedrock_objection,
    ),
    EntryMark("cohere", lambda entry: "tool_plan" in entry, role_objection),
    EntryMark("mistral", lambda entry: any(isinstance(part.get("thinking"), list) for part in parts_of(entry)),
              role_objection),
    EntryMark("anthropic", _is_anthropic, _anthropic_objection),
)  # fmt: skip
"""The marks, in the order in which they are tried. The first that an entry has, and no entry objects to, decides."""
