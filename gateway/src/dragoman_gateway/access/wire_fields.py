"""The objects of a request whose fields its wire names, and not a client, a tool or a model."""

from collections.abc import Iterator
from typing import Any

from dragoman_gateway.toml import load_table

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
"""Blocks whose input is of a tool, and names what it likes."""
FIELDS = load_table("access/fields.toml")
_FREE = frozenset(FIELDS["free"])


def wire_objects(fields: Any) -> Iterator[dict[str, Any]]:
    """Yield each object of a request or a reply whose fields the wire names."""
    left = [fields]
    while left:
        value = left.pop()
        if type(value) is list:
            left += [each for each in value if type(each) is dict or type(each) is list]
        elif type(value) is dict:
            yield value
            is_call = value is not fields and value.get("type") in _CALLS
            for name, each in value.items():
                if (type(each) is dict or type(each) is list) and name not in _FREE:
                    if name == "variables" and type(each) is dict:  # named by the client, with files as values
                        left.append(list(each.values()))
                        continue
                    # These belong to the client only if they are objects: Ollama's format, the annotations of MCP.
                    is_schema = name == "annotations" or (name == "format" and "schema" not in each)
                    if not ((is_schema and type(each) is dict) or (is_call and name == "input")):
                        left.append(each)
