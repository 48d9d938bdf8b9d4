"""Whose the tools are that a CMF document calls: their namespaces, and their names behind results (A3, A5.5).

CMF says both with each call and each result. In a message a tool's namespace has no place, since it belongs to the
tool; views are told it by ``calls``.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from dragoman.canonical.message import Message
from dragoman.canonical.view_parts import CalledTool, called_tools
from dragoman.formats import cmf_model as cmf
from dragoman.formats import verbatim

SHAPE = "cmf"


def called_in_cmf(messages: Iterable[Message]) -> dict[str, CalledTool]:
    """The tools behind the calls and results of messages that `from_cmf` gave, by the ids of their calls.

    For ``calls`` of `Message.iter_views`, of a `Pipeline` and of `to_cmf`. A message whose content was changed has
    forgotten what its document said: ask before.
    """
    history = list(messages)
    found = called_tools(history)
    for start, message in enumerate(history):
        if (entry := verbatim.entry(message, SHAPE)) is None:
            continue
        native, count = entry
        group = history[start : start + count]
        told = _told(native.get("message", native))
        for call_id, native_id in _ids(group):
            tool = told.get(native_id)
            if tool is None or (call_id in found and found[call_id].name != tool.name):
                continue
            known = found.get(call_id)
            found[call_id] = CalledTool(tool.name, tool.namespace or (known.namespace if known else None))
    return found


def _told(raw: Any) -> dict[str, CalledTool]:
    """What an entry says of tools, by its own ids; a call says more than its result."""
    try:
        message = cmf.CmfMessage.model_validate(raw)
    except ValidationError:
        return {}
    told: dict[str, CalledTool] = {}
    for part in message.content:
        if isinstance(part, cmf.ToolCallContentPart):
            told[part.content.tool_call_id] = CalledTool(part.content.name, part.content.namespace)
        elif isinstance(part, cmf.ToolResultContentPart) and part.content.tool_name:
            told.setdefault(part.content.tool_call_id, CalledTool(part.content.tool_name))
    return told


def _ids(group: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """The ids of calls in these messages, each with the document's own."""
    own = verbatim.ids(group, SHAPE)
    for message in group:
        for call_id in (*(use.id for use in message.tool_uses), *(part.tool_use_id for part in message.tool_results)):
            yield call_id, own.get(call_id, call_id)
