"""Handwritten documents of the formats of other programs, with every kind of object that a reader knows."""

from typing import Any

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

_HANDWRITTEN_UI: Any = [
    {"id": "u1", "role": "user", "parts": [
        {"type": "text", "text": "Weather in Bern?"},
        {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": f"data:image/png;base64,{PIXEL}"}]},
    {"id": "a1", "role": "assistant", "metadata": {"totalUsage": {
        "inputTokens": 30, "outputTokens": 4, "totalTokens": 34, "cachedInputTokens": 20,
        "inputTokenDetails": {"noCacheTokens": 10, "cacheReadTokens": 20},
        "outputTokenDetails": {"reasoningTokens": 2}}}, "parts": [
        {"type": "step-start"},
        {"type": "reasoning", "text": "Look.", "providerMetadata": {"anthropic": {"signature": "c2ln"}}},
        {"type": "tool-weather", "toolCallId": "call_1", "state": "output-available", "input": {"city": "Bern"},
         "output": {"sky": "rain"}, "callProviderMetadata": {"anthropic": {"caller": {"type": "direct"}}}},
        {"type": "step-start"},
        {"type": "text", "text": "Rain.", "state": "done", "citations": [
            {"source": {"type": "source", "url": "https://example.org"}, "startIndex": 0, "endIndex": 4}]},
        {"type": "source-url", "sourceId": "s1", "url": "https://example.org/2", "title": "Two"},
        {"type": "data-note", "id": "n1", "data": {"a": 1}}]},
]  # fmt: skip

_HANDWRITTEN_MODEL_MESSAGES: Any = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [
        {"type": "text", "text": "Weather in Bern?"}, {"type": "image", "image": PIXEL, "mediaType": "image/png"},
        {"type": "file", "mediaType": "text/plain", "data": {"type": "text", "text": "A note."}}]},
    {"role": "assistant", "content": [
        {"type": "reasoning", "text": "Look.", "providerOptions": {"anthropic": {"signature": "c2ln"}}},
        {"type": "tool-call", "toolCallId": "call_1", "toolName": "weather", "input": {"city": "Bern"}},
        {"type": "tool-call", "toolCallId": "srv_1", "toolName": "web_search", "input": {}, "providerExecuted": True}]},
    {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "call_1", "toolName": "weather", "output": {
        "type": "content", "value": [
            {"type": "text", "text": "Rain."}, {"type": "media", "data": PIXEL, "mediaType": "image/png"}]}}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Rain.", "providerOptions": {"anthropic": {"citations": [
        {"type": "web_search_result_location", "url": "https://example.org", "title": "A"}]}}}]},
]  # fmt: skip

_CHAT_CALL: Any = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
_TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}  # fmt: skip

_HANDWRITTEN_CHAT: Any = [
    {"role": "user", "content": "Weather in Bern?"},
    {"role": "assistant", "content": None, "tool_calls": [_CHAT_CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
    {"role": "assistant", "content": "Rain."},
]

_HANDWRITTEN_COMPLETION: Any = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-6-luna",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Rain."}}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
}  # fmt: skip

_HANDWRITTEN_ANTHROPIC_REPLY: Any = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_reason": "end_turn",
    "stop_sequence": None, "content": [{"type": "text", "text": "Rain."}],
    "usage": {"input_tokens": 10, "output_tokens": 2},
}  # fmt: skip

_HANDWRITTEN_SPAN: Any = {
    "name": "chat", "context": {"trace_id": "0x1"}, "start_time": "2026-01-02T03:04:05Z", "attributes": {
        "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-opus-5-5",
        "gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 4, "gen_ai.usage.cache_read.input_tokens": 20,
        "gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}],
        "gen_ai.input.messages": [
            {"role": "user", "parts": [
                {"type": "text", "content": "Weather?"},
                {"type": "blob", "mime_type": "image/png", "modality": "image", "content": PIXEL}]},
            {"role": "assistant", "parts": [
                {"type": "reasoning", "content": "Look."},
                {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": {"city": "Bern"}}],
             "finish_reason": "tool_call"},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "Rain."}]}],
        "gen_ai.output.messages": [
            {"role": "assistant", "parts": [{"type": "text", "content": "Rain."}], "finish_reason": "stop"}]},
}  # fmt: skip

