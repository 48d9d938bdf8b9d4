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


def requires_role(roles: frozenset[str], *, is_optional: bool = False) -> Objection:
    """Return the objection to a role that is not one of these; the reason names it."""
    return lambda entry: (
        None
        if word(entry, "role") in roles or (is_optional and entry.get("role") is None)
        else f"an entry has the role {str(entry.get('role'))[:40]!r}"
    )


def requires_parts(fits: Mark, reason: str = "", name: str = "content") -> Objection:
    """Return the objection to a part that does not fit. Without a reason, its type is named."""

    def objection(entry: Entry) -> str | None:
        other = next((part for part in parts_of(entry, name) if not fits(part)), None)
        return None if other is None else reason or f"a part has the type {str(other.get('type'))[:40]!r}"

    return objection


def all_of(*objections: Objection) -> Objection:
    """Return the first of these objections that an entry meets."""
    return lambda entry: next((reason for each in objections if (reason := each(entry)) is not None), None)


role_objection = requires(lambda entry: isinstance(entry.get("role"), str), "an entry has no role")
_has_content = requires(lambda entry: isinstance(entry.get("content"), (str, list)), "an entry has no content")


def is_google_adk(entry: Entry) -> bool:
    return "author" in entry and ("invocationId" in entry or "invocation_id" in entry)


def _mcp_parts(entry: Entry) -> list[Entry]:
    content = entry.get("content")
    return [content] if isinstance(content, Mapping) else list(parts_of(entry))


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


def _cmf_message(entry: Entry) -> Entry | None:
    """Return the message of an entry, which may be bare."""
    message = entry.get("message", entry)
    return message if isinstance(message, Mapping) and "role" in message else None


def _is_ui_part(part: Entry) -> bool:
    kind = str(part.get("type"))
    if kind in ("text", "reasoning"):
        return isinstance(part.get("text"), str)
    return kind in _UI_PARTS or kind.startswith(("tool-", "data-"))


def _is_trace_part(part: Entry) -> bool:
    return word(part, "type") in _TRACE_PARTS and (word(part, "type") != "text" or "content" in part)


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


_chat_role_objection = requires_role(_CHAT_ROLES)


def chat_objection(entry: Entry) -> str | None:
    """Why an entry cannot be a message of Chat Completions, or None."""
    if (reason := _chat_role_objection(entry)) is not None:
        return reason
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


def _functions(entry: Entry) -> Iterator[Entry]:
    functions = (call.get("function") for call in parts_of(entry, "tool_calls"))
    return (each for each in functions if isinstance(each, Mapping))


