"""Handwritten documents of frameworks for agents, with every kind of object that their readers know."""

from typing import Any

_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

_HANDWRITTEN_HAYSTACK: Any = [
    {"role": "user", "meta": {}, "name": None, "content": [
        {"text": "Weather?"}, {"image": {"base64_image": _PIXEL, "mime_type": "image/png", "detail": "low",
                                         "meta": {"url": "https://example.org/a.png"}, "validation": True}}]},
    {"role": "assistant", "meta": {"model": "claude-opus-5-5", "index": 0, "finish_reason": "tool_calls", "usage": {
        "prompt_tokens": 30, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 20}}}, "content": [
        {"reasoning": {"reasoning_text": "Look.", "extra": {"reasoning_contents": [
            {"reasoning_content": {"reasoning_text": {"text": "Look.", "signature": "c2ln"}}}]}}},
        {"tool_call": {"tool_name": "weather", "arguments": {"city": "Bern"}, "id": "i1",
                       "extra": {"call_id": "call_1"}}}]},
    {"role": "tool", "meta": {}, "content": [{"tool_call_result": {"result": "Rain.", "error": False, "origin": {
        "tool_name": "weather", "arguments": {"city": "Bern"}, "id": "i1", "extra": {"call_id": "call_1"}}}}]},
    {"role": "assistant", "meta": {"citations": [{"type": "web", "url": "https://example.org"}]}, "content": [
        {"text": "Rain."}]},
]  # fmt: skip

_HANDWRITTEN_LLAMA_INDEX: Any = {"class_name": "SimpleChatStore", "store": {"chat-1": [
    {"role": "user", "additional_kwargs": {}, "blocks": [
        {"block_type": "text", "text": "Weather?"},
        {"block_type": "image", "image": _PIXEL, "image_mimetype": "image/png", "url": None, "detail": "low"}]},
    {"role": "assistant", "additional_kwargs": {"tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]}, "blocks": [
        {"block_type": "thinking", "content": "Look.", "additional_information": {"signature": "c2ln"}}]},
    {"role": "tool", "additional_kwargs": {"tool_call_id": "call_1", "name": "weather"}, "blocks": [
        {"block_type": "text", "text": "Rain."}]},
    {"role": "assistant", "additional_kwargs": {}, "blocks": [
        {"block_type": "citable", "title": "A", "source": "https://example.org", "content": [
            {"block_type": "text", "text": "rain"}]},
        {"block_type": "text", "text": "Rain."}]}]}}  # fmt: skip

_HANDWRITTEN_AUTOGEN: Any = [
    {"id": "1", "type": "MultiModalMessage", "source": "user", "models_usage": None, "metadata": {}, "content": [
        "Weather?", {"data": _PIXEL}], "created_at": "2026-01-02T03:04:05Z"},
    {"id": "2", "type": "ThoughtEvent", "source": "assistant", "content": "Look."},
    {"id": "3", "type": "ToolCallRequestEvent", "source": "assistant", "models_usage": {
        "prompt_tokens": 30, "completion_tokens": 4}, "content": [
        {"id": "call_1", "name": "weather", "arguments": '{"city": "Bern"}'}]},
    {"id": "4", "type": "ToolCallExecutionEvent", "source": "assistant", "content": [
        {"call_id": "call_1", "name": "weather", "content": "Rain.", "is_error": False}]},
    {"id": "5", "type": "ThoughtEvent", "source": "assistant", "content": "Done."},
    {"id": "6", "type": "TextMessage", "source": "assistant", "content": "Rain."},
]  # fmt: skip

