"""Builds the model's prompt, and the grammar of its reply, from the body of a request.

Calls and results stand in the prompt as text, in the form of the Hermes and Qwen models, and calls are written in
the same form, which the runtime's grammar enforces::

    <tool_call>{"name": "read_file", "arguments": {"path": "README.md"}}</tool_call>
    <tool_response>
    ...
    </tool_response>
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dragoman.local.reply import CALL_CLOSE, CALL_OPEN, CALL_TAIL, LocalRequestError, call_head

_WORD = re.compile(r"[^\W_]+")
_MIN_STEM = 4

_SHAPES = (
    (re.compile(r"https?://\S+"), ("url", "link", "page", "web")),
    (re.compile(r"[^\s@]+@[^\s@]+\.\w+"), ("email", "mail", "address")),
    (re.compile(r"(?<![\w@])(?!e\.g|i\.e)[\w./-]*\w\.[a-zA-Z]\w{0,4}(?!\w)"), ("file", "document", "path")),
)
"""Patterns of pieces of text, and the words that name them."""


def find_pieces(word: str, text: str) -> list[str]:
    """Return the pieces of the text that look like what the word names, such as a path; none for other words."""
    return [piece for shape, names in _SHAPES if word in names for piece in shape.findall(text)]


def select_tools(tools: Sequence[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Return the tools that the text needs, in their order; empty if it needs none."""
    mentioned = _words(text)
    scored_tools = [(_count_mentioned(tool["name"], mentioned), tool) for tool in tools]
    best = max((score for score, _ in scored_tools), default=0)
    return [tool for score, tool in scored_tools if best and score == best]


def _count_mentioned(name: str, mentioned: set[str]) -> int:
    """Return how many words of a tool's name were mentioned; 0 if the last one, which names its object, was not."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or not _is_mentioned(words[-1], mentioned):
        return 0
    return sum(_is_mentioned(word, mentioned) for word in words)


def _is_mentioned(word: str, mentioned: set[str]) -> bool:
    """Whether the word, or one with the same beginning, was mentioned: file and files, read and reading."""
    if word in mentioned:
        return True
    return any(
        min(len(word), len(other)) >= _MIN_STEM and (word.startswith(other) or other.startswith(word))
        for other in mentioned
    )


def _words(text: str) -> set[str]:
    words = {word.lower() for word in _WORD.findall(text)}
    for shape, names in _SHAPES:
        if shape.search(text):
            words.update(names)
    return words


class Example(NamedTuple):
    """A request, the call that serves it, and optionally the result and the answer."""

    request: str
    name: str
    arguments: dict[str, Any]
    result: str = ""
    answer: str = ""


CALLING = (
    Example("Reserve a table for two at Luigi's.", "book_table", {"place": "Luigi's", "guests": 2}),
    Example("What does the song Yesterday sound like?", "play_song", {"title": "Yesterday"}),
    Example("Delete draft-3.txt", "delete_note", {"note": "draft-3.txt"}),
    Example("How far is it to Berlin?", "get_distance", {"place": "Berlin"}),
)
"""How a request becomes a call."""

ANSWERING = (
    Example(
        "Is there a table for two at Luigi's?",
        "find_table",
        {"place": "Luigi's", "guests": 2},
        "Luigi's: one table is free. It is table 7, near the window, at 19:00.",
        "Yes, table 7 is free at 19:00.",
    ),
    Example(
        "What does draft-3.txt say about milk?",
        "open_note",
        {"name": "draft-3.txt"},
        "# Shopping\n\nBuy bread and eggs.\nThe milk must be fresh and comes from the market.",
        "The milk must be fresh and comes from the market.",
    ),
    Example(
        "How far is it to Berlin?",
        "get_distance",
        {"place": "Berlin"},
        "Berlin, 289 km by car, 3 h 10 min",
        "It is 289 km to Berlin by car.",
    ),
)
"""How a result becomes an answer."""


MAX_WORDS = 60
"""Only the last words of a longer message are used; the number of sequences grows with the number of words."""
MAX_RUN = 8

_LEADING = "\"'`([{<,;:!?"
_SENTENCE_ENDS = ".!?;:"
"""A sequence does not continue after these characters."""
_TRAILING = "\"'`)]}>,;:!?."
_CONSTRAINT_KEYS = frozenset({"enum", "const", "pattern", "format"})


def limit_arguments(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with each free string limited to pieces of the text; unchanged if the text has none."""
    runs = list(dict.fromkeys(_runs(text)))
    return _limit(schema, "", text, runs) if runs else dict(schema)


