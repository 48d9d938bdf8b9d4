"""The objects of a request whose fields its wire names, and not a client, a tool or a model."""

from collections.abc import Iterator
from typing import Any

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
"""Blocks whose input is of a tool, and names what it likes."""
_FREE = frozenset(
    (
        "args",
        "arguments",
        "chat_template_kwargs",
        "guided_json",
        "headers",
        "input_examples",
        "input_schema",
        "labels",
        "logit_bias",
        "metadata",
        "output_schema",
        "parameters",
        "parametersJsonSchema",
        "parameters_json_schema",
        "response",
        "responseJsonSchema",
        "responseSchema",
        "response_json_schema",
        "response_schema",
        "schema",
    )
)
"""Fields in which a client, a tool or a model chooses the names."""


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
                    elif not (_is_schema(name, each) or (is_call and name == "input")):
                        left.append(each)


def _is_schema(name: str, value: Any) -> bool:
    """Whether a field belongs to the client only if it is an object: Ollama's format, and the annotations of MCP."""
    return type(value) is dict and (name == "annotations" or (name == "format" and "schema" not in value))