_HANDWRITTEN_ADK: Any = {"id": "s", "appName": "a", "userId": "u", "state": {}, "events": [
    {"id": "1", "author": "user", "invocationId": "i", "timestamp": 1790000000.0, "actions": {"stateDelta": {}},
     "content": {"role": "user", "parts": [
        {"text": "Weather?"}, {"inlineData": {"data": _PIXEL, "mimeType": "image/png", "displayName": "a.png"}}]}},
    {"id": "2", "author": "helper", "invocationId": "i", "modelVersion": "gemini-3.5-pro", "finishReason": "STOP",
     "usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 3, "thoughtsTokenCount": 1,
                       "cachedContentTokenCount": 20},
     "content": {"role": "model", "parts": [
        {"text": "Look.", "thought": True},
        {"functionCall": {"id": "f1", "name": "weather", "args": {"city": "Bern"}}, "thoughtSignature": "c2ln"}]}},
    {"id": "3", "author": "helper", "invocationId": "i", "content": {"role": "user", "parts": [
        {"functionResponse": {"id": "f1", "name": "weather", "response": {"result": "Rain."}}}]}},
    {"id": "4", "author": "helper", "invocationId": "i", "content": {"role": "model", "parts": [{"text": "Rain."}]}},
]}  # fmt: skip

_HANDWRITTEN_SAMPLING: Any = {"systemPrompt": "Be brief.", "maxTokens": 9, "messages": [
    {"role": "user", "content": {"type": "text", "text": "Weather?"}},
    {"role": "assistant", "content": {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"a": 1}}},
    {"role": "user", "content": [{"type": "tool_result", "toolUseId": "call_1", "isError": False, "content": [
        {"type": "text", "text": "Rain."}, {"type": "image", "data": _PIXEL, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "A."}},
        {"type": "resource_link", "uri": "file:///b.txt", "name": "b"}]}]},
    {"role": "assistant", "content": {"type": "text", "text": "Rain."}}]}  # fmt: skip

