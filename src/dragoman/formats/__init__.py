"""Conversations in other formats: readers, writers, and the losses of a format.

Each name is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from dragoman.lazy_names import lazy_names

if TYPE_CHECKING:
    from dragoman.formats.body.acp import from_acp, to_acp
    from dragoman.formats.body.convert import from_message_body, to_message_body
    from dragoman.formats.body.message_body import MessageBody, MessageBodyPart, MessageBodySchemaPart
    from dragoman.formats.body.schema import Compatibility, MessageBodySchema, is_compatible
    from dragoman.formats.chatml import from_chatml, to_chatml
    from dragoman.formats.cmf.convert import called_tools_in_cmf, from_cmf, read_cmf_extensions, to_cmf
    from dragoman.formats.detection import Detection, detect, identify
    from dragoman.formats.errors import BodyViolation, FormatError, MessageBodyError, NotFetchedError
    from dragoman.formats.exporters.datasets import to_hugging_face, to_openai_finetuning
    from dragoman.formats.exporters.langchain import to_langchain
    from dragoman.formats.exporters.litellm import to_litellm
    from dragoman.formats.exporters.llm_log import to_llm_log
    from dragoman.formats.exporters.pydantic_ai import to_pydantic_ai
    from dragoman.formats.exporters.vercel_ui import to_vercel_ui
    from dragoman.formats.importers.agent_protocols import from_a2a
    from dragoman.formats.importers.applications import from_chatgpt, from_claude_code, from_codex
    from dragoman.formats.importers.cassette import from_cassette
    from dragoman.formats.importers.hugging_face import from_hugging_face
    from dragoman.formats.importers.langchain import from_langchain
    from dragoman.formats.importers.litellm import from_litellm
    from dragoman.formats.importers.llm_documents import from_llm_json
    from dragoman.formats.importers.llm_logs import from_llm_logs
    from dragoman.formats.importers.provider_files import (
        from_anthropic_batch,
        from_openai_batch,
        from_openai_finetuning,
    )
    from dragoman.formats.importers.pydantic_ai import from_pydantic_ai
    from dragoman.formats.importers.traces import from_otel
    from dragoman.formats.importers.vercel import from_vercel_model, from_vercel_ui
    from dragoman.formats.native import from_native, to_native
    from dragoman.formats.reading.fields import Fields, iter_fields
    from dragoman.formats.reading.lines import Line, read_lines
    from dragoman.formats.reading.turns import Turns
    from dragoman.formats.registry import Format, from_messages, read, to_messages
    from dragoman.formats.results import Conversation, Conversion, ReadResult
    from dragoman.formats.umf.calls import (
        InternalTool,
        InternalToolCall,
        InternalToolResult,
        call_from_mcp,
        call_from_openai,
        call_to_mcp,
        call_to_openai,
        internal_tool,
        internal_tool_call,
        internal_tool_result,
        result_from_mcp,
        result_to_mcp,
        tool_definition,
        tool_from_mcp,
        tool_from_openai,
        tool_result_block,
        tool_to_mcp,
        tool_to_openai,
        tool_use_block,
    )
    from dragoman.formats.umf.convert import ChatMLFormatter, ChatMLMessage, from_umf, to_umf
    from dragoman.formats.umf.events import from_umf_events, history_to_umf, signal_to_umf
    from dragoman.formats.umf.models import InternalMessage

__all__ = [
    "BodyViolation",
    "ChatMLFormatter",
    "ChatMLMessage",
    "Compatibility",
    "Conversation",
    "Conversion",
    "Detection",
    "Fields",
    "Format",
    "FormatError",
    "InternalMessage",
    "InternalTool",
    "InternalToolCall",
    "InternalToolResult",
    "Line",
    "MessageBody",
    "MessageBodyError",
    "MessageBodyPart",
    "MessageBodySchema",
    "MessageBodySchemaPart",
    "NotFetchedError",
    "ReadResult",
    "Turns",
    "call_from_mcp",
    "call_from_openai",
    "call_to_mcp",
    "call_to_openai",
    "called_tools_in_cmf",
    "detect",
    "from_a2a",
    "from_acp",
    "from_anthropic_batch",
    "from_cassette",
    "from_chatgpt",
    "from_chatml",
    "from_claude_code",
    "from_cmf",
    "from_codex",
    "from_hugging_face",
    "from_langchain",
    "from_litellm",
    "from_llm_json",
    "from_llm_logs",
    "from_message_body",
    "from_messages",
    "from_native",
    "from_openai_batch",
    "from_openai_finetuning",
    "from_otel",
    "from_pydantic_ai",
    "from_umf",
    "from_umf_events",
    "from_vercel_model",
    "from_vercel_ui",
    "history_to_umf",
    "identify",
    "internal_tool",
    "internal_tool_call",
    "internal_tool_result",
    "is_compatible",
    "iter_fields",
    "read",
    "read_cmf_extensions",
    "read_lines",
    "result_from_mcp",
    "result_to_mcp",
    "signal_to_umf",
    "to_acp",
    "to_chatml",
    "to_cmf",
    "to_hugging_face",
    "to_langchain",
    "to_litellm",
    "to_llm_log",
    "to_message_body",
    "to_messages",
    "to_native",
    "to_openai_finetuning",
    "to_pydantic_ai",
    "to_umf",
    "to_vercel_ui",
    "tool_definition",
    "tool_from_mcp",
    "tool_from_openai",
    "tool_result_block",
    "tool_to_mcp",
    "tool_to_openai",
    "tool_use_block",
]

_EXPORTS = {
    "formats.body.acp": ("from_acp", "to_acp"),
    "formats.body.convert": ("from_message_body", "to_message_body"),
    "formats.body.message_body": ("MessageBody", "MessageBodyPart", "MessageBodySchemaPart"),
    "formats.body.schema": ("Compatibility", "MessageBodySchema", "is_compatible"),
    "formats.chatml": ("from_chatml", "to_chatml"),
    "formats.cmf.convert": ("called_tools_in_cmf", "from_cmf", "read_cmf_extensions", "to_cmf"),
    "formats.detection": ("Detection", "detect", "identify"),
    "formats.errors": ("BodyViolation", "FormatError", "MessageBodyError", "NotFetchedError"),
    "formats.exporters.datasets": ("to_hugging_face", "to_openai_finetuning"),
    "formats.exporters.langchain": ("to_langchain",),
    "formats.exporters.litellm": ("to_litellm",),
    "formats.exporters.llm_log": ("to_llm_log",),
    "formats.exporters.pydantic_ai": ("to_pydantic_ai",),
    "formats.exporters.vercel_ui": ("to_vercel_ui",),
    "formats.importers.agent_protocols": ("from_a2a",),
    "formats.importers.applications": ("from_chatgpt", "from_claude_code", "from_codex"),
    "formats.importers.cassette": ("from_cassette",),
    "formats.importers.hugging_face": ("from_hugging_face",),
    "formats.importers.langchain": ("from_langchain",),
    "formats.importers.litellm": ("from_litellm",),
    "formats.importers.llm_documents": ("from_llm_json",),
    "formats.importers.llm_logs": ("from_llm_logs",),
    "formats.importers.provider_files": ("from_anthropic_batch", "from_openai_batch", "from_openai_finetuning"),
    "formats.importers.pydantic_ai": ("from_pydantic_ai",),
    "formats.importers.traces": ("from_otel",),
    "formats.importers.vercel": ("from_vercel_model", "from_vercel_ui"),
    "formats.native": ("from_native", "to_native"),
    "formats.reading.fields": ("Fields", "iter_fields"),
    "formats.reading.lines": ("Line", "read_lines"),
    "formats.reading.turns": ("Turns",),
    "formats.registry": ("Format", "from_messages", "read", "to_messages"),
    "formats.results": ("Conversation", "Conversion", "ReadResult"),
    "formats.umf.calls": (
        "InternalTool", "InternalToolCall", "InternalToolResult", "call_from_mcp", "call_from_openai", "call_to_mcp",
        "call_to_openai", "internal_tool", "internal_tool_call", "internal_tool_result", "result_from_mcp",
        "result_to_mcp", "tool_definition", "tool_from_mcp", "tool_from_openai", "tool_result_block", "tool_to_mcp",
        "tool_to_openai", "tool_use_block",
    ),
    "formats.umf.convert": ("ChatMLFormatter", "ChatMLMessage", "from_umf", "to_umf"),
    "formats.umf.events": ("from_umf_events", "history_to_umf", "signal_to_umf"),
    "formats.umf.models": ("InternalMessage",),
}  # fmt: skip

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__, __dir__ = lazy_names(globals(), _EXPORTS)
