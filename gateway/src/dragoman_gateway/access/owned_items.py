"""The items of Responses that a provider finds by their ids, for the account that all keys share."""

from collections.abc import Iterator, Mapping
from typing import Any

_CONTENT: Mapping[str, str] = {
    "message": "content",
    "function_call": "arguments",
    "function_call_output": "output",
    "custom_tool_call": "input",
    "custom_tool_call_output": "output",
    "reasoning": "encrypted_content",
    "compaction": "encrypted_content",
    "computer_call": "call_id",
    "computer_call_output": "output",
    "local_shell_call": "action",
    "local_shell_call_output": "output",
    "shell_call": "action",
    "shell_call_output": "output",
    "apply_patch_call": "operation",
    "apply_patch_call_output": "call_id",
    "tool_search_call": "arguments",
    "tool_search_output": "tools",
    "additional_tools": "tools",
    "mcp_approval_response": "approval_request_id",
}
"""The types of items that contain everything themselves, each with the field that holds it. The id of such an item is a
name."""
_MAY_BE_EMPTY = ("function_call_output", "custom_tool_call", "custom_tool_call_output")


def referring_ids(items: Any) -> Iterator[str]:
    """Yield the ids of the items that a provider needs its own storage for, whatever type they claim to have."""
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and isinstance(found := item.get("id"), str) and found and not _is_whole(item):
            yield found


def _is_whole(item: Mapping[str, Any]) -> bool:
    """Whether an item holds its content. A message may leave out its type."""
    kind = item.get("type")
    if kind is None and "role" in item:
        kind = "message"
    if not isinstance(kind, str) or kind not in _CONTENT:
        return False
    content = item.get(_CONTENT[kind])
    return bool(content) or (kind in _MAY_BE_EMPTY and isinstance(content, str))