_HANDWRITTEN_LOG: Any = [
    {"type": "user", "uuid": "1", "parentUuid": None, "sessionId": "s", "isSidechain": False,
     "timestamp": "2026-01-02T03:04:05Z", "message": {"role": "user", "content": "Weather?"}},
    {"type": "assistant", "uuid": "2", "parentUuid": "1", "sessionId": "s", "isSidechain": False,
     "timestamp": "2026-01-02T03:04:06Z", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_reason": None,
        "content": [{"type": "thinking", "thinking": "Look.", "signature": "c2ln"}],
        "usage": {"input_tokens": 10, "output_tokens": 4, "cache_read_input_tokens": 20}}},
    {"type": "assistant", "uuid": "3", "parentUuid": "2", "sessionId": "s", "isSidechain": False,
     "timestamp": "2026-01-02T03:04:07Z", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a"}}],
        "usage": {"input_tokens": 10, "output_tokens": 9, "cache_read_input_tokens": 20}}},
    {"type": "user", "uuid": "4", "parentUuid": "3", "sessionId": "s", "isSidechain": False,
     "timestamp": "2026-01-02T03:04:08Z", "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain."}]}},
    {"type": "assistant", "uuid": "5", "parentUuid": "4", "sessionId": "s", "isSidechain": False,
     "timestamp": "2026-01-02T03:04:09Z", "message": {
        "id": "msg_2", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Rain."}], "usage": {"input_tokens": 40, "output_tokens": 2}}},
]  # fmt: skip

_HANDWRITTEN_ROLLOUT: Any = [
    {"timestamp": "2026-01-02T03:04:05Z", "type": "session_meta", "payload": {
        "id": "s", "base_instructions": {"text": "Be brief."}}},
    {"timestamp": "2026-01-02T03:04:05Z", "type": "turn_context", "payload": {"model": "gpt-6.1-sol"}},
    {"timestamp": "2026-01-02T03:04:05Z", "type": "response_item", "payload": {
        "type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]}},
    {"timestamp": "2026-01-02T03:04:06Z", "type": "response_item", "payload": {
        "type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Look."}],
        "encrypted_content": "c2ln"}},
    {"timestamp": "2026-01-02T03:04:06Z", "type": "response_item", "payload": {
        "type": "function_call", "name": "weather", "arguments": "{}", "call_id": "call_1"}},
    {"timestamp": "2026-01-02T03:04:06Z", "type": "event_msg", "payload": {"type": "token_count", "info": {
        "last_token_usage": {"input_tokens": 30, "cached_input_tokens": 20, "output_tokens": 4}}}},
    {"timestamp": "2026-01-02T03:04:07Z", "type": "response_item", "payload": {
        "type": "function_call_output", "call_id": "call_1", "output": "Rain."}},
    {"timestamp": "2026-01-02T03:04:08Z", "type": "response_item", "payload": {
        "type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [
            {"type": "output_text", "text": "Rain.", "annotations": []}]}},
    {"timestamp": "2026-01-02T03:04:08Z", "type": "event_msg", "payload": {"type": "token_count", "info": {
        "last_token_usage": {"input_tokens": 50, "cached_input_tokens": 30, "output_tokens": 2}}}},
]  # fmt: skip


def _node(name: str, parent: str | None, *children: str, **message: Any) -> dict[str, Any]:
    return {"id": name, "parent": parent, "children": list(children), "message": message or None}