def is_without_ids(entry: Entry) -> bool:
    """Whether the entry is a result that names no call, as in chat templates."""
    return word(entry, "role") == "tool" and not entry.get("tool_call_id") and "tool_name" not in entry


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
    EntryMark(
        "llama-index",
        lambda entry: "role" in entry and isinstance(entry.get("blocks"), list)
        and ("additional_kwargs" in entry or any("block_type" in block for block in parts_of(entry, "blocks"))),
        all_of(
            role_objection,
            requires(lambda entry: isinstance(entry.get("blocks"), list), "an entry has no blocks"),
            requires_parts(lambda block: "block_type" in block, "a block has no type", "blocks"),
        ),
    ),
    EntryMark(
        "haystack",
        lambda entry: ("meta" in entry or "_meta" in entry)
        and any(part.keys() & _HAYSTACK_PARTS and "type" not in part
                for part in list(parts_of(entry)) or parts_of(entry, "_content")),
        all_of(
            requires(lambda entry: isinstance(entry.get("role", entry.get("_role")), str), "an entry has no role"),
            *(requires_parts(lambda part: "type" not in part, "a part has a type", name)
              for name in ("content", "_content")),
        ),
    ),
    EntryMark(
        "harmony",
        lambda entry: "role" in entry and (
            any(word(part, "type") in _HARMONY_PARTS for part in parts_of(entry))
            or (word(entry, "channel") in _HARMONY_CHANNELS and "schema_version" not in entry)
        ),
        all_of(
            requires(lambda entry: word(entry, "role") in _CHAT_ROLES - {"function"}, "an entry has none of its roles"),
            requires_parts(lambda part: word(part, "type") in (*_HARMONY_PARTS, "text"),
                           "a part has none of its types"),
        ),
    ),
    EntryMark(
        "mcp",
        lambda entry: "role" in entry and not _mcp_objection(entry) and (
            isinstance(entry.get("content"), Mapping) or "stopReason" in entry
            or any(part.keys() & _MCP_MARKS for part in _mcp_parts(entry))
        ),
        _mcp_objection,
    ),
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
    EntryMark(
        "cmf",
        lambda entry: _cmf_message(entry) is not None and (
            "message" in entry or entry.get("schema_version") == "2.0"
            or any("content_type" in part for part in parts_of(entry))
        ),
        all_of(
            requires(lambda entry: "uuid" not in entry and "author" not in entry, "an entry is an event of a log"),
            requires(lambda entry: _cmf_message(entry) is not None, "an entry has no role"),
        ),
    ),
    EntryMark("acp", _has_part("parts", lambda part: "content_type" in part), role_objection),
    EntryMark("message-body", lambda entry: "content_type" in entry and "role" not in entry),
    EntryMark("a2a", _is_a2a, requires(_is_a2a, "an entry has no message id")),
    EntryMark("vercel-ui", _has_part("parts", _is_ui_part),
              all_of(
                  requires(lambda entry: word(entry, "role") in ("system", "user", "assistant")
                           and isinstance(entry.get("parts"), list),
                           "an entry has no parts of a user, an assistant or a system"),
                  requires(lambda entry: isinstance(entry.get("id"), str), "a message has no id"),
                  requires_parts(_is_ui_part, "a part has none of its types", "parts"),
              )),
    EntryMark("otel", _has_part("parts", _is_trace_part),
              all_of(
                  requires(lambda entry: "role" in entry and isinstance(entry.get("parts"), list) and "id" not in entry,
                           "an entry has no role with parts"),
                  requires_parts(_is_trace_part, "a part has none of its types", "parts"),
              )),
    EntryMark("google", _has_part("parts", lambda part: bool(part.keys() & _GOOGLE_PARTS)),
              all_of(
                  requires_role(_GOOGLE_ROLES, is_optional=True),
                  requires(lambda entry: "messageId" not in entry and "message_id" not in entry,
                           "an entry has a message id"),
                  requires_parts(lambda part: "type" not in part and "kind" not in part, "a part has a type", "parts"),
              )),
    EntryMark(
        "openai",
        lambda entry: any(word(part, "type") in _RESPONSES_PARTS for part in parts_of(entry)) if "role" in entry
        else word(entry, "type") in _RESPONSES_ITEMS,
        all_of(
            requires(lambda entry: "tool_calls" not in entry and "data" not in entry,
                     "an entry has calls as Chat Completions has them"),
            requires(lambda entry: "role" in entry or isinstance(entry.get("type"), str),
                     "an entry has neither role nor type"),
        ),
    ),
    EntryMark(  # messages of Chat Completions with blocks of LangChain or of Responses
        "langchain",
        _has_part("content", lambda part: word(part, "type") in ("reasoning", "function_call", "tool_call")
                  and any(name in part for name in ("reasoning", "summary", "call_id", "args"))),
        all_of(
            requires(lambda entry: word(entry, "role") in _CHAT_ROLES and not entry.keys() & _FOREIGN_FIELDS,
                     "an entry is not a message of Chat Completions"),
            _has_content,
        ),
    ),
    EntryMark(
        "vercel-model",
        lambda entry: any(
            word(part, "type") in _MODEL_MARKS
            or (word(part, "type") == "image" and "image" in part)
            or (word(part, "type") == "file" and "mediaType" in part)
            for part in parts_of(entry)
        ),
        all_of(
            requires(lambda entry: word(entry, "role") in ("system", "user", "assistant", "tool"),
                     "an entry has none of its roles"),
            requires_parts(lambda part: word(part, "type") in _MODEL_PARTS and "source" not in part),
        ),
    ),
    EntryMark("litellm", lambda entry: bool(entry.keys() & _LITELLM_FIELDS), chat_objection),
    EntryMark(
        "umf",
        lambda entry: "role" in entry and isinstance(metadata := entry.get("metadata"), Mapping) and bool(metadata)
        and all(isinstance(value, str) for value in metadata.values()),
        all_of(
            requires(lambda entry: not any(entry.get(name) for name in _CALL_FIELDS),
                     "an entry has calls or refusals next to its content"),
            requires(lambda entry: not entry.keys() & _FOREIGN_FIELDS, "an entry has fields of another library"),
            _has_content,
        ),
    ),
    EntryMark(
        "ollama",
        lambda entry: "role" in entry and (
            any(isinstance(each.get("arguments"), Mapping) for each in _functions(entry))
            or "tool_name" in entry or isinstance(entry.get("images"), list)
        ),
        all_of(
            role_objection,
            requires(lambda entry: word(entry, "role") != "tool" or "tool_name" in entry or "tool_call_id" in entry,
                     "a result has no tool_name"),
            requires(lambda entry: "reasoning_content" not in entry
                     and not any(isinstance(each.get("arguments"), str) for each in _functions(entry)),
                     "a message is of Chat Completions"),
            requires(lambda entry: not isinstance(entry.get("content"), list), "a content is not text"),
        ),
    ),
    EntryMark(
        "bedrock",
        lambda entry: any(part.keys() & _BEDROCK_PARTS or ("text" in part and "type" not in part)
                          for part in parts_of(entry)),
        all_of(
            lambda entry: next((f"an entry has the field {name!r}" for name in sorted(map(str, entry))
                                if name not in ("role", "content")), None),
            requires_parts(lambda part: len(part) == 1 and part.keys() <= _BEDROCK_PARTS | _BEDROCK_MEDIA,
                           "a part is not its own"),
        ),
    ),
    EntryMark("cohere", lambda entry: "tool_plan" in entry, role_objection),
    EntryMark("mistral", lambda entry: any(isinstance(part.get("thinking"), list) for part in parts_of(entry)),
              role_objection),
    EntryMark(
        "anthropic",
        lambda entry: any(word(part, "type") in _ANTHROPIC_PARTS | {"tool_use", "tool_result"}
                          or isinstance(part.get("source"), Mapping) for part in parts_of(entry)),
        all_of(
            role_objection,
            requires(lambda entry: not any(entry.get(name) for name in _CALL_FIELDS)
                     and not entry.keys() & (_FOREIGN_FIELDS - {"source"}), "an entry has fields of another library"),
            requires(lambda entry: isinstance(entry.get("content"), (str, list)),
                     "a content is neither a text nor a list"),
            requires_parts(lambda part: "type" in part
                           and not part.keys() & {"toolUseId", "mimeType", "_meta", "annotations"},
                           "a part is of another format"),
        ),
    ),
)  # fmt: skip
"""The marks, in the order in which they are tried. The first that an entry has, and no entry objects to, decides."""
