"""OpenAI's files for fine-tuning: rows of Chat Completions, supervised or with a preference.

Source: https://platform.openai.com/docs/guides/supervised-fine-tuning and .../direct-preference-optimization.
"""

from typing import Any

from dragoman.formats.importers.conversation import Conversation
from dragoman.formats.importers.datasets.requests import read_request
from dragoman.formats.importers.datasets.rows import RowNames, drop_tools, iter_rows
from dragoman.formats.reading.fields import Fields, typed_errors
from dragoman.formats.reading.losses import source_losses

FORMAT = "openai-finetuning"
_WIRE = "openai-chat"


@typed_errors
def from_openai_finetuning(document: Any) -> list[Conversation]:
    """Return one conversation for each row; of a preference, the preferred one. Raises FormatError, with a path."""
    names = RowNames()
    found = []
    for row in iter_rows(document, FORMAT):
        messages: list[Any] = []
        if "input" in row:
            prompt = row.object("input")
            assert prompt is not None
            messages += _messages(prompt, "messages") + _messages(row, "preferred_output")
            _drop_request(prompt)
            if row.take("non_preferred_output"):
                reason = "a conversation has one continuation: the one that is not preferred is left out"
                source_losses().add(f"{row.path}.non_preferred_output", reason)
        else:
            messages = _messages(row, "messages")
        _drop_request(row)
        for index, message in enumerate(messages):
            if isinstance(message, dict) and message.get("weight") is not None:
                _drop_weight(row, index)
                messages[index] = {name: value for name, value in message.items() if name != "weight"}
        found.append(Conversation(names.next(), read_request(_WIRE, {"messages": messages}, row.path)))
    return found


def _messages(fields: Fields, name: str) -> list[Any]:
    return [item for item, _ in fields.items(name)]


def _drop_weight(row: Fields, index: int) -> None:
    reason = "a message has no weight in a training: left out"
    source_losses().add(f"{row.path}.messages[{index}].weight", reason)


def _drop_request(fields: Fields) -> None:
    drop_tools(fields)
    drop_tools(fields, "functions")
    fields.ignore("parallel_tool_calls")  # how a model may call tools, and no part of what it did
