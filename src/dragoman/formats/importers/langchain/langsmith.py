"""Runs of LangSmith: one for each call of a model, with what was sent and what came back.

A run keeps the messages that were sent, or only their text, as `get_buffer_string` writes it. In such a text a line
that begins with a speaker begins a message, and the replies of earlier runs replace the lines that repeat them.
Source: langsmith/schemas.py, 0.15, and langchain_core/messages/utils.py, 1.7.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from dragoman.adapter.losses import LossKind
from dragoman.formats.document import parse_json_or_lines, read_list
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.langchain.messages import from_langchain
from dragoman.formats.reading.fields import Fields, iter_fields, typed_errors
from dragoman.formats.reading.losses import source_losses
from dragoman.formats.results import Conversation

FORMAT = "langsmith"

_SPEAKER = re.compile(r"^(System|Human|AI|Tool|Function): ", re.MULTILINE)
_TYPES = {"System": "system", "Human": "human", "AI": "ai", "Tool": "tool", "Function": "tool"}
_CALLS = "[{'name': "
_MODELS = ("llm", "chat_model")
_RUN = (
    "id", "name", "start_time", "end_time", "run_type", "extra", "events", "serialized", "reference_example_id",
    "parent_run_id", "tags", "session_name", "session_id", "dotted_order", "trace_id", "dangerously_allow_filesystem",
    "child_runs", "child_run_ids", "feedback_stats", "app_path", "manifest_id", "status", "prompt_tokens",
    "completion_tokens", "total_tokens", "first_token_time", "total_cost", "prompt_cost", "completion_cost",
    "parent_run_ids", "in_dataset", "attachments", "inputs_s3_urls", "outputs_s3_urls", "s3_urls", "metadata",
)  # fmt: skip

Native = dict[str, Any]


@typed_errors
def from_langsmith(document: Any) -> list[Conversation]:
    """Return the conversations in runs of models. A run that continues an earlier one replaces it.

    Raises FormatError, with a path, if no run is one of a model.
    """
    found: dict[int, tuple[str, list[Native]]] = {}
    for run in iter_fields(parse_json_or_lines(document, format_name=FORMAT), FORMAT):
        kind, name = run.look("run_type"), run.look("id")
        run.ignore(*_RUN)
        if kind is not None and kind not in _MODELS:
            run.whole()
            source_losses().add(run.path, "only runs of models hold messages: left out", kind=LossKind.EMPTY_MESSAGE)
            continue
        messages = list(_sent(run))
        earlier = next((key for key in reversed(_prefixes(messages)) if key in found), None)
        if earlier is not None:  # its replies say more than the text that repeats them
            before = found.pop(earlier)[1]
            messages[: len(before)] = before
        messages += _replies(run)
        found[_prefixes(messages)[-1]] = name if isinstance(name, str) else str(len(found) + 1), messages
    if not found:
        raise FormatError("no run is one of a model")
    return [Conversation(name, from_langchain(messages)) for name, messages in found.values()]


def _sent(run: Fields) -> Iterator[Native]:
    """Yield the messages that a run sent."""
    inputs = run.object("inputs")
    if inputs is None:
        return
    inputs.ignore("invocation_params", "options")
    messages = inputs.take("messages", "input")
    if isinstance(messages, list):
        yield from (each for each in _flat(messages, f"{inputs.path}.messages") if isinstance(each, dict))
        return
    prompts = inputs.take("prompts", "prompt")
    for prompt in prompts if isinstance(prompts, list) else [prompts]:
        if isinstance(prompt, str):
            reason = "the run has the messages as one text: its lines are split at the names of speakers"
            source_losses().add(f"{inputs.path}.prompts", reason, kind=LossKind.FLATTENED)
            yield from _read_text(prompt)


def _flat(items: Any, path: str) -> Iterator[Any]:
    """Yield the entries of a list of lists. Raises FormatError if it is something else."""
    for item in read_list(items, path):
        if isinstance(item, list):
            yield from item
        else:
            yield item


def _read_text(text: str) -> Iterator[Native]:
    """Yield the messages of a text. The calls of a reply follow its text as Python's list of them."""
    waiting: list[Native] = []
    marks = list(_SPEAKER.finditer(text))
    for number, mark in enumerate(marks):
        end = marks[number + 1].start() - 1 if number + 1 < len(marks) else len(text)
        kind, content = _TYPES[mark[1]], text[mark.end() : end]
        message: Native = {"type": kind, "content": content}
        if kind == "ai":
            calls = _calls(content)
            if calls:
                message = {"type": kind, "content": content[: content.find(_CALLS)], "tool_calls": calls}
            waiting = list(calls)
        elif kind == "tool" and waiting:
            call = waiting.pop(0)
            message |= {"tool_call_id": call.get("id"), "name": call.get("name")}
        yield message


def _calls(content: str) -> list[Native]:
    start = content.find(_CALLS)
    if start < 0 or not content.endswith("}]"):
        return []
    try:
        calls = ast.literal_eval(content[start:])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return calls if isinstance(calls, list) and all(isinstance(call, dict) for call in calls) else []


def _replies(run: Fields) -> list[Native]:
    """Return the first answer of a run, as LangChain's message. A failed run has none."""
    error, outputs = run.take("error"), run.object("outputs")
    if error is not None:
        reason = f"the call failed and has no reply: {str(error).partition(chr(10))[0][:200]}"
        source_losses().add(run.path, reason, kind=LossKind.EMPTY_MESSAGE)
        if outputs is not None:
            outputs.whole()
        return []
    if outputs is None:
        return []
    outputs.ignore("llm_output", "run", "type")
    answers = _flat(outputs.take("generations"), f"{outputs.path}.generations")
    generations = [each for each in answers if isinstance(each, dict)]
    if len(generations) > 1:
        reason = "a conversation has one continuation: the other answers are left out"
        source_losses().add(f"{outputs.path}.generations", reason, kind=LossKind.EMPTY_MESSAGE)
    found: list[Native] = []
    for native in generations[:1]:
        generation = outputs.adopt(native, f"{outputs.path}.generations[0]")
        generation.ignore("text", "generation_info", "type")
        if isinstance(message := generation.take("message"), dict):
            found.append(message)
    messages = outputs.take("messages", "output")
    if isinstance(messages, dict):
        messages = [messages]
    return found or [each for each in _flat(messages, f"{outputs.path}.messages") if isinstance(each, dict)]


def _prefixes(messages: Sequence[Native]) -> list[int]:
    """Return a key for each beginning of the list, the empty one first. Equal beginnings have equal keys."""
    keys = [0]
    for message in messages:  # in any of its forms
        data = message.get("kwargs", message.get("data", message))
        data = data if isinstance(data, dict) else {}
        content = data.get("content")
        if isinstance(content, list):
            content = "".join(str(each.get("text", "")) for each in content
                              if isinstance(each, dict) and each.get("type") == "text")  # fmt: skip
        name = str(data.get("type", message.get("type")))
        keys.append(hash((keys[-1], name, content if isinstance(content, str) else "")))
    return keys
