"""Calls of the guides of OpenAI, Anthropic, Google, LiteLLM, pydantic-ai and llm, with a door of Dragoman in place of
theirs: nothing else was changed."""

from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel


class City(BaseModel):
    name: str


@dataclass(frozen=True)
class Call:
    """``door`` is where it is made, ``model`` and ``arguments`` are as the guide has them."""

    source: str
    door: str
    model: str
    arguments: dict[str, Any] = field(default_factory=dict)
    prompt: Any = "Where is the clock tower?"


ASKED = [{"role": "user", "content": "Where is the clock tower?"}]
HISTORY = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello!"},
    {"role": "assistant", "content": "Hi."},
    {"role": "user", "content": "Where is the clock tower?"},
]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
FUNCTION = {"name": "get_weather", "description": "The weather of a city.", "parameters": PARAMETERS}
NO_PROMPT = None


def look_up(city: str) -> str:
    """Look a city up."""
    return city


CALLS = [
    # OpenAI: Chat Completions
    Call("openai chat", "ask", "gpt-4o", {"messages": ASKED}, NO_PROMPT),
    Call("openai chat", "ask", "gpt-4o", {"messages": HISTORY}, NO_PROMPT),
    Call("openai chat", "ask", "gpt-4o", {}, ASKED),
    Call("openai chat", "client.ask", "gpt-4o-mini", {"messages": ASKED, "max_tokens": 50}, NO_PROMPT),
    Call("openai chat", "client.stream", "gpt-4o", {"messages": ASKED, "stream": True}, NO_PROMPT),
    Call("openai chat", "ask", "gpt-4.1", {"max_completion_tokens": 50, "temperature": 0.2}),
    Call("openai chat", "ask", "openai:gpt-4o", {"max_tokens": 5}),
    Call("openai chat", "client.stream", "openai:gpt-4o", {"max_tokens": 5, "top_p": 0.5}),
    Call("openai chat", "session.ask", "openai:gpt-4o", {"max_tokens": 5}),
    Call("openai chat", "Session", "openai:gpt-4o", {"max_tokens": 5}),
    Call("openai chat", "Session", "openai:gpt-4o", {"temperature": 0, "max_tokens": 5}),
    Call("openai chat", "bulk", "openai:gpt-4o", {"max_tokens": 5}),
    Call("openai chat", "ask", "openai-chat:gpt-4o", {"stop": ["END"]}),
    Call("openai chat", "ask", "openai-chat:gpt-4o", {"stop": "END", "seed": 7}),
    Call("openai chat", "ask", "openai:gpt-4o", {"response_format": {"type": "json_object"}}),
    Call(
        "openai chat",
        "ask",
        "openai:gpt-4o",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": SCHEMA}}},
    ),
    Call("openai chat", "client.ask", "openai:gpt-4o", {"response_format": City}),
    Call("openai chat", "session.ask", "openai:gpt-4o", {"response_format": City}),
    Call("openai chat", "ask", "openai:gpt-4o", {"tools": [{"type": "function", "function": FUNCTION}]}),
    Call("openai chat", "ask", "openai:gpt-4o", {"functions": [FUNCTION]}),
    Call(
        "openai chat",
        "ask",
        "openai:gpt-4o",
        {"tools": [look_up], "tool_choice": {"type": "function", "function": {"name": "look_up"}}},
    ),
    Call("openai chat", "ask", "openai:gpt-4o", {"tools": [look_up], "function_call": "auto"}),
    Call("openai chat", "ask", "openai-chat:gpt-4o", {"logit_bias": {"50256": -100}}),
    Call("openai chat", "ask", "openai-chat:gpt-4o", {"logprobs": True, "top_logprobs": 2}),
    Call("openai chat", "ask", "openai-chat:gpt-4o", {"user": "user-123", "presence_penalty": 0.5, "n": 1}),
    Call("openai chat", "ask", "openai:gpt-4o", {"timeout": 20.0}),
    Call("openai chat", "session.ask", "openai:gpt-4o", {"timeout": 20.0}),
    Call("openai chat", "bulk", "openai:gpt-4o", {"timeout": 20.0}),
    Call("openai chat", "Client", "openai:gpt-4o", {"api_key": "sk-test", "max_retries": 3}),
    Call("openai chat", "ask", "openai:gpt-4o", {"max_retries": 0, "timeout": 5}),
    Call("openai chat", "ask", "openai:gpt-4o", {"extra_body": {"store": True}}),
    Call("openai chat", "ask", "openai:gpt-4o", {"extra_headers": {"x-team": "maps"}}),
    Call("openai chat", "ask", "openai-chat:gpt-4o", {"stream_options": {"include_usage": True}}),
    # OpenAI: Responses
    Call("openai responses", "ask", "gpt-5.1", {"input": "Where is the clock tower?"}, NO_PROMPT),
    Call("openai responses", "ask", "openai:gpt-5.1", {"instructions": "Talk like a pirate."}),
    Call("openai responses", "ask", "openai:gpt-5.1", {"reasoning": {"effort": "low"}}),
    Call("openai responses", "ask", "openai:gpt-5.1", {"reasoning_effort": "low"}),
    Call("openai responses", "ask", "openai:gpt-5.1", {"text": {"verbosity": "low"}}),
    Call("openai responses", "ask", "openai:gpt-4o", {"text_format": City}),
    Call(
        "openai responses",
        "ask",
        "openai:gpt-4o",
        {"text": {"format": {"type": "json_schema", "name": "city", "schema": SCHEMA}}},
    ),
    Call("openai responses", "ask", "openai:gpt-4o", {"tools": [{"type": "function", **FUNCTION}]}),
    Call("openai responses", "ask", "openai:gpt-4o", {"max_output_tokens": 50}),
    # Anthropic
    Call("anthropic", "ask", "claude-opus-5-5", {"max_tokens": 1024, "messages": ASKED}, NO_PROMPT),
    Call("anthropic", "client.stream", "claude-opus-5-5", {"max_tokens": 500}),
    Call("anthropic", "ask", "anthropic:claude-opus-5-5", {"system": "Be brief.", "stop_sequences": ["END"]}),
    Call("anthropic", "ask", "anthropic:claude-haiku-4-5", {"thinking": {"type": "enabled", "budget_tokens": 2000}}),
    Call("anthropic", "ask", "anthropic:claude-haiku-4-5", {"thinking": {"type": "disabled"}}),
    Call(
        "anthropic",
        "ask",
        "anthropic:claude-opus-5-5",
        {"tools": [{"name": "get_weather", "description": "The weather.", "input_schema": PARAMETERS}]},
    ),
    Call("anthropic", "ask", "anthropic:claude-haiku-4-5", {"tools": [look_up], "tool_choice": {"type": "any"}}),
    Call("anthropic", "ask", "anthropic:claude-opus-5-5", {"betas": ["context-1m-2025-08-07"]}),
    # Google
    Call("google", "ask", "gemini-3.6-flash", {"contents": "Where is the clock tower?"}, NO_PROMPT),
    Call("google", "ask", "google:gemini-3.6-flash", {"system_instruction": "You are a cat."}),
    Call("google", "ask", "google:gemini-3.6-flash", {"config": {"temperature": 0.1, "max_output_tokens": 50}}),
    Call("google", "ask", "google:gemini-3.6-flash", {"response_schema": City}),
    # LiteLLM
    Call("litellm", "ask", "openai/gpt-4o", {"messages": ASKED}, NO_PROMPT),
    Call("litellm", "ask", "anthropic/claude-opus-5-5", {"messages": ASKED, "max_tokens": 100}, NO_PROMPT),
    Call("litellm", "ask", "gemini/gemini-3.6-flash", {"messages": ASKED}, NO_PROMPT),
    Call("litellm", "ask", "openai/gpt-4o", {"fallbacks": ["anthropic/claude-opus-5-5"]}),
    Call("litellm", "ask", "openai/gpt-4o", {"num_retries": 2, "drop_params": True}),
    Call("litellm", "ask", "openai-chat:gpt-4o", {"request_timeout": 30}),
    Call("litellm", "bulk", "openai/gpt-4o", {"response_format": City}),
    # pydantic-ai
    Call("pydantic-ai", "Session", "openai:gpt-4o", {"instructions": "Be concise."}),
    Call("pydantic-ai", "Session", "google-gla:gemini-3.6-flash", {"system_prompt": "Be concise."}),
    Call("pydantic-ai", "ask", "openai-responses:gpt-4o", {"output_type": City}),
    Call("pydantic-ai", "Session", "openai:gpt-4o", {"output_type": City}),
    Call("pydantic-ai", "bulk", "openai:gpt-4o", {"output_type": City}),
    Call("pydantic-ai", "Session", "openai:gpt-4o", {"deps": 3, "tools": [look_up]}),
    Call("pydantic-ai", "ask", "openai:gpt-4o", {"model_settings": {"temperature": 0.0}}),
    Call("pydantic-ai", "session.ask", "openai:gpt-4o", {"model_settings": {"temperature": 0.0}}),
    # llm
    Call("llm", "ask", "gpt-4o-mini", {"system": "Answer like GlaDOS"}),
    Call("llm", "ask", "gpt-4o-mini", {"temperature": 0.2}),
    Call("llm", "ask", "gpt-4o-mini", {"schema": City}),
    Call("llm", "ask", "claude-opus-5-5", {"tools": [look_up]}),
    Call("llm", "ask", "sonnet", {"stream": False}),
    Call("llm", "client.ask", "haiku"),
    Call("llm", "bulk", "haiku"),
]