_HANDWRITTEN_EXPORT: Any = [{
    "title": "Weather", "conversation_id": "c1", "current_node": "n5", "create_time": 1790000000.0, "mapping": {
        "n1": _node("n1", None, "n2", "x"),
        "n2": _node("n2", "n1", "n3", author={"role": "user"}, create_time=1790000000.5, content={
            "content_type": "multimodal_text", "parts": [
                {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1"}, "Weather?"]}),
        "n3": _node("n3", "n2", "n4", author={"role": "assistant"}, recipient="python", content={
            "content_type": "code", "language": "python", "text": "print(1)"}, metadata={"model_slug": "gpt-6"}),
        "n4": _node("n4", "n3", "n5", author={"role": "tool", "name": "python"}, content={
            "content_type": "execution_output", "text": "1"}),
        "n5": _node("n5", "n4", author={"role": "assistant"}, recipient="all", content={
            "content_type": "text", "parts": ["Rain."]}, metadata={"model_slug": "gpt-6"}),
        "x": _node("x", "n1", author={"role": "user"}, content={"content_type": "text", "parts": ["Another."]}),
    },
}]  # fmt: skip

_HANDWRITTEN_TASK: Any = {
    "id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}, "history": [
        {"messageId": "m1", "role": "ROLE_USER", "parts": [
            {"text": "Weather?"}, {"raw": PIXEL, "mediaType": "image/png", "filename": "a.png"}]},
        {"messageId": "m2", "role": "ROLE_AGENT", "metadata": {"model": "gpt-6"}, "parts": [{"data": {
            "type": "tool_call", "id": "call_1", "name": "weather", "arguments": {"city": "Bern"}}}]},
        {"messageId": "m3", "role": "ROLE_USER", "parts": [{"data": {
            "type": "tool_result", "id": "call_1", "result": "Rain."}}]},
        {"messageId": "m4", "role": "agent", "parts": [
            {"kind": "text", "text": "Rain."}, {"kind": "file", "file": {"uri": "https://example.org/a", "name": "a"}},
            {"kind": "data", "data": {"any": 1}}]}],
}  # fmt: skip

_HANDWRITTEN_RESPONSE: Any = {
    "model": "anthropic/claude-opus-5-5", "id": "r1", "datetime_utc": "2026-01-02T03:04:05+00:00",
    "usage": {"input": 10, "output": 4, "details": {"cache_read_input_tokens": 20}}, "prompt": {"messages": [
        {"role": "user", "parts": [
            {"type": "text", "text": "Weather?"},
            {"type": "attachment", "attachment": {"type": "image/png", "content": PIXEL}}]},
        {"role": "assistant", "parts": [
            {"type": "reasoning", "text": "Look.", "provider_metadata": {"anthropic": {"signature": "c2ln"}}},
            {"type": "tool_call", "name": "weather", "arguments": {"city": "Bern"}, "tool_call_id": "call_1"}]},
        {"role": "tool", "parts": [{
            "type": "tool_result", "name": "weather", "output": "Rain.", "tool_call_id": "call_1"}]}]},
    "messages": [{"role": "assistant", "parts": [{"type": "text", "text": "Rain."}]}],
}  # fmt: skip

_HANDWRITTEN_LLM_ROWS: Any = [{
    "id": "r1", "conversation_id": "c1", "model": "gpt-6", "resolved_model": None, "prompt": "Weather?",
    "system": "Be brief.", "response": "Rain.", "reasoning": "Look.", "response_json": None, "input_tokens": 10,
    "output_tokens": 4, "token_details": None, "datetime_utc": "2026-01-02T03:04:05+00:00",
    "tool_calls": [{"id": 1, "tool_id": 1, "name": "weather", "arguments": {"city": "Bern"}, "tool_call_id": "call_1"}],
    "tool_results": [], "attachments": [{"id": "a", "type": "image/png", "url": "https://example.org/a.png"}],
}]  # fmt: skip

SAMPLES: dict[str, tuple[str, Any]] = {
    "vercel-ui": ("vercel-ui", _HANDWRITTEN_UI),
    "vercel-model": ("vercel-model", _HANDWRITTEN_MODEL_MESSAGES),
    "openai-finetuning": ("openai-finetuning", [
        {"messages": _HANDWRITTEN_CHAT, "tools": [_TOOL], "parallel_tool_calls": True}]),
    "preference": ("openai-finetuning", [{
        "input": {"messages": _HANDWRITTEN_CHAT[:1]}, "preferred_output": [_HANDWRITTEN_CHAT[3]],
        "non_preferred_output": [{"role": "assistant", "content": "No."}]}]),
    "openai-batch": ("openai-batch", [
        {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": _HANDWRITTEN_CHAT}}]),
    "openai-batch replies": ("openai-batch", [
        {"id": "b", "custom_id": "1", "response": {"status_code": 200, "body": _HANDWRITTEN_COMPLETION}}]),
    "anthropic-batch": ("anthropic-batch", {"requests": [{"custom_id": "1", "params": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Weather?"}]}]}}]}),
    "anthropic-batch replies": ("anthropic-batch", [
        {"custom_id": "1", "result": {"type": "succeeded", "message": _HANDWRITTEN_ANTHROPIC_REPLY}}]),
    "hf": ("hf", [{"tools": [_TOOL], "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}, {"type": "image", "url": "https://a.org/b"}]},
        {"role": "assistant", "content": "", "reasoning_content": "Look.", "tool_calls": [
            {"type": "function", "function": {"name": "weather", "arguments": {"city": "Bern"}}}]},
        {"role": "tool", "name": "weather", "content": "Rain."},
        {"role": "assistant", "content": "Rain."}]}]),
    "sharegpt": ("hf", [{"conversations": [
        {"from": "human", "value": "Weather?"},
        {"from": "function_call", "value": '{"name": "weather", "arguments": {"city": "Bern"}}'},
        {"from": "observation", "value": "Rain."}, {"from": "gpt", "value": "Rain."}], "system": "Be brief."}]),
    "otel": ("otel", _HANDWRITTEN_SPAN),
    "claude-code": ("claude-code", _HANDWRITTEN_LOG),
    "codex": ("codex", _HANDWRITTEN_ROLLOUT),
    "chatgpt": ("chatgpt", _HANDWRITTEN_EXPORT),
    "a2a": ("a2a", _HANDWRITTEN_TASK),
    "llm-json": ("llm-json", _HANDWRITTEN_RESPONSE),
    "llm-json rows": ("llm-json", _HANDWRITTEN_LLM_ROWS),
}  # fmt: skip
"""The name of the format, and a document of it."""
