"""Options that a client repeats are read once: what is remembered is what would be read again."""

from typing import Any

from dragoman import AdapterOptions, RequestContext, get_adapter
from dragoman.adapter.requests import option_table as known_options
from dragoman.errors import RequestError
from tests.tables import each_row

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"tools": []}, {"temperature": 1}, {"temperature": 1.0}, {"temperature": True}, {"stream": True},
    {"stream": False}, {"stop": "a"}, {"stop": ["a"]}, {"seed": 1, "n": 2}, {"n": 2, "seed": 1}, {"tools": [TOOL]},
    {"tools": [TOOL], "tool_choice": "auto"}, {"unknown": {"a": [1]}}, {"metadata": {"a": "b"}}, {"user": "u" * 2000},
    {"max_tokens": 5}, {"max_completion_tokens": 5}, {"logprobs": True}, {"functions": []}, {"seed": float("inf")},
    {"stream_options": {"include_usage": True}, "stream": True}, {"top_p": None}, {"reasoning_effort": "low"},
    {"temperature": 0.0}, {"temperature": -0.0}, {"temperature": "1"}, {"tools": [{}]},
    {"generationConfig": {"temperature": 1}}, {"generation_config": {"temperature": 1.0}}, {"options": {"seed": 1}},
    {"systemInstruction": "a"}, {"systemInstruction": ""}, {"system_instruction": "a"}, {"systemInstruction": True},
)  # fmt: skip
FIELDS: dict[str, dict[str, Any]] = {
    "openai-chat:gpt-5.2": {"messages": [{"role": "user", "content": "Hi"}]},
    "groq:llama-3.3-70b-versatile": {"messages": [{"role": "user", "content": "Hi"}]},
    "anthropic:claude-sonnet-4-6": {"messages": [{"role": "user", "content": "Hi"}]},
    "openai:gpt-5.2": {"input": "Hi"},
    "google:gemini-2.5-pro": {"contents": [{"parts": [{"text": "Hi"}]}]},
    "ollama:llama3.2": {"messages": [{"role": "user", "content": "Hi"}]},
}


def read(model: str, options: dict[str, Any]) -> tuple[AdapterOptions, RequestContext]:
    context = RequestContext(model=model)
    _, _, found = get_adapter(model).from_wire_request({"model": "m", **FIELDS[model], **options}, context)
    return found, context


def outcome(model: str, options: dict[str, Any]) -> dict[str, str]:
    """The options without their context, or the error; 1 and True differ."""
    try:
        found, context = read(model, options)
    except RequestError as error:
        return {"error": str(error)}
    assert found.context is context
    return {name: repr(getattr(found, name)) for name in found.__dataclass_fields__ if name != "context"}


@each_row("model", FIELDS)
def test_requests_are_read_as_if_each_were_the_first(model: str) -> None:
    alone = []
    for options in OPTIONS:
        known_options._known.clear()
        alone.append(outcome(model, options))
    for _ in range(2):
        for options, first in zip(OPTIONS, alone, strict=True):
            assert outcome(model, options) == first, options


def test_what_is_remembered_has_a_bound_and_no_objects_of_a_request() -> None:
    known_options._known.clear()
    for seed in range(2000):
        read("openai-chat:gpt-5.2", {"seed": seed, "unknown": [seed] if seed % 2 else 1})
    assert len(known_options._known) <= 512
    first, _ = read("openai-chat:gpt-5.2", {"response_format": {"type": "text"}})
    again, _ = read("openai-chat:gpt-5.2", {"response_format": {"type": "text"}})
    assert first.extra == again.extra
    assert first.extra["openai-chat"]["response_format"] is not again.extra["openai-chat"]["response_format"]


def test_an_integer_of_thousands_of_digits_is_read() -> None:
    """It has no text in Python, so nothing remembers it."""
    assert read("openai-chat:gpt-5.2", {"seed": 10**5000})[0].seed == 10**5000
