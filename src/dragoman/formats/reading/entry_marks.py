"""The marks of formats in the entries of a list: a feature that only one format has, and what a format cannot have."""

from collections.abc import Iterator, Mapping

from dragoman.formats.reading.framework_marks import FRAMEWORK_MARKS
from dragoman.formats.reading.marks import Entry, EntryMark, no_objection, parts_of, role_objection, word

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


def _is_umf_event(entry: Entry) -> bool:
    return "event_type" in entry and "payload" in entry


def _is_pydantic_ai(entry: Entry) -> bool:
    return entry.get("kind") in ("request", "response") and "parts" in entry


def _pydantic_ai_objection(entry: Entry) -> str | None:
    return None if _is_pydantic_ai(entry) else "an entry is neither a request nor a response with parts"


def _is_langchain(entry: Entry) -> bool:
    if "lc" in entry:
        return True
    kind = str(entry.get("type")).removesuffix("Chunk")
    named = kind in _LANGCHAIN_TYPES or kind.removesuffix("Message").lower() in _LANGCHAIN_TYPES
    return named and ("data" in entry or "content" in entry) and ("role" not in entry or kind == "chat")


def _langchain_objection(entry: Entry) -> str | None:
    return None if _is_langchain(entry) else f"an entry has the type {str(entry.get('type'))[:40]!r}"


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


def _is_dragoman(entry: Entry) -> bool:
    return entry.get("schema_version") == 1 and "role" in entry


def _is_acp(entry: Entry) -> bool:
    return "role" in entry and any("content_type" in part for part in parts_of(entry, "parts"))


def _is_message_body(entry: Entry) -> bool:
    return "content_type" in entry and "role" not in entry


def _is_ui(entry: Entry) -> bool:
    return "role" in entry and any(_is_ui_part(part) for part in parts_of(entry, "parts"))


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


def _is_trace(entry: Entry) -> bool:
    return "role" in entry and any(map(_is_trace_part, parts_of(entry, "parts")))


def _is_trace_part(part: Entry) -> bool:
    return word(part, "type") in _TRACE_PARTS and (word(part, "type") != "text" or "content" in part)


def _trace_objection(entry: Entry) -> str | None:
    if "role" not in entry or not isinstance(entry.get("parts"), list) or "id" in entry:
        return "an entry has no role with parts"
    return None if all(map(_is_trace_part, parts_of(entry, "parts"))) else "a part has none of its types"


def _is_a2a(entry: Entry) -> bool:
    return ("messageId" in entry or "message_id" in entry) and isinstance(entry.get("parts"), list)


def _a2a_objection(entry: Entry) -> str | None:
    return None if _is_a2a(entry) else "an entry has no message id"


def _is_claude_code(entry: Entry) -> bool:
    return "uuid" in entry and isinstance(entry.get("message"), Mapping) and word(entry, "type") in _LOG_LINES


def _is_llm_row(entry: Entry) -> bool:
    return "conversation_id" in entry and "prompt" in entry and "response" in entry and "model" in entry


def _llm_row_objection(entry: Entry) -> str | None:
    return None if _is_llm_row(entry) else "a row has no prompt with a response"


def _is_span(entry: Entry) -> bool:
    attributes = entry.get("attributes")
    return isinstance(attributes, Mapping) and any(str(name).startswith("gen_ai.") for name in attributes)


def _is_codex(entry: Entry) -> bool:
    return word(entry, "type") in _CODEX_LINES and isinstance(entry.get("payload"), Mapping)


def _codex_objection(entry: Entry) -> str | None:
    return None if isinstance(entry.get("payload"), Mapping) else "a line has no payload"


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


def _row_objection(entry: Entry) -> str | None:
    return None if is_row(entry) else "a row has no list of messages"


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


def _is_google(entry: Entry) -> bool:
    return "role" in entry and any(part.keys() & _GOOGLE_PARTS for part in parts_of(entry, "parts"))


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


def _is_litellm(entry: Entry) -> bool:
    return bool(entry.keys() & _LITELLM_FIELDS)


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


def _is_bedrock(entry: Entry) -> bool:
    return any(part.keys() & _BEDROCK_PARTS or ("text" in part and "type" not in part) for part in parts_of(entry))


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


def _is_cohere(entry: Entry) -> bool:
    return "tool_plan" in entry


def _is_mistral(entry: Entry) -> bool:
    return any(isinstance(part.get("thinking"), list) for part in parts_of(entry))


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


ENTRY_MARKS: tuple[EntryMark, ...] = (
    EntryMark("umf-events", _is_umf_event, no_objection),
    *FRAMEWORK_MARKS,
    EntryMark("pydantic-ai", _is_pydantic_ai, _pydantic_ai_objection),
    EntryMark("langchain", _is_langchain, _langchain_objection),
    EntryMark("messages", _is_dragoman, role_objection),
    EntryMark("claude-code", _is_claude_code, no_objection),
    EntryMark("llm-json", _is_llm_row, _llm_row_objection),
    EntryMark("otel", _is_span, no_objection),
    EntryMark("codex", _is_codex, _codex_objection),
    EntryMark("chatgpt", is_chatgpt, no_objection),
    EntryMark("openai-batch", is_openai_batch_row, no_objection),
    EntryMark("anthropic-batch", is_anthropic_batch_row, no_objection),
    EntryMark("openai-finetuning", is_finetuning_row, no_objection),
    EntryMark("hf", is_row, _row_objection),
    EntryMark("cmf", _is_cmf, _cmf_objection),
    EntryMark("acp", _is_acp, role_objection),
    EntryMark("message-body", _is_message_body, no_objection),
    EntryMark("a2a", _is_a2a, _a2a_objection),
    EntryMark("vercel-ui", _is_ui, _ui_objection),
    EntryMark("otel", _is_trace, _trace_objection),
    EntryMark("google", _is_google, _google_objection),
    EntryMark("openai", _is_responses, _responses_objection),
    EntryMark("langchain", _is_langchain_chat, _langchain_chat_objection),
    EntryMark("vercel-model", _is_model_message, _model_message_objection),
    EntryMark("litellm", _is_litellm, chat_objection),
    EntryMark("umf", _is_umf, _umf_objection),
    EntryMark("ollama", _is_ollama, _ollama_objection),
    EntryMark("bedrock", _is_bedrock, _bedrock_objection),
    EntryMark("cohere", _is_cohere, role_objection),
    EntryMark("mistral", _is_mistral, role_objection),
    EntryMark("anthropic", _is_anthropic, _anthropic_objection),
)
"""The marks, the most specific first. The first that is found and meets no objection decides."""