def _limit(schema: Mapping[str, Any], name: str, text: str, runs: list[str]) -> dict[str, Any]:
    limited = dict(schema)
    if schema.get("type") == "string" and not _CONSTRAINT_KEYS & schema.keys():
        limited["enum"] = list(dict.fromkeys(find_pieces(name.lower().rpartition("_")[2], text))) or runs
    if isinstance(schema.get("properties"), dict):
        limited["properties"] = {key: _limit(inner, key, text, runs) for key, inner in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        limited["items"] = _limit(schema["items"], name, text, runs)
    return limited


def _runs(text: str) -> Iterator[str]:
    words = text.split()[-MAX_WORDS:]
    for start in range(len(words)):
        for end in range(start + 1, min(start + MAX_RUN, len(words)) + 1):
            if run := " ".join(words[start:end]).lstrip(_LEADING).rstrip(_TRAILING):
                yield run
            if words[end - 1][-1] in _SENTENCE_ENDS:
                break


Json = dict[str, Any]

_RESULT_TAG = re.compile(r"<(\s*/?\s*tool_response)", re.IGNORECASE)
"""A result that contains the tag could end itself, and go on as the user."""
_PLAIN = "You are a helpful assistant."


@dataclass(frozen=True, slots=True)
class AllowedOutput:
    """The grammar of the reply: text, calls of these tools, or either. ``parallel``: several calls in one reply.

    ``schema`` is the JSON Schema of its text.
    """

    text: bool = True
    calls: tuple[Json, ...] = ()
    parallel: bool = False
    schema: Json | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """Messages for a chat template: a role and a text each."""

    messages: list[dict[str, str]]
    allowed: AllowedOutput


def build_prompt(body: Json) -> Prompt:
    """Return the prompt of a request. Raises LocalRequestError if the body cannot be served."""
    if not body["messages"]:
        raise LocalRequestError("invalid_request", "a request must hold at least one message")
    guided = body.get("prompting") == "guided"
    allowed = _allowed_output(body, guided=guided)
    if not guided:
        return Prompt(_add_tools(_render(body["messages"]), allowed.calls), allowed)
    user_text = _last_user_text(body["messages"])
    calls = tuple({**tool, "parameters": limit_arguments(user_text, tool["parameters"])} for tool in allowed.calls)
    return Prompt(_guide(body["messages"], allowed), replace(allowed, calls=calls))


def _allowed_output(body: Json, *, guided: bool) -> AllowedOutput:
    tools, choice = body.get("tools") or [], body.get("tool_choice", "auto")
    schema = body.get("output_schema")
    parallel = not guided and body.get("parallel_tool_calls", True)
    if isinstance(choice, dict):
        named = tuple(tool for tool in tools if tool["name"] == choice["name"])
        if not named:
            raise LocalRequestError(
                "invalid_request", f"tool_choice names {choice['name']!r}, which is not among the tools"
            )
        return AllowedOutput(text=False, calls=named)
    if choice == "required":
        if not tools:
            raise LocalRequestError("invalid_request", "tool_choice is required, but there are no tools")
        return AllowedOutput(text=False, calls=tuple(tools), parallel=parallel)
    if choice == "none":
        return AllowedOutput(schema=schema)
    if not guided:
        return AllowedOutput(calls=tuple(tools), parallel=parallel, schema=schema)
    # A tool result is answered with text.
    is_user_turn = body["messages"][-1]["role"] == "user"
    selected = select_tools(tools, _last_user_text(body["messages"])) if is_user_turn else []
    return AllowedOutput(text=False, calls=tuple(selected)) if selected else AllowedOutput(schema=schema)


def _last_user_text(messages: Sequence[Json]) -> str:
    """Return the text of the last user message."""
    return next((_text(message["content"]) for message in reversed(messages) if message["role"] == "user"), "")


def _guide(messages: Sequence[Json], allowed: AllowedOutput) -> list[dict[str, str]]:
    """Return the conversation with worked examples of the next step; unchanged without tools."""
    if allowed.calls:
        signatures = "\n".join(f"{_signature(tool)}: {tool['description']}" for tool in allowed.calls)
        return _add_examples(messages, CALLING, f" You can call these tools:\n{signatures}")
    if messages[-1]["role"] == "tool":
        return _add_examples(messages, ANSWERING, "")
    return _render(messages)


def _add_examples(messages: Sequence[Json], examples: Iterable[Example], rules: str) -> list[dict[str, str]]:
    """Insert the examples right before the current question: a small model weighs nearby text most."""
    question = max((place for place, message in enumerate(messages) if message["role"] == "user"), default=0)
    earlier, current = _render(messages[:question]), _render(messages[question:])
    system = _PLAIN
    if earlier and earlier[0]["role"] == "system":
        system, earlier = earlier[0]["content"], earlier[1:]
    examples_shown = [message for example in examples for message in _example_messages(example)]
    return [{"role": "system", "content": system + rules}, *earlier, *examples_shown, *current]


def _example_messages(example: Example) -> list[dict[str, str]]:
    turns = [("user", example.request), ("assistant", _call(example.name, example.arguments))]
    if example.answer:
        turns += [("user", _result(example.result)), ("assistant", example.answer)]
    return [{"role": role, "content": text} for role, text in turns]


def _signature(tool: Json) -> str:
    properties = tool["parameters"].get("properties") or {}
    return f"{tool['name']}({', '.join(properties)})"


def _add_tools(rendered: list[dict[str, str]], tools: Sequence[Json]) -> list[dict[str, str]]:
    """Describe the tools in the system prompt, in the form that the Hermes and Qwen models were trained on."""
    if not tools:
        return rendered
    lines = "\n".join(json.dumps({"type": "function", "function": tool}, ensure_ascii=False) for tool in tools)
    system = (
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        f"You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n{lines}\n</tools>\n\n"
        "For each function call, return a json object with function name and arguments within "
        f"{CALL_OPEN}{CALL_CLOSE} XML tags:\n"
        f'{CALL_OPEN}{{"name": <function-name>, "arguments": <args-json-object>}}{CALL_CLOSE}'
    )
    if rendered[0]["role"] == "system":
        return [{"role": "system", "content": f"{rendered[0]['content']}\n\n{system}"}, *rendered[1:]]
    return [{"role": "system", "content": f"{_PLAIN}\n\n{system}"}, *rendered]


def _render(messages: Iterable[Json]) -> list[dict[str, str]]:
    """Role and text. The template shows a tool result as the user's; adjacent messages of one role are merged."""
    rendered: list[dict[str, str]] = []
    for message in messages:
        role = "user" if message["role"] == "tool" else message["role"]
        text = _text(message["content"])
        if rendered and rendered[-1]["role"] == role:
            rendered[-1]["content"] += f"\n{text}"
        else:
            rendered.append({"role": role, "content": text})
    return rendered


def _text(parts: Iterable[Json]) -> str:
    return "\n".join(text for part in parts if (text := _part(part)) is not None)


def _part(part: Json) -> str | None:
    match part["type"]:
        case "text":
            return str(part["text"])
        case "call":
            return _call(part["name"], part["arguments"])
        case "result":
            result_text = _text(part["content"])
            return _result(f"Error: {result_text}" if part.get("is_error") else result_text)
        case _:
            return None


def _call(name: str, arguments: Any) -> str:
    arguments_text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f"{call_head(name)}{arguments_text}{CALL_TAIL}"


def _result(text: str) -> str:
    escaped = _RESULT_TAG.sub(r"<\\\1", text.strip())
    return f"<tool_response>\n{escaped}\n</tool_response>"
