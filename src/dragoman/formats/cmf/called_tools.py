"""The namespaces and names of the tools in a CMF document. Source: docs/reference/cmf.md#attributes.

CMF repeats both with each call and each result. A message has no field for the namespace, because it belongs to the
tool; views get it from ``calls``.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from dragoman.canonical.message import Message
from dragoman.canonical.message_view.parts import CalledTool, called_tools
from dragoman.formats import verbatim
from dragoman.formats.cmf import models as cmf

FORMAT = "cmf"


def called_tools_in_cmf(messages: Iterable[Message]) -> dict[str, CalledTool]:
    """Return the tools of the calls and results in messages from `from_cmf`, by call id.

    Pass them as ``calls`` to `Message.iter_views`, a `Pipeline` or `to_cmf`. Call this before you change the content of
    messages: a changed message no longer has its document's entry.
    """
    history = list(messages)
    found = called_tools(history)
    for start, message in enumerate(history):
        if (entry := verbatim.noted_entry(message, FORMAT)) is None:
            continue
        native, count = entry
        group = history[start : start + count]
        tools = _tools_in_entry(native.get("message", native))
        for call_id, native_id in _call_ids(group):
            tool = tools.get(native_id)
            if tool is None or (call_id in found and found[call_id].name != tool.name):
                continue
            known = found.get(call_id)
            found[call_id] = CalledTool(tool.name, tool.namespace or (known.namespace if known else None))
    return found


def _tools_in_entry(raw: Any) -> dict[str, CalledTool]:
    """Return the tools in an entry, by its own ids; a call takes precedence over its result."""
    try:
        message = cmf.CmfMessage.model_validate(raw)
    except ValidationError:
        return {}
    tools: dict[str, CalledTool] = {}
    for part in message.content:
        if isinstance(part, cmf.ToolCallContentPart):
            tools[part.content.tool_call_id] = CalledTool(part.content.name, part.content.namespace)
        elif isinstance(part, cmf.ToolResultContentPart) and part.content.tool_name:
            tools.setdefault(part.content.tool_call_id, CalledTool(part.content.tool_name))
    return tools


def _call_ids(group: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Yield the call ids in these messages, each with the document's own."""
    native_ids = verbatim.tool_ids(group, FORMAT)
    for message in group:
        for call_id in (*(use.id for use in message.tool_uses), *(part.tool_use_id for part in message.tool_results)):
            yield call_id, native_ids.get(call_id, call_id)
