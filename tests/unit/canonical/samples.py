"""One valid example of each canonical type, as plain JSON."""

from typing import Any

SOURCE = {"kind": "base64", "data": "aGVsbG8="}
CITATION = {"kind": "web", "title": "A page", "url": "https://example.org", "cited_text": "Hello", "data": {"n": 1}}

BLOCKS: dict[str, dict[str, Any]] = {
    "text": {"text": "Hello.", "citations": [CITATION]},
    "tool_use": {"id": "tu_1", "name": "read_file", "input": {"path": "a"}, "raw_input": None},
    "tool_result": {"tool_use_id": "tu_1", "content": [{"type": "text", "text": "ok"}], "is_error": True},
    "image": {"source": SOURCE, "media_type": "image/png", "detail": "high"},
    "audio": {"source": SOURCE, "media_type": "audio/wav", "duration_ms": 900, "transcript": "Hello."},
    "video": {"source": SOURCE, "media_type": "video/mp4", "duration_ms": 900},
    "document": {"source": SOURCE, "media_type": "application/pdf", "title": "a.pdf", "context": "The contract."},
    "thinking": {"text": "Hm.", "signature": "c2ln"},
    "redacted_thinking": {"data": "b3BhcXVl"},
    "resource": {
        "resource_request_id": "r1", "uri": "file:///a", "resource_type": "file", "name": "a", "description": "A file",
        "content": "Hello.", "mime_type": "text/plain", "size_bytes": 6, "annotations": {"a": 1}, "version": "2",
    },
    "resource_ref": {
        "resource_request_id": "r1", "uri": "file:///a", "resource_type": "file", "name": "a", "range_start": 1,
        "range_end": 2, "selector": "$.a",
    },
    "prompt_request": {"prompt_request_id": "p1", "name": "greet", "arguments": {"who": "you"}, "server_id": "s"},
    "prompt_result": {
        "prompt_request_id": "p1", "prompt_name": "greet", "messages": [{"role": "user"}], "content": "Hello.",
        "is_error": True, "error_message": "No.",
    },
    "provider": {"provider": "anthropic", "kind": "compaction", "data": {"content": "..."}},
}  # fmt: skip
"""By kind, without the ``type`` field; each field has a value other than its default."""

USAGE = {"input_tokens": 8, "output_tokens": 42, "server_tools": {"web_search": 1}, "raw": {"n": 1}, "speed": "fast"}
ROUTING = {"mode": "rule", "chosen_model": "openai:gpt-6.1-sol", "reason": "cheap", "rule_name": "r", "confidence": 0.5}
METADATA = {
    "model": "openai:gpt-6.1-sol", "provider": "openai", "routing": ROUTING, "usage": USAGE, "user_id": "usr_1",
    "parent_tool_use_id": "tu_1", "team_id": "team_1", "provider_raw": {"by": "openai"}, "stop_reason": "end_turn",
}  # fmt: skip
MESSAGE = {
    "id": "01M7YJFK7P2ZFT4X2CGGZPP6M5", "session_id": "sess_1", "role": "user", "channel": "final",
    "content": [{"type": "text", "text": "Hello."}], "metadata": METADATA, "created_at": "2026-11-21T08:00:00.123456Z",
}  # fmt: skip
TOOL = {"name": "read_file", "description": "Reads.", "input_schema": {"type": "object"}, "provider_raw": {"by": "x"}}