_HANDWRITTEN_HARMONY: Any = [
    {"role": "system", "content": [{"type": "system_content", "reasoning_effort": "Medium"}]},
    {"role": "developer", "content": [{"type": "developer_content", "instructions": "Be brief.", "tools": {
        "functions": {"name": "functions", "tools": [{"name": "weather"}]}}}]},
    {"role": "user", "name": None, "content": [{"type": "text", "text": "Weather?"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Look."}], "channel": "analysis"},
    {"role": "assistant", "content": [{"type": "text", "text": "{}"}], "channel": "commentary",
     "recipient": "functions.weather", "content_type": "<|constrain|> json"},
    {"role": "tool", "name": "functions.weather", "content": [{"type": "text", "text": "Rain."}],
     "channel": "commentary", "recipient": "assistant"},
    {"role": "assistant", "content": [{"type": "text", "text": "Rain."}], "channel": "final"},
]  # fmt: skip

_LANGCHAIN_SENT: Any = [
    {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {
        "type": "human", "content": "Weather?"}}]  # fmt: skip
_LANGCHAIN_ANSWER: Any = {
    "lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": {
        "type": "ai", "content": "Rain.", "response_metadata": {"model_name": "gpt-6.1", "model_provider": "openai"},
        "usage_metadata": {"input_tokens": 30, "output_tokens": 4, "total_tokens": 34}}}  # fmt: skip

_HANDWRITTEN_RUN: Any = {
    "id": "r1", "name": "ChatOpenAI", "run_type": "llm", "error": None, "inputs": {"messages": [_LANGCHAIN_SENT]},
    "outputs": {"generations": [[{"text": "Rain.", "message": _LANGCHAIN_ANSWER}]]},
}  # fmt: skip

_HANDWRITTEN_FLAT_SPAN: Any = {
    "name": "ChatCompletion", "context": {"trace_id": "0x1"}, "start_time": "2026-01-02T03:04:05Z", "attributes": {
        "openinference.span.kind": "LLM", "llm.system": "openai", "llm.model_name": "gpt-6.1",
        "llm.token_count.prompt": 30, "llm.token_count.completion": 4,
        "llm.token_count.prompt_details.cache_read": 20,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.contents.0.message_content.type": "text",
        "llm.input_messages.0.message.contents.0.message_content.text": "Weather?",
        "llm.input_messages.1.message.role": "assistant",
        "llm.input_messages.1.message.tool_calls.0.tool_call.id": "call_1",
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "weather",
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.arguments": '{"city": "Bern"}',
        "llm.input_messages.2.message.role": "tool",
        "llm.input_messages.2.message.tool_call_id": "call_1",
        "llm.input_messages.2.message.content": "Rain.",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Rain."},
}  # fmt: skip

FRAMEWORK_SAMPLES: dict[str, tuple[str, Any]] = {
    "haystack": ("haystack", _HANDWRITTEN_HAYSTACK),
    "llama-index": ("llama-index", _HANDWRITTEN_LLAMA_INDEX),
    "llama-index messages": ("llama-index", _HANDWRITTEN_LLAMA_INDEX["store"]["chat-1"]),
    "autogen": ("autogen", _HANDWRITTEN_AUTOGEN),
    "google-adk": ("google-adk", _HANDWRITTEN_ADK),
    "mcp": ("mcp", _HANDWRITTEN_SAMPLING),
    "harmony": ("harmony", _HANDWRITTEN_HARMONY),
    "langgraph": ("langgraph", {"v": 4, "id": "1", "channel_values": {
        "messages": [*_LANGCHAIN_SENT, _LANGCHAIN_ANSWER]}}),
    "langsmith": ("langsmith", _HANDWRITTEN_RUN),
    "openinference": ("openinference", _HANDWRITTEN_FLAT_SPAN),
}  # fmt: skip
"""The name of the format, and a document of it."""

TEXT_SAMPLES: dict[str, tuple[str, str]] = {
    "harmony text": ("harmony", (
        "<|start|>system<|message|>Reasoning: medium<|end|><|start|>developer<|message|># Instructions\n\nBe brief."
        "\n\n# Tools\n\n## functions<|end|><|start|>user<|message|>Weather?<|end|>"
        "<|start|>assistant<|channel|>analysis<|message|>Look.<|end|>"
        '<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{"city": "Bern"}<|call|>'
        '<|start|>functions.weather to=assistant<|channel|>commentary<|message|>"Rain."<|end|>'
        "<|start|>assistant<|channel|>final<|message|>Rain.<|return|>")),
    "llama": ("chat-template", (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
        "Today Date: 26 Jul 2024\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWeather?<|eot_id|>"
        '<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "weather", "parameters": {"city": "Bern"}}<|eot_id|>'
        '<|start_header_id|>ipython<|end_header_id|>\n\n"Rain."<|eot_id|>'
        "<|start_header_id|>assistant<|end_header_id|>\n\nRain.<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n")),
    "glm": ("chat-template", (
        '[gMASK]<sop><|system|>\nBe brief.<|user|>\nWeather?<|assistant|>\n<think>Look.</think>\n'
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>\n</tool_call>"
        "<|observation|>\n<tool_response>\nRain.\n</tool_response><|assistant|>\n<think></think>\nRain.")),
    "deepseek": ("chat-template", (
        "<@begin▁of▁sentence@>Be brief.<@User@>Weather?<@Assistant@><@tool▁calls▁begin@><@tool▁call▁begin@>function"
        '<@tool▁sep@>weather\n```json\n{"city": "Bern"}\n```<@tool▁call▁end@><@tool▁calls▁end@><@end▁of▁sentence@>'
        "<@tool▁outputs▁begin@><@tool▁output▁begin@>Rain.<@tool▁output▁end@><@tool▁outputs▁end@>"
        "<@Assistant@>Rain.<@end▁of▁sentence@>").replace("@", "\N{FULLWIDTH VERTICAL LINE}")),
    "report of llm": ("llm-json", (
        "# 2026-01-02T03:04:05    conversation: c1 id: r1\n\nModel: **gpt-6**\n\n## Prompt\n\nWeather?\n\n## System\n\n"
        "Be brief.\n\n## Reasoning\n\n<details><summary>Reasoning trace</summary>\n\nLook.\n\n</details>\n\n"
        "## Response\n\n### Tool calls\n\n- **weather**: `call_1`  \n    city:\n    ```\n    Bern\n    ```\n\n"
        "# 2026-01-02T03:04:06    conversation: c1 id: r2\n\nModel: **gpt-6**\n\n## Prompt\n\n-- none --\n\n"
        "### Tool results\n\n- **weather**: `call_1`  \n    ```\n    Rain.\n    ```\n\n## Response\n\nRain.\n\n")),
}  # fmt: skip
"""The name of the format, and a text of it."""
