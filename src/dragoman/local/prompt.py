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
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

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
    mentioned = {word.lower() for word in _WORD.findall(text)}
    for shape, names in _SHAPES:
        if shape.search(text):
            mentioned.update(names)
    scores = []
    for tool in tools:
        words = [word.lower() for word in _WORD.findall(tool["name"])]
        # The last word of a name is that of its object.
        names_object = bool(words) and _is_mentioned(words[-1], mentioned)
        scores.append(sum(_is_mentioned(word, mentioned) for word in words) if names_object else 0)
    best = max(scores, default=0)
    return [tool for tool, score in zip(tools, scores, strict=True) if best and score == best]


def _is_mentioned(word: str, mentioned: set[str]) -> bool:
    """Whether the word, or one with the same beginning, was mentioned: file and files, read and reading."""
    if word in mentioned:
        return True
    return any(
        min(len(word), len(other)) >= _MIN_STEM and (word.startswith(other) or other.startswith(word))
        for other in mentioned
    )


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
    runs: dict[str, None] = {}
    words = text.split()[-MAX_WORDS:]
    for start in range(len(words)):
        for end in range(start + 1, min(start + MAX_RUN, len(words)) + 1):
            if run := " ".join(words[start:end]).lstrip(_LEADING).rstrip(_TRAILING):
                runs[run] = None
            if words[end - 1][-1] in _SENTENCE_ENDS:
                break
    return _limit(schema, "", text, list(runs)) if runs else dict(schema)


def _limit(schema: Mapping[str, Any], name: str, text: str, runs: list[str]) -> dict[str, Any]:
    limited = dict(schema)
    if schema.get("type") == "string" and not _CONSTRAINT_KEYS & schema.keys():
        limited["enum"] = list(dict.fromkeys(find_pieces(name.lower().rpartition("_")[2], text))) or runs
    if isinstance(schema.get("properties"), dict):
        limited["properties"] = {key: _limit(inner, key, text, runs) for key, inner in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        limited["items"] = _limit(schema["items"], name, text, runs)
    return limited


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
    rules = "".join(
        f"\n{tool['name']}({', '.join(tool['parameters'].get('properties') or {})}): {tool['description']}"
        for tool in allowed.calls
    )
    if rules:
        messages = _add_examples(body["messages"], "calling", f" You can call these tools:{rules}")
    elif body["messages"][-1]["role"] == "tool":
        messages = _add_examples(body["messages"], "answering", "")
    else:
        messages = _render(body["messages"])
    return Prompt(messages, replace(allowed, calls=calls))


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


def _add_examples(messages: Sequence[Json], kind: str, rules: str) -> list[dict[str, str]]:
    """Insert worked examples right before the current question: a small model weighs nearby text most."""
    question = max((place for place, message in enumerate(messages) if message["role"] == "user"), default=0)
    earlier, current = _render(messages[:question]), _render(messages[question:])
    system = _PLAIN
    if earlier and earlier[0]["role"] == "system":
        system, earlier = earlier[0]["content"], earlier[1:]
    turns: list[tuple[str, str]] = []
    for each in _examples()[kind]:
        turns += [("user", each["request"]), ("assistant", _call(each["name"], each["arguments"]))]
        if "answer" in each:
            turns += [("user", _result(each["result"])), ("assistant", each["answer"])]
    shown = [{"role": role, "content": text} for role, text in turns]
    return [{"role": "system", "content": system + rules}, *earlier, *shown, *current]


@cache
def _examples() -> dict[str, list[Json]]:
    """Return the examples of examples.toml: of ``calling`` a tool, and of ``answering`` with its result."""
    return tomllib.loads(files("dragoman.local").joinpath("examples.toml").read_text(encoding="utf-8"))


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
    texts: list[str] = []
    for part in parts:
        match part["type"]:
            case "text":
                texts.append(str(part["text"]))
            case "call":
                texts.append(_call(part["name"], part["arguments"]))
            case "result":
                result_text = _text(part["content"])
                texts.append(_result(f"Error: {result_text}" if part.get("is_error") else result_text))
            case _:
                pass
    return "\n".join(texts)


def _call(name: str, arguments: Any) -> str:
    arguments_text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f"{call_head(name)}{arguments_text}{CALL_TAIL}"


def _result(text: str) -> str:
    escaped = _RESULT_TAG.sub(r"<\\\1", text.strip())
    return f"<tool_response>\n{escaped}\n</tool_response>"
