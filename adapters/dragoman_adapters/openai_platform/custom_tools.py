"""Custom tools of OpenAI: their input is a free text, and other providers call them as functions of one string."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter import wirejson


def free_text(arguments: str) -> str:
    """Return the free text of a call: its one argument ``input``, else the arguments as they are."""
    parsed, malformed = wirejson.parse_arguments(arguments)
    text = parsed.get("input")
    return text if malformed is None and parsed.keys() == {"input"} and isinstance(text, str) else arguments


def custom_names(fields: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the custom tools in a request of Chat Completions."""
    tools = fields.get("tools")
    inner = (each.get("custom") for each in tools if isinstance(each, Mapping)) if isinstance(tools, list) else ()
    return frozenset(
        custom["name"] for custom in inner if isinstance(custom, Mapping) and isinstance(custom.get("name"), str)
    )
